"""What models write instead of a call, and what counts only because it is the whole reply (contract C3, F6).

Each form is tried in each dress in which models write it, with each tool, at every cut; and with each thing that makes
it none.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.contract.test_c3_round_trip import QUIET, Request, comparable, requests
from tests.support.each_case import each_case
from tests.support.helpers import (
    all_cuts,
    call_json,
    ends,
    function,
    new_engine,
    new_scanner,
    offered,
    random_cut,
    run,
    says,
    scan,
    view,
)

pytestmark = pytest.mark.once

Arguments = dict[str, Any]
Form = Callable[[str, Arguments], str]

OPEN = function("bash", {"command": {"type": "string"}, "timeout": {"type": "integer"}}, "command")
CLOSED = function(
    "write_file",
    {"path": {"type": "string"}, "content": {"type": "string"}},
    *("path", "content"),
    additionalProperties=False,
)
OPTIONAL = function("search", {"query": {"type": "string"}, "options": {"type": "object"}, "tags": {"type": "array"}})
NONE = function("now")
TOOLS = offered(OPEN, CLOSED, OPTIONAL, NONE)
# Each offered alone, and among others.
OFFERS = (TOOLS, offered(OPEN), offered(CLOSED), offered(OPTIONAL))


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def python(name: str, arguments: Arguments) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def python_lines(name: str, arguments: Arguments) -> str:
    lines = "".join(f"    {key} = {value!r},\n" for key, value in arguments.items())
    return f"{name}(\n{lines})"


def braces(name: str, arguments: Arguments) -> str:
    return f"{name}{{{', '.join(f'{key}: {dump(value)}' for key, value in arguments.items())}}}"


def encoded(shape: Form) -> Form:
    """The same with the arguments as the JSON text of an object."""
    return lambda name, arguments: shape(name, dump(arguments))  # type: ignore[arg-type]


def members(name_key: str, arguments_key: str) -> Form:
    return lambda name, arguments: dump({name_key: name, arguments_key: arguments})


# Those that count as the last part of a reply too, whatever they hold.
PLAIN: dict[str, Form] = {
    "name, arguments": members("name", "arguments"),
    "name, parameters": members("name", "parameters"),
    "tool_name, parameters": members("tool_name", "parameters"),
}
# An object that says name and arguments, in keys that JSON answers have too.
WIDER: dict[str, Form] = {
    "function, args": members("function", "args"),
    "function, args encoded": encoded(members("function", "args")),
    "tool, input": members("tool", "input"),
    "OpenAI's": lambda name, arguments: dump(
        {"type": "function", "function": {"name": name, "arguments": arguments}}
    ),
    "OpenAI's encoded": lambda name, arguments: dump(
        {"type": "function", "id": "c1", "function": {"name": name, "arguments": dump(arguments)}}
    ),
    "tool_call, parameters": members("tool_call", "parameters"),
    "tool_call, arguments": members("tool_call", "arguments"),
    "tool_call is an object": lambda name, arguments: dump({"tool_call": {"name": name, "arguments": arguments}}),
    "tool_call is OpenAI's": lambda name, arguments: dump(
        {"tool_call": {"type": "function", "function": {"name": name, "arguments": dump(arguments)}}}
    ),
    "tool_name, params": members("tool_name", "params"),
    "name, params": members("name", "params"),
    "action, action_input": members("action", "action_input"),
    "action, action_input encoded": encoded(members("action", "action_input")),
    "tool_calls": lambda name, arguments: dump({"tool_calls": [{"name": name, "arguments": arguments}]}),
    "tool_calls, OpenAI's": lambda name, arguments: dump(
        {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": dump(arguments)}}]}
    ),
    "pretty": lambda name, arguments: json.dumps({"action": name, "action_input": arguments}, indent=2),
    "Python's marks": lambda name, arguments: repr({"tool_call": name, "parameters": arguments}),
}
# Those that do not say that there is a name and that there are arguments.
NOTATIONS: dict[str, Form] = {
    "the name as the key": lambda name, arguments: dump({name: arguments}),
    "Python": python,
    "Python over lines": python_lines,
    "a namespace": lambda name, arguments: python(f"functions.{name}", arguments),
    "braces": braces,
    "braces over lines": lambda name, arguments: braces(name, arguments).replace("{", "{\n  ", 1),
}
EXPLICIT = {**PLAIN, **WIDER}
FORMS = {**EXPLICIT, **NOTATIONS}
WHOLE_ONLY = {**WIDER, **NOTATIONS}

DRESSES: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "blanks around it": lambda text: f"\n \n{text}\n\n",
    "a fence": lambda text: f"```json\n{text}\n```",
    "a fence without a language": lambda text: f"```\n{text}\n```",
    "a fence of code": lambda text: f"```python\n{text}\n```\n",
    "a fence for calls": lambda text: f"```tool_call\n{text}\n```",
    "an open fence": lambda text: f"```json\n{text}",
    "an open fence, a line end": lambda text: f"```tool_code\n{text}\n",
    "an end-of-turn token": lambda text: f"{text}<|im_end|>",
    "a fence and an end-of-turn token": lambda text: f"```\n{text}\n```\n<|im_end|>\n",
    "an open fence and an end-of-turn token": lambda text: f"```json\n{text}\n<|eot_id|>",
    "a leaked token before it": lambda text: f"<|im_start|>assistant\n{text}",
}
THOUGHTS = ("<think>\nI need the tool.\n</think>\n\n", "I need the tool.\n</think>\n\n", "[THINK]Run it.[/THINK]")

CALLS: list[tuple[str, Arguments]] = [
    ("bash", {"command": "ls -la | grep 'x' \"y\""}),
    ("bash", {"command": "a\nb\\n</tool_call>```", "timeout": 5}),
    ("write_file", {"path": "ü/a b.py", "content": "f(x)\n{y: 1} = '''z'''\n"}),
    ("search", {"query": "a, b) c"}),
    ("search", {"options": {"deep": [1, {"x": "}"}]}, "tags": ["a", "b"]}),
]


@pytest.mark.slow
@pytest.mark.parametrize("dress", DRESSES)
@each_case("form", FORMS)
def test_each_form_in_each_dress_is_its_call_at_every_cut(form: str, dress: str) -> None:
    """F6."""
    for name, arguments in CALLS:
        text = DRESSES[dress](FORMS[form](name, arguments))
        for tools in OFFERS:
            if tools.resolve(name) is None:
                continue
            for cut in all_cuts(text, 1):
                found = scan(cut, new_scanner(tools))
                assert (found.parsed, found.text.strip()) == ([(name, arguments)], "")


@pytest.mark.parametrize("thought", THOUGHTS)
@pytest.mark.parametrize("form", FORMS)
def test_thoughts_may_stand_before_it(form: str, thought: str) -> None:
    name, arguments = CALLS[1]
    for dress in ("plain", "a fence", "an open fence"):
        for cut in all_cuts(thought + DRESSES[dress](FORMS[form](name, arguments)), 5):
            found = scan(cut, new_scanner(TOOLS))
            assert (found.parsed, found.text.strip()) == ([(name, arguments)], thought.strip())


def text_it_stays(text: str, *, stopped: bool = True, **settings: Any) -> None:
    """No call, and every byte as it came, at every cut."""
    for cut in all_cuts(text, 5):
        found = scan(cut, new_scanner(TOOLS, **settings), stopped=stopped)
        assert (found.calls, found.text) == ((), text)


@pytest.mark.parametrize("dress", ["plain", "a fence", "a fence of code"])
@pytest.mark.parametrize("form", FORMS)
def test_with_prose_around_it_it_is_none(form: str, dress: str) -> None:
    """C3."""
    text = DRESSES[dress](FORMS[form](*CALLS[0]))
    text_it_stays(f"{text}\nThis runs the command.")
    text_it_stays(f"{text} so")
    if form in WHOLE_ONLY:
        text_it_stays(f"This runs the command:\n{text}")
        text_it_stays(f"Well.\n<think>\nWhat else?\n</think>\n{text}")


@pytest.mark.parametrize("form", WHOLE_ONLY)
def test_behind_a_call_it_is_none(form: str) -> None:
    """C3: the reply is more than this."""
    text = FORMS[form]("bash", {"command": "pwd"})
    for cut in all_cuts(f"<tool_call>{call_json('bash', command='ls')}</tool_call>\n{text}", 5):
        found = scan(cut, new_scanner(TOOLS))
        assert (found.parsed, found.text) == ([("bash", {"command": "ls"})], f"\n{text}")


@pytest.mark.parametrize("form", PLAIN)
def test_what_counts_as_the_last_part_of_a_reply_still_does(form: str) -> None:
    text = PLAIN[form]("bash", {"command": "ls"})
    for behind in (text, f"```json\n{text}\n```"):
        for cut in all_cuts(f"I run it.\n{behind}", 5):
            found = scan(cut, new_scanner(TOOLS))
            assert (found.parsed, found.text) == ([("bash", {"command": "ls"})], "I run it.\n")


@pytest.mark.parametrize("dress", ["plain", "a fence", "an open fence"])
@pytest.mark.parametrize("form", FORMS)
def test_without_what_a_call_must_have_it_is_none(form: str, dress: str) -> None:
    """C3: an offered name, every required argument, in the forms of this page an argument at all."""
    given: list[tuple[str, Arguments]] = [
        ("nope", {"command": "ls"}),
        ("bas", {"command": "ls"}),
        ("bash", {"timeout": 5}),
        ("write_file", {"path": "a"}),
        ("bash", {"command": "ls", "one": 1, "two": 2}),
    ]
    if form in WHOLE_ONLY and "braces" not in form:
        # A name and `{}` are a name and JSON, which stripped tokens leave.
        given += [("now", {}), ("search", {}), ("bash", {})]
    for name, arguments in given:
        text_it_stays(DRESSES[dress](FORMS[form](name, arguments)))


@pytest.mark.parametrize("dress", ["plain", "a fence", "an open fence"])
@pytest.mark.parametrize("form", FORMS)
def test_cut_off_or_where_json_was_asked_for_it_is_none(form: str, dress: str) -> None:
    """C3, C4."""
    text = DRESSES[dress](FORMS[form](*CALLS[0]))
    text_it_stays(text, stopped=False)
    text_it_stays(text, json_reply=True)
    for end in range(len(text.rstrip("`\n")) - 1):
        assert scan([text[:end]], new_scanner(TOOLS), stopped=False).calls == ()


@pytest.mark.parametrize("form", EXPLICIT)
def test_an_object_that_says_name_and_arguments_may_have_one_key_more(form: str) -> None:
    """C3: the whole reply, unless the schema forbids it. Seen: a command with its `description`."""
    more = {"command": "ls", "description": "Lists the files"}
    for dress in ("plain", "a fence", "an open fence", "an end-of-turn token"):
        text = DRESSES[dress](EXPLICIT[form]("bash", more))
        for cut in all_cuts(text, 5):
            assert scan(cut, new_scanner(TOOLS)).parsed == [("bash", more)]
    text = EXPLICIT[form]("bash", more)
    text_it_stays(f"I run it.\n{text}")
    text_it_stays(f"{text}\nDone.")
    text_it_stays(EXPLICIT[form]("write_file", {"path": "a", "content": "b", "mode": 420}))


@pytest.mark.parametrize("form", NOTATIONS)
def test_any_other_notation_has_the_keys_of_the_tool_alone(form: str) -> None:
    text_it_stays(NOTATIONS[form]("bash", {"command": "ls", "description": "Lists the files"}))


FORBIDDING: dict[str, dict[str, Any]] = {
    "false": {"additionalProperties": False},
    "unevaluated": {"unevaluatedProperties": False},
    "of another type": {"additionalProperties": {"type": "integer"}},
    "in a part": {"allOf": [{"additionalProperties": False}]},
    "in a reference": {"$ref": "#/$defs/shut", "$defs": {"shut": {"additionalProperties": False}}},
}
ALLOWING: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "true": {"additionalProperties": True},
    "anything": {"additionalProperties": {}},
    "of its type": {"additionalProperties": {"type": "string"}},
}


@pytest.mark.parametrize("schema", [*FORBIDDING, *ALLOWING])
def test_what_the_schema_says_of_other_keys_decides(schema: str) -> None:
    said = {**FORBIDDING, **ALLOWING}[schema]
    tools = offered(function("bash", {"command": {"type": "string"}}, "command", **said))
    text = call_json("bash", command="ls", description="Lists the files")
    found = scan([text], new_scanner(tools))
    assert bool(found.calls) is (schema in ALLOWING)
    assert found.text == ("" if found.calls else text)


SEVERAL = {
    "a list": lambda one, two: dump({"tool_calls": [one, two]}),
    "lines": lambda one, two: f"{dump(one)}\n{dump(two)}",
    "an array": lambda one, two: dump([one, two]),
    "a fence": lambda one, two: f"```json\n{dump(one)}\n{dump(two)}\n```",
    "an open fence": lambda one, two: f"```json\n{dump(one)},\n{dump(two)}\n",
    "two fences": lambda one, two: f"```json\n{dump(one)}\n```\n\n```json\n{dump(two)}\n```",
}


@pytest.mark.parametrize("row", SEVERAL)
def test_several_are_a_row_and_one_that_is_none_makes_all_text(row: str) -> None:
    """C3."""
    one, two = {"action": "bash", "action_input": {"command": "ls"}}, {"tool_call": "search", "params": {"query": "x"}}
    text = SEVERAL[row](one, two)
    for cut in all_cuts(text):
        found = scan(cut, new_scanner(TOOLS))
        assert (found.parsed, found.text) == ([("bash", {"command": "ls"}), ("search", {"query": "x"})], "")
    for other in ({"action": "nope", "action_input": {"command": "ls"}}, {"action": "bash"}, {"x": 1}):
        text_it_stays(SEVERAL[row](one, other))


def test_several_calls_in_code_are_a_row() -> None:
    calls = [("bash", {"command": "ls"}), ("search", {"query": "x"})]
    for text in (
        "bash(command='ls')\nsearch(query='x')",
        "```python\nbash(command='ls')\nsearch(query='x')\n```",
        'bash{command: "ls"}\nsearch{query: "x"}',
        "```\nbash(command='ls');\nsearch{query: \"x\"}",
    ):
        for cut in all_cuts(text):
            assert scan(cut, new_scanner(TOOLS)).parsed == calls


ANSWERS = {
    "a step of an agent": '{"action": "stop", "action_input": {"reason": "done"}}',
    "a step with a text": '{"action": "bash", "action_input": "ls"}',
    "a step with a thought": '{"thought": "x", "action": "bash", "action_input": {"command": "ls"}}',
    "an answer": '{"action": "Final Answer", "action_input": {"answer": "4"}}',
    "a definition": dump(OPEN),
    "a definition, without its type": dump(OPEN["function"]),
    "a definition, described": dump({"type": "function", "function": {**OPEN["function"], "description": "Runs."}}),
    "a definition, short": '{"name": "bash", "parameters": {"command": {"type": "string"}}}',
    "a definition, short, described": (
        '{"name": "bash", "parameters": {"command": {"type": "string", "description": "x"}, "timeout": '
        '{"type": "integer"}}}'
    ),
    "a definition of no parameters": '{"name": "now", "parameters": {"type": "object"}}',
    "a definition of what is optional": '{"name": "search", "parameters": {"type": "object", "required": []}}',
    "a definition by the name": '{"search": {"query": {"type": "string"}}}',
    "a definition in a list": dump({"tool_calls": [OPEN]}),
    "definitions": dump([OPEN, NONE]),
    "a list that is empty": '{"tool_calls": []}',
    "a list of names": '{"tool_calls": ["bash", "now"]}',
    "a list and its result": '{"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}], "result": 1}',
    "a result and its list": '{"result": 1, "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}',
    "a message": (
        '{"role": "assistant", "content": "Hi", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}'
    ),
    "a list in a list": '{"tool_calls": [{"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}]}',
    "a call in a call": '{"tool_call": {"tool_call": {"name": "bash", "arguments": {"command": "ls"}}}}',
    "a name as the key, and more": '{"bash": {"command": "ls"}, "search": {"query": "x"}}',
    "a name as the key of a text": '{"bash": "ls"}',
    "a name as the key of a list": '{"bash": ["ls"]}',
    "names and times": '{"bash": {"timeout": 5}}',
    "a name that is a word": '{"tool_call": "none", "parameters": {"command": "ls"}}',
    "a call that is asked about": "bash(command='ls')?",
    "code": "bash(command='ls').strip()",
    "code, assigned": "x = bash(command='ls')",
    "code, printed": "print(bash(command='ls'))",
    "code, of several": "bash(command='ls' + x)",
    "code, a name for a value": "bash(command=ls)",
    "code, a format": "bash(command=f'ls {x}')",
    "code, no keyword": "bash('ls')",
    "code, a keyword and none": "bash('ls', timeout=5)",
    "code, two strings": "bash(command='ls' 'x')",
    "code, a keyword twice": "bash(command='ls', command='pwd')",
    "code, a comparison": "bash(command == 'ls')",
    "code, an inner mark": 'bash(command="echo "x"")',
    "code, a definition": "search(query=str, tags=list)",
    "code, unpacked": "bash(**{'command': 'ls'})",
    "code, no end": "bash(command='ls'",
    "code, a string without its end": "bash(command='ls)",
    "code, a blank": "bash (command='ls')",
    "code, a comment": "bash(command='ls')  # lists",
    "code, a variable in a list": "search(tags=[a, 'b'])",
    "code, a key that is none": "search(options={a: 1})",
    "a signature": "bash(command: str)",
    "a set": "bash{command}",
    "a placeholder": "bash{command: <command>}",
    "a text in braces": "search{query: what I want}",
    "a key twice": 'bash{command: "ls", command: "pwd"}',
    "LaTeX": "search{x}",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_only_looks_like_one_stays_text(name: str) -> None:
    """C3: a phantom call is worse than a missed one."""
    text_it_stays(ANSWERS[name])
    text_it_stays(f"```json\n{ANSWERS[name]}\n```")
    text_it_stays(f"```\n{ANSWERS[name]}")


@pytest.mark.parametrize("inside", ["<tool_call>{}</tool_call>", "<function=bash>\n<parameter=command>\nls\n"])
def test_an_open_fence_of_tags_is_none(inside: str) -> None:
    text_it_stays(f"```xml\n{inside.format(call_json('bash', command='ls'))}\n")


@pytest.mark.parametrize("behind", ["```json\n{}", "```json\n{}\n", "Now:\n```json\n{}\n"])
def test_an_open_fence_behind_text_is_none(behind: str) -> None:
    """It may be an example that broke off."""
    text_it_stays("I would send:\n\n" + behind.format(call_json("bash", command="ls")))


@pytest.mark.parametrize("form", WIDER)
def test_in_a_wrapper_the_wrapper_is_the_evidence(form: str) -> None:
    """C3."""
    for name, arguments in (*CALLS, ("now", {})):
        for cut in all_cuts(f"Well.\n<tool_call>\n{WIDER[form](name, arguments)}\n</tool_call>", 3):
            found = scan(cut, new_scanner(TOOLS))
            assert (found.parsed, found.text) == ([(name, arguments)], "Well.\n")


@pytest.mark.parametrize("form", FORMS)
def test_a_client_has_the_call_and_its_finish(form: str) -> None:
    """C4, C5: streamed and whole; and the text with its own finish where it is none."""
    name, arguments = CALLS[0]
    text = FORMS[form](name, arguments)
    for cut in all_cuts(text, 3):
        seen = view(run([*map(says, cut), ends()], new_engine(TOOLS)))[0]
        assert [(seen.names, json.loads(each)) for each in seen.arguments] == [([name], arguments)]
        assert (seen.text, seen.finish) == ("", "tool_calls")
        seen = view(run([*map(says, cut), ends("length")], new_engine(TOOLS)))[0]
        assert (seen.text, seen.calls, seen.finish) == (text, [], "length")
        seen = view(run([*map(says, cut), ends()], new_engine(TOOLS, json_reply=True)))[0]
        assert (seen.text, seen.calls, seen.finish) == (text, [], "stop")


@pytest.mark.parametrize(
    "start", ['{"answer": ', '{"action": "stop"', '{"tool_call": "x"', "bash is ", "bash(1", "bash{ "]
)
def test_what_can_be_no_call_any_more_is_let_go(start: str) -> None:
    """C2."""
    scanner = new_scanner(TOOLS)
    pieces = [piece for each in start + "y" * 200 for piece in scanner.feed(each)]
    assert sum(len(piece.text) for piece in pieces) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=12, derandomize=True, suppress_health_check=QUIET)
@given(request_=requests(), dress=st.sampled_from(sorted(DRESSES)), rng=st.randoms(use_true_random=False))
def test_random_calls_come_back_as_meant(form: str, request_: Request, dress: str, rng: random.Random) -> None:
    """Names, values and order, at any cut."""
    assume(all(arguments for _, arguments in request_.calls))
    text = DRESSES[dress]("\n".join(FORMS[form](name, arguments) for name, arguments in request_.calls))
    assume(form != "Python's marks" or "\\x" not in text)  # that is an escape in Python only
    found = scan(random_cut(text, rng), new_scanner(request_.tools))
    assert [comparable(*call) for call in found.parsed] == [comparable(*call) for call in request_.calls]
    assert found.text.strip() == ""


@pytest.mark.parametrize("dress", ["plain", "a fence", "a fence of code"])
@pytest.mark.parametrize("text", ["{0}.{0}(command='ls')", "{0}.{0}{{command: 'ls'}}"])
def test_the_name_may_be_said_twice(text: str, dress: str) -> None:
    for cut in all_cuts(DRESSES[dress](text.format("bash")), 8):
        assert scan(cut, new_scanner(TOOLS)).parsed == [("bash", {"command": "ls"})]
    text_it_stays(DRESSES[dress](text.format("bash").replace("bash.", "other.")))
