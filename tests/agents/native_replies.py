"""Streams of bad `/v1/messages` and `/v1/responses` servers whose model means one call.

The names are those of the rows in `rows`. The table of an API lacks the faults that it cannot express. Responses have
only the fields that Codex reads, so that each stream has one fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.agents import texts
from tests.agents.agent import MODEL, Agent, Body, Call
from tests.agents.texts import LEAD, in_pieces, without

Event = dict[str, Any]


def pieces(arguments: Any) -> list[Any]:
    """Return the deltas of a call's arguments: a list unchanged, a text in three pieces, or another value alone."""
    if isinstance(arguments, list):
        return arguments
    return [*in_pieces(arguments, 3)] if isinstance(arguments, str) else [arguments]


class Messages:
    ids = ("toolu_a", "toolu_b")
    index = "index"
    usage: Mapping[str, Any] = {"input_tokens": 21, "output_tokens": 12}

    def wire(self, events: Iterable[Event]) -> bytes:
        return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)

    def start(self) -> Event:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": MODEL}
        usage = {"usage": {"input_tokens": 21, "output_tokens": 0}}
        return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, **usage}}

    def end(self, reason: str | None = "tool_use") -> list[Event]:
        told = {"stop_reason": reason, "stop_sequence": None}
        return [{"type": "message_delta", "delta": told, "usage": self.usage}, {"type": "message_stop"}]

    def _block(self, index: int, opened: Event, deltas: Iterable[Event]) -> list[Event]:
        return [
            {"type": "content_block_start", "index": index, "content_block": opened},
            *({"type": "content_block_delta", "index": index, "delta": each} for each in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    def text(self, index: int, said: str) -> list[Event]:
        deltas = ({"type": "text_delta", "text": part} for part in in_pieces(said))
        return self._block(index, {"type": "text", "text": ""}, deltas)

    def thought(self, said: str) -> list[Event]:
        deltas = [*({"type": "thinking_delta", "thinking": part} for part in in_pieces(said))]
        signed = {"type": "signature_delta", "signature": "s"}
        return self._block(0, {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed])

    def call(self, index: int, call: Call, arguments: Any, id_: Any = "toolu_a") -> list[Event]:
        """Return the events of a call's block, without an id if it is `...`."""
        opened = {"type": "tool_use", "id": id_, "name": call.name, "input": {}}
        given = {key: value for key, value in opened.items() if value is not ...}
        deltas = ({"type": "input_json_delta", "partial_json": part} for part in pieces(arguments))
        return self._block(index, given, deltas)

    def whole(self, said: str, call: Call | None) -> bytes:
        """Return a whole answer with this text, or with a call."""
        block: Event = {"type": "text", "text": said}
        if call:
            block = {"type": "tool_use", "id": "toolu_a", "name": call.name, "input": dict(call.values)}
        reason = "tool_use" if call else "end_turn"
        message = {**self.start()["message"], "content": [block], "stop_reason": reason, "usage": self.usage}
        return json.dumps(message).encode()


class Responses:
    ids = ("call_a", "call_b")
    index = "output_index"
    usage: Mapping[str, Any] = {
        "input_tokens": 21,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 33,
    }

    def wire(self, events: Iterable[Event]) -> bytes:
        numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
        return MESSAGES.wire(numbered)

    def _response(self, status: str, output: Iterable[Event] = ()) -> Event:
        told: Event = {"id": "resp_1", "object": "response", "created_at": 7, "status": status, "model": MODEL}
        return {**told, "output": [*output]}

    def start(self) -> Event:
        return {"type": "response.created", "response": self._response("in_progress")}

    def end(self, reason: str | None = None) -> list[Event]:
        """Return the last event. This API has no stop reason."""
        return [{"type": "response.completed", "response": {**self._response("completed"), "usage": self.usage}}]

    def _item(self, index: int, added: Event, deltas: Iterable[Event], done: Event) -> list[Event]:
        return [
            {"type": "response.output_item.added", "output_index": index, "item": added},
            *deltas,
            {"type": "response.output_item.done", "output_index": index, "item": done},
        ]

    def text(self, index: int, said: str) -> list[Event]:
        item: Event = {"id": f"msg_{index}", "type": "message", "role": "assistant"}
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        deltas = ({"type": "response.output_text.delta", **place, "delta": part} for part in in_pieces(said))
        done = {"status": "completed", "content": [{"type": "output_text", "text": said, "annotations": []}]}
        return self._item(index, {**item, "status": "in_progress", "content": []}, deltas, {**item, **done})

    def thought(self, said: str) -> list[Event]:
        item: Event = {"id": "rs_0", "type": "reasoning", "summary": []}
        part = {"type": "reasoning_text", "text": said}
        return self._item(0, {**item, "content": []}, (), {**item, "content": [part]})

    def call(self, index: int, call: Call, arguments: Any, id_: Any = "call_a") -> list[Event]:
        """Return the events of a call's item, without an id or arguments that are `...`."""
        given = {"id": f"fc_{index}", "type": "function_call", "status": "in_progress", "call_id": id_}
        item = {key: value for key, value in {**given, "name": call.name}.items() if value is not ...}
        if isinstance(arguments, list):
            arguments = "".join(arguments)
        done = {**item, "status": "completed", **({} if arguments is ... else {"arguments": arguments})}
        place = {"type": "response.function_call_arguments.delta", "item_id": given["id"], "output_index": index}
        parts = pieces(arguments) if isinstance(arguments, str) else ()
        return self._item(index, {**item, "arguments": ""}, ({**place, "delta": part} for part in parts), done)

    def whole(self, said: str, call: Call | None) -> bytes:
        """Return a whole answer with this text, or with a call."""
        events = self.call(0, call, call.arguments) if call else self.text(0, said)
        return json.dumps({**self._response("completed", [events[-1]["item"]]), "usage": self.usage}).encode()


MESSAGES, RESPONSES = Messages(), Responses()


def text(api: Messages | Responses, said: str) -> bytes:
    return api.wire([api.start(), *api.text(0, said), *api.end("end_turn")])


def _begun(api: Messages | Responses, *events: Event) -> bytes:
    return api.wire([api.start(), *api.text(0, LEAD), *events])


def _good(api: Messages | Responses, agent: Agent, id_: Any = None) -> list[Event]:
    return api.call(1, agent.call(), agent.call().arguments, api.ids[0] if id_ is None else id_)


def _without_usage(event: Event) -> Event:
    return {
        key: _without_usage(value) if isinstance(value, dict) else value
        for key, value in without("usage", event).items()
    }


def _replies(api: Messages | Responses) -> dict[str, Body]:
    """Return the faults that both APIs can express."""

    def calling(events: Iterable[Event]) -> bytes:
        return _begun(api, *events, *api.end())

    def two_ok(agent: Agent) -> bytes:
        call = agent.call(second=True)
        return calling([*_good(api, agent), *api.call(2, call, call.arguments, api.ids[1])])

    def argued(arguments: Any) -> Body:
        return lambda agent: calling(api.call(1, agent.call(), arguments(agent)))

    def name_bad_case(agent: Agent) -> bytes:
        call = Call(texts.other_case(agent.tool), agent.call().values)
        return calling(api.call(1, call, call.arguments))

    def reason_call(agent: Agent) -> bytes:
        return api.wire([api.start(), *api.thought(texts.tool_call_text(agent)), *api.end("end_turn")])

    def no_usage(agent: Agent) -> bytes:
        events = [api.start(), *api.text(0, LEAD), *_good(api, agent), *api.end()]
        return api.wire(map(_without_usage, events))

    return {
        "ok": lambda agent: calling(_good(api, agent)),
        "two_ok": two_ok,
        "reason_call": reason_call,
        "empty": lambda agent: api.wire([api.start(), *api.end("end_turn")]),
        "empty_args_first": argued(lambda agent: ["{}", agent.call().arguments]),
        "no_id": lambda agent: calling(_good(api, agent, ...)),
        "empty_id": lambda agent: calling(_good(api, agent, "")),
        "no_index": lambda agent: calling(without(api.index, event) for event in _good(api, agent)),
        "args_object": argued(lambda agent: dict(agent.call().values)),
        "args_double": argued(texts.doubled),
        "args_python": argued(texts.python),
        "args_trunc": argued(texts.truncated),
        "name_bad_case": name_bad_case,
        "no_usage": no_usage,
        # The server dies in the middle of the arguments.
        "cut_mid": lambda agent: _begun(api, *_good(api, agent)[:3]),
    }


IN_MESSAGES: Mapping[str, Body] = {
    **_replies(MESSAGES),
    "finish_stop": lambda agent: _begun(MESSAGES, *_good(MESSAGES, agent), *MESSAGES.end("end_turn")),
    "finish_missing": lambda agent: _begun(MESSAGES, *_good(MESSAGES, agent), *MESSAGES.end(None)),
    # No `message_stop`.
    "no_done": lambda agent: _begun(MESSAGES, *_good(MESSAGES, agent), MESSAGES.end()[0]),
}
IN_RESPONSES: Mapping[str, Body] = {
    **_replies(RESPONSES),
    "no_args_key": lambda agent: _begun(RESPONSES, *RESPONSES.call(1, agent.call(), ...), *RESPONSES.end()),
    # No `response.completed`.
    "finish_missing": lambda agent: _begun(RESPONSES, *_good(RESPONSES, agent)),
}
