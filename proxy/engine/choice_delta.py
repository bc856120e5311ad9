"""What one entry of a chunk's `choices` says."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.codec.json_access import may_hold_text
from proxy.codec.json_text import Json, JsonObject
from proxy.engine.call_delta import CallDelta, read_deltas, read_message_calls
from proxy.engine.events import Reasoning, Text
from proxy.errors import UnreadableReply

# The words by which servers say that the model stopped by itself. Every other one says that the reply was cut, vLLM's
# `repetition` too: it stays, and nothing is completed (contract C4).
NATURAL = frozenset(
    ("stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence", "end_turn"),
)
# The words of the API reference for a reply without calls; every client knows them.
USUAL_ENDS = frozenset(("stop", "length", "content_filter"))
# Words of servers that gave the generation up, or lost it. DeepSeek's for a server that is too busy is the last one.
GAVE_UP = frozenset(("abort", "aborted", "cancelled", "error", "timeout", "insufficient_system_resource"))


def was_cut(finish: str | None) -> bool:
    """True if a finish reason says that the model did not stop by itself; None is a stream that only ended."""
    return finish is not None and finish not in NATURAL


# Fields of a delta that say something.
REASONING_FIELDS = ("reasoning", "reasoning_content", "thinking")
_ANSWER_FIELDS = ("content", "tool_calls", "function_call")
_SAYS = (*_ANSWER_FIELDS, *REASONING_FIELDS)
# Fields of a delta, or of the entry around it, that say nothing where they are empty, and signs of life that some
# servers send (F64).
_NOTHING: tuple[Json, ...] = (None, "", [], {}, False)
_SIGNS = frozenset(("tool_call_generating",))
_NEVER_SAY_ANYTHING = frozenset(("index", "delta", *_SIGNS))
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


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """What one entry of a chunk's `choices` says: text, reasoning, pieces of calls, and the finish reason.

    `empty_calls`: it has a list of no calls. `sign_of_life`: it says nothing, not even a role.
    """

    text: str
    reasoning: str
    calls: tuple[CallDelta, ...]
    finish: str | None
    empty_calls: bool = False
    sign_of_life: bool = False

    @property
    def has_content(self) -> bool:
        """True if it has text or reasoning."""
        return any((self.text, self.reasoning))

    @property
    def has_only_calls(self) -> bool:
        """True if it has calls, and neither content nor a finish reason."""
        if self.finish:
            return False
        return not self.has_content

    @property
    def has_only_content(self) -> bool:
        """True if it has neither calls nor a finish reason."""
        return not any((self.calls, self.finish))

    def content(self, choice: int) -> list[Text | Reasoning]:
        """The events of its reasoning and its text, as they are if nothing else is in it."""
        events: list[Text | Reasoning] = []
        if self.reasoning:
            events.append(Reasoning(choice, self.reasoning))
        if self.text:
            events.append(Text(choice, self.text))
        return events


def choice_entries(body: JsonObject) -> list[JsonObject]:
    """Return the entries of a chunk's `choices`, without those that can say nothing.

    Raise UnreadableReply if `choices` is not a list, an entry is not an object, or the chunk says something outside of
    `choices`: `{"message": {"role": "assistant", "content": "Hi"}, "done": false}` is a chunk of another API.
    """
    choices = body.get("choices")
    if choices is None:
        _check_nothing_said(body)
        return []
    if not isinstance(choices, list):
        raise UnreadableReply("`choices` is not a list")
    entries: list[JsonObject] = []
    for entry in choices:
        if isinstance(entry, dict):
            entries.append(entry)
        elif may_hold_text(entry):
            raise UnreadableReply("a choice is not an object")
    return entries


def _check_nothing_said(body: JsonObject) -> None:
    for place in (body, body.get("delta"), body.get("message")):
        if isinstance(place, dict) and any(place.get(name) for name in _SAYS):
            raise UnreadableReply("content outside of `choices`")


def read_choice(entry: JsonObject) -> ChoiceDelta:
    """Read an entry of `choices`.

    A field of the wrong type that can hold no text counts as not said (F64). Raise UnreadableReply for any other, and
    for a `content` that is neither a string nor null nor a list of parts.

    {"index": 0, "delta": {"content": "Let me look."}, "finish_reason": null}
    {"index": 0, "delta": {}, "message": {"tool_calls": [...]}, "finish_reason": "tool_calls"}: the calls again
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
    reasoning = _text(said, "reasoning") + thought
    calls = tuple(read_deltas(delta))
    message = entry.get("message")
    if isinstance(message, dict):
        calls += tuple(read_message_calls(message))
    listed = delta.get("tool_calls")
    silent = not any((content, reasoning, listed))
    if silent:
        silent = _says_nothing(entry, delta)
    return ChoiceDelta(
        text,
        reasoning,
        calls,
        finish_of(entry),
        listed == [],
        silent,
    )


def answers(said: JsonObject) -> bool:
    """True if a delta has text, a refusal or calls."""
    return bool(said.get("refusal")) or any(said.get(name) for name in _ANSWER_FIELDS)


def reasons(said: JsonObject) -> bool:
    """True if a delta has reasoning."""
    return any(said.get(name) for name in REASONING_FIELDS)


def with_text(said: JsonObject, entry: JsonObject) -> JsonObject:
    """Return the delta or message of an entry with the entry's `text` as its content, if it has none.

    The text is in `text` in the legacy completions API. Together sends it in both places.

    {"index": 0, "text": "Let me look.", "finish_reason": null}
    """
    text = entry.get("text")
    if not may_hold_text(text) or said.get("content") or text in [said.get(name) for name in REASONING_FIELDS]:
        return said
    return {**said, "content": text}


def text_alone(entry: Json) -> str:
    """The text of an entry that says nothing else, and ends as replies do; "" for any other."""
    if not isinstance(entry, dict):
        return ""
    match read_choice(entry):
        case ChoiceDelta(text=text, reasoning="", calls=(), finish=str() as finish, empty_calls=False):
            return text if finish in USUAL_ENDS else ""
    return ""


def _text(value: Json, name: str) -> str:
    """Return a field as text, the texts of its parts joined."""
    if isinstance(value, str):
        return value
    return "".join(_read_parts(value, name)) if may_hold_text(value) else ""


def finish_of(entry: JsonObject) -> str | None:
    """Return the finish reason of an entry, None if it has none."""
    finish = entry.get("finish_reason")
    if isinstance(finish, str):
        return finish
    if may_hold_text(finish):
        raise UnreadableReply("`finish_reason` is not a string")
    return None


def _read_parts(parts: Json, name: str) -> tuple[str, str]:
    """Return the text and the reasoning of content parts, as some servers send them.

    Parts without text, such as images, are skipped. Raise UnreadableReply for a part that may hold text elsewhere:
    `{"type": "foo", "content": "Hi"}`.

    [{"type": "text", "text": "Let me look."}]
    [{"type": "thinking", "thinking": [{"type": "text", "text": "First"}]}]
    """
    if not isinstance(parts, list):
        raise UnreadableReply(f"`{name}` is neither a string nor a list of parts")
    texts: list[str] = []
    thoughts: list[str] = []
    for part in parts:
        fields: Json = {"text": part} if isinstance(part, str) else part
        if not isinstance(fields, dict):
            if may_hold_text(fields):
                raise UnreadableReply(f"a part of `{name}` is not an object")
            continue
        text, thought = _read_part(fields, name)
        if not (text or thought) and _may_hold_other_text(fields):
            raise UnreadableReply(f"a part of `{name}` has no known text field")
        texts.append(text)
        thoughts.append(thought)
    return "".join(texts), "".join(thoughts)


def _read_part(part: JsonObject, name: str) -> tuple[str, str]:
    """Return the text and the reasoning of one content part."""
    text, refusal = (_part_text(part.get(key), name) for key in ("text", "refusal"))
    thinking = part.get("thinking")
    thought = ""
    for piece in thinking if isinstance(thinking, list) else (thinking,):
        thought += _part_text(piece.get("text") if isinstance(piece, dict) else piece, name)
    if part.get("type") in _REASONING_PARTS:
        return refusal, text + thought
    return text + refusal, thought


def _may_hold_other_text(part: JsonObject) -> bool:
    if part.get("type") in _PARTS_WITHOUT_TEXT:
        return False
    return any(key not in _PART_LABELS and may_hold_text(value) for key, value in part.items())


def _part_text(text: Json, name: str) -> str:
    if isinstance(text, str):
        return text
    if may_hold_text(text):
        raise UnreadableReply(f"the text of a part of `{name}` is not a string")
    return ""


def _says_nothing(*objects: JsonObject) -> bool:
    """True if no field of these objects says anything."""
    fields = (field for fields in objects for field in fields.items())
    return all(value in _NOTHING for key, value in fields if key not in _NEVER_SAY_ANYTHING)
