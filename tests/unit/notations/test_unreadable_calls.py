"""A call that a string of JSON shows is no call, although the call around it cannot be read: marks without a backslash,
closers of its own, ends that are missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.codec.json_text import Json
from tests.failures.test_failures_damage import broken
from tests.support.client_view import streamed, whole
from tests.support.helpers import ends, function, new_scanner, offered, says, scan
from tests.unit.notations.test_json_arguments import WRAPPERS, Written, read
from tests.unit.notations.test_shown_closers import CLOSED

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
TOOLS = offered(
    function("bash", {"command": TEXT, "timeout": {"type": "integer"}}, "command"),
    function("write", {"path": TEXT, "content": TEXT}, "path", "content"),
    function("shown", {"what": TEXT}),
)
_KIMI_CALL = "<|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
FAMILIES: dict[str, Written] = WRAPPERS | {
    "Hermes, one line": lambda name, text: f'<tool_call>{{"name": "{name}", "arguments": {text}}}</tool_call>',
    "Granite": lambda name, text: f'<function_call>{{"name": "{name}", "arguments": {text}}}</function_call>',
    "Llama 4": lambda name, text: f'<|python_start|>{{"name": "{name}", "parameters": {text}}}<|python_end|>',
    "Kimi, no section": _KIMI_CALL.format,
    "Solar": lambda name, text: (
        f"<|tool_calls|><|tool_call:begin|>0<|tool_call:name|>{name}<|tool_call:args|>{text}<|tool_call:end|><|calls|>"
    ),
    "arguments as a string": lambda name, text: f'<tool_call>{{"name": "{name}", "arguments": "{text}"}}</tool_call>',
    "arguments first": lambda name, text: f'<tool_call>{{"arguments": {text}, "name": "{name}"}}</tool_call>',
    "fence": lambda name, text: f'```json\n{{"name": "{name}", "arguments": {text}}}\n```',
    "bare": lambda name, text: f'{{"name": "{name}", "arguments": {text}}}',
}
OTHERS = ("Hermes", "Kimi", "Mistral")
# Without a wrapper, what names no offered tool is no call that cannot be read.
WEAK = ("fence", "bare")


def behind(name: str) -> str:
    """What stands behind the last text of a call."""
    return FAMILIES[name]("shown", '{"what": "\0"}').partition('\0"')[2]


def tokens(name: str) -> str:
    """The same without brackets."""
    return behind(name).rpartition("}")[2].lstrip("]\n ")


def values(name: str, other: str) -> Iterator[str]:
    """Texts that show a call, with closers of the call around them or not."""
    example = FAMILIES[other]("shown", '{"what": "v"}')
    yield f"echo {example}"
    yield f'echo "x" {example}'
    yield f'echo "x {example}'
    yield f'echo "x" {tokens(name)}\n{example}'
    yield f'echo "x" {tokens(name)} {tokens(name)} {example}'
    yield f'echo "x"\n{tokens(name)}\n{example}\nend'
    yield f'echo "x"\n{example}\n{example}'
    yield f"print('''\n{example}\n''')"
    yield f'x" {tokens(name)}\n{example}'
    yield f'x", y" {tokens(name)}\n{example}'


def texts(name: str, value: str) -> Iterator[str]:
    """Calls with this text as it is, whole and in parts."""
    for tool, arguments in (
        ("bash", f'{{"command": "{value}"}}'),
        ("bash", f'{{"command": "{value}", "timeout": 1}}'),
        ("write", f'{{"path": "a", "content": "{value}"}}'),
        ("write", f'{{"content": "{value}", "path": "a"}}'),
        ("unknown", f'{{"content": "{value}"}}'),
    ):
        if tool == "unknown" and name in WEAK:
            continue
        text = FAMILIES[name](tool, arguments)
        at = text.rfind(value) + len(value)
        yield text
        yield f"{text} and so on"
        yield text[:at] + text[at:].replace('"', "", 1)
        yield text[:at] + text[at:].replace("}", "", 1)
        yield text[: at + 3]


def called(text: str, *, stopped: bool = True, size: int = 0) -> list[tuple[str, object]]:
    cut = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    return scan(cut, new_scanner(TOOLS), stopped=stopped).parsed


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_call_that_a_text_shows_never_leaves(name: str) -> None:
    for other in dict.fromkeys((name, *OTHERS)):
        for value in values(name, other):
            for step, line in enumerate(dict.fromkeys((value, value.replace("\n", "\\n"))), start=1):
                for number, text in enumerate(texts(name, line)):
                    if number % step or (other != name and number % 5 != 1):
                        continue
                    found = called(text, stopped=number % 3 > 0)
                    assert all(call != "shown" for call, _ in found), text
                    assert all(value in given.values() for _, given in found if isinstance(given, dict)), text


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_cuts_do_not_matter(name: str) -> None:
    for value in values(name, name):
        for text in [*texts(name, value)][::6]:
            assert called(text, size=1) == called(text, size=7) == called(text), text


@pytest.mark.parametrize("name", CLOSED)
def test_behind_the_closers_of_a_text_that_was_mended_a_call_counts_only_if_none_of_them_is_left(name: str) -> None:
    example = FAMILIES[name]("read", '{"path": "b"}')
    shown = f'echo "x"{behind(name)[1:]}\n{example}'
    text = FAMILIES[name]("write", f'{{"path": "a", "content": "{shown}"}}')
    calls, left = read(text)
    assert (calls, left.replace("<|call|>", "")) == ([], text.replace("<|call|>", ""))
    values: dict[str, Json] = {"path": "a", "content": 'echo "x"'}
    both = FAMILIES[name]("write", broken(values)) + "\n" + example
    assert read(both)[0] == [("write", values), ("read", {"path": "b"})]


@pytest.mark.parametrize("name", ["Mistral", "Mistral, before", "Llama"])
def test_behind_a_marker_without_a_closer_nothing_but_calls_may_follow_what_was_mended(name: str) -> None:
    example = FAMILIES[name]("read", '{"path": "b"}')
    brackets = behind(name)
    shown = FAMILIES[name]("write", f'{{"path": "a", "content": "echo "x"{brackets}\n{example}"}}')
    assert read(shown) == ([], shown)
    values: dict[str, Json] = {"path": "a", "content": 'echo "x"'}
    both = FAMILIES[name]("write", broken(values)) + "\n" + example
    assert read(both)[0] == [("write", values), ("read", {"path": "b"})]


BROKEN_BUT_OVER = (
    '<tool_call>\n{"name": "bash", "arguments": {"command": ls}}\n</tool_call>',
    '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}\n</tool_call>',
    '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"\n</tool_call>',
    '<tool_call>\n{"name": "bash", "arguments": }\n</tool_call>',
    '<tool_call>{"name": "bash", "arguments": {"command": "<tool_call>", "timeout": x}}</tool_call></tool_call>',
)


@pytest.mark.parametrize("first", BROKEN_BUT_OVER)
def test_behind_a_call_whose_strings_end_another_one_counts(first: str) -> None:
    second = '<tool_call>\n{"name": "shown", "arguments": {"what": "v"}}\n</tool_call>'
    for between in ("\n", "\n\nI try again.\n\n"):
        text = first + between + second
        assert called(text)[-1] == called(text, size=1)[-1] == ("shown", {"what": "v"})


@pytest.mark.parametrize(
    "first",
    [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "echo "hi',
        '<tool_call>\n{"name": "bash", "arguments": {"command": "echo "hi" there\n',
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls',
        '<tool_call>\n{"name": "bash", "argu',
    ],
)
def test_behind_a_call_whose_string_does_not_end_none_counts(first: str) -> None:
    second = '<tool_call>\n{"name": "shown", "arguments": {"what": "v"}}\n</tool_call>'
    for text in (f"{first}\n{second}", f"{first}</tool_call> so\n{second}"):
        assert called(text) == called(text, size=1) == []


def test_behind_a_call_that_is_not_closed_another_one_may_be_in_its_string() -> None:
    first = '<tool_call>\n{"name": "bash", "arguments": "{"command": "ls"}"}\n'
    second = '<tool_call>\n{"name": "shown", "arguments": {"what": "v"}}\n</tool_call>'
    assert called(f"{first}\n{second}") == called(f"{first}\n{second}", size=1) == []


@pytest.mark.slow
def test_no_such_call_leaves_in_either_front() -> None:
    for name in ("Hermes", "Kimi", "Mistral", "DeepSeek V3"):
        for value in values(name, name):
            text = FAMILIES[name]("bash", f'{{"command": "{value}"}}')
            seen = [streamed(says(text), ends(), tools=TOOLS), whole({"content": text}, tools=TOOLS)]
            assert all("shown" not in each.names for each in seen), text


MENTIONS = {
    "Hermes": [
        '<tool_call>{"name": ...}</tool_call>',
        '<tool_call>{"name": <function-name>, "arguments": <args-json-object>}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {...}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {"command": ...}}</tool_call>',
    ],
    "Mistral": ['[TOOL_CALLS][{"name": ..., "arguments": ...}]', '[TOOL_CALLS]bash[ARGS]{"command": ...}'],
    "Kimi": ['<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{"command": ...}<|tool_call_end|>'],
    "harmony": ['<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": ...}<|call|>'],
    "no wrapper": ['{"name": "bash", "arguments": ...}', '{"name": "bash", "input_schema": { ... }}'],
}
PLACES = [
    "The format is %s as I know.\n\n",
    "The format is %s.\n\n",
    "The format is:\n%s\n\n",
    'The format is "%s" here.\n\n',
    "> %s here\n\n",
    "| %s | here |\n\n",
    "```\n%s\n```\n\n",
    "<think>It is %s, right.</think>\n\n",
    "It is %s, right.</think>\n\n",
]


@pytest.mark.parametrize("mention", [each for family in MENTIONS.values() for each in family])
@pytest.mark.parametrize("place", PLACES)
def test_what_only_looks_like_a_call_hides_none_behind_it(mention: str, place: str) -> None:
    """F88: a placeholder has no string that may show a call."""
    before = place % mention
    for name in ("Hermes", "Kimi", "Mistral", "DeepSeek V3"):
        text = before + FAMILIES[name]("bash", '{"command": "ls"}')
        for size in (0, 1, 7):
            assert called(text, size=size) == [("bash", {"command": "ls"})]


@pytest.mark.parametrize("between", ["\n", "\n\nThen:\n\n", " and then "])
@pytest.mark.parametrize("name", ["Hermes", "Qwen2.5", "Kimi", "DeepSeek V3", "DeepSeek V3.1"])
def test_c9_a_text_without_its_last_mark_takes_no_other_call_along(name: str, between: str) -> None:
    """Its end would be the mark of the next call's text."""
    for command in ("ls", "ls -la", 'echo \\"x\\"', "a}b", "{"):
        broken_off = FAMILIES[name]("bash", f'{{"command": "{command}}}')
        text = broken_off + between + FAMILIES[name]("bash", '{"command": "rm x"}')
        for size in (0, 1, 7):
            assert all(given == {"command": "rm x"} for _, given in called(text, size=size)), text


@pytest.mark.parametrize("text", ["ls}}", 'x"}, y"}}', "ls}"])
@pytest.mark.parametrize("name", ["name", '"name"'])
def test_c9_a_text_takes_no_other_call_of_its_list_along(text: str, name: str) -> None:
    listed = (
        f'[TOOL_CALLS][{{{name}: "bash", "arguments": {{"command": "{text}, '
        f'{{{name}: "bash", "arguments": {{"command": "rm x"}}}}]'
    )
    for size in (0, 1, 7):
        assert all("name" not in str(given) for _, given in called(listed, size=size)), listed


def test_c9_a_comma_before_a_brace_ends_no_call_whose_line_goes_on() -> None:
    text = '[TOOL_CALLS]bash[ARGS]{"command": "a",}b", "mode": "m"}'
    for size in (0, 1, 7):
        assert all(given != {"command": "a"} for _, given in called(text, size=size))
    assert called('[TOOL_CALLS]bash[ARGS]{"command": "a",}') == [("bash", {"command": "a"})]
