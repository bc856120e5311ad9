"""Users' TOML files, as Codex has them: what is not set stays, comments and layout included."""

from __future__ import annotations

import tomllib

import pytest

from proxy.cli.configuration import Format
from proxy.cli.merging import NotMergeableError, expected, merged
from tests.unit.cli.test_merging import CONTENT, file


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", 'model = "m"\n\n[provider.ours]\nurl = "u"\nn = 1\n'),
        ('model = "x" # why\n', 'model = "m" # why\n\n[provider.ours]\nurl = "u"\nn = 1\n'),
        ("# top\n\n[t]\na = 1\n", 'model = "m"\n\n# top\n\n[t]\na = 1\n\n[provider.ours]\nurl = "u"\nn = 1\n'),
        (
            'a = 1\n[provider.ours]\nurl = "old"\nx = 2 # kept\n\n# of b\n[b]\n',
            'a = 1\nmodel = "m"\n[provider.ours]\nurl = "u"\nx = 2 # kept\nn = 1\n\n# of b\n[b]\n',
        ),
        ('"model" = "x"\n', '"model" = "m"\n\n[provider.ours]\nurl = "u"\nn = 1\n'),
        # Other ends of lines stay, and so do marks that are none.
        (
            'model = "x"  # a\u2028b\r\na = 1\n[provider.ours]\r\nurl = "x" # c\nn = 1\r\nlast = "\x85" # d',
            'model = "m"  # a\u2028b\r\na = 1\n[provider.ours]\r\nurl = "u" # c\nn = 1\r\nlast = "\x85" # d',
        ),
        (
            "a = 1\r\nb = 2\r\n[t]\r\nc = 3",
            'a = 1\r\nb = 2\r\nmodel = "m"\r\n[t]\r\nc = 3\r\n\r\n[provider.ours]\r\nurl = "u"\r\nn = 1\r\n',
        ),
        ('model = "m"\n[provider.ours]', 'model = "m"\n[provider.ours]\nurl = "u"\nn = 1\n'),
        # Comments stay with what they describe.
        (
            "a = 1\n\n# of t\n[t]\nb = 2\n# c = 3\n\n# end\n",
            'a = 1\nmodel = "m"\n\n# of t\n[t]\nb = 2\n# c = 3\n\n# end\n\n[provider.ours]\nurl = "u"\nn = 1\n',
        ),
        (
            'model = "m"\n[provider.x]\na = 1\n\n# of t\n[t]\nb = 2\n',
            'model = "m"\n[provider.x]\na = 1\n\n# of t\n[t]\nb = 2\n\n[provider.ours]\nurl = "u"\nn = 1\n',
        ),
        (
            'model = "m"\n[provider.x]\n\n# of t\n[t]\nb = 2\n\n[provider.ours]\nurl = "x"\n\n# of z\n[z]\n',
            'model = "m"\n[provider.x]\n\n# of t\n[t]\nb = 2\n\n[provider.ours]\nurl = "u"\nn = 1\n\n# of z\n[z]\n',
        ),
        # Other forms of tables and strings.
        ("provider.x.n = 2\n", 'provider.x.n = 2\nmodel = "m"\n\n[provider.ours]\nurl = "u"\nn = 1\n'),
        ('provider = {ours = {url = "x"}} # c\n', 'provider = {ours = {url = "u",n = 1}} # c\nmodel = "m"\n'),
        ('model = """\nx\n""" # c\n', 'model = "m" # c\n\n[provider.ours]\nurl = "u"\nn = 1\n'),
        (
            'model = "m"\n[provider.ours.inner] # c\na = 1\n',
            'model = "m"\n[provider.ours.inner] # c\na = 1\n\n[provider.ours]\nurl = "u"\nn = 1\n',
        ),
    ],
)
def test_keys_are_set_in_their_tables(text: str, after: str) -> None:
    assert merged(text, file(Format.TOML)) == after
    assert merged(after, file(Format.TOML)) == after


@pytest.mark.parametrize(
    "text",
    [
        *("a = ", "[a", "a = 1\na = 2"),
        # Values in the place of a table.
        *("provider = 1\n", "[[provider]]\na = 1\n"),
        # A table that cannot be extended by a header.
        'provider.ours.url = "x"\n',
        # Tables that tomlkit moves.
        '[provider.x]\n[[t]]\na = 1\n[provider.ours]\nurl = "x"\n',
    ],
)
def test_what_cannot_be_edited_safely_is_left_alone(text: str) -> None:
    with pytest.raises(NotMergeableError):
        merged(text, file(Format.TOML))


@pytest.mark.parametrize("text", ['model = """x"""\n', 'a = """\nmodel = "in a text"\n[provider.ours]\n"""\n'])
def test_a_text_of_several_lines_is_no_key(text: str) -> None:
    """Or it is left alone: what comes out always says what it must."""
    try:
        after = merged(text, file(Format.TOML))
    except NotMergeableError:
        return
    assert tomllib.loads(after) == expected(tomllib.loads(text), CONTENT)
