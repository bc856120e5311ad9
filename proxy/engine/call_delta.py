"""What servers say of a call in one delta, in whatever words they say it (F25, F29, F42 to F44, F64).

The words of chat completions are `index`, `id`, `function.name` and `function.arguments`; others put the arguments
under other names, or as an object, send the legacy `function_call`, or the events of the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.engine.events import CallArguments, CallOpened
from proxy.errors import UpstreamBroken

_ARGUMENTS = ("arguments", "parsed_arguments", "args", "input")
_EVENT = "response.function_call_arguments."


@dataclass(frozen=True, slots=True)
class CallDelta:
    """One piece of a call. `index` and `id` are None where the server gave none.

    `plain`: said in the words of chat completions, so that it may leave as it came. `whole`: `fragment` is not the next
    piece of the arguments, but all of them.
    """

    index: int | None = None
    id: str | None = None
    name: str = ""
    fragment: str = ""
    plain: bool = False
    whole: bool = False


def read_deltas(said: JsonObject) -> Iterator[CallDelta]:
    """The pieces of calls in a chunk's `delta`, or in the message of a whole answer."""
    listed = said.get("tool_calls")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict):
            yield _read(entry, whole=False)
    legacy = said.get("function_call")
    if isinstance(legacy, dict) and not listed:  # some say it in both ways
        yield _read({"function": legacy}, whole=False)


def read_whole_calls(message: JsonObject) -> Iterator[CallDelta]:
    """The calls of a whole `message` that a server adds to a chunk of a stream; their place is their index."""
    listed = message.get("tool_calls")
    for number, entry in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(entry, dict):
            yield _read({**entry, "index": number}, whole=True)


def read_event(body: JsonObject) -> CallDelta | None:
    """The piece in an event of the Responses API on a chat stream; None for every other body."""
    kind = body.get("type")
    if kind not in (f"{_EVENT}delta", f"{_EVENT}done"):
        return None
    whole = kind == f"{_EVENT}done"
    text = body.get("arguments" if whole else "delta")
    id_ = body.get("call_id") or body.get("item_id")
    return CallDelta(None, _id(id_), _text(body.get("name")), _text(text), whole=whole)


def said_calls(choice: int, said: CallDelta) -> tuple[CallOpened | CallArguments, ...]:
    """What a call's delta says, as it stands; nothing is put right."""
    at = said.index or 0
    opened = (CallOpened(choice, at, said.id or "", said.name),) if said.name else ()
    return (*opened, CallArguments(choice, at, said.fragment))


def _read(entry: JsonObject, *, whole: bool) -> CallDelta:
    return _read_plain(entry) or _read_any(entry, whole=whole)


def _read_plain(entry: JsonObject) -> CallDelta | None:
    """What most deltas are, read fast: an index and the next fragment."""
    function, index = entry.get("function"), entry.get("index")
    if not isinstance(function, dict) or len(function) != 1 or len(entry) != 2 or type(index) is not int or index < 0:
        return None
    said = function.get("arguments")
    return CallDelta(index, None, "", said, plain=True) if isinstance(said, str) and said else None


def _read_any(entry: JsonObject, *, whole: bool) -> CallDelta:
    function = entry.get("function")
    function = function if isinstance(function, dict) else entry
    given = [source.get(key) for key in _ARGUMENTS for source in (function, entry)]
    arguments = next((value for value in given if value not in (None, "")), None)
    said = function.get("arguments")
    plain = isinstance(said, str | None) and arguments in (said, None) and function is not entry
    name = function.get("name")
    bare = name.strip() if isinstance(name, str) else ""
    plain = plain and name in (bare, None) and entry.get("type") in ("function", None)
    plain = plain and isinstance(entry.get("id"), str | None) and isinstance(entry.get("index"), int | None)
    return CallDelta(_index(entry.get("index")), _id(entry.get("id")), bare, _text(arguments), plain, whole)


def _index(index: Json) -> int | None:
    if isinstance(index, str) and index.isascii() and index.isdigit():
        return int(index[:9])
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None


def _id(given: Json) -> str | None:
    """The id as a string; servers send numbers too (F44)."""
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return given if isinstance(given, str) else None


def _text(value: Json) -> str:
    """A text as it is; servers that send an object mean its JSON."""
    if value is None:
        return ""
    try:
        return value if isinstance(value, str) else dump_json(value).decode()
    except RecursionError:
        raise UpstreamBroken("the arguments of a tool call are nested too deeply") from None
