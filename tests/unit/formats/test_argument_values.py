"""The arguments of a call as the text of a JSON object, whatever the model made of them (F17, F26, F29, F30)."""

from __future__ import annotations

import json

import pytest

from proxy.codec.json_text import dump
from proxy.formats.argument_values import arguments, read_string
from proxy.parsing.cursor import NotACall
from tests.support.helpers import function, offered

TOOLS = offered(
    function("bash", {"command": {"type": "string"}}),
    function("todo", {"todos": {"type": "array"}, "any": {"type": ["array", "object"]}}),
)
BASH, TODO = TOOLS

# What is JSON stays as it was written.
AS_WRITTEN = ['{"command": "ls"}', "{}", '{ "command" : "a\\u00e9\\/" }', '{"n": 1.50, "m": 1E2}']


@pytest.mark.parametrize("text", AS_WRITTEN)
def test_an_object_of_json_stays_as_it_was_written(text: str) -> None:
    """C1."""
    assert arguments(text.encode(), BASH) == text
    assert arguments(json.dumps(text).encode(), BASH) == text


MENDED = {
    "null": "{}",
    "None": "{}",
    '""': "{}",
    '" "': "{}",
    "{'command': 'ls'}": '{"command": "ls"}',
    '{"command": "ls",}': '{"command": "ls"}',
    '{"command": None, "b": True}': '{"command": null, "b": true}',
    '{"command": "a\nb"}': '{"command": "a\\nb"}',
    "\"{'command': 'ls'}\"": '{"command": "ls"}',
    '{"command": "ls\\n</parameter>\\n<parameter=timeout>\\n", "timeout": 5}': '{"command": "ls", "timeout": 5}',
}


@pytest.mark.parametrize("text", MENDED)
def test_what_is_no_json_is_read_for_what_it_says(text: str) -> None:
    assert arguments(text.encode(), BASH) == MENDED[text]


@pytest.mark.parametrize(
    "text",
    [
        '{"command": "see </parameter> <parameter=other>", "timeout": 5}',
        '{"command": "see </parameter>\\n<parameter=timeout> too", "timeout": 5}',
        '{"command": "</parameter><parameter=timeout>"}',
    ],
)
def test_tags_in_a_value_that_do_not_name_the_next_key_are_its_own(text: str) -> None:
    """F17, C3."""
    assert arguments(text.encode(), BASH) == text


def test_the_brackets_of_an_array_may_be_lost_only_where_the_schema_wants_nothing_else() -> None:
    """F14."""
    lost = b'{"todos": {"a": 1}, {"a": 2}}'
    assert arguments(lost, TODO) == '{"todos": [{"a": 1}, {"a": 2}]}'
    with pytest.raises(NotACall):
        arguments(lost.replace(b"todos", b"any"), TODO)


@pytest.mark.parametrize("text", ["[1]", "1", "true", '"ls"', '"[1]"', "{", "{1}", '{"a": ls}', '{"a": "b"', ""])
def test_what_is_no_object_is_no_call(text: str) -> None:
    with pytest.raises(NotACall):
        arguments(text.encode(), BASH)


def test_an_object_is_written_as_utf8_unless_it_cannot_be_sent_so() -> None:
    assert dump({"a": "ï🙂", "b": [None]}) == '{"a": "ï🙂", "b": [null]}'
    assert dump({"a": "ï\ud83d"}) == '{"a": "\\u00ef\\ud83d"}'


@pytest.mark.parametrize(
    ("quoted", "text"), [('"a"', "a"), ("'a'", "a"), ('"b\\u0061sh"', "bash"), ('""', ""), ('"ï\\n"', "ï\n")]
)
def test_a_string_is_read_in_either_quotation_marks(quoted: str, text: str) -> None:
    assert read_string(quoted.encode()) == text


@pytest.mark.parametrize("quoted", ["a", "1", "", '"a', "null", '"a" b'])
def test_what_is_no_string_is_no_name(quoted: str) -> None:
    with pytest.raises(NotACall):
        read_string(quoted.encode())
