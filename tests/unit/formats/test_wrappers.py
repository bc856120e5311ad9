"""What stands in a wrapper, wrappers in wrappers, and which evidence they are (F1, F2, F5, F6, F10, contract C3)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.markers import MARKERS, WRAPPER_TAGS
from proxy.formats.wrappers import BODIES, MAX_NESTED, Closed, closed_by_itself, fence, read_call, read_wrapper
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import Context, Cursor
from tests.support.helpers import call_json, offered, outcome, scan, units

LS = call_json("bash", command="ls")
PWD = call_json("bash", command="pwd")
TAGS = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
INVOKE = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
ONE = [("bash", {"command": "ls"})]
TWO = [*ONE, ("bash", {"command": "pwd"})]

BODY: dict[str, str] = {
    "an object": LS,
    "an array": f"[{LS}]",
    "Python's list": "[bash(command='ls')]",
    "tags": TAGS,
    "invoke": INVOKE,
    "a name": 'bash{"command": "ls"}',
    "Gemma's": 'call:bash{command:<|"|>ls<|"|>}',
    "Kimi K3's": (
        '<|open|>call tool="bash"<|sep|><|open|>argument key="command" type="string"<|sep|>ls<|close|>argument<|sep|>'
        "<|close|>call<|sep|>"
    ),
    "spelled out": "<Function>bash</Function><Parameters><command>ls</command></Parameters>",
    "a fence": f"```json\n{LS}\n```",
    "a wrapper": f"<tool_call>{LS}</tool_call>",
    "a marker": f"<|tool_call_begin|>{LS}<|tool_call_end|>",
}


@pytest.mark.parametrize("name", BODY)
def test_the_first_characters_tell_what_stands_in_a_wrapper(name: str) -> None:
    found = outcome(read_call, f"{BODY[name]}\n</tool_call>", wrapped=True)
    assert found.calls == ONE
    assert found.rest.strip() == "</tool_call>"


def test_each_body_of_its_own_has_one_parser() -> None:
    assert all(BODIES.values()) and all(BODIES)


@pytest.mark.parametrize(
    "opener", [opener for opener in WRAPPER_TAGS if opener.startswith("<") and opener.endswith(">")]
)
def test_each_wrapper_that_is_a_tag_is_strong_evidence(opener: str) -> None:
    """C3."""
    inside = "<Function>bash</Function><Parameters><command>ls</command></Parameters>" if opener == "<Call>" else LS
    found = outcome(read_wrapper, f"{opener}\n{inside}\n{opener.replace('<', '</', 1)} so", cuts=10)
    assert (found.calls, found.rest, found.weak) == (ONE, " so", False)


@pytest.mark.parametrize("marker", MARKERS, ids=lambda marker: str(marker.opener))
def test_each_marker_is_strong_evidence(marker: Any) -> None:
    """C3: with its closer, or without one if it has none."""
    closer = marker.closers[0] if marker.closers else ""
    inside = "bash(command='ls')" if closer == "]" else LS
    found = outcome(read_wrapper, f"{marker.opener}{inside}{closer} so", cuts=10)
    assert (found.calls, found.rest, found.weak) == (ONE, " so", False)


WRAPPED: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "on one line": (f"<tool_call>{LS}</tool_call>", ONE),
    "two objects": (f"<tool_call>\n{LS}\n{PWD}\n</tool_call>", TWO),
    "two objects without a blank": (f"<tool_call>{LS}{PWD}</tool_call>", TWO),
    "two objects and a comma": (f"<tool_call>{LS}, {PWD}</tool_call>", TWO),
    "an array": (f"<tool_call>[{LS}, {PWD}]</tool_call>", TWO),
    "tags and an object": (f"<tool_call>\n{TAGS}\n{PWD}\n</tool_call>", TWO),
    "a required argument missing": (f"<tool_call>{call_json('bash')}</tool_call>", [("bash", {})]),
    "an unknown key": (f"<tool_call>{call_json('bash', cmd='x')}</tool_call>", [("bash", {"cmd": "x"})]),
    "no arguments": ('<tool_call>{"name": "now"}</tool_call>', [("now", {})]),
    "a name alone": ("<tool_call>now</tool_call>", [("now", {})]),
    "a brace missing": (f"<tool_call>{LS[:-1]}</tool_call>", ONE),
    "a brace too many": (f"<tool_call>{LS}}}</tool_call>", ONE),
    "a fence": (f"<tool_call>\n```json\n{LS}\n```\n</tool_call>", ONE),
    "closed by another's end tag": (f"<tool_call>{LS}</tools>", ONE),
    "an end tag of a call too many": (f"<tool_call>{TAGS}</function></tool_call>", ONE),
    "wrappers in a wrapper": (
        f"<tool_calls><tool_call>{LS}</tool_call>\n<tool_call>{PWD}</tool_call></tool_calls>",
        TWO,
    ),
    "an opener twice": (f"<tool_call>\n<tool_call>\n{LS}\n</tool_call>", ONE),
    "as deep as may be": ("<tool_call>" * MAX_NESTED + LS + "</tool_call>" * MAX_NESTED, ONE),
    "Llama's separator": (f"<|python_tag|>{LS}; {PWD}", TWO),
    "the bridge's": ('[Tool call: bash({"command": "ls"})]', ONE),
    "DSML": (
        '<｜DSML｜tool_calls><｜DSML｜invoke name="bash"><｜DSML｜parameter name="command" string="true">ls'
        "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
        ONE,
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_closed_wrapper_gives_its_calls_wherever_it_stands(name: str) -> None:
    text, expected = WRAPPED[name]
    for stopped in (True, False):
        found = outcome(read_wrapper, f"{text} so", stopped=stopped)
        assert (found.calls, found.rest, found.weak) == (expected, " so", False)


UNCLOSED: dict[str, tuple[str, list[tuple[str, Any]], str]] = {
    "an object": (f"<tool_call>\n{LS}", ONE, ""),
    "two objects": (f"<tool_call>{LS}\n{PWD}\n", TWO, ""),
    "tags": (f"<tool_call>\n{TAGS}", ONE, ""),
    "the turn is over": (f"<tool_call>{LS}<|im_end|>", ONE, "<|im_end|>"),
}


@pytest.mark.parametrize("name", UNCLOSED)
def test_an_unclosed_wrapper_is_weak_and_needs_the_natural_end(name: str) -> None:
    """C3, C4."""
    text, expected, rest = UNCLOSED[name]
    found = outcome(read_wrapper, text)
    assert (found.calls, found.rest, found.weak) == (expected, rest, True)
    assert rest or outcome(read_wrapper, text, stopped=False).calls is None


# An opener that stands alone, if there is one, and a call that is closed by itself.
CLOSED: dict[str, tuple[str, str]] = {
    "tags": ("<tool_call>", TAGS),
    "invoke": ("<function_calls>", INVOKE),
    "objects in wrappers": ("<tool_calls>", f"<tool_call>{LS}</tool_call>"),
    "pairs in wrappers": (
        "<tool_calls>",
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    ),
    "DSML": (
        "<｜DSML｜tool_calls>",
        '<｜DSML｜invoke name="bash"><｜DSML｜parameter name="command" string="true">ls'
        "</｜DSML｜parameter></｜DSML｜invoke>",
    ),
    "Kimi K2": (
        "<|tool_calls_section_begin|>",
        '<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|>',
    ),
    "DeepSeek V3": (
        "<｜tool▁calls▁begin｜>",
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{"command": "ls"}\n```<｜tool▁call▁end｜>',
    ),
    "DeepSeek V3.1": (
        "<｜tool▁calls▁begin｜>",
        '<｜tool▁call▁begin｜>bash<｜tool▁sep｜>{"command": "ls"}<｜tool▁call▁end｜>',
    ),
    "Kimi K3": (
        "<|open|>tools<|sep|>",
        '<|open|>call tool="bash"<|sep|><|open|>argument key="command" type="string"<|sep|>ls<|close|>argument<|sep|>'
        "<|close|>call<|sep|>",
    ),
    "MiniMax M3": (
        "]<]minimax[>[<tool_call>",
        ']<]minimax[>[<invoke name="bash">]<]minimax[>[<command>ls]<]minimax[>[</command>]<]minimax[>[</invoke>',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "cut off"])
def test_wherever_a_wrapper_breaks_off_the_call_that_is_closed_is_kept(name: str, stopped: bool) -> None:
    """F10: the rest stays text, or is a call if it is whole but for its closers."""
    opener, call = CLOSED[name]
    for end in range(1, len(call)):
        text = f"{opener}{call}\n{call[:end]}"
        for cut in ([text], units(text)):
            found = scan(cut, stopped=stopped)
            assert found.parsed in (ONE, ONE + ONE), text


@pytest.mark.parametrize("behind", [" so", "\nand so on", "<b>", "\n\n# Title"])
@pytest.mark.parametrize("name", ["objects in wrappers", "pairs in wrappers", "Kimi K2", "DeepSeek V3.1"])
def test_of_wrappers_in_a_wrapper_each_is_strong_evidence(name: str, behind: str) -> None:
    """F10, C3: whatever stands behind the closed one."""
    opener, call = CLOSED[name]
    for stopped in (True, False):
        found = outcome(read_wrapper, f"{opener}{call}{behind}", stopped=stopped)
        assert (found.calls, found.rest, found.weak) == (ONE, behind, False)


REFUSED = {
    "empty": "<tool_call></tool_call>",
    "blanks": "<tool_call>\n\n</tool_call>",
    "prose": "<tool_call>and so on</tool_call>",
    "prose behind the call": f"<tool_call>{LS} and</tool_call>",
    "a name that was not offered": f"<tool_call>{call_json('nope')}</tool_call>",
    "neither was offered": f"<tool_call>{call_json('nope', a=1)}{call_json('nope')}</tool_call>",
    "a name that needs arguments": "<tool_call>bash</tool_call>",
    "half an end tag": f"<tool_call>{LS}</tool_cal",
    "too many blanks": f"<tool_call>{' ' * 100}{LS}</tool_call>",
    "too deep": "<tool_call>" * (MAX_NESTED + 1) + LS + "</tool_call>" * (MAX_NESTED + 1),
    "broken off in the first call": f"<tool_call>{LS[:-8]}",
    "broken off behind an object": f"<tool_call>{LS}\n{PWD[:9]}",
    "an end tag": f"</tool_call>{LS}</tool_call>",
    "another tag": f"<b>{LS}</b>",
    "text": LS,
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrapper_that_holds_anything_else_is_none(name: str) -> None:
    """C3."""
    found = outcome(read_wrapper, REFUSED[name])
    assert found.calls is None and found.why


def test_what_is_closed_by_itself_is_told_before_it_is_read() -> None:
    wrappers = (f"<tool_call>{LS}", "<|tool_call_begin|>x", "<｜DSML｜invoke name='a'>")
    kinds = dict.fromkeys(wrappers, Closed.WRAPPER)
    kinds |= dict.fromkeys((TAGS, INVOKE), Closed.CALL)
    kinds |= dict.fromkeys((LS, "</tool_call>", "bash", "", "<"), Closed.NOTHING)
    for text, kind in kinds.items():
        found = outcome(closed_by_itself, text)
        assert (found.given, found.rest) == (kind, text)


FENCES: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "an object": (f"```json\n{LS}\n```", ONE),
    "without a language": (f"```\n{LS}\n```", ONE),
    "another language": (f"```tool_call\n{LS}\n```", ONE),
    "two objects": (f"```json\n{LS}\n{PWD}\n```", TWO),
    "an array": (f"```json\n[{LS}, {PWD}]\n```", TWO),
    "on one line behind the language": (f"```json\n{LS}```", ONE),
}


@pytest.mark.parametrize("name", FENCES)
def test_a_fence_may_be_a_call_itself(name: str) -> None:
    """F6."""
    text, expected = FENCES[name]
    found = outcome(fence, f"{text}\n")
    assert (found.calls, found.rest) == (expected, "\n")


@pytest.mark.parametrize("inside", [LS, f"{LS}\n{LS}", f"[{LS}]", "bash(command='ls')", 'bash{command: "ls"}'])
@pytest.mark.parametrize("behind", ["", "\n", "<|im_end|>", "\n</tool_call>"])
def test_a_fence_that_begins_the_reply_may_lack_its_end(inside: str, behind: str) -> None:
    """F6: where the reply ends by itself."""
    found = outcome(fence, f"```json\n{inside}{behind}", first=True)
    assert found.calls is not None and {*map(str, found.calls)} == {str(ONE[0])}
    assert outcome(fence, f"```json\n{inside}{behind}").calls is None
    assert outcome(fence, f"```json\n{inside}", first=True, stopped=False).calls is None
    assert outcome(fence, f"```json\n{inside}\nso", first=True).calls is None


@pytest.mark.parametrize("inside", [TAGS, INVOKE, f"<tool_call>{LS}</tool_call>", "[bash(command='ls')]"])
def test_only_a_fence_that_begins_the_reply_may_hold_anything_but_json(inside: str) -> None:
    """F6, F88: else it is an example."""
    text = f"```xml\n{inside}\n```"
    assert outcome(fence, text, first=True).calls == ONE
    assert outcome(fence, text).calls is None


@pytest.mark.parametrize(
    "text",
    [
        *("```\n```", "```json\n\n```", f"```json\nRun:\n{LS}\n```", f"```json\n{LS}\n{{}}\n```"),
        *(
            f"```json `x`\n{LS}\n```",
            f"```{'x' * 40}\n{LS}\n```",
            f"```json {LS}",
            f"~~~\n{LS}\n~~~",
            f"````\n{LS}\n````",
        ),
    ],
)
def test_a_fence_that_holds_anything_else_is_none(text: str) -> None:
    assert outcome(fence, text, first=True).calls is None


@pytest.mark.parametrize("nested", [1, 2, 3])
def test_what_was_nested_in_a_body_that_came_to_nothing_counts_no_more(nested: int) -> None:
    """The depth of wrappers is again what it was; four are too many."""
    call = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
    broken = "<tool_call>" * nested + "and prose"
    window = TextBuffer()
    window.data += f"<tool_calls>{call}{broken}".encode()
    window.ended = window.stopped = True
    outside = Context(offered())
    reader = Cursor(window, 0, outside)
    parsing = read_wrapper(reader)
    with pytest.raises(StopIteration) as done:
        next(parsing)
    assert [raw.tool.name for raw in done.value.value] == ["bash"]
    assert reader.context == outside
