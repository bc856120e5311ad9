"""One piece of a structured call, in whatever words a server sends it (F25, F29, F42 to F44, F64).

The words of chat completions are `index`, `id`, `function.name` and `function.arguments`:

    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": ""}}
    {"index": 0, "function": {"arguments": "{\"command\": "}}

Others put the arguments under other names, or as an object, send the legacy `function_call`, or the events of the
Responses API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.codec.json_access import may_hold_text
from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.engine.call_fields import ARGUMENTS, CallFields, other_fields
from proxy.engine.events import CallArguments, CallOpened
from proxy.errors import UnreadableReply

_EVENT = "response.function_call_arguments."
# Digits of an index that came as a string; no reply has so many calls.
_MAX_DIGITS = 9
_DIGITS = re.compile("[0-9]+")


@dataclass(frozen=True, slots=True)
class CallDelta:
    """One piece of a call. `index` and `id` are None where the server gave none.

    `standard`: in the words of chat completions, so that it may leave as it came. `complete`: `fragment` is not the
    next piece of the arguments, but all of them. `fields` is what else its entry says.
    """

    index: int | None = None
    id: str | None = None
    name: str = ""
    fragment: str = ""
    standard: bool = False
    complete: bool = False
    fields: CallFields | None = None

    @property
    def first_character(self) -> str:
        """The first character of the fragment that is no blank; empty if there is none."""
        return self.fragment.lstrip()[:1]


def read_deltas(delta: JsonObject) -> Iterator[CallDelta]:
    """Yield the pieces of calls in a chunk's `delta`, or in the message of a whole answer.

    Raise UnreadableReply for a piece whose name or arguments cannot be found.
    """
    listed = delta.get("tool_calls")
    if listed:
        for _, entry in _call_entries(listed):
            yield _read(entry, complete=False)
        return  # some send it in both ways
    legacy = delta.get("function_call")
    if may_hold_text(legacy):
        # {"function_call": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}
        yield _read({"function": legacy}, complete=False)


def read_message_calls(message: JsonObject) -> Iterator[CallDelta]:
    """The calls of a whole `message` that a server adds to a chunk of a stream; their place is their index."""
    for number, entry in _call_entries(message.get("tool_calls")):
        yield _read({**entry, "index": number}, complete=True)


def delta_of(message: JsonObject) -> JsonObject:
    """Return a whole message as one delta; its calls are numbered by position."""
    listed = message.get("tool_calls")
    if not isinstance(listed, list):
        return {**message}
    calls = [{**call, "index": at} if isinstance(call, dict) else call for at, call in enumerate(listed)]
    return {**message, "tool_calls": [*calls]}


def read_responses_event(body: JsonObject) -> CallDelta | None:
    """The piece in an event of the Responses API on a chat stream; None for every other body."""
    # {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{\"command\": "}
    # {"type": "response.function_call_arguments.done", "item_id": "fc_1", "arguments": "{\"command\": \"ls\"}"}
    kind = body.get("type")
    if kind == f"{_EVENT}delta":
        text, complete = body.get("delta"), False
    elif kind == f"{_EVENT}done":
        text, complete = body.get("arguments"), True
    else:
        return None
    id_ = body.get("call_id") or body.get("item_id")
    return CallDelta(None, _id(id_), _text(body.get("name")), _text(text), complete=complete)


def call_events(choice: int, delta: CallDelta) -> tuple[CallOpened | CallArguments, ...]:
    """The events of a call's delta as it stands; nothing is put right."""
    index = delta.index or 0
    arguments = CallArguments(choice, index, delta.fragment, fields=delta.fields)
    if not delta.name:
        return (arguments,)
    return (CallOpened(choice, index, delta.id or "", delta.name), arguments)


def _call_entries(listed: Json) -> Iterator[tuple[int, JsonObject]]:
    """Yield the entries of `tool_calls` with their places, without those that can say nothing."""
    if not isinstance(listed, list):
        if may_hold_text(listed):
            raise UnreadableReply("`tool_calls` is not a list")
        return
    for number, entry in enumerate(listed):
        if isinstance(entry, dict):
            yield number, entry
        elif may_hold_text(entry):
            raise UnreadableReply("a tool call is not an object")


def _read(entry: JsonObject, *, complete: bool) -> CallDelta:
    return _read_next_fragment(entry) or _read_any(entry, complete=complete)


def _read_next_fragment(entry: JsonObject) -> CallDelta | None:
    """An index and the next fragment, as which most deltas come, read fast; None for every other delta."""
    # {"index": 0, "function": {"arguments": "x"}}
    if len(entry) != 2:
        return None
    index = entry.get("index")
    if type(index) is not int:
        return None
    if index < 0:
        return None
    function = entry.get("function")
    if not isinstance(function, dict):
        return None
    if len(function) != 1:
        return None
    fragment = function.get("arguments")
    if not isinstance(fragment, str):
        return None
    if not fragment:
        return None
    return CallDelta(index, None, "", fragment, standard=True)


def _read_any(entry: JsonObject, *, complete: bool) -> CallDelta:
    function = entry.get("function")
    if not isinstance(function, dict):
        if may_hold_text(function):
            raise UnreadableReply("the `function` of a tool call is not an object")
        # {"index": 0, "name": "bash", "args": {"command": "ls"}}: no object around name and arguments.
        function = entry
    arguments = _arguments(function, entry)
    name = _name(function)
    standard = function is not entry and _is_standard(entry, function, name, arguments)
    return CallDelta(
        _index(entry.get("index")),
        _id(entry.get("id")),
        name,
        _text(arguments),
        standard,
        complete,
        other_fields(entry, function),
    )


def _arguments(function: JsonObject, entry: JsonObject) -> Json:
    """The arguments under the first name that has any; None if there are none."""
    given = (source.get(key) for key in ARGUMENTS for source in (function, entry))
    return next((value for value in given if value not in (None, "")), None)


def _name(function: JsonObject) -> str:
    name = function.get("name")
    if isinstance(name, str):
        return name.strip()
    return ""


def _is_standard(entry: JsonObject, function: JsonObject, name: str, arguments: Json) -> bool:
    """True if strict clients read the delta as it is read here."""
    written = function.get("arguments")
    return all(
        (
            isinstance(written, str | None),
            arguments in (written, None),
            function.get("name") in (name, None),
            entry.get("type") in ("function", None),
            isinstance(entry.get("id"), str | None),
            isinstance(entry.get("index"), int | None),
        )
    )


def _index(index: Json) -> int | None:
    """The index as a number; servers send strings too."""
    if isinstance(index, bool):
        return None
    if isinstance(index, int):
        return index if index >= 0 else None
    if isinstance(index, str) and _DIGITS.fullmatch(index):
        return int(index[:_MAX_DIGITS])
    return None


def _id(value: Json) -> str | None:
    """The id as a string; servers send numbers too (F44)."""
    # {"index": 0, "id": 7, "function": {"name": "bash"}}
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value
    return None


def _text(value: Json) -> str:
    """A text as it is; servers that send an object mean its JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return dump_json(value).decode()
    except RecursionError:
        raise UnreadableReply("the arguments of a tool call are nested too deeply") from None
