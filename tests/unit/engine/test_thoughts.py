"""Reasoning is separated from the text in every family's notation, live, streamed and whole (F70, F71)."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, read_whole
from proxy.dialects.chat.writer import ChatWriter
from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.engine.engine import Engine
from proxy.engine.events import (
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Finished,
    Reasoning,
    Text,
    Unchanged,
)
from proxy.engine.task import Task
from proxy.healing.families import FAMILIES, Family
from proxy.json import JsonObject
from proxy.notations.thoughts import Section, Thoughts
from tests.support.answers import answer_as_answer
from tests.support.each_case import each_case
from tests.support.helpers import (
    SEED,
    all_cuts,
    call_json,
    chunk,
    delta,
    ends,
    flat,
    new_engine,
    offered,
    random_cut,
    run,
    says,
    view,
)
from tests.support.messages_checker import check_message
from tests.support.rows import rows

CALL = f"<tool_call>{call_json('bash', command='ls')}</tool_call>"
THOUGHT = "So, 2<3:\n\n I look"
ANSWER = "It <b>is</b> done."
FEW = 2


def families() -> list[Any]:
    return [pytest.param(family, id=family.name) for family in FAMILIES if family.markers]


def marked(family: Family, answer: str, *, opened: bool, closed: bool = True) -> str:
    """Return a reply as a model of the family writes it."""
    thought = family.markers[0]
    text = f"{thought.opener if opened else ''}\n{THOUGHT}\n"
    if not closed:
        return text
    wraps = [marker for marker in family.markers if marker.section is not Section.THOUGHT]
    opener, closer = (wraps[0].opener, wraps[0].closers[0]) if wraps and "<tool_call>" not in answer else ("", "")
    return f"{text}{thought.closers[0]}\n\n{opener}{answer}{closer}"


def thoughts(family: Family, *, begun: bool = False) -> Thoughts:
    return Thoughts(family.markers, family.markers[0].opener if begun else "")


def said(text_cut: list[str], given: Thoughts, finish: str = "stop", *, tools: bool = True) -> tuple[Any, ...]:
    """Return the client's reasoning, text, calls and finish, and the ids of the repairs."""
    engine = Engine(Task(tools=offered() if tools else None, seed=SEED, thoughts=given))
    views = view(run([*map(says, text_cut), ends(finish)], engine))
    assert views.failed is None
    found = views[0]
    calls = [(call.name, json.loads(call.arguments)) for call in found.tool_calls.values()]
    return found.reasoning, found.text, calls, found.finish, [repair.id for repair in engine.audit]


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True], ids=["opened", "in the prompt"])
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@each_case("family", families())
def test_reasoning_is_separated_from_the_answer(family: Family, begun: bool, tools: bool) -> None:
    text = marked(family, ANSWER, opened=not begun)
    for cut in all_cuts(text, FEW):
        assert said(cut, thoughts(family, begun=begun), tools=tools)[:4] == (THOUGHT, ANSWER, [], "stop")


CALLED = [("bash", {"command": "ls"})]
IN_A_LINE_OF_CODE = ["```py\nre.search('%s(.*)', x)\n```\nSo.", "See `a%sb` there.", "- `<a> %s </b>`"]
# Reasoning, the reply after it, and the text and calls of that reply. `%s` is the closing marker, only mentioned.
REASONED: list[tuple[str, str, str, list[Any]]] = [
    ("I look.", f"\n\n{CALL}", "", CALLED),
    # F71: a call inside the reasoning is not a call, whether complete or truncated.
    *((called, "Done.", "Done.", []) for called in (f"I could {CALL} or not.", CALL, CALL.replace("bash", "nope"))),
    *((called, "Done.", "Done.", []) for called in (CALL[:-14], CALL[:-18], f"`{CALL}`", f'"{CALL}"')),
    # Code that is never closed.
    ("Run `ls and see.", f"\n\n{CALL}", "", CALLED),
    ("So:\n```python\nx = 1", f"\n\n{CALL}", "", CALLED),
    ("```sh\nls\n``", "\n\nDone.", "Done.", []),
    ("```sh\nls\n```\nIt's ``` then.", f"\n\n{CALL}", "", CALLED),
    *((f"I run {shown}", f"{shown} it is.", f"{shown} it is.", []) for shown in ("`ls`", '"ls"', "'ls'")),
    *((shown, "Done.", "Done.", []) for shown in ("`%s` is its end.", 'He said "%s" to it.', "Say '%s'.")),
    *((shown, "Done.", "Done.", []) for shown in ("```py\nx.split('%s')[0]\n```\nSo.", "``` `%s` ```")),
    *((shown, "Done.", "Done.", []) for shown in IN_A_LINE_OF_CODE),
]


@pytest.mark.slow
@each_case("family", families())
@pytest.mark.parametrize("row", REASONED, ids=range(len(REASONED)))
def test_reasoning_ends_at_its_closing_marker(family: Family, row: tuple[str, str, str, list[Any]]) -> None:
    """Calls, quotations and code inside the reasoning do not end it."""
    thought, (inside, after, text, called) = family.markers[0], row
    closer = thought.closers[0]
    if inside in IN_A_LINE_OF_CODE and not closer.startswith("</"):
        return
    inside = inside.replace("%s", closer)
    for begun in (False, True):
        whole_text = f"{'' if begun else thought.opener}{inside}{closer}{after}"
        for cut in all_cuts(whole_text, FEW):
            found = said(cut, thoughts(family, begun=begun))
            assert found[:4] == (inside, text, called, "tool_calls" if called else "stop"), cut


@pytest.mark.slow
@each_case("family", families())
def test_a_call_at_the_end_of_a_reply_of_only_reasoning_is_sent(family: Family) -> None:
    """F70: but not if the reply was truncated."""
    for begun in (False, True):
        text = f"{'' if begun else family.markers[0].opener}I look. {CALL}"
        for cut in all_cuts(text, FEW):
            found = said(cut, thoughts(family, begun=begun))
            assert found[:4] == ("I look. ", "", [("bash", {"command": "ls"})], "tool_calls")
            found = said(cut, thoughts(family, begun=begun), "length")
            assert found[:4] == (f"I look. {CALL}", "", [], "length")


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@each_case("family", families())
def test_unclosed_reasoning_is_sent_as_reasoning(family: Family, tools: bool) -> None:
    text = marked(family, "", opened=True, closed=False)
    for cut in all_cuts(text, FEW):
        for finish in ("stop", "length"):
            assert said(cut, thoughts(family), finish, tools=tools) == (THOUGHT, "", [], finish, [])


@pytest.mark.slow
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@each_case("family", families())
def test_a_reply_that_never_closes_the_prompts_reasoning_is_the_answer(family: Family, tools: bool) -> None:
    """If it was cut by `length`, it stays reasoning."""
    text = marked(family, "", opened=False, closed=False)
    given = thoughts(family, begun=True)
    for cut in all_cuts(text, FEW):
        assert said(cut, given, tools=tools) == (THOUGHT, THOUGHT, [], "stop", ["unclosed_thought"])
        assert said(cut, given, "length", tools=tools) == (THOUGHT, "", [], "length", [])


@pytest.mark.slow
@each_case("family", families())
def test_text_before_an_unexpected_closing_marker_stays_text(family: Family) -> None:
    """No text is sent twice. A repair record notes it."""
    thought = family.markers[0]
    if not thought.may_begin:
        return
    for tools in (True, False):
        given = Thoughts(family.markers, unknown=True)
        for cut in all_cuts(f"Hm, so.{thought.closers[0]}\n\nDone.", FEW):
            assert said(cut, given, tools=tools) == ("", "Hm, so.\n\nDone.", [], "stop", ["unopened_thought"])
        for cut in all_cuts(f"{thought.opener}Hm.{thought.closers[0]}It ends with {thought.closers[0]}.", FEW):
            text = f"It ends with {thought.closers[0]}."
            assert said(cut, given, tools=tools) == ("Hm.", text, [], "stop", [])


@rows(__file__, "text")
def test_text_that_only_looks_like_reasoning_stays_text(text: str) -> None:
    for tools in (True, False):
        for cut in all_cuts(text, FEW):
            assert said(cut, Thoughts(), tools=tools) == ("", text, [], "stop", [])


def test_a_marker_inside_a_call_belongs_to_the_call() -> None:
    """C9."""
    call = f"<tool_call>{call_json('write_file', path='a', content='</think> and <think>')}</tool_call>"
    want = [("write_file", {"path": "a", "content": "</think> and <think>"})]
    for given in (Thoughts(unknown=True), Thoughts(), Thoughts(FAMILIES[0].markers)):
        for cut in all_cuts(call, FEW):
            assert said(cut, given)[:4] == ("", "", want, "tool_calls")


def test_reasoning_may_follow_other_reasoning_and_calls() -> None:
    text = f"<think>a</think>\n<think>b</think>{CALL}\n<think>c</think>"
    for cut in all_cuts(text):
        found = said(cut, Thoughts())
        assert (found[0], found[2]) == ("abc", [("bash", {"command": "ls"})])


@pytest.mark.parametrize("given", [Thoughts(), Thoughts(unknown=True), Thoughts(begun="<think>")])
@pytest.mark.parametrize("text", ["<think> is a tag.", "<think>a</think>b", "a</think>b"])
def test_text_of_a_server_with_separate_reasoning_has_no_markers(given: Thoughts, text: str) -> None:
    for ordered in (False, True):
        for cut in all_cuts(text, FEW):
            chunks = [chunk(delta(reasoning_content="Hm.")), *map(says, cut), ends()]
            found = view(run(chunks, new_engine(thoughts=given, ordered=ordered)))[0]
            assert (found.reasoning, found.text) == ("Hm.", text)


@pytest.mark.parametrize("blanks", ["\n", " ", "\n\n"])
def test_whitespace_before_separate_reasoning_is_ignored(blanks: str) -> None:
    """Some servers send the whitespace before the opening marker as text."""
    for given in (Thoughts(), Thoughts(unknown=True), Thoughts(begun="<think>")):
        chunks = [says(blanks), chunk(delta(reasoning_content="Hm.")), says("Done."), ends()]
        for ordered in (False, True):
            found = view(run(chunks, new_engine(thoughts=given, ordered=ordered)))[0]
            assert (found.reasoning, found.text.strip(), found.finish) == ("Hm.", "Done.", "stop")


def test_reasoning_is_sent_while_it_arrives() -> None:
    """C2: only a possible marker waits, and whitespace that may belong to the template."""
    engine = new_engine(thoughts=Thoughts())
    assert engine.feed(says("<think>")) == ()
    assert [*engine.feed(says("one <"))] == [Reasoning(0, "one ")]
    assert [*engine.feed(says("b> two\n"))] == [Reasoning(0, "<"), Reasoning(0, "b> two")]
    assert engine.feed(says("</think>\n\n")) == ()
    (first,) = engine.feed(says("Yes"))
    assert isinstance(first, Unchanged) or first == Text(0, "Yes")
    second = says(" and no")
    assert [*engine.feed(second)] == [second.unchanged((Text(0, " and no"),))]


REPLIES = [
    f"<think>a</think>{CALL}",
    "<think>So it is.\n</think>\n\nDone.",
    "Hm.</think>No <think> here.",
    f"{CALL}</think>b",
    "<think>so",
    "Hi.",
]


@pytest.mark.slow
@pytest.mark.parametrize("apart", [True, False], ids=["chunk by chunk", "in one chunk"])
@pytest.mark.parametrize("given", [Thoughts(), Thoughts(unknown=True), Thoughts(begun="<think>")])
def test_each_choice_of_a_stream_is_read_independently(given: Thoughts, apart: bool) -> None:
    """The result of a choice does not depend on the other choices."""
    rng = random.Random(1)
    for one, other in itertools.permutations(REPLIES, 2):
        cuts = [random_cut(one, rng), random_cut(other, rng)]
        chunks: list[Chunk] = []
        for pair in itertools.zip_longest(*cuts, fillvalue=""):
            deltas = [delta(number, content=text) for number, text in enumerate(pair)]
            chunks += [chunk(each) for each in deltas] if apart else [chunk(*deltas)]
        found = view(run([*chunks, ends(), ends(choice=1)], new_engine(thoughts=given)))
        for number, text in enumerate((one, other)):
            alone = view(run([says(text), ends()], new_engine(thoughts=given)))[0]
            seen = found[number]
            assert (seen.reasoning, seen.text, seen.finish) == (alone.reasoning, alone.text, alone.finish)
            assert [call.arguments for call in seen.tool_calls.values()] == [
                call.arguments for call in alone.tool_calls.values()
            ]


@pytest.mark.parametrize("given", [Thoughts(), Thoughts(unknown=True), Thoughts(begun="<think>")])
def test_each_choice_of_a_whole_answer_is_read_independently(given: Thoughts) -> None:
    chat = ChatWriter(ChatOptions("m", True, StripFields(), parsed=True))
    for one, other in itertools.permutations(REPLIES, 2):
        made: Any = answered_all([one, other], given, chat, tools=True)
        for number, text in enumerate((one, other)):
            (alone,) = answered_all([text], given, chat, tools=True)["choices"]
            entry = made["choices"][number]
            for each in (entry, alone):
                for call in each["message"].get("tool_calls") or ():
                    del call["id"]
            assert entry == {**alone, "index": number}


def whole(*texts: str, finish: str = "stop") -> bytes:
    entries = [
        {"index": number, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        for number, text in enumerate(texts)
    ]
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**body, "choices": entries}).encode()


def answered(text: str, given: Thoughts, writer: Any, *, tools: bool) -> JsonObject:
    made: JsonObject = answered_all([text], given, writer, tools=tools)
    return made


def answered_all(texts: list[str], given: Thoughts, writer: Any, *, tools: bool) -> Any:
    body = whole(*texts)
    engine = Engine(Task(tools=offered() if tools else None, seed=SEED, thoughts=given, ordered=not writer.verbatim))
    made: JsonObject = json.loads(answer_as_answer(body, read_whole(body), engine, writer))
    return made


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@each_case("family", families())
def test_the_reasoning_of_a_whole_answer_is_separated(family: Family, tools: bool) -> None:
    for begun in (False, True):
        text = marked(family, ANSWER, opened=not begun)
        given = thoughts(family, begun=begun)
        chat = ChatWriter(ChatOptions("m", True, StripFields(), parsed=tools))
        made: Any = answered(text, given, chat, tools=tools)
        message = {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT}
        assert made["choices"] == [{"index": 0, "message": message, "finish_reason": "stop"}]
        blocks: Any = check_message(answered(text, given, MessagesWriter(ReplyOptions("m")), tools=tools))
        assert [(block["type"], block.get("thinking") or block.get("text")) for block in blocks["content"]] == [
            ("thinking", THOUGHT),
            ("text", ANSWER),
        ]


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("text", ["<think>", "<think></think>", "<think>\n</think>\n", "</think>"])
def test_a_whole_answer_of_only_markers_is_empty(text: str, tools: bool) -> None:
    chat = ChatWriter(ChatOptions("m", True, StripFields(), parsed=tools))
    made: Any = answered(text, Thoughts(unknown=True), chat, tools=tools)
    assert made["choices"][0]["message"] == {"role": "assistant", "content": None}


@each_case("family", families())
def test_a_special_token_ends_reasoning_anywhere(family: Family) -> None:
    """Most families begin the answer directly after the token."""
    thought = family.markers[0]
    if thought.closers[0].startswith("</"):
        return
    text = f"{thought.opener}Run `ls and see.{thought.closers[0]}Done."
    for cut in all_cuts(text, FEW):
        assert said(cut, thoughts(family))[:2] == ("Run `ls and see.", "Done.")


STRONG = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'


@pytest.mark.parametrize(("name", "calls"), [("bash", 1), ("nothing", 0)])
def test_reasoning_within_a_printed_call_keeps_its_position(name: str, calls: int) -> None:
    """A client with one order of text and reasoning loses neither the call nor the order."""
    text = STRONG.replace("bash", name)
    engine = new_engine(ordered=True)
    chunks = [says("I look.\n"), says(text[:30]), chunk(delta(reasoning_content="Hm.")), says(text[30:]), ends()]
    events = [inner for event in run(chunks, engine) for inner in (getattr(event, "events", None) or (event,))]
    said = [event.text for event in events if isinstance(event, Text | Reasoning)]
    assert engine.calls == calls
    assert said == (["I look.\n", "Hm."] if calls else ["I look.\n", text[:30], "Hm.", text[30:]])


def test_reasoning_after_a_printed_call_follows_the_call() -> None:
    """The call waits for the text after it, in which a string of it may go on."""
    chunks = [says(STRONG), chunk(delta(reasoning_content="Hm.")), says("\nDone."), ends()]
    kinds = [type(event) for event in flat(run(chunks, new_engine(ordered=True)))]
    assert kinds == [CallOpened, CallArguments, CallClosed, Reasoning, Text, Finished]


def test_reasoning_that_waits_for_a_call_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7."""
    monkeypatch.setattr("proxy.engine.choice._MAX_REASONING", 5)
    engine = new_engine(ordered=True)
    found = view(run([says(STRONG[:30]), *[chunk(delta(reasoning_content="Hm."))] * 2], engine))[0]
    assert (found.text, found.reasoning, engine.calls) == (STRONG[:30], "Hm.Hm.", 0)
