"""What bad servers send on their own `/v1/responses` when the model means one call, in the bytes of a stream's body.

Named as the rows in `rows`; a fault that cannot be said in this dialect has no function here. Only what Codex reads is
sent, so that each stream has one fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.agents import texts
from tests.agents.agent import MODEL, Agent, Body, Call
from tests.agents.texts import LEAD, in_pieces, without

Event = dict[str, Any]
USAGE = {
    "input_tokens": 21,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 33,
}


def wire(events: Iterable[Event]) -> bytes:
    """The body of a stream."""
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in numbered)


def response(status: str, output: Iterable[Event] = ()) -> Event:
    """A response, as far as it is done."""
    told: Event = {"id": "resp_1", "object": "response", "created_at": 7, "status": status, "model": MODEL}
    return {**told, "output": [*output]}


def start() -> Event:
    """The first event."""
    return {"type": "response.created", "response": response("in_progress")}


def end(usage: Any = USAGE) -> Event:
    """The last event; without token counts where those are `...`."""
    last = response("completed")
    if usage is not ...:
        last["usage"] = usage
    return {"type": "response.completed", "response": last}


def message(index: int, said: str) -> list[Event]:
    """All events of an item of text."""
    item: Event = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    deltas = ({"type": "response.output_text.delta", **place, "delta": part} for part in in_pieces(said))
    part = {"type": "output_text", "text": said, "annotations": []}
    done = {**item, "status": "completed", "content": [part]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        *deltas,
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def call_item(index: int, call: Call, arguments: Any, id_: Any = "call_a") -> list[Event]:
    """All events of an item that calls; without an id, or arguments, where that is `...`."""
    given = {"id": f"fc_{index}", "type": "function_call", "status": "in_progress", "call_id": id_, "name": call.name}
    item = {key: value for key, value in given.items() if value is not ...}
    done = {**item, "status": "completed"}
    if arguments is not ...:
        done["arguments"] = arguments
    place = {"item_id": given["id"], "output_index": index}
    parts = in_pieces(arguments, 3) if isinstance(arguments, str) else ()
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}},
        *({"type": "response.function_call_arguments.delta", **place, "delta": part} for part in parts),
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def text(said: str) -> bytes:
    """A reply of text alone."""
    return wire([start(), *message(0, said), end()])


def whole(said: str, call: Call | None) -> bytes:
    """An answer that is not streamed, of text or of a call."""
    events = call_item(0, call, call.arguments) if call else message(0, said)
    return json.dumps({**response("completed", [events[-1]["item"]]), "usage": USAGE}).encode()


def _calling(events: Iterable[Event]) -> bytes:
    return wire([start(), *message(0, LEAD), *events, end()])


def _good(agent: Agent, id_: Any = "call_a") -> list[Event]:
    return call_item(1, agent.call(), agent.call().arguments, id_)


def _argued(agent: Agent, arguments: Any) -> bytes:
    return _calling(call_item(1, agent.call(), arguments))


def two_ok(agent: Agent) -> bytes:
    call = agent.call(second=True)
    return _calling([*_good(agent), *call_item(2, call, call.arguments, "call_b")])


def reason_call(agent: Agent) -> bytes:
    """All of it is in an item of reasoning."""
    part = {"type": "reasoning_text", "text": texts.tool_call_text(agent)}
    item = {"id": "rs_0", "type": "reasoning", "summary": [], "content": [part]}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
    return wire([start(), added, {"type": "response.output_item.done", "output_index": 0, "item": item}, end()])


def name_bad_case(agent: Agent) -> bytes:
    call = Call(texts.other_case(agent.tool), agent.call().values)
    return _calling(call_item(1, call, call.arguments))


REPLIES: Mapping[str, Body] = {
    "ok": lambda agent: _calling(_good(agent)),
    "two_ok": two_ok,
    "reason_call": reason_call,
    "empty": lambda agent: wire([start(), end()]),
    "empty_args_first": lambda agent: _argued(agent, "{}" + agent.call().arguments),
    "no_id": lambda agent: _calling(_good(agent, ...)),
    "empty_id": lambda agent: _calling(_good(agent, "")),
    "no_index": lambda agent: _calling(without("output_index", event) for event in _good(agent)),
    "args_object": lambda agent: _argued(agent, dict(agent.call().values)),
    "args_double": lambda agent: _argued(agent, texts.doubled(agent)),
    "args_python": lambda agent: _argued(agent, texts.python(agent)),
    "args_trunc": lambda agent: _argued(agent, texts.truncated(agent)),
    "no_args_key": lambda agent: _argued(agent, ...),
    "name_bad_case": name_bad_case,
    # No `response.completed`.
    "finish_missing": lambda agent: wire([start(), *message(0, LEAD), *_good(agent)]),
    "no_usage": lambda agent: wire([start(), *message(0, LEAD), *_good(agent), end(...)]),
    # The server dies within the arguments.
    "cut_mid": lambda agent: wire([start(), *message(0, LEAD), *_good(agent)[:2]]),
}
