"""Reads chunks in the dialects of all servers (F25, F29, F38 to F47, F64). Nothing is decided here.

In Chat Completions, a call delta has `index`, `id`, `function.name` and `function.arguments`:

    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": ""}}
    {"index": 0, "function": {"arguments": "{\"command\": "}}

Other servers use other names for the arguments, send an object instead of a string, or the legacy `function_call`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.engine.events import CallArguments, CallFields, CallOpened, ContentEvent, Reasoning, Text
from proxy.errors import UnreadableReply
from proxy.json import Json, JsonObject, dump_json, may_hold_text, without

# Finish reasons for a natural end. Every other reason means that the reply was cut off, including vLLM's `repetition`:
# the reason is kept, and no call is completed (contract C4).
NATURAL = frozenset(("stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence", "end_turn"))
# The finish reasons in the API reference for a reply without calls, which every client knows.
USUAL_ENDS = frozenset(("stop", "length", "content_filter"))
# Finish reasons of servers that aborted or lost the generation. DeepSeek sends the last one when it is overloaded.
GAVE_UP = frozenset(("abort", "aborted", "cancelled", "error", "timeout", "insufficient_system_resource"))

REASONING_FIELDS = ("reasoning", "reasoning_content", "thinking")
ANSWER_FIELDS = ("content", "tool_calls", "function_call")
# Values without content, and fields that never have content: some servers send them as heartbeats (F64).
_NOTHING: tuple[Json, ...] = (None, "", [], {}, False)
_NEVER_SAY_ANYTHING = frozenset(("index", "delta", "tool_call_generating"))
# Types of content parts whose `text` is reasoning.
_REASONING_PARTS = frozenset(("thinking", "reasoning", "reasoning_text"))
# Types of content parts without text: media, Mistral's references, and Anthropic's encrypted reasoning.
_PARTS_WITHOUT_TEXT = frozenset(
    (
        *("image", "image_url", "input_image", "output_image", "audio", "audio_url", "input_audio", "output_audio"),
        *("video", "video_url", "input_video", "file", "input_file", "document_url"),
        *("reference", "tool_reference", "redacted_thinking"),
    )
)
# Fields of a content part that describe it.
_PART_LABELS = frozenset(
    ("type", "id", "index", "signature", "encrypted_content", "annotations", "citations", "logprobs")
)
# Servers' names for the arguments, and the known fields of a call's function and of the entry around it.
_ARGUMENTS = ("arguments", "parsed_arguments", "args", "input")
_FUNCTION = frozenset(("name", *_ARGUMENTS))
_ENTRY = frozenset(("index", "id", "type", "function", *_FUNCTION))
# An index sent as a string.
_DIGITS = re.compile("[0-9]{1,9}")


def was_cut(finish: str | None) -> bool:
    """Return whether a finish reason means that the reply was cut off. None, a stream without a reason, does not."""
    return finish is not None and finish not in NATURAL


@dataclass(frozen=True, slots=True)
class CallDelta:
    """One delta of a call. `index` and `id` are None if the server gave none.

    `standard`: in the standard form, so that it may be forwarded unchanged. `complete`: `fragment` has all arguments
    instead of the next piece. `fields` are the extra fields of its entry.
    """

    index: int | None = None
    id: str | None = None
    name: str = ""
    fragment: str = ""
    standard: bool = False
    complete: bool = False
    fields: CallFields | None = None

    @property
    def begins_object(self) -> bool:
        """True if the fragment begins with a brace."""
        return self.fragment.lstrip().startswith("{")

    @property
    def plain(self) -> bool:
        """True if the delta has only an index and the next piece of the arguments, in the standard form."""
        if self.name or self.id is not None or self.index is None or self.fields is not None or self.complete:
            return False
        return self.standard and self.fragment != ""

    def events(self, choice: int) -> list[ContentEvent]:
        """Return the events of the delta without repairing anything."""
        index = self.index or 0
        arguments = CallArguments(choice, index, self.fragment, fields=self.fields)
        return [CallOpened(choice, index, self.id or "", self.name), arguments] if self.name else [arguments]


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """The content of one entry of `choices`: text, reasoning, call deltas and finish reason.

    `empty_calls`: the entry has an empty list of calls. `sign_of_life`: it has no content, not even a role.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[CallDelta, ...] = ()
    finish: str | None = None
    empty_calls: bool = False
    sign_of_life: bool = False

    def content(self, choice: int) -> list[ContentEvent]:
        """Return the events of the reasoning and the text, without holding or changing anything."""
        events: list[ContentEvent] = [Reasoning(choice, self.reasoning)] if self.reasoning else []
        return [*events, Text(choice, self.text)] if self.text else events

    def events(self, choice: int) -> list[ContentEvent]:
        """Return the events of the content and the calls, without repairing anything."""
        return [*self.content(choice), *(event for call in self.calls for event in call.events(choice))]


def choice_entries(body: JsonObject) -> list[JsonObject]:
    """Return the entries of a chunk's `choices`. Entries that cannot have content are skipped.

    Raises UnreadableReply if `choices` is not a list, an entry is not an object, or there is content outside of
    `choices`: `{"message": {"role": "assistant", "content": "Hi"}, "done": false}` is a chunk of another API.
    """
    choices = body.get("choices")
    if choices is None:
        for place in (body, body.get("delta"), body.get("message")):
            if isinstance(place, dict) and any(place.get(name) for name in (*ANSWER_FIELDS, *REASONING_FIELDS)):
                raise UnreadableReply("content outside of `choices`")
        return []
    return [*_objects(choices, "`choices`", "a choice")]


def read_choice(entry: JsonObject) -> ChoiceDelta:
    """Read an entry of `choices`.

    A field of the wrong type counts as missing if it cannot hold text (F64). Otherwise UnreadableReply is raised, as
    for a `content` that is neither a string nor null nor a list of parts.

    {"index": 0, "delta": {"content": "Let me look."}, "finish_reason": null}
    {"index": 0, "delta": {}, "message": {"tool_calls": [...]}, "finish_reason": "tool_calls"}  (repeats the calls)
    """
    delta = entry.get("delta")
    if not isinstance(delta, dict):
        if may_hold_text(delta):
            raise UnreadableReply("`delta` is not an object")
        delta = {}
    content = delta.get("content")
    if content is None or isinstance(content, str):
        text, thought = content or "", ""
    else:
        text, thought = _read_parts(content, "content")
    said = delta.get("reasoning") or delta.get("reasoning_content") or delta.get("thinking")
    if isinstance(said, str):
        thought = said + thought
    elif may_hold_text(said):
        thought = "".join(_read_parts(said, "reasoning")) + thought
    listed, message = delta.get("tool_calls"), entry.get("message")
    calls: tuple[CallDelta, ...] = ()
    if listed or "function_call" in delta or message is not None:
        calls = tuple(_read_calls(delta, message))
    silent = not (content or thought or listed) and all(
        value in _NOTHING for key, value in (*entry.items(), *delta.items()) if key not in _NEVER_SAY_ANYTHING
    )
    return ChoiceDelta(text, thought, calls, finish_of(entry), listed == [], silent)


def finish_of(entry: JsonObject) -> str | None:
    """Return the finish reason of an entry, or None. The number 0 counts as none."""
    finish = entry.get("finish_reason")
    if isinstance(finish, str):
        return finish
    if isinstance(finish, int) and not isinstance(finish, bool) and finish:
        return str(finish)  # its meaning is unknown, so the reply may have been cut off
    if may_hold_text(finish):
        raise UnreadableReply("`finish_reason` is not a string")
    return None


def _objects(listed: Json, name: str, each: str) -> Iterator[JsonObject]:
    """Yield the objects in a list. Raises UnreadableReply for other values that may hold text."""
    if not isinstance(listed, list):
        if may_hold_text(listed) or name == "`choices`":
            raise UnreadableReply(f"{name} is not a list")
        return
    for entry in listed:
        if isinstance(entry, dict):
            yield entry
        elif may_hold_text(entry):
            raise UnreadableReply(f"{each} is not an object")


def _read_parts(parts: Json, name: str) -> tuple[str, str]:
    """Return the text and the reasoning of content parts, as some servers send them.

    Parts without text, such as images, are skipped. Raises UnreadableReply for a part that may hold text in an unknown
    field: `{"type": "foo", "content": "Hi"}`.

    [{"type": "text", "text": "Let me look."}]
    [{"type": "thinking", "thinking": [{"type": "text", "text": "First"}]}]
    """
    if not isinstance(parts, list):
        raise UnreadableReply(f"`{name}` is neither a string nor a list of parts")
    texts = thoughts = ""
    fields: list[Json] = [{"text": each} if isinstance(each, str) else each for each in parts]
    for part in _objects(fields, f"`{name}`", f"a part of `{name}`"):
        kind, thinking = part.get("type"), part.get("thinking")
        text, refusal = (_part_text(part.get(key), name) for key in ("text", "refusal"))
        thought = ""
        for piece in thinking if isinstance(thinking, list) else (thinking,):
            thought += _part_text(piece.get("text") if isinstance(piece, dict) else piece, name)
        if kind in _REASONING_PARTS:
            text, thought = "", text + thought
        unread = (value for key, value in part.items() if key not in _PART_LABELS)
        if not (text or refusal or thought or kind in _PARTS_WITHOUT_TEXT) and any(map(may_hold_text, unread)):
            raise UnreadableReply(f"a part of `{name}` has no known text field")
        texts += text + refusal
        thoughts += thought
    return texts, thoughts


def _part_text(text: Json, name: str) -> str:
    if isinstance(text, str):
        return text
    if may_hold_text(text):
        raise UnreadableReply(f"the text of a part of `{name}` is not a string")
    return ""


def _read_calls(delta: JsonObject, message: Json) -> Iterator[CallDelta]:
    """Yield the call deltas in a delta, and the whole calls in a `message` next to it, numbered by position.

    Raises UnreadableReply for an entry whose name or arguments cannot be found.
    """
    listed, legacy = delta.get("tool_calls"), delta.get("function_call")
    if not listed and may_hold_text(legacy):
        # {"function_call": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}; some servers send both forms.
        listed = [{"function": legacy}]
    for entry in _objects(listed, "`tool_calls`", "a tool call"):
        yield read_call(entry)
    if isinstance(message, dict):
        for entry in _objects(numbered(message.get("tool_calls")), "`tool_calls`", "a tool call"):
            yield read_call(entry, complete=True)


def numbered(listed: Json) -> Json:
    """Return a list of calls with each call's position as its index."""
    if not isinstance(listed, list):
        return listed
    return [{**entry, "index": at} if isinstance(entry, dict) else entry for at, entry in enumerate(listed)]


def read_call(entry: JsonObject, *, complete: bool = False) -> CallDelta:
    """Read an entry of `tool_calls`. Its id may be a number (F44), and its index a string."""
    function, index, id_ = entry.get("function"), entry.get("index"), entry.get("id")
    if not isinstance(function, dict):
        if may_hold_text(function):
            raise UnreadableReply("the `function` of a tool call is not an object")
        # {"index": 0, "name": "bash", "args": {"command": "ls"}}: no object around name and arguments.
        function = entry
    written = arguments = function.get("arguments")
    if arguments is None or arguments == "":
        given = (source.get(key) for key in _ARGUMENTS for source in (function, entry))
        arguments = next((value for value in given if value not in (None, "")), None)
    named = function.get("name")
    name = named.strip() if isinstance(named, str) else ""
    number = index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None
    if isinstance(index, str) and _DIGITS.fullmatch(index):
        number = int(index)
    standard = (
        function is not entry
        and isinstance(written, str | None)
        and arguments in (written, None)
        and named in (name, None)
        and isinstance(id_, str | None)
        and number == index
        and entry.get("type") in ("function", None)
    )
    text = "" if arguments is None else arguments
    if not isinstance(text, str):
        try:
            text = dump_json(text).decode()
        except RecursionError:
            raise UnreadableReply("the arguments of a tool call are nested too deeply") from None
    return CallDelta(
        number,
        str(id_) if isinstance(id_, str | int) and not isinstance(id_, bool) else None,
        name,
        text,
        standard,
        complete,
        other_fields(entry, function),
    )


def other_fields(entry: JsonObject, function: JsonObject) -> CallFields | None:
    """Return the extra fields of an entry of `tool_calls`, or None if it has none.

    `function` is the entry itself if name and arguments are directly in the entry.
    """
    if entry.keys() <= _ENTRY and (function is entry or function.keys() <= _FUNCTION):
        return None
    return CallFields(without(entry, *_ENTRY), {} if function is entry else without(function, *_FUNCTION))
