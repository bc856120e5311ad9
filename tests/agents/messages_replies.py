"""What bad servers send on their own `/v1/messages` when the model means one call, in the bytes of a stream's body.

Named as the rows in `rows`; a fault that cannot be said in this dialect has no function here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.agents import texts
from tests.agents.agent import FINAL, MODEL, Agent, Call
from tests.agents.texts import LEAD, in_pieces

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


def final(agent: Agent) -> bytes:
    """The last turn: the model says that it is done."""
    return text(FINAL)


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


def ok(agent: Agent) -> bytes:
    return _calling(_good(agent))


def two_ok(agent: Agent) -> bytes:
    call = agent.call(second=True)
    return _calling([*_good(agent), *tool_block(2, call, in_pieces(call.arguments, 3), "toolu_b")])


def reason_call(agent: Agent) -> bytes:
    """All of it is in a block of thinking."""
    parts = in_pieces(texts.tool_call_text(agent))
    thoughts = ({"type": "thinking_delta", "thinking": part} for part in parts)
    signed = [*thoughts, {"type": "signature_delta", "signature": "s"}]
    return wire([start(), *block(0, {"type": "thinking", "thinking": "", "signature": ""}, signed), *end("end_turn")])


def empty(agent: Agent) -> bytes:
    return wire([start(), *end("end_turn")])


def empty_args_first(agent: Agent) -> bytes:
    return _argued(agent, ["{}", agent.call().arguments])


def no_id(agent: Agent) -> bytes:
    return _calling(_good(agent, ...))


def empty_id(agent: Agent) -> bytes:
    return _calling(_good(agent, ""))


def no_index(agent: Agent) -> bytes:
    return _calling({key: value for key, value in event.items() if key != "index"} for event in _good(agent))


def args_object(agent: Agent) -> bytes:
    return _argued(agent, [dict(agent.call().values)])


def args_double(agent: Agent) -> bytes:
    return _argued(agent, in_pieces(texts.doubled(agent), 3))


def args_python(agent: Agent) -> bytes:
    return _argued(agent, in_pieces(texts.python(agent), 3))


def args_trunc(agent: Agent) -> bytes:
    return _argued(agent, in_pieces(texts.truncated(agent), 3))


def name_bad_case(agent: Agent) -> bytes:
    call = Call(texts.other_case(agent.tool), agent.call().values)
    return _calling(tool_block(1, call, in_pieces(call.arguments, 3)))


def finish_stop(agent: Agent) -> bytes:
    return _calling(_good(agent), "end_turn")


def finish_missing(agent: Agent) -> bytes:
    return _calling(_good(agent), None)


def no_done(agent: Agent) -> bytes:
    """No `message_stop`."""
    return wire([start(), *text_block(0, LEAD), *_good(agent), end("tool_use")[0]])


def no_usage(agent: Agent) -> bytes:
    """None at the start and none at the end."""
    events = [start(), *text_block(0, LEAD), *_good(agent), *end("tool_use")]
    del events[0]["message"]["usage"], events[-2]["usage"]
    return wire(events)


def cut_mid(agent: Agent) -> bytes:
    """The server dies within the arguments."""
    return wire([start(), *text_block(0, LEAD), *_good(agent)[:3]])
