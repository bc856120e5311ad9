"""Where a raw value ends: values that show the end tags of their own family, and end tags that are missing.

Each class is tried for every family, for the first, the middle and the last value, alone, in front of another call and
in front of prose.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.limits import MAX_HELD
from tests.support.each_case import each_case
from tests.support.helpers import function, new_scanner, offered, random_cut, scan, units
from tests.support.renderers import RENDERERS, Call

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
TOOLS = offered(
    function("edit_text", {"path": TEXT, "old": TEXT, "new": TEXT, "count": {"type": "integer"}}, "path"),
    function("now"),
)
QWEN = ("qwen3_coder", "qwen3_coder_one_wrapper", "seed_oss", "mimo")
INVOKES = (
    *("minimax_m2", "deepseek_v32", "deepseek_v4", "deepseek_v41", "gigachat35", "muse", "dots", "step3"),
    *("anthropic", "anthropic_prefixed"),
)
PAIRS = ("glm45", "glm47", "ling3", "hy_v3", "hy_v3_suffix", "iquest_q1", "k2_horizon", "k2_horizon_typed")
MARKS = ("gemma4", "functiongemma")
# Weak evidence: what stands behind them makes them prose.
BARE = ("beam", "qwen3_coder_bare", "minicpm5")
FAMILIES = (*QWEN, *INVOKES, *PAIRS, "anthropic_call", "minimax_m3", "kimi_k3", *MARKS, *BARE)
KEYS = ("path", "old", "new")
PLAIN = {"path": "a.py", "old": "b", "new": "c"}
DONE = "\nDone.\n"


def around(family: str, key: str) -> tuple[str, str]:
    """What stands before and behind a value that is alone in its call."""
    before, _, behind = RENDERERS[family].render([("edit_text", {key: "\0"})]).partition("\0")
    return before, behind


def on_one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", "", text)


def tags(text: str) -> list[str]:
    """The text in pieces that end with a tag."""
    return [part for part in re.split(r"(?<=>)(?=[<\]\s])", text) if part.strip()]


def shown(family: str, key: str) -> Iterator[tuple[str, str]]:
    """Values that show the family's own markup."""
    before, behind = around(family, key)
    example = RENDERERS[family].render([("edit_text", {"path": "p", "old": "q", "new": "r"})])
    yield "all closers, in quotes", f'X = "{on_one_line(behind)}"\ny = 1'
    yield "all closers on lines, in quotes", f'X = "a{behind}"\ny = 1'
    yield "all closers and prose", f"A call ends with\n{behind.strip()} and so on"
    for count in range(1, len(tags(behind))):
        yield f"{count} closers", f"a {on_one_line(''.join(tags(behind)[:count]))} b"
        yield f"{count} closers, in quotes", f"print('{on_one_line(''.join(tags(behind)[:count]))}')\nz"
    yield "an example", f"before\n{example}\nafter"
    yield "an example at its end", f"before\n{example}"
    yield "nothing but an example", example
    yield "an example in a line", f"such as `{on_one_line(example)}` does"
    if family not in (*MARKS, "minimax_m3"):
        # In these the whole opener is one piece: it is a call that does not end.
        opening = [part for part in re.split("(?<=>)(?=<)", on_one_line(before)) if part]
        yield "an opener", f"use {opening[-1]} here"
        yield "an opener in lines", f"use\n{opening[0]} here\nok"


SHOWN = [
    pytest.param(family, key, text, id=f"{family}-{key}-{name}")
    for family in FAMILIES
    for key in KEYS
    for name, text in shown(family, key)
    # Special tokens are never part of a value.
    if family not in MARKS and not (family == "step3" and "<｜" in text)
]


def cuts_of(text: str) -> list[list[str]]:
    """The text whole and at a random cut; a short text also byte by byte."""
    cuts = [[text], random_cut(text, random.Random(len(text)))]
    if len(text) < 400:
        cuts.append(units(text))
    return cuts


def found_at_any_cut(text: str, expected: list[Call], left: str = "") -> None:
    """Exactly these calls, and this text besides."""
    for cut in cuts_of(text):
        found = scan(cut, new_scanner(TOOLS))
        assert (found.parsed, found.text.strip()) == (expected, left.strip())


def none_is_wrong(text: str, expected: list[Call]) -> None:
    """These calls or some of them, the same at every cut."""
    found = [scan(cut, new_scanner(TOOLS)).parsed for cut in cuts_of(text)]
    assert all(each == found[0] for each in found)
    assert all(call in expected for call in found[0])


@pytest.mark.slow
@each_case("family, key, text", SHOWN)
def test_a_value_may_show_its_own_familys_markup(family: str, key: str, text: str) -> None:
    """Weak evidence, and the opener of a call that nothing closes, may leave two readings."""
    renderer = RENDERERS[family]
    calls: list[tuple[str, Any]] = [("edit_text", {**PLAIN, key: text})]
    two = [*calls, ("edit_text", {**PLAIN})]
    if family in BARE or (family in PAIRS and text.endswith(" here\nok")):
        none_is_wrong(renderer.render(calls), calls)
        none_is_wrong(renderer.render(two), two)
        return
    found_at_any_cut(renderer.render(calls), calls)
    found_at_any_cut(renderer.render(two) + DONE, two, DONE)


# What each family writes behind a value, as a pattern.
END_TAG = re.compile(r"(\s*)((?:\]<\]minimax\[>\[)?<[^>]*>(?:argument<\|sep\|>)?)(\s*)")
VALUES = {
    "one line": "a.py",
    "many lines": "def f():\n    return 1\n\nx = 2",
    "code": "if a < b and c > d:\n    <b>x</b>\n</div>",
    "JSON": '{"a": [1, 2]}',
}
MISSING = ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2))
UNENDED = tuple(family for family in FAMILIES if family not in (*MARKS, *BARE))


def without_end_tags(family: str, values: dict[str, Any], missing: tuple[int, ...], *, line: bool) -> str:
    """A call of which these end tags are missing; `line`: with their lines, where they stand on lines of their own."""
    rendered = RENDERERS[family].render([("edit_text", {"path": "\0", "count": 777777, "new": "\0"})])
    first, *rest = re.split("(?:\0|777777)", rendered)
    text = first
    for number, (value, behind) in enumerate(zip(values.values(), rest, strict=True)):
        found = END_TAG.match(behind)
        assert found is not None
        tail = behind[found.end() :]
        kept = found.group(3) + tail if line else found.group(1) + found.group(3) + tail
        text += f"{value}{kept if number in missing else behind}"
    return text


@pytest.mark.slow
@each_case("missing", MISSING, ids=repr)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("family", UNENDED)
def test_a_value_without_its_end_tag_ends_before_the_next_key(
    family: str, kind: str, missing: tuple[int, ...]
) -> None:
    values: JsonObject = {"path": VALUES[kind], "count": 3, "new": f"{VALUES[kind]}!"}
    text = without_end_tags(family, values, missing, line=True)
    found_at_any_cut(text, [("edit_text", values)])
    found_at_any_cut(text + DONE, [("edit_text", values)], DONE)


@pytest.mark.parametrize("family", ["glm45", "glm47", "minimax_m2", "minimax_m3", "mimo", "kimi_k3", "qwen3_coder"])
def test_parallel_calls_without_end_tags_stay_parallel(family: str) -> None:
    values: JsonObject = {"path": "a.py", "count": 3, "new": "x"}
    one = without_end_tags(family, values, (0, 1, 2), line=True)
    found_at_any_cut(f"{one}\n{one}\n{one}", [("edit_text", values)] * 3)


@pytest.mark.parametrize("end", ["</parameter>\n</function>\n</tool_call>", "</parameter></function></tool_call>"])
def test_sloppy_parallel_calls_stay_parallel(end: str) -> None:
    """The value began on a line of its own, but no end tag of it stands on one."""
    one = f"<tool_call>\n<function=edit_text>\n<parameter=path>\na.py{end}"
    found_at_any_cut(f"{one}\n{one}\n{one}", [("edit_text", {"path": "a.py"})] * 3)
    found_at_any_cut(f"{one} Done.", [("edit_text", {"path": "a.py"})], "Done.")


QWEN_HEAD = "<tool_call>\n<function=edit_text>\n"
QWEN_TAIL = "\n</parameter>\n</function>\n</tool_call>"
OTHERWISE: dict[str, tuple[str, dict[str, Any] | None]] = {
    "an end tag behind the value": (
        f"{QWEN_HEAD}<parameter=path>\na.py</parameter>\n<parameter=new>\nx{QWEN_TAIL}",
        {"path": "a.py", "new": "x"},
    ),
    "a key that the tool does not declare": (
        f"{QWEN_HEAD}<parameter=path>\na.py\n</parameter>\n<parameter=why>\nx{QWEN_TAIL}",
        {"path": "a.py", "why": "x"},
    ),
    "another key's opener in the middle of a line": (
        f"{QWEN_HEAD}<parameter=path>\nsee <parameter=new> there{QWEN_TAIL}",
        {"path": "see <parameter=new> there"},
    ),
    "another key's opener in quotes": (
        '<tool_call><function=edit_text><parameter=path>"<parameter=new>"</parameter></function></tool_call>',
        None,
    ),
    "balanced markup of another key, and an end tag": (
        f"{QWEN_HEAD}<parameter=path>\na\n<parameter=new>\nx\n</parameter>\nb{QWEN_TAIL}",
        {"path": "a\n<parameter=new>\nx\n</parameter>\nb"},
    ),
    "a number that is none": (f"{QWEN_HEAD}<parameter=path>\na\n<parameter=count>\nmany{QWEN_TAIL}", None),
    "a required key in a line of another value": (
        f"{QWEN_HEAD}<parameter=new>\nsee <parameter=path> there\nx{QWEN_TAIL}",
        None,
    ),
    "a key twice": (f"{QWEN_HEAD}<parameter=path>\na\n</parameter>\n<parameter=path>\nb{QWEN_TAIL}", None),
    "an empty line before the next opener": (
        f"{QWEN_HEAD}<parameter=path>\na\n\n<parameter=new>\nx{QWEN_TAIL}",
        {"path": "a\n", "new": "x"},
    ),
    "an end tag and prose, and no other": (f"{QWEN_HEAD}<parameter=path>\na\n</parameter>\nand\n</function>", None),
    "an element that may be of the object before": (
        "<Call><Function>edit_text</Function><Parameters><path><new>x</new></Parameters></Call>",
        None,
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_has_one_reading_is_read_and_what_has_two_is_no_call(name: str) -> None:
    text, values = OTHERWISE[name]
    found_at_any_cut(text, [("edit_text", values)] if values else [], "" if values else text)


def test_a_value_that_was_cut_off_behind_closers_that_it_shows_is_no_call() -> None:
    """C4: half of the text that was to be written must not be."""
    text = '<tool_call><function=edit_text><parameter=path>X = "</parameter></function></tool_call>"\ny'
    for stopped in (True, False):
        assert scan([text], new_scanner(TOOLS), stopped=stopped).parsed == []
    sloppy = "<tool_call>\n<function=edit_text>\n<parameter=path>\na</parameter></function></tool_call>\nb"
    assert scan([sloppy], new_scanner(TOOLS), stopped=True).parsed == [("edit_text", {"path": "a"})]
    assert scan([sloppy], new_scanner(TOOLS), stopped=False).parsed == []


def test_what_is_let_go_in_the_middle_of_a_value_is_no_call() -> None:
    """A limit of bytes, wherever in the markup it falls."""
    text = f"{QWEN_HEAD}<parameter=path>\n<parameter=new>\n</parameter>\n</function>\n{'x' * 20}{QWEN_TAIL}\n"
    for most in range(60, len(text) - 1):
        scanner = new_scanner(TOOLS, max_held=most)
        assert scan([*text], scanner).parsed == []
    assert scan([*text], new_scanner(TOOLS, max_held=MAX_HELD)).parsed
