"""Calls whose keys are elements, alone and in a wrapper (C3, C9, C10)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.notations.tables import SEP
from tests.support.helpers import all_cuts, function, new_scanner, offered, scan

EDIT = function(
    "edit",
    {
        "file_name": {"type": "string"},
        "edits": {"type": "array", "items": {"type": "object", "properties": {"old": {"type": "string"}}}},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "note": {"type": ["string", "null"]},
    },
    "file_name",
)
BASH = function("bash", {"command": {"type": "string"}}, "command")
NOW = function("now", {"zone": {"type": "string"}})
TOOLS = offered(EDIT, BASH, NOW)
A = {"file_name": "a"}


def in_call(values: str, foot: str = "</Parameters></Call>") -> str:
    """A call of `edit` in sub-tags."""
    return f"<Call><Function>edit</Function><Parameters>{values}{foot}"


def in_m3(values: str) -> str:
    """A call of `edit` as MiniMax M3 writes it; `~` is its token."""
    text = f'~<tool_call>\n~<invoke name="edit">{values}~</invoke>\n~</tool_call>'
    return text.replace("~", SEP)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        # Each tool is named by its own element.
        (
            "<edit>\n<file_name>a</file_name>\n</edit>\n<bash>\n<command>ls</command>\n</bash>",
            [("edit", A), ("bash", {"command": "ls"})],
        ),
        ("<bash>echo 1\n\necho 2</bash>", [("bash", {"command": "echo 1\n\necho 2"})]),
        ("<edit>\n<file_name>a</file_name>\n</edit>\n<bash>ls</bash>", [("edit", A), ("bash", {"command": "ls"})]),
        ("<bash>a <bash>b</bash>", []),
        ("<bash>\n</bash>", []),
        ("<now>\n</now>", [("now", {})]),
        ("<tool_call>\n<now>\n</function>\n</tool_call>", [("now", {})]),
        ("<edit>\n</edit>", []),
        # A literal is what it is, whatever its strings show.
        (
            in_call('<file_name>a</file_name><edits>[{"old": "<edits> a < b </x>"}]</edits>'),
            [("edit", {**A, "edits": [{"old": "<edits> a < b </x>"}]})],
        ),
        (in_call("<file_name>a</file_name>", ""), [("edit", A)]),
        (in_call("<file_name>a</file_name>", "</Parameters></Parameters></Call>"), [("edit", A)]),
        (in_call("<file_name>a</file_name>", "</Call>"), []),
        # A key in another spelling begins a value too.
        (in_call("<mode>fast<fileName>a</fileName>"), [("edit", {"mode": "fast", "fileName": "a"})]),
        # Without its end tag, a value that its schema does not list may go on.
        (in_call("<mode>fast<why>x<file_name>a</file_name>"), []),
        (in_m3("~<FILE_NAME>a~</FILE_NAME>~<mode>fast~</mode>"), [("edit", {"FILE_NAME": "a", "mode": "fast"})]),
        (
            in_m3("~<arguments>~<file_name>a~</file_name>~<note>null~</note>~</arguments>"),
            [("edit", {"arguments": {"file_name": "a", "note": None}})],
        ),
        (in_m3("~<file_name>~<why>x~</why>~<mode>fast~</mode>"), []),
    ],
)
def test_elements_are_read_or_stay_text(text: str, calls: list[tuple[str, Any]]) -> None:
    for cut in all_cuts(text, 3):
        found = scan(cut, new_scanner(TOOLS))
        assert found.parsed == calls
        assert calls or found.text == text


def test_a_value_that_shows_calls_never_takes_the_end_of_its_own_along() -> None:
    """C10: the value ends at its end tag or not at all."""
    shown = 'X = "<tool_call><function=edit><parameter=mode>"'
    meant = {"file_name": shown, "note": "n", "mode": "fast"}
    values = "\n".join(f"<parameter={key}>{value}</parameter>" for key, value in meant.items())
    text = f"<seed:tool_call>\n<function=edit>\n{values}\n</function>\n</seed:tool_call>"
    for cut in all_cuts(text, 3):
        assert scan(cut, new_scanner(TOOLS)).parsed in ([], [("edit", meant)])
