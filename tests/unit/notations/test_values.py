"""Values of calls: nothing is invented, and nothing is cut (C9, C10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.helpers import function, offered
from tests.support.notations_reading import SIZES, read

TEXT = {"type": "string"}
TOOLS = offered(
    function("write_file", {"path": TEXT, "content": TEXT, "mode": {"type": "integer"}}, "path"),
    function("edit_text", {"path": TEXT, "old": TEXT, "new": TEXT}, "path", "old", "new"),
)


def xml(value: str, name: str = "content") -> str:
    return (
        "<tool_call>\n<function=write_file>\n<parameter=path>\na.md\n</parameter>\n"
        f"<parameter={name}>\n{value}\n</parameter>\n</function>\n</tool_call>"
    )


def glm(value: str) -> str:
    return (
        "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>a.md</arg_value>\n"
        f"<arg_key>content</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>"
    )


def dsml(value: str) -> str:
    return (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="write_file">\n'
        '<｜DSML｜parameter name="path" string="true">a.md</｜DSML｜parameter>\n'
        f'<｜DSML｜parameter name="content" string="true">{value}</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    )


def claude(value: str) -> str:
    return (
        '<function_calls>\n<invoke name="write_file">\n<parameter name="path">a.md</parameter>\n'
        f'<parameter name="content">{value}</parameter>\n</invoke>\n</function_calls>'
    )


FAMILIES = {"Qwen": xml, "GLM": glm, "DSML": dsml, "Claude": claude}


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of a text, the same at every size of pieces."""
    found = [read(text, TOOLS, size).calls for size in SIZES]
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["{}", "```xml\n{}\n```\nend", "before\n{}\nafter"])
def test_a_value_may_show_a_whole_call_of_its_family(family: str, form: str) -> None:
    value = form.format(FAMILIES[family]("shown"))
    assert calls(FAMILIES[family](value)) == [("write_file", {"path": "a.md", "content": value})]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["A call ends so:\n{}\nand goes on", "```\n{}\n```\nand goes on"])
def test_a_value_may_show_closers_on_lines_of_their_own(family: str, form: str) -> None:
    """The text after the first chain, and a second one, prove that the first was shown."""
    closers = FAMILIES[family]("\1").partition("\1")[2].strip()
    value = form.format(closers)
    assert calls(FAMILIES[family](value)) in ([("write_file", {"path": "a.md", "content": value})], [])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_value_may_show_closers_several_times(family: str) -> None:
    closers = FAMILIES[family]("\1").partition("\1")[2].strip()
    value = f'{{"text": "{closers}", "calls": 1}}\n{{"text": "{closers}", "calls": 0}}'
    assert calls(FAMILIES[family](value)) in ([("write_file", {"path": "a.md", "content": value})], [])


@pytest.mark.parametrize("family", FAMILIES)
def test_prose_after_a_call_is_no_part_of_it(family: str) -> None:
    text = f"{FAMILIES[family]('x')}\nI wrote `</parameter>` and `</arg_value>` there."
    assert calls(text) == [("write_file", {"path": "a.md", "content": "x"})]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n</function>\n</tool_call>",
        '<function_calls>\n<invoke name="write_file">\n<parameter name="path">a</parameter>\n'
        '<parameter name="content"/>\n</invoke>\n</function_calls>',
        '<|tool_call>call:write_file{path:<|"|>a<|"|>,content:}<tool_call|>',
        "[write_file(path='a', content=)]",
    ],
)
def test_a_key_without_a_value_is_no_empty_value(text: str) -> None:
    assert calls(text) in ([], [("write_file", {"path": "a"})])


@pytest.mark.parametrize("value", ["", '""'])
def test_a_value_is_empty_if_both_of_its_delimiters_are_there(value: str) -> None:
    text = '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": ""}}</tool_call>'
    assert calls(text) == [("write_file", {"path": "a", "content": ""})]
    assert calls(glm(value))[0][1]["content"] == value


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fence_that_ends_in_another_value_takes_no_key_along(family: str) -> None:
    text = FAMILIES[family]("b\n```\n").replace("a.md", "a.md\n```xml\n")
    assert all("content" in values for _, values in calls(text))


def test_a_value_that_shows_an_open_call_takes_no_other_call_along() -> None:
    first = claude('<function_calls>\n<invoke name="write_file">\n and more').removesuffix("\n</function_calls>")
    second = claude("y").removeprefix("<function_calls>")
    assert all("y" not in values["content"][1:] for _, values in calls(first + second))


def test_a_doubled_end_tag_is_left_over() -> None:
    assert calls(glm("x</arg_value>")) == [("write_file", {"path": "a.md", "content": "x"})]
    assert calls(claude("x</parameter>")) == [("write_file", {"path": "a.md", "content": "x"})]
    other = "x</｜DSML｜parameter>"  # the end tag of another notation is text
    assert calls(claude(other)) == [("write_file", {"path": "a.md", "content": other})]


def test_a_missing_end_tag_ends_a_value_before_the_next_declared_key() -> None:
    text = glm("x").replace("a.md</arg_value>\n", "a.md\n")
    assert calls(text) == [("write_file", {"path": "a.md", "content": "x"})]


@pytest.mark.parametrize("junk", ["<b>", "prose ", "</x>"])
def test_text_between_an_end_tag_and_the_next_key_makes_no_call(junk: str) -> None:
    text = claude("x").replace("a.md</parameter>\n", f"a.md</parameter>{junk}\n")
    assert all(values.get("path") == "a.md" for _, values in calls(text))


def test_a_delimiter_that_is_a_token_is_never_part_of_a_value() -> None:
    text = '<|tool_call>call:write_file{path:<|"|>a<|"|> b<|"|>,content:<|"|>x<|"|>}<tool_call|>'
    assert calls(text) == []


def test_a_quotation_mark_that_is_not_escaped_ends_no_string() -> None:
    text = '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "say "hi", then go"}}</tool_call>'
    assert calls(text) == [("write_file", {"path": "a", "content": 'say "hi", then go'})]


EDITS = offered(
    function(
        "edit_file",
        {
            "path": TEXT,
            "edits": {"type": "array", "items": {"type": "object", "properties": {"old": TEXT, "new": TEXT}}},
            "options": {"type": "object", "properties": {"query": TEXT, "limit": {"type": "integer"}}},
            "tags": {"type": "array", "items": TEXT},
            "a.b": TEXT,
        },
        "path",
    )
)


def edits(arguments: str) -> list[tuple[str, dict[str, Any]]]:
    text = f'<tool_call>{{"name": "edit_file", "arguments": {arguments}}}</tool_call>'
    found = [read(text, EDITS, size).calls for size in SIZES]
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        # The keys of a nested object end its strings, a comma and a bracket do not.
        (
            '{"options": {"query": "key: "a", b: "c"", "limit": 2}, "path": "x"}',
            {"options": {"query": 'key: "a", b: "c"', "limit": 2}, "path": "x"},
        ),
        ('{"path": "f("a",}", "tags": ["b"]}', {"path": 'f("a",}', "tags": ["b"]}),
        (
            '{"edits": [{"old": "say "hi"", "new": "b"}, {"old": "c", "new": ""d" e"}], "path": "x"}',
            {"edits": [{"old": 'say "hi"', "new": "b"}, {"old": "c", "new": '"d" e'}], "path": "x"},
        ),
        ("{“tags”: [“a”, “b”], “path”: “x”}", {"tags": ["a", "b"], "path": "x"}),
        ('{"path" = "x", "tags" = ["a"]}', {"path": "x", "tags": ["a"]}),
        ('{--path "x"\n--tags ["a"]}', {"path": "x", "tags": ["a"]}),
        ('{--path "x"\n--a.b "y"}', {"path": "x", "a.b": "y"}),
    ],
)
def test_the_schema_says_where_a_string_ends(arguments: str, meant: dict[str, Any]) -> None:
    assert edits(arguments) == [("edit_file", meant)]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"options": {"query": "a", "path": "x", "tags": ["b"]}',  # the bracket of `options` or the last one is missing
        '{"edits": [{"old": "a"}, "tags": ["b"], "path": "x"}',
        '{"tags": ["say "a", "b""], "path": "x"}',
        '{"path": "x" "path": "y"}',
        '{"edits": [{"old": "a" {"old": "b", "new": "c"}], "path": "x"}',
        '{"tags": ["a", "x"], "path": "z", "b "c" d"], "path": "y"}',
    ],
)
def test_arguments_with_two_readings_make_no_call(arguments: str) -> None:
    assert edits(arguments) == []


def test_a_string_that_lost_its_last_mark_takes_no_other_call_along() -> None:
    text = (
        '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "x}}</tool_call>\n'
        '<tool_call>{"name": "write_file", "arguments": {"path": "b", "content": "y"}}</tool_call>'
    )
    assert all(values["path"] == "b" for _, values in calls(text))


def test_a_number_that_no_client_can_read_makes_no_call() -> None:
    assert calls("[write_file(path='a', mode=1e999)]") == []
