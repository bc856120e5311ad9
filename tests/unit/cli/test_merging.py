"""A configuration is merged into a user's file, and everything else in the file stays unchanged.

`merging.jsonl` has one row per file: its text before and after (null: it cannot be merged safely).
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import File, Format, Values
from proxy.cli.merging import NotMergeableError, expected, merged, read

ROWS = [json.loads(line) for line in Path(__file__).with_name("merging.jsonl").read_text().splitlines()]
FILES = [
    pytest.param(file, id=f"{agent.name} {file.path}{' with a key' if key else ''}")
    for key in ("", "PROXY_KEY")
    for agent in AGENTS.values()
    for file in agent.configure(Values("http://h:1", 'Qwen/Qwen3 "8B"', 4096, key, home="/h")).files
]
CONTENT: Any = {"model": "m", "provider": {"ours": {"url": "u", "n": 1}}}


def file(format: Format, content: Any = CONTENT, **more: Any) -> File:
    return File("/f", format, content, **more)


@pytest.mark.parametrize("row", ROWS, ids=[f"{at} {row['format']}: {row['why']}" for at, row in enumerate(ROWS)])
def test_a_file_is_merged_as_in_its_row(row: dict[str, Any]) -> None:
    made = file(Format(row["format"]), row.get("content", CONTENT), own=row.get("own", False))
    if row["after"] is None:
        with pytest.raises(NotMergeableError):
            merged(row["text"], made)
    else:
        assert merged(row["text"], made) == merged(row["after"], made) == row["after"]


@pytest.mark.parametrize("made", FILES)
def test_a_new_file_is_complete_and_an_existing_one_keeps_the_users_lines(made: File) -> None:
    text = merged("", made)
    assert read(text, made.format) == made.content and merged(text, made) == text
    own = {
        Format.JSON: '{\n  // mine\n  "mine": {"a": [1, 2]},\n}\n',
        Format.TOML: '# mine\nmine = "x"\n\n[table]  # theirs\na = 1\n',
    }[made.format]
    text = merged(own, made)
    said = read(text, made.format)
    assert {key: said[key] for key in made.content} == made.content
    assert made.own or [line for line in own.splitlines() if line.strip("{} ,") and line not in text] == []
    assert merged(text, made) == text


@pytest.mark.parametrize(("old", "new"), [(True, 1), (1, 1.0), ("1", 1), (None, False), ({}, [])])
def test_a_value_of_another_type_is_replaced(old: Any, new: Any) -> None:
    after = merged(json.dumps({"a": old}), file(Format.JSON, {"a": new}))
    assert repr(json.loads(after)["a"]) == repr(new)


@pytest.mark.parametrize("text", ['model = """x"""\n', 'a = """\nmodel = "in a text"\n[provider.ours]\n"""\n'])
def test_a_key_inside_a_multi_line_string_is_not_a_key(text: str) -> None:
    """Such a file is merged correctly or refused."""
    try:
        after = merged(text, file(Format.TOML))
    except NotMergeableError:
        return
    assert tomllib.loads(after) == expected(tomllib.loads(text), CONTENT)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from([None, 0, 1, 4]),
)
def test_any_json_value_is_read_and_kept(value: Any, indent: int | None) -> None:
    text = json.dumps({"a": value}, indent=indent)
    assert read(text, Format.JSON) == {"a": value}
    assert json.loads(merged(text, file(Format.JSON))) == {"a": value, **CONTENT}
