"""Whole replies: which texts are calls and which are prose, the same at every cut."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.notations.front import Reader
from proxy.notations.source import Rejection
from tests.support.helpers import all_cuts, call_json, function, merged, new_scanner, offered, scan

pytestmark = pytest.mark.once

Calls = list[tuple[str, Any]]

LS = ("bash", {"command": "ls"})
WEAK = call_json("bash", command="ls")
HERMES = f"<tool_call>\n{WEAK}\n</tool_call>"
STRONG = HERMES.replace("ls", "pwd")
PWD = ("bash", {"command": "pwd"})
PRETTY = json.dumps({"name": "bash", "arguments": {"command": "ls"}}, indent=2)
TAGS = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
INNER = "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>"
UNKNOWN = f"<tool_call>\n{call_json('nope', x='y')}\n</tool_call>"
MARKUP = "echo '<tool_call>{}</tool_call> ```'"

# What is a call: the text, the calls, and the prose that stays.
CALLS: dict[str, tuple[str, Calls, str]] = {
    "hermes": (HERMES, [LS], ""),
    "hermes in prose": (f"I will.\n{HERMES}\nThen more.", [LS], "I will.\n\nThen more."),
    "hermes behind text": (f"I will {HERMES.replace(chr(10), '')}\nnow", [LS], "I will \nnow"),
    "hermes twice": (f"{HERMES}\n{STRONG}", [LS, PWD], ""),
    "hermes twice without a blank": (HERMES + STRONG, [LS, PWD], ""),
    "hermes twice with prose": (f"{HERMES}\nand\n{STRONG}", [LS, PWD], "\nand\n"),
    "hermes pretty": (f"<tool_call>\n{PRETTY}\n</tool_call>\n", [LS], ""),
    "hermes after code": (f"Use `ls`:\n```sh\nls\n```\n{HERMES}", [LS], "Use `ls`:\n```sh\nls\n```\n"),
    "hermes after a stray backtick": (f"a ` b\n\n{HERMES}", [LS], "a ` b\n\n"),
    "hermes after its mention": (f"With <tool_call> I do:\n{HERMES}", [LS], "With <tool_call> I do:\n"),
    "hermes in an opener too many": (f"<tool_call>\n{HERMES}", [LS], ""),
    "hermes after a long span of code": (f"```{'x' * 40}```{STRONG}", [PWD], f"```{'x' * 40}```"),
    "hermes, required missing": (f"<tool_call>{call_json('read')}</tool_call>", [("read", {})], ""),
    "hermes, markup inside": (
        f"<tool_call>{call_json('bash', command=MARKUP)}</tool_call>",
        [("bash", {"command": MARKUP})],
        "",
    ),
    "hermes, UTF-8 around": (f"ï🙂 {HERMES}\n｜", [LS], "ï🙂 \n｜"),
    "tools": (f"<tools>\n{WEAK}\n</tools>", [LS], ""),
    "tools, several": (f"ok\n<tools>\n{WEAK}\n{WEAK}\n</tools>", [LS, LS], "ok\n"),
    "tools, array": (f"<tools>[{WEAK}, {WEAK}]</tools>", [LS, LS], ""),
    "tools, pretty": (f"<tools>\n{PRETTY}\n{PRETTY}\n</tools> done", [LS, LS], " done"),
    "tags wrapped": (f"I will.\n<tool_call>\n{TAGS}\n</tool_call>", [LS], "I will.\n"),
    "tags bare": (f"I'll check…\n\n{TAGS}", [LS], "I'll check…\n\n"),
    "tags bare in a line": (f"I'll check: {TAGS}", [LS], "I'll check: "),
    "tags with an orphan closer": (f"I'll check.\n{TAGS}\n</tool_call>\n", [LS], "I'll check.\n"),
    "tags typed": (
        "<tool_call><function=typed><parameter=count>3</parameter><parameter=label>3</parameter></function></tool_call>",
        [("typed", {"count": 3, "label": "3"})],
        "",
    ),
    "whole reply": (WEAK, [LS], ""),
    "whole reply, blanks around": (f"\n {WEAK} \n", [LS], ""),
    "blanks behind text": (f"I will.\n {WEAK} \n", [LS], "I will.\n "),
    "a brace missing at the end": (WEAK[:-1], [LS], ""),
    "a fence of a wrapper": (f"```\n{HERMES}\n```", [LS], ""),
    "a wrapper closed by another": (f"<tools>\n{call_json('read')}\n</tool_call>", [("read", {})], ""),
    "whole reply, pretty": (PRETTY, [LS], ""),
    "last part": (f"I will.\n\n{WEAK}", [LS], "I will.\n\n"),
    "lines": (f"{WEAK}\n{WEAK}\n", [LS, LS], ""),
    "array": (f"[{WEAK}, {WEAK}]", [LS, LS], ""),
    "fence": (f"I will.\n```json\n{WEAK}\n```", [LS], "I will.\n"),
    "fence without a language": (f"```\n{WEAK}\n```\n", [LS], ""),
    "fence of tags": (f"```\n{TAGS}\n```", [LS], ""),
    "weak after strong": (f"{HERMES}\n{WEAK}", [LS, LS], ""),
    "weak after a JSON answer": (f'{{"ok": true}}\n{WEAK}', [LS], '{"ok": true}\n'),
    "weak with an end of turn": (f"{WEAK}<|im_end|>", [LS], ""),
    "hermes after a JSON answer": (f'{{"ok": true}}\n{STRONG}', [PWD], '{"ok": true}\n'),
    "hermes after one of an unknown tool": (f"{UNKNOWN}\n{STRONG}", [PWD], f"{UNKNOWN}\n"),
    "half a marker before": (f"<tool_ {HERMES}", [LS], "<tool_ "),
    "half a marker after": (f"{HERMES} <tool_cal", [LS], " <tool_cal"),
}

# What is no call.
PROSE: dict[str, str] = {
    "text": "Just text.",
    "empty": "",
    "blanks": " \n\n ",
    "name not offered": f"<tool_call>\n{call_json('run_command', command='ls')}\n</tool_call>",
    "name one letter off": f"<tool_call>\n{call_json('bas', command='ls')}\n</tool_call>",
    "example name": "<function=example_function_name>\n<parameter=a>\n1\n</parameter>\n</function>",
    "dots": "<tool_call>...</tool_call> <function=...></function>",
    "inline code": f"Write `{HERMES.replace(chr(10), '')}` to call.",
    "inline code of two": f"Write ``{TAGS.replace(chr(10), '')}``",
    "inline code over lines": f"Write `a\n{HERMES}\nb` to call.",
    "fence with other text": f"```\nExample:\n{HERMES}\n```",
    "fence with a comment": f"```json\n// example\n{WEAK}\n```",
    "fence with prose after": f"```json\n{WEAK}\n```\nThis is how to call it.",
    "fence of a wrapper behind text": f"So:\n```\n{HERMES}\n```",
    "tilde fence": f"~~~\n{HERMES}\n~~~",
    "open fence": f"```xml\nSo:\n{HERMES}",
    "prose after JSON": f"{WEAK}\nThis would list the files.",
    "JSON in a line": f"I would call {WEAK}",
    "package.json": '{\n  "name": "read",\n  "version": "1.0.0",\n  "dependencies": {}\n}',
    "package.json in a fence": '```json\n{\n  "name": "bash",\n  "private": true\n}\n```',
    "JSON answer": '{"result": [1, 2, {"name": "bash"}]}',
    "array answer": '[{"name": "bash"}, {"name": "read"}]',
    "weak, required missing": call_json("bash"),
    "weak, unknown key": "So:\n" + call_json("bash", command="ls", cmd="x"),
    "weak, unknown keys": call_json("bash", command="ls", cmd="x", shell="y"),
    "weak tags, required missing": "<function=bash>\n</function>",
    "weak tags, unknown key": TAGS.replace("command", "cmd"),
    "weak tags, prose after": f"{TAGS}\nDone.",
    "wrapper without a call": "<tool_call>\n</tool_call>",
    "wrapper not closed": f"<tool_call>\n{call_json('read')}",
    "a sentence": f"I will {HERMES.replace(chr(10), '')} now",
    "wrapper of a word": "<tool_call>bash</tool_call>",
    "half a marker": "a <tool_cal",
    "half a marker of one byte": "a <",
    "half a closer": f"<tool_call>\n{call_json('read')}\n</tool_",
    "half a fence": "a\n``",
    "half tags": TAGS[:-1],
    "open JSON, in a string": WEAK[:-3],
    "an orphan closer": "ok\n</tool_call>",
    "an end of turn behind a blank": "ok <|im_end|>",
    "an end of turn behind a quotation mark": 'it is "<|im_end|>',
    "an end of turn in the middle": "ok<|im_end|> and more",
    "an empty fence": "An empty file:\n```\n```",
    "an empty fence alone": "```json\n\n```\n",
    "two empty fences": "```\n```\n```\n```",
}

# What depends on the reply: text, grammar, whether the model stopped by itself, calls, prose.
SPLIT: dict[str, tuple[str, dict[str, Any], bool, Calls, str]] = {
    "JSON reply, weak": (WEAK, {"json_reply": True}, True, [], WEAK),
    "JSON reply, fence": (f"```json\n{WEAK}\n```", {"json_reply": True}, True, [], f"```json\n{WEAK}\n```"),
    "JSON reply, tags": (TAGS, {"json_reply": True}, True, [], TAGS),
    "JSON reply, strong": (HERMES, {"json_reply": True}, True, [LS], ""),
    "cut off, weak": (WEAK, {}, False, [], WEAK),
    "cut off, lines": (f"{WEAK}\n", {}, False, [], f"{WEAK}\n"),
    "cut off, tags": (TAGS, {}, False, [], TAGS),
    "cut off, not closed": (HERMES[:-1], {}, False, [], HERMES[:-1]),
    "cut off, closed": (HERMES, {}, False, [LS], ""),
    "cut off, one closed and one not": (f"{HERMES}\n<tool_call>\n{WEAK}", {}, False, [LS], ""),
    "raw text": ("Hello.<|im_end|>", {"raw_text": True}, True, [], "Hello."),
    "raw text, two ends": ("Hello.<|eot_id|>\n<|end_of_text|>\n", {"raw_text": True}, True, [], "Hello."),
    "raw text, strong": (f"{HERMES}<|im_end|>", {"raw_text": True}, True, [LS], ""),
    "raw text, strong and blanks": (f"{HERMES}\n\n<|im_end|>\n", {"raw_text": True}, True, [LS], ""),
    "raw text, weak": (f"{WEAK}<|im_end|>", {"raw_text": True}, True, [LS], ""),
    "raw text, in the middle": ("a <|im_end|> b", {"raw_text": True}, True, [], "a <|im_end|> b"),
    "raw text, in code": ("`<|im_end|>`", {"raw_text": True}, True, [], "`<|im_end|>`"),
    "raw text, the last one alone": ("a <|im_end|> b<|im_end|>", {"raw_text": True}, True, [], "a <|im_end|> b"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_a_call_is_found_the_same_at_every_cut(name: str) -> None:
    """F1, F2, F3, F6, F18; C3; every byte is in exactly one piece."""
    text, calls, prose = CALLS[name]
    whole = scan([text])
    assert (whole.parsed, whole.text.split()) == (calls, prose.split())
    for cut in all_cuts(text):
        assert scan(cut) == whole


@pytest.mark.parametrize("name", PROSE)
def test_what_is_no_call_stays_as_it_is_at_every_cut(name: str) -> None:
    """F40, F88, F89; C3: a phantom call is worse than a missed one."""
    text = PROSE[name]
    for cut in all_cuts(text):
        found = scan(cut)
        assert (found.calls, found.text) == ((), text)


@pytest.mark.parametrize("name", SPLIT)
def test_what_follows_the_limits_of_a_reply_is_the_same_at_every_cut(name: str) -> None:
    """C3, C4: JSON replies, raw text, replies cut off."""
    text, settings_, stopped, calls, prose = SPLIT[name]
    for cut in all_cuts(text):
        found = scan(cut, new_scanner(**settings_), stopped=stopped)
        assert (found.parsed, found.text) == (calls, prose)


NESTED = {
    "in a call of a tool that was not offered": f"<tool_call>\n{call_json('unknown', content=INNER)}\n</tool_call>",
    "in tags of a tool that was not offered": (
        f"<tool_call>\n<function=unknown>\n<parameter=content>\n{HERMES}\n</parameter>\n</function>\n</tool_call>"
    ),
    "in a weak call with an unknown key": call_json("write_file", text=INNER, path="a") + "\nDone.",
    "in a JSON answer": json.dumps({"example": INNER}),
    "in a JSON answer with many blanks": '{"x": 1,' + " " * 300 + '"k": "' + INNER + '"}',
    "in a JSON answer with a long key": '{"x": 1, "' + "k" * 300 + '": "' + INNER + '"}',
    "in a JSON answer over lines": json.dumps({"answer": {"example": INNER}}, indent=2),
}


@pytest.mark.parametrize("name", NESTED)
def test_markup_inside_a_string_is_never_a_call(name: str) -> None:
    """C3: never markup inside a string argument, whatever becomes of the call around it."""
    for cut in all_cuts(NESTED[name]):
        assert scan(cut).calls == ()


def test_markup_inside_an_argument_stays_when_the_call_was_let_go_by_time() -> None:
    """C3: what is released in the middle of a string must not be taken for the start of a call later."""
    scanner = new_scanner()
    text = f"<tool_call>\n{call_json('write_file', path='a', content=f'see {INNER}')}\n</tool_call>"
    at = text.index("see ")
    pieces = [*scanner.feed(text[:at]), *scanner.release(), *scanner.feed(text[at:]), *scanner.finish(stopped=True)]
    assert merged(pieces, text).calls == ()


@pytest.mark.parametrize(
    ("before", "after", "stopped"),
    [
        (WEAK, "\nDone.", True),
        (f"```json\n{WEAK}\n```", "\nDone.", True),
        (WEAK, "", False),
        (WEAK, "\n{}", True),
        ("<function=bash><parameter=command>ls</parameter></function>", "\nDone.", True),
    ],
)
def test_a_strong_call_is_found_although_weak_evidence_before_it_failed(before: str, after: str, stopped: bool) -> None:
    """C3: a closed wrapper with an offered name is committed, whatever stands before it."""
    found = scan([f"{before}\n{STRONG}{after}"], stopped=stopped)
    assert ("bash", {"command": "pwd"}) in found.parsed


def test_a_strong_call_behind_a_weak_one_needs_no_required_argument() -> None:
    """C3: strong evidence is committed even with a required argument missing."""
    found = scan([f"{WEAK}\n<tool_call>{call_json('read')}</tool_call>"])
    assert ("read", {}) in found.parsed


def test_a_strong_call_is_committed_the_moment_it_closes() -> None:
    """C2."""
    scanner = new_scanner()
    assert "".join(piece.text for piece in scanner.feed(f"I do:\n{STRONG[:-1]}")) == "I do:\n"
    (found,) = scanner.feed(">")
    assert found.calls and found.text == STRONG


def test_a_weak_call_is_committed_at_the_end_alone() -> None:
    """C2."""
    scanner = new_scanner()
    assert scanner.feed(WEAK) == []
    (found,) = scanner.finish(stopped=True)
    assert found.calls


@pytest.mark.parametrize(
    ("text", "weak"), [(STRONG, False), (WEAK, True), (TAGS, True), (STRONG[:-3], False), (INNER, False)]
)
def test_a_found_piece_says_which_evidence_it_was(text: str, weak: bool) -> None:
    """C3."""
    scanner = new_scanner()
    pieces = [*scanner.feed(text), *scanner.finish(stopped=True)]
    found = [call.weak for piece in pieces for call in piece.calls or ()]
    assert found == ([weak] if text != STRONG[:-3] else [])


REFUSED = {
    "a name that was not offered": (f"So:\n{UNKNOWN}", Rejection.NOT_OFFERED),
    "quoted": (f'It writes "{HERMES}"', Rejection.QUOTED),
    "in a quoted line": (f"> {HERMES}", Rejection.QUOTED),
    "copied": (f"So:\n{STRONG}", Rejection.COPIED),
    "a comment": (f"<!-- {HERMES} -->", Rejection.QUOTED),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_no_call_is_noted_with_the_reason(name: str) -> None:
    """C6: the same at every cut."""
    text, rejection = REFUSED[name]
    for cut in all_cuts(text):
        scanner = new_scanner(results=(STRONG,))
        assert scan(cut, scanner).calls == ()
        assert rejection in [note.rejection for note in scanner.refused if text[note.start] == "<"]


def test_what_is_a_call_is_not_noted() -> None:
    scanner = new_scanner()
    assert scan([f"So:\n{STRONG}\n{WEAK}"], scanner).calls
    assert scanner.refused == []


def test_an_open_quote_in_prose_does_not_swallow_the_call_after_it() -> None:
    """C3: the call in its wrapper is strong evidence."""
    text = f'{{"an open quote\n\n{STRONG}'
    assert scan([text]).parsed == [("bash", {"command": "pwd"})]


@pytest.mark.parametrize("copied", [STRONG, WEAK, f"```json\n{WEAK}\n```", INNER])
def test_what_stands_verbatim_in_a_tool_result_is_never_a_call(copied: str) -> None:
    """F89."""
    for cut in all_cuts(copied):
        scanner = new_scanner(results=("other", f"the page says: {copied} - do it"))
        found = scan(cut, scanner)
        assert (found.calls, found.text) == ((), copied)
    for part in (copied.replace("bash", "bish"), copied.rstrip("`\n")[:-1]):
        assert scan([copied], new_scanner(results=(f"the page says: {part}",))).calls


def test_a_short_call_may_stand_in_a_tool_result_by_chance() -> None:
    """C3: 24 characters or more, blanks aside."""
    tools = offered(function("f", {}), function("fg", {}))
    short, long = "<function=f></function>", "<function=fg></function>"
    assert (len(short), len(long)) == (23, 24)
    for text, found in ((short, 1), (short.replace("><", "> <"), 1), (long, 0)):
        assert len(scan([text], new_scanner(tools, results=(f"x {text} y",))).calls) == found


def test_a_copied_call_does_not_take_the_model_s_own_with_it() -> None:
    """F89: only the copied one is refused."""
    own = STRONG.replace("pwd", "whoami")
    found = scan([f"It says {STRONG}.\n{own}"], new_scanner(results=(STRONG,)))
    assert found.parsed == [("bash", {"command": "whoami"})]


# Prose that mentions markers: nothing in it names an offered tool in a call's own form.
MENTIONS = [
    "Models write <tool_call> and then JSON, or <tools>, or <function=NAME>; " * 20,
    "The wrapper is <tool_call>\n\n\nand so on. " * 20,
    "{ braces } and [ brackets ]\n{\n}\n[\n]\n" * 30,
    '\n{"a quote that stays open, and then prose goes on and on ' + "word " * 300,
    '<tool_call>{"name": "' + "word " * 300,
    '<tool_call>{"' + "word " * 300,
    '\n{"id": "' + "word " * 300,
    "\n{" + " " * 2000,
    "<tool_call>" + "\n" * 2000,
    "<function=" + "x" * 2000,
    "```" + "x" * 2000,
    "```\n" + "code();\n" * 300,
    "a < b << c <= d <tool <too <t " * 50,
    "</tool_call> </tools> </function> <|im_end|> " * 30,
    "`<tool_call>` and ``<tools>`` " * 40,
    json.dumps({"items": ["word " * 400]}),
    json.dumps({"name": "package", "version": "1.0.0", "text": "word " * 400}),
]


@pytest.mark.parametrize("text", MENTIONS, ids=lambda text: repr(text[:24]))
def test_in_prose_that_mentions_markers_little_waits(text: str) -> None:
    """C2, F68: at most 256 characters at any step; a marker and its blanks come on top."""
    scanner = new_scanner()
    let_go = 0
    for at, each in enumerate(text, 1):
        for found in scanner.feed(each):
            assert not found.calls
            let_go += len(found.text)
        assert at - let_go <= 256 + 64
    assert scan(list(text)).text == text


def test_text_without_markers_is_let_go_at_once() -> None:
    scanner = new_scanner()
    for at, each in enumerate("Just text, with 1 + 0 & more.\nHere is a line."):
        assert "".join(piece.text for piece in scanner.feed(each)) == each, at
        assert not scanner.held


def test_at_most_two_characters_of_prose_wait_for_the_next() -> None:
    """C2."""
    scanner = new_scanner()
    text, let_go = "Just text, with 1 > 0.\nAnd Then <b>.", 0
    for at, each in enumerate(text, 1):
        let_go += sum(len(found.text) for found in scanner.feed(each))
        assert at - let_go <= 2
    assert scan(list(text)).text == text


def test_what_is_held_over_the_limit_is_let_go_as_text() -> None:
    """C6, C7: a limit that is exceeded is no failure."""
    for cut in all_cuts(f"a {STRONG} b"):
        assert scan(list("".join(cut)), new_scanner(max_held=40)).calls == ()
    assert scan(list(STRONG), new_scanner(max_held=400)).calls


def test_the_limit_of_what_is_held_holds_at_every_cut() -> None:
    """C7: equal results whether the text comes whole or byte by byte."""
    text = f"a {STRONG} b"
    results = {scan(cut, new_scanner(max_held=40)).calls for cut in all_cuts(text)}
    assert len(results) == 1


def test_calls_over_the_limit_stay_text() -> None:
    """C7."""
    text = f"{STRONG}\n{STRONG}\n{STRONG}"
    for cut in all_cuts(text):
        found = scan(cut, new_scanner(max_calls=2))
        assert len(found.calls) == 2
        assert found.text.strip() == STRONG
    both = f"[{WEAK}, {WEAK}]"
    assert scan([both], new_scanner(max_calls=1)).text == both


@pytest.mark.parametrize("text", [STRONG[:-3], WEAK, "<tool_c", f"{STRONG}\n\n", "```json\n{", "a <"])
def test_what_is_released_is_text_and_nothing_is_lost(text: str) -> None:
    scanner = new_scanner()
    pieces = [*scanner.feed(text)]
    assert scanner.held
    pieces += scanner.release()
    assert not scanner.held
    assert scanner.release() == []
    pieces += [*scanner.feed(f"x {STRONG}"), *scanner.finish(stopped=True)]
    found = merged(pieces, f"{text}x {STRONG}")
    assert found.parsed[-1:] == ([("bash", {"command": "pwd"})] if not text.startswith("```") else [])


# Texts of which a parser once made something else at another cut, or nothing for ever.
ODD = {
    "no value in Python's arguments": "[bash(command=)]",
    "no value before a comma": "[bash(command=, timeout=5)]",
    "no argument at all before a comma": "TOOL_CALLS(,",
    "a fence in what is quoted": '"<tool_call>```<```\n<function=now></tool_call>',
    "a name in what is quoted": '"<｜DSMLm>h(</s>',
    "a name behind a marker in what is quoted": '"<|content_invoke_tool_json|>T(<|end|>',
    "JSON that was asked for": "{x<|end|>",
    "JSON that was asked for, on lines": "a\n{x\n<|im_end|>",
    "a wrapper behind a lead, and more": "functools<|tool_call_begin|>[bash(command='ls')]</tools>:call:bash{<|end|> x",
    "half a character": f"{WEAK}\n\ud83d",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("json_reply", [False, True])
def test_odd_texts_are_read_to_their_end_and_the_same_at_every_cut(name: str, json_reply: bool) -> None:
    with time_limit(10):
        whole = scan([ODD[name]], new_scanner(json_reply=json_reply))
        for cut in all_cuts(ODD[name]):
            assert scan(cut, new_scanner(json_reply=json_reply)) == whole


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """A parser that never ends must not take the other tests with it."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError("it never ends")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


_MARKS = [
    "<tool_call>",
    "</tool_call>",
    "<tools>",
    "</tools>",
    "```json",
    "```",
    "`",
    "{",
    "}",
    "[",
    "]",
    ",",
    "ls",
    '"',
]
_MORE = [
    '"name":"bash"',
    "<function=bash>",
    "</function>",
    "<parameter=command>",
    "</parameter>",
    "<|im_end|>",
    "\\",
    "ï🙂",
]
_PARTS = st.sampled_from(
    [*_MARKS, *_MORE, "\n", "\n\n", " ", "```\n", '"arguments": {"command": "ls"}', WEAK, STRONG, INNER]
)


@pytest.mark.slow
@settings(max_examples=250, derandomize=True)
@given(st.lists(_PARTS, max_size=14), st.booleans(), st.booleans(), st.booleans())
def test_any_text_gives_equal_pieces_at_every_cut(
    parts: list[str], stopped: bool, json_reply: bool, raw_text: bool
) -> None:
    """Every byte is in exactly one piece, in order, and the cuts do not matter."""
    text = "".join(parts)

    def fresh() -> Reader:
        return new_scanner(json_reply=json_reply, raw_text=raw_text)

    whole = scan([text], fresh(), stopped=stopped)
    assert scan(list(text), fresh(), stopped=stopped) == whole
    assert scan(parts, fresh(), stopped=stopped) == whole


# Markers of all families, and what may stand between them.
_WORDS = [
    *("bash", "now", "nope", "command", "ls", "typed", "1", "True", "null", "-1.5", "x", "TOOL", "call:bash{"),
    *("(", ")", "=", "'", "{", "}", "[", "]", ",", ":", ";", '"', "<", "</", ">", ">>>", "|", "\\", "`", "```json\n"),
    *("\n", "\n\n", " ", "\t", "\r\n", "> ", "~~~\n", "<!--", "-->", "<![CDATA[", "]]>", "ï🙂", "\ud83d"),
]
_TOKENS = [
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", '<invoke name="bash">', "</invoke>", "<command>"),
    *("</command>", '<parameter name="command">', "</parameter>", '<param name="command">', "</param>", "<Call>"),
    *("</Call>", "<Function>", "</Function>", "<Parameters>", "</Parameters>", "]<]minimax[>[", "<｜DSML｜tool_calls>"),
    *('<｜DSML｜invoke name="bash">', '<｜DSML｜parameter name="command" string="true">', "</｜DSML｜parameter>"),
    *("</｜DSML｜invoke>", "</｜DSML｜tool_calls>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[Tool call:", "functools"),
    *("<|python_tag|>", "<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
    *("<|tool_call_end|>", "functions.bash:0", "ool_call>\n", "function call\n", "TOOL_CALLS", "Action:", "<|open|>"),
    *("<|close|>", "<|sep|>", 'call tool="bash"', 'argument key="command" type="string"', "<|message_model|>"),
    *("<|content_invoke_tool_json|>", "<|end_message|>", "<|im_end|>", "</s>", "<think>", "</think>", "[THINK]"),
    *("[/THINK]", "<|START_THINKING|>", "<|END_THINKING|>", "<|channel>thought\n", "<channel|>", "analysis"),
    *("assistantfinal", "<|start|>", "assistant", "<|channel|>", "commentary", " to=functions.bash", "<|message|>"),
    *("<|call|>", "<|end|>"),
]
_ANY = st.sampled_from(
    [*_MARKS, *_MORE, *_WORDS, *_TOKENS, WEAK, STRONG, INNER, call_json("now"), "[bash(command='ls')]"]
)


@pytest.mark.slow
@settings(max_examples=400, derandomize=True)
@given(st.lists(_ANY, max_size=16), st.booleans(), st.booleans(), st.booleans())
def test_any_mixture_of_markers_gives_equal_pieces_at_every_cut(
    parts: list[str], stopped: bool, json_reply: bool, raw_text: bool
) -> None:
    """Of all families, whole, byte by byte and marker by marker."""
    text = "".join(parts)
    with time_limit(10):
        whole, *others = (
            scan(cut, new_scanner(json_reply=json_reply, raw_text=raw_text), stopped=stopped)
            for cut in ([text], list(text), parts)
        )
    assert others == [whole, whole]
    assert all(isinstance(values, dict) for _, values in whole.parsed)
