"""Streams of bad chat servers when the model means one call: each function returns the bytes of a body.

The names are those of the rows in `rows`. The call's arguments are sent in three pieces, unless sending them whole is
the fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.agents import texts
from tests.agents.agent import MODEL, PROOF, WROTE, Agent, Body, Call
from tests.agents.texts import LEAD, in_pieces, without
from tests.support.client_view import ROLE, entry, wire
from tests.support.helpers import calls, chunk, delta, ends, piece, says

USAGE = chunk(usage={"prompt_tokens": 21, "completion_tokens": 12, "total_tokens": 33})
FULL = chunk(usage={"prompt_tokens": 131000, "completion_tokens": 72, "total_tokens": 131072})
# vLLM's message.
OVERFLOW = (
    "This model's maximum context length is 131072 tokens. However, your request has 140000 input tokens. Please "
    "reduce the length of the input messages."
)
Delta = dict[str, Any]


def text(said: str, finish: str | None = "stop") -> bytes:
    return wire([ROLE, *map(says, in_pieces(said)), ends(finish), USAGE])


def whole(said: str, call: Call | None) -> bytes:
    """Return a whole answer with this text, or with a call."""
    message: Delta = {"role": "assistant", "content": None if call else said}
    if call:
        message["tool_calls"] = [entry(call.name, call.arguments, "call_a")]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    answer = {"id": "c1", "object": "chat.completion", "created": 7, "model": MODEL, "choices": [choice]}
    return json.dumps({**answer, "usage": USAGE.body["usage"]}).encode()


def structured(deltas: Iterable[Delta], **said: Any) -> bytes:
    """Return a stream of a sentence and call deltas, one per chunk. Each of these chunks also has `said`."""
    return _stream(deltas, [ends("tool_calls"), USAGE], **said)


def _stream(deltas: Iterable[Delta], tail: list[Any], done: bool = True, **said: Any) -> bytes:
    return wire([ROLE, says(LEAD), *(calls(each, **said) for each in deltas), *tail], done=done)


def deltas(call: Call, index: int | None = 0, id_: Any = "call_a", later: Iterable[Delta] = ({}, {})) -> list[Delta]:
    """Return the deltas of a call as vLLM sends them; `later` is added to the second and third."""
    first, second, third = in_pieces(call.arguments, 3)
    one, two = later
    return [piece(index, first, call.name, id_), {**piece(index, second), **one}, {**piece(index, third), **two}]


def two_no_index(agent: Agent) -> bytes:
    two = ((agent.call(), "call_a"), (agent.call(second=True), "call_b"))
    return structured(piece(None, call.arguments, call.name, id_) for call, id_ in two)


def reason_call(agent: Agent) -> bytes:
    """The whole reply is unclosed reasoning."""
    said = f"{LEAD}\n<tool_call>\n{agent.call().json}\n</tool_call>"
    thoughts = (chunk(delta(reasoning_content=part)) for part in in_pieces(said))
    return wire([ROLE, *thoughts, ends("stop"), USAGE])


def empty_args_first(agent: Agent) -> bytes:
    """An empty object precedes the arguments."""
    call = agent.call()
    return structured([piece(0, "{}", call.name, "call_a"), piece(0, call.arguments)])


def no_index_whole(agent: Agent) -> bytes:
    call = agent.call()
    return structured([piece(None, call.arguments, call.name, "call_a")])


def id_churn_name(agent: Agent) -> bytes:
    """The name is repeated with each new id."""
    first, *later = deltas(agent.call(), later=({"id": "call_b"}, {"id": "call_c"}))
    return structured([first, *_named(later, agent.tool)])


def name_repeat(agent: Agent) -> bytes:
    first, *later = deltas(agent.call())
    return structured([first, *_named(later, agent.tool)])


def _named(later: Iterable[Delta], name: str) -> list[Delta]:
    return [{**each, "function": {**each["function"], "name": name}} for each in later]


def args_object(agent: Agent) -> bytes:
    call = agent.call()
    return structured([piece(0, dict(call.values), call.name, "call_a")])


def _argued(agent: Agent, arguments: str) -> bytes:
    return structured([piece(0, "", agent.tool, "call_a"), *(piece(0, part) for part in in_pieces(arguments, 3))])


def no_args_key(agent: Agent) -> bytes:
    """As in vLLM, the first chunk of a call has only the name."""
    parts = (piece(0, part) for part in in_pieces(agent.call().arguments, 3))
    return structured([piece(0, ..., agent.tool, "call_a"), *parts])


def namespaced(agent: Agent) -> bytes:
    """The second of two calls is of a function in a Codex namespace, by its upstream name."""
    other = Call("multi_agent_v1__close_agent", {"target": "none"})
    return structured([*deltas(agent.call()), *deltas(other, 1, "call_b")])


def apply_patch(agent: Agent) -> bytes:
    """The file is written by a patch, not by the shell."""
    patch = f"*** Begin Patch\n*** Add File: {PROOF}\n+{WROTE}\n*** End Patch"
    return structured(deltas(Call("apply_patch", {"input": patch})))


REPLIES: Mapping[str, Body] = {
    "ok": lambda agent: structured(deltas(agent.call())),
    "two_ok": lambda agent: structured([*deltas(agent.call()), *deltas(agent.call(second=True), 1, "call_b")]),
    "two_same_index": lambda agent: structured([*deltas(agent.call()), *deltas(agent.call(second=True), 0, "call_b")]),
    "two_no_index": two_no_index,
    "reason_call": reason_call,
    "empty": lambda agent: wire([ROLE, ends("stop"), USAGE]),
    "empty_args_first": empty_args_first,
    "no_id": lambda agent: structured(deltas(agent.call(), id_=...)),
    "empty_id": lambda agent: structured(deltas(agent.call(), id_="")),
    "no_index": lambda agent: structured(deltas(agent.call(), None)),
    "no_index_whole": no_index_whole,
    "index_null": lambda agent: structured({**each, "index": None} for each in deltas(agent.call())),
    "id_churn": lambda agent: structured(deltas(agent.call(), later=({"id": "call_b"}, {"id": "call_c"}))),
    "id_churn_name": id_churn_name,
    "name_repeat": name_repeat,
    "args_object": args_object,
    "args_double": lambda agent: _argued(agent, texts.doubled(agent)),
    "args_python": lambda agent: _argued(agent, texts.python(agent)),
    "args_trunc": lambda agent: _argued(agent, texts.truncated(agent)),
    "no_args_key": no_args_key,
    "null_content": lambda agent: structured(deltas(agent.call()), content=None),
    "no_type": lambda agent: structured(without("type", each) for each in deltas(agent.call())),
    "name_bad_case": lambda agent: structured(deltas(Call(texts.other_case(agent.tool), agent.call().values))),
    "finish_stop": lambda agent: _stream(deltas(agent.call()), [ends("stop"), USAGE]),
    "finish_missing": lambda agent: _stream(deltas(agent.call()), [USAGE]),
    "no_done": lambda agent: _stream(deltas(agent.call()), [ends("tool_calls"), USAGE], done=False),
    "no_usage": lambda agent: _stream(deltas(agent.call()), [ends("tool_calls")]),
    # The server dies in the middle of the arguments.
    "cut_mid": lambda agent: _stream(deltas(agent.call())[:2], [], done=False),
    "namespaced": namespaced,
    "apply_patch": apply_patch,
    # Empty, because the server refuses.
    "context_overflow": lambda agent: b"",
    # The answer ends at the context limit.
    "context_full": lambda agent: wire([ROLE, says(LEAD), ends("length"), FULL]),
}
