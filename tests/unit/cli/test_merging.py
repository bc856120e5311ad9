"""What an agent must be told gets into a file of the user's, and all else in it stays, to the letter."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import File, Format, Values
from proxy.cli.merging import NotMergeableError, json_loads, merged, read

FILES = [
    pytest.param(file, id=f"{agent.name} {file.path}{' with a key' if key else ''}")
    for key in ("", "PROXY_KEY")
    for agent in AGENTS.values()
    for file in agent.configure(Values("http://h:1", 'Qwen/Qwen3 "8B"', 4096, key, home="/h")).files
]
CONTENT: Any = {"model": "m", "provider": {"ours": {"url": "u", "n": 1}}}


def file(format: Format, content: Any = CONTENT, **more: Any) -> File:
    return File("/f", format, content, **more)


def parsed(text: str, format: Format) -> Any:
    """What the text says to a reader of the format's own."""
    if format is Format.TOML:
        return tomllib.loads(text)
    return json_loads(text)


class TestAgents:
    """The files of the agents themselves."""

    @pytest.mark.parametrize("made", FILES)
    def test_a_file_that_is_not_there_is_made_whole_and_is_right_then(self, made: File) -> None:
        text = merged("", made)
        assert parsed(text, made.format) == made.content
        assert merged(text, made) == text

    @pytest.mark.parametrize("made", [each for each in FILES if not each.values[0].own])  # type: ignore[union-attr]
    def test_what_a_user_has_in_it_stays(self, made: File) -> None:
        own = {
            Format.JSON: '{\n  // mine\n  "mine": {"a": [1, 2]},\n}\n',
            Format.TOML: '# mine\nmine = "x"\n\n[table]  # theirs\na = 1\n',
        }[made.format]
        text = merged(own, made)
        said = parsed(text, made.format)
        assert {key: said[key] for key in made.content} == made.content
        assert [line for line in own.splitlines() if line.strip("{} ,") and line not in text] == []
        assert merged(text, made) == text


@pytest.mark.parametrize(
    ("format", "text", "after"),
    [
        (Format.JSON, '{"a": {"b": 1, "c": 2}, "m": 1}', '{"a": {"c": 2}, "m": 1}'),
        (Format.JSON, '{"a": 7, "m": 1}', '{"a": 7, "m": 1}'),
        (Format.TOML, "# mine\nm = 1\n[a]\nb = 1  # why\nc = 2\n", "# mine\nm = 1\n[a]\nc = 2\n"),
        (Format.TOML, "m = 1\n[a.b]\nd = 1\n", None),
        (Format.TOML, "a = {b = 1}\nm = 1\n", "a = {}\nm = 1\n"),
        (Format.TOML, 'm = 1\n[a]\nb = 1\nc = """\nb = 2\n"""\n', 'm = 1\n[a]\nc = """\nb = 2\n"""\n'),
    ],
)
def test_what_would_win_is_taken_out_or_the_file_is_left_alone(format: Format, text: str, after: str | None) -> None:
    made = file(format, {"m": 1}, without=(("a", "b"), ("no", "such")))
    if after is None:
        with pytest.raises(NotMergeableError, match=r"a\.b would override"):
            merged(text, made)
    else:
        assert merged(text, made) == merged(after, made) == after


def test_a_file_of_our_own_is_written_anew() -> None:
    assert merged('{"models": 7', file(Format.JSON, {"a": 1}, own=True)) == '{\n  "a": 1\n}\n'


@pytest.mark.parametrize("format", Format)
def test_an_empty_file_says_nothing(format: Format) -> None:
    assert read(" \n", format) == {}
