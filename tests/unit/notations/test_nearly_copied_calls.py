"""A call that is nearly what a tool result shows is one of the model's own: often the corrected one (F89)."""

from __future__ import annotations

import html
import json
from itertools import islice

import pytest

from tests.support.helpers import all_cuts, new_scanner, scan
from tests.support.renderers import RENDERERS
from tests.unit.notations.test_copied_calls import DECORATIONS, TOOLS, is_copy

pytestmark = pytest.mark.once

# Two values that differ in one thing only; either of them may be the one that a result shows. Of these a copy is
# recognised, but nothing is said of the other one: blanks are normalised and prefixes of lines ignored.
ALIKE = {
    "indentation": ("def f(x):\nreturn x + 1\nprint(f(2))", "def f(x):\n    return x + 1\nprint(f(2))"),
    "indentation by a tab": ("all:\nmake a\nmake b", "all:\n\tmake a\n\tmake b"),
    "a tab instead of blanks": ("if x:\n    y = 1\n", "if x:\n\ty = 1\n"),
    "indentation of all lines": ("a: 1\nb: 2\nc: 3", "  a: 1\n  b: 2\n  c: 3"),
    "indentation of a line": ("ls -la /src", "    ls -la /src"),
    "a blank line": ("first\nsecond\nthird", "first\n\nsecond\nthird"),
    "two blank lines": ("first\n\nsecond\nthird", "first\n\n\nsecond\nthird"),
    "blank lines everywhere": ("first\nsecond\nthird", "first\n\nsecond\n\nthird"),
    "a blank line at the end": ("first\nsecond", "first\nsecond\n"),
    "an item": ("one\ntwo\nthree", "one\n- two\nthree"),
    "items": ("one\ntwo\nthree", "- one\n- two\n- three"),
    "an item alone": ("one two three", "- one two three"),
    "a quoted line": ("one\ntwo\nthree", "one\n> two\nthree"),
    "a comment": ("one\ntwo\nthree", "one\n# two\nthree"),
    "an added line": ("one\ntwo\nthree", "one\n+two\nthree"),
    "a removed line": ("one\ntwo\nthree", "one\n-two\nthree"),
    "a number": ("one\ntwo\nthree", "one\n2 two\nthree"),
    "numbers": ("one\ntwo\nthree", "1: one\n2: two\n3: three"),
    "a carriage return": ("one\ntwo\nthree", "one\r\ntwo\nthree"),
    "blanks at the end": ("one\ntwo\nthree", "one  \ntwo\nthree"),
}
DIFFERENCES = {
    "a backslash": ("grep d x", "grep \\d x"),
    "a backslash before a letter of control": ("echo a\nb c", "echo a\\nb c"),
    "a backslash and a tab": ("printf 'a\tb'", "printf 'a\\tb'"),
    "two backslashes": ("C:\\new\\x", "C:\\\\new\\\\x"),
    "a backslash before a quotation mark": ('say "hi"', 'say \\"hi\\"'),
    "a code of a character": ("caf\u00e9 now", "caf\\u00e9 now"),
    "an entity": ("if a < b: go()", "if a &lt; b: go()"),
    "a prompt": ("ls\npwd\nid", "$ ls\npwd\nid"),
    "a prompt in the middle": ("ls\npwd\nid", "ls\n$ pwd\nid"),
    "a prompt in the last line": ("ls\npwd\nid", "ls\npwd\n$ id"),
    "a prompt alone": ("make test", "$ make test"),
    "a name": ("one\ntwo\nthree", "one\na.py:two\nthree"),
    "a sign at the end": ("a\nfoo\nb", "a\nfoo$\nb"),
    "a colour": ("one\ntwo", "one\n\\x1b[1mtwo"),
    "an entity of an ampersand": ("a && b", "a &amp;&amp; b"),
    "an entity of a quotation mark": ('x="y"', "x=&quot;y&quot;"),
}
# These decorations may be part of a string. Its escapes may be decoded or not, so either of the two calls is a copy.
STRINGS = tuple(name for name in DECORATIONS if "JSON" in name or "string" in name)
STRINGS += ("a path with marks", "commented as in Vim")
TAGGED = ("hermes", "qwen3_coder", "deepseek_v32", "glm45", "kimi_k2", "minimax_m3")
# Of so many pairs the other families are tried with one.
PART = 29
# And each of the six with one of six, so that together they are tried with all.
TURNS = len(TAGGED)


def written(form: str, text: str) -> str:
    """A call with this text in a value."""
    return RENDERERS[form].render([("write_file", {"path": "src/a.py", "content": text})])


def shows_verbatim(call: str, name: str, decorated: str) -> bool:
    """Whether a result shows a call as it stands, or does once one layer of several is gone."""
    texts = [decorated]
    if "HTML" in name:
        texts.append(html.unescape(decorated))
    if name in ("JSON in JSON", "JSON of brackets"):
        texts.append(json.loads(decorated)["text"])
    return any(call.strip() in text for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("form", RENDERERS)
def test_what_differs_in_one_thing_is_no_copy(form: str) -> None:
    """However a result shows the other one, as a whole. Six families together are tried with every difference shown
    every way; each of the others with a part of these pairs.
    """
    turn = list(RENDERERS).index(form)
    part = PART
    if form in TAGGED:
        turn, part = TAGGED.index(form), TURNS
    for kind, values in {**ALIKE, **DIFFERENCES}.items():
        if any(map(RENDERERS[form].cannot, values)):
            continue
        for shown, called in (values, values[::-1]):
            copy, own = written(form, shown), written(form, called)
            # Each decoration meets another family in each difference.
            turn += 1
            for name, decorate in DECORATIONS.items():
                turn += 1
                if turn % part:
                    continue
                if kind == "blanks at the end" and name == "a frame":
                    continue
                decorated = decorate(copy)
                result = f"Result:\n{decorated}\nThat was it."
                assert is_copy(copy, result), (kind, name)
                if kind in DIFFERENCES and name not in STRINGS:
                    assert is_copy(own, result) is shows_verbatim(own, name, decorated), (kind, name)


SHOWN = ("cat -n", "indented", "quoted", "a diff in it", "CRLF", "JSON", "HTML")


@pytest.mark.slow
@pytest.mark.parametrize("kind", DIFFERENCES)
@pytest.mark.parametrize("form", TAGGED)
def test_a_corrected_call_is_one_at_every_cut(form: str, kind: str) -> None:
    """What shows it takes turns at all cuts: whole it is read in each."""
    shown, called = DIFFERENCES[kind]
    if any(map(RENDERERS[form].cannot, (shown, called))):
        return
    copy, own = written(form, shown), written(form, called)
    for turn, name in enumerate(SHOWN, start=TAGGED.index(form) + len(kind)):
        decorated = DECORATIONS[name](copy)
        if shows_verbatim(own, name, decorated):
            continue
        results = (f"Result:\n{decorated}\nThat was it.",)
        alone = scan([own], new_scanner(TOOLS)).parsed
        assert len(alone) == 1
        cuts = 3 if turn % 3 == 0 else 1
        for cut in islice(all_cuts(own, 1), cuts):
            assert scan(cut, new_scanner(TOOLS, results=results)).parsed == alone
        for cut in islice(all_cuts(copy, 1), cuts):
            found = scan(cut, new_scanner(TOOLS, results=results))
            assert (found.calls, found.text) == ((), copy)


@pytest.mark.parametrize("form", TAGGED)
def test_html_may_leave_quotation_marks_where_it_escapes_the_tags(form: str) -> None:
    for shown, called in (DIFFERENCES["an entity"], DIFFERENCES["an entity of an ampersand"]):
        copy, own = written(form, shown), written(form, called)
        result = f"Result:\n{html.escape(copy, quote=False)}\nThat was it."
        assert is_copy(copy, result)
        assert not is_copy(own, result)


def test_a_list_of_strings_shows_a_call_line_by_line() -> None:
    """As notebooks and sources do."""
    for form in ("hermes", "qwen3_coder"):
        copy, own = written(form, "grep d x"), written(form, "grep \\d x")
        for shown, others in ((copy, own), (own, copy)):
            lines = [json.dumps(f"{line}\n") for line in shown.split("\n")]
            for end in (",\n", " +\n", "\n"):
                source = f"x = [\n    {end.join(lines)}\n    ]".replace("\n\"", "\n    \"")
                assert is_copy(shown, source)
                assert not is_copy(others, source)


def test_an_indented_copy_is_one_in_the_reply_too() -> None:
    copy = written("qwen3_coder", "def f():\n    pass")
    indented = copy.replace("\n", "\n   ")
    assert is_copy(indented, f"It says:\n{copy}\n")


def test_the_first_line_may_have_lost_its_indentation() -> None:
    """Clients take away the blanks around what a command printed."""
    copy = written("qwen3_coder", "def f():\n    pass")
    shown = copy.replace("\n", "\n    ")
    assert is_copy(copy, shown)
