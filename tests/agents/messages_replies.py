"""What bad servers send on their own `/v1/messages` when the model means one call, in the bytes of a stream's body.

Named as the rows in `rows`; a fault that cannot be said in this dialect has no function here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.agents import texts
from tests.agents.agent import MODEL, Agent, Body, Call
from tests.agents.texts import LEAD, in_pieces, without

Event = dict[str, Any]
USAGE = {"input_tokens": 21, "output_tokens": 12}


def wire(events: Iterable[Event]) -> bytes:
    """The body of a stream."""
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def start() -> Event:
    """The first event."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": MODEL}
    usage = {"usage": {"input_tokens": 21, "output_tokens": 0}}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, **usage}}


def end(reason: str | None, usage: Any = USAGE) -> list[Event]:
    """The last two events."""
    told = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": told, "usage": usage}, {"type": "message_stop"}]


def block(index: int, opened: Event, deltas: Iterable[Event]) -> list[Event]:
    """All events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": opened},
        *({"type": "content_block_delta", "index": index, "delta": each} for each in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, said: str) -> list[Event]:
    """A block of text."""
    deltas = ({"type": "text_delta", "text": part} for part in in_pieces(said))
    return block(index, {"type": "text", "text": ""}, deltas)


def tool_block(index: int, call: Call, parts: Iterable[Any], id_: Any = "toolu_a") -> list[Event]:
    """A block that calls; without an id where that is `...`."""
    opened = {"type": "tool_use", "id": id_, "name": call.name, "input": {}}
    given = {key: value for key, value in opened.items() if value is not ...}
    return block(index, given, ({"type": "input_json_delta", "partial_json": part} for part in parts))


def text(said: str) -> bytes:
    """A reply of text alone."""
    return wire([start(), *text_block(0, said), *end("end_turn")])


def whole(said: str, call: Call | None) -> bytes:
    """An answer that is not streamed, of text or of a call."""
    block: dict[str, Any] = {"type": "text", "text": said}
    if call:
        block = {"type": "tool_use", "id": "toolu_a", "name": call.name, "input": dict(call.values)}
    reason = "tool_use" if call else "end_turn"
    return json.dumps({**start()["message"], "content": [block], "stop_reason": reason, "usage": USAGE}).encode()


def _calling(events: Iterable[Event], reason: str | None = "tool_use") -> bytes:
    return wire([start(), *text_block(0, LEAD), *events, *end(reason)])


def _good(agent: Agent, id_: Any = "toolu_a") -> list[Event]:
    return tool_block(1, agent.call(), in_pieces(agent.call().arguments, 3), id_)


def _argued(agent: Agent, parts: Iterable[Any]) -> bytes:
    return _calling(tool_block(1, agent.call(), parts))


def two_ok(agent: Agent) -> bytes:
    call = agent.call(second=True)
    return _calling([*_good(agent), *tool_block(2, call, in_pieces(call.arguments, 3), "toolu_b")])


def reason_call(agent: Agent) -> bytes:
    """All of it is in a block of thinking."""
    parts = in_pieces(texts.tool_call_text(agent))
    thoughts = ({"type": "thinking_delta", "thinking": part} for part in parts)
    signed = [*thoughts, {"type": "signature_delta", "signature": "s"}]
    return wire([start(), *block(0, {"type": "thinking", "thinking": "", "signature": ""}, signed), *end("end_turn")])


def name_bad_case(agent: Agent) -> bytes:
    call = Call(texts.other_case(agent.tool), agent.call().values)
    return _calling(tool_block(1, call, in_pieces(call.arguments, 3)))


def no_usage(agent: Agent) -> bytes:
    """None at the start and none at the end."""
    events = [start(), *text_block(0, LEAD), *_good(agent), *end("tool_use")]
    del events[0]["message"]["usage"], events[-2]["usage"]
    return wire(events)


REPLIES: Mapping[str, Body] = {
    "ok": lambda agent: _calling(_good(agent)),
    "two_ok": two_ok,
    "reason_call": reason_call,
    "empty": lambda agent: wire([start(), *end("end_turn")]),
    "empty_args_first": lambda agent: _argued(agent, ["{}", agent.call().arguments]),
    "no_id": lambda agent: _calling(_good(agent, ...)),
    "empty_id": lambda agent: _calling(_good(agent, "")),
    "no_index": lambda agent: _calling(without("index", event) for event in _good(agent)),
    "args_object": lambda agent: _argued(agent, [dict(agent.call().values)]),
    "args_double": lambda agent: _argued(agent, in_pieces(texts.doubled(agent), 3)),
    "args_python": lambda agent: _argued(agent, in_pieces(texts.python(agent), 3)),
    "args_trunc": lambda agent: _argued(agent, in_pieces(texts.truncated(agent), 3)),
    "name_bad_case": name_bad_case,
    "finish_stop": lambda agent: _calling(_good(agent), "end_turn"),
    "finish_missing": lambda agent: _calling(_good(agent), None),
    # No `message_stop`.
    "no_done": lambda agent: wire([start(), *text_block(0, LEAD), *_good(agent), end("tool_use")[0]]),
    "no_usage": no_usage,
    # The server dies within the arguments.
    "cut_mid": lambda agent: wire([start(), *text_block(0, LEAD), *_good(agent)[:3]]),
}
