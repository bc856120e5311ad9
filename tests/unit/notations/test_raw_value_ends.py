"""Raw values that can be read in two ways: each class in the families that have it, at every cut."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from tests.support.each_case import each_case
from tests.support.helpers import all_cuts, function, new_scanner, offered, scan
from tests.support.renderers import RENDERERS, Call

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
MAYBE = {"type": ["string", "null"]}
TOOLS = offered(
    function("edit_text", {"path": TEXT, "old": TEXT, "file_note": MAYBE, "count": {"type": "integer"}}, "path"),
    function("other", {"what": TEXT}),
    function("nest", {"options": {"type": "object", "properties": {"what": TEXT}}, "what": TEXT, "path": TEXT}),
)
SECTIONS = ("minimax_m2", "anthropic", "deepseek_v32", "hy_v3", "kimi_k3", "minimax_m3")
FAMILIES = (*SECTIONS, "mimo", "seed_oss", "glm45")
# A value, and an end tag as each family writes it.
END_TAGS = {
    "minimax_m2": "</parameter>",
    "anthropic": "</parameter>",
    "deepseek_v32": "</｜DSML｜parameter>",
    "hy_v3": "</arg_value>",
    "kimi_k3": "<|close|>argument<|sep|>",
    "minimax_m3": "]<]minimax[>[</{key}>",
    "mimo": "</parameter>",
    "seed_oss": "</parameter>",
    "glm45": "</arg_value>",
}


def without_end(family: str, calls: list[Call], key: str, value: str) -> str:
    """The calls, the end tag behind this value missing."""
    written = RENDERERS[family].render(calls)
    tag = END_TAGS[family].format(key=key)
    assert written.count(value + tag) == 1
    return written.replace(value + tag, value)


def found(text: str, expected: list[Call], left: str = "") -> None:
    for cut in all_cuts(text):
        seen = scan(cut, new_scanner(TOOLS))
        assert (seen.parsed, seen.text.strip()) == (expected, left.strip())


@pytest.mark.parametrize("name, second", [("other", {"what": "z"}), ("edit_text", {"path": "b", "old": "d"})])
@pytest.mark.parametrize("value", ["cc", "two\nlines", "a < b > c"])
@pytest.mark.parametrize("family", SECTIONS)
def test_a_call_behind_a_missing_end_tag_is_not_swallowed(
    family: str, value: str, name: str, second: dict[str, Any]
) -> None:
    calls: list[Call] = [("edit_text", {"path": "a.py", "old": f"{value}=="}), (name, second)]
    found(without_end(family, calls, "old", f"{value}=="), calls)


ENDS_IN_MARKS = ('say "hello"', "it is 'so'", "run `it`", 'f("a", "b") + ""', "```\ncode\n```")


@pytest.mark.parametrize("value", ENDS_IN_MARKS)
@pytest.mark.parametrize("family", ["mimo", "kimi_k3", "minimax_m3"])
def test_a_value_that_ends_with_quotation_marks_may_lack_its_end_tag(family: str, value: str) -> None:
    calls: list[Call] = [("edit_text", {"path": value, "old": "b", "count": 3})]
    found(without_end(family, calls, "path", value), calls)


@pytest.mark.parametrize("value", ['"', "it's 'so'", 'one " and "two"', "`"])
@pytest.mark.parametrize("family", ["mimo", "kimi_k3", "minimax_m3"])
def test_where_the_quotation_may_go_on_there_is_no_call(family: str, value: str) -> None:
    calls: list[Call] = [("edit_text", {"path": value, "old": "b", "count": 3})]
    text = without_end(family, calls, "path", value)
    found(text, [], text)


@pytest.mark.parametrize("first", ['"', "say '", 'one "two" and "'])
@pytest.mark.parametrize("family", ["mimo", "kimi_k3", "minimax_m3"])
def test_where_a_key_may_be_quoted_or_two_end_tags_be_missing_there_is_no_call(family: str, first: str) -> None:
    """`<parameter=path>"<parameter=old>"x"</function>` says one value or two."""
    second = f"{first[-1]}old{first[-1]}: 1"
    text = without_end(family, [("edit_text", {"path": first, "old": second})], "path", first)
    tag = END_TAGS[family].format(key="old")
    assert text.count(second + tag) == 1
    text = text.replace(second + tag, second)
    found(text, [], text)


@pytest.mark.parametrize("family", ["mimo", "seed_oss", "minimax_m2", "anthropic", "hy_v3", "glm45", "kimi_k3"])
@each_case("key", ["fileNote", "FileNote", "file-note", "FILE_NOTE", "filenote"])
@pytest.mark.parametrize("value", [None, "nullable", "strue"])
def test_a_value_is_typed_as_the_key_that_is_meant(family: str, key: str, value: str | None) -> None:
    written = RENDERERS[family].render([("edit_text", {"path": "a.py", key: value})])
    found(written, [("edit_text", {"path": "a.py", key: value})])


@pytest.mark.parametrize("times", [1, 2, 3])
def test_the_end_tag_of_a_call_may_stand_there_several_times(times: int) -> None:
    calls: list[Call] = [("edit_text", {"path": "a.py"}), ("other", {"what": "x"})]
    end = "<|close|>call<|sep|>"
    found(RENDERERS["kimi_k3"].render(calls).replace(end, end * times), calls)


CALL = "<Call><Function>{}</Function><Parameters>{}</Parameters></Call>"


@pytest.mark.parametrize("shown", ["</count></Parameters></Call>", "</old></Parameters></Call>\nand more"])
def test_another_keys_end_tag_ends_no_value(shown: str) -> None:
    text = CALL.format("edit_text", f"<path>{shown}</path><file_note>n</file_note>")
    found(text, [("edit_text", {"path": shown, "file_note": "n"})])


@pytest.mark.parametrize("behind", ["<path>a</path>", ""])
def test_an_element_that_may_be_of_the_object_before_it_makes_no_call(behind: str) -> None:
    text = CALL.format("nest", f"<options><what>x</what>{behind}")
    found(text, [], text)


def test_a_value_may_begin_with_the_closers_of_its_own_call() -> None:
    """A second chain of closers after a text proves that the first was shown."""
    shown = "</parameter>\n</function>\n</tool_call>\nand then more"
    calls: list[Call] = [("edit_text", {"old": shown, "path": "a.py"}), ("other", {"what": shown})]
    for call in calls:
        found(RENDERERS["qwen3_coder"].render([call]), [call])
    empty = "<tool_call>\n<function=other>\n<parameter=what>\n</parameter>\n</function>\n</tool_call>"
    found(f"{empty}\nDone.", [("other", {"what": ""})], "Done.")


@pytest.mark.parametrize("length", range(60, 68))
def test_a_limit_of_bytes_cuts_no_letter(length: int) -> None:
    text = "日" * (length // 3) + "x" * (length % 3)
    calls: list[Call] = [("edit_text", {"path": text, "old": "b"})]
    found(RENDERERS["qwen3_coder"].render(calls), calls)


def test_calls_with_a_counter_stay_apart() -> None:
    text = "[other(what='a'), other:1(what='b'), functions.other:2(what='c')]"
    found(text, [("other", {"what": letter}) for letter in "abc"])


DOUBLED = END_TAGS | {
    "deepseek_v4": "</｜DSML｜parameter>",
    "step3": "</steptml:parameter>",
    "dots": "</parameter>",
    "glm47": "</arg_value>",
    "ling3": "</arg_value>",
    "iquest_q1": "</arg_value>",
    "k2_horizon": "</ifm|arg_value>",
    "hy_v3_suffix": "</arg_value:opensource>",
}
ENDING = ("a", "two\nlines", "X =")


def doubled(family: str, key: str, end: str) -> tuple[str, list[Call]]:
    values: JsonObject = {"path": "a.py", "old": "b", "count": 3, key: end}
    return RENDERERS[family].render([("edit_text", values)]), [("edit_text", values)]


@pytest.mark.parametrize("between", ["", " ", "\n"])
@pytest.mark.parametrize("value", ENDING)
@pytest.mark.parametrize("key", ["path", "old"])
@each_case("family", DOUBLED)
def test_an_end_tag_that_is_there_twice_is_left_over(family: str, key: str, value: str, between: str) -> None:
    """C10: a value never ends with its own closer."""
    text, [(name, values)] = doubled(family, key, f"{value}{between}{DOUBLED[family].format(key=key)}")
    for cut in all_cuts(text, 4):
        [(called, read_values)] = scan(cut, new_scanner(TOOLS)).parsed
        assert isinstance(read_values, dict)
        read_values[key] = read_values[key].strip()
        assert (called, read_values) == (name, {**values, key: value})


@pytest.mark.parametrize("family", ["minimax_m2", "anthropic", "deepseek_v32", "mimo", "seed_oss", "glm45", "hy_v3"])
def test_the_end_tag_of_what_is_no_text_may_stand_there_twice(family: str) -> None:
    calls: list[Call] = [("edit_text", {"path": "a.py", "count": 3, "old": "b"})]
    end_tag = END_TAGS[family]
    text = RENDERERS[family].render(calls).replace(f"3{end_tag}", f"3{end_tag}{end_tag}")
    assert f"{end_tag}{end_tag}" in text
    found(text, calls)


LISTED = offered(
    function(
        "choose",
        {
            "count": {"type": "integer"},
            "flag": {"type": "boolean"},
            "mode": {"enum": ["fast", "slow"]},
            "shape": {"type": "string", "enum": ["round", "flat"]},
            "names": {"type": "array", "items": TEXT},
            "path": TEXT,
        },
    )
)


def found_listed(text: str, expected: list[Call], left: str = "") -> None:
    for cut in all_cuts(text):
        seen = scan(cut, new_scanner(LISTED))
        assert (seen.parsed, seen.text.strip()) == (expected, left.strip())


@pytest.mark.parametrize(
    "key, value, written",
    [
        ("count", 51, "51"),
        ("flag", True, "true"),
        ("mode", "slow", "slow"),
        ("shape", "flat", "flat"),
        ("names", ["a=b"], '["a=b"]'),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_no_text_does_not_end_with_the_value_of_a_key_that_no_tool_declares(
    family: str, key: str, value: Any, written: str
) -> None:
    """`<parameter=count>5<parameter=note>x</parameter>`: neither a number, nor a key that is known."""
    calls: list[Call] = [("choose", {key: value, "remark": "x", "path": "a.py"})]
    if family == "minimax_m3" and key == "names":
        written = f"<item>a=b{']<]minimax[>['}</item>"
    text = without_end(family, calls, key, written)
    found_listed(text, [], text)


@pytest.mark.parametrize("key", ["PATH", "Path", "p-ath"])
@pytest.mark.parametrize("value", ["", "of 'one'", "two\nlines"])
@pytest.mark.parametrize("family", ["mimo", "seed_oss", "minimax_m2", "anthropic", "hy_v3", "glm45", "kimi_k3"])
def test_a_value_ends_before_another_key_in_any_spelling(family: str, value: str, key: str) -> None:
    calls: list[Call] = [("edit_text", {"old": f"{value}==", key: "a.py"})]
    found(without_end(family, calls, "old", f"{value}=="), calls)
