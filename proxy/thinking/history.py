"""Earlier thoughts on their way back to the model, in the field that its template reads.

A thought goes up in the field in which the client brings it; where the family's template reads another one, in that
too. What goes up is a function of the request alone, each message written without regard to later ones (contract C8):
which of the earlier thoughts stand in the prompt is decided by the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.audit_record import Repair
from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.thinking.families import PARTS, Family

# The fields in which clients bring thoughts.
_FIELDS = ("reasoning_content", "reasoning", "thinking")
_DETAILS = "reasoning_details"
_DEFAULT = "reasoning_content"
_UNKNOWN = Family("", ())
_MOVED = "the template takes no text beside a thought and a call: it stands before them"


def field_back(family: Family | None, *, wanted: bool) -> str:
    """Return the field for thoughts that a client brings in none; "" if they do not go back.

    The family decides, else the server has: `wanted` if it has refused a request without.
    """
    if wanted or (family is not None and family.fields):
        return _DEFAULT
    return ""


def thought_of(message: JsonObject) -> str:
    """The thought that a message of the assistant's brings, in whatever field; "" if it brings none."""
    brought = (as_text(message.get(name)) for name in _FIELDS)
    return next(filter(None, brought), "") or _of_details(message.get(_DETAILS))


def given_back(body: JsonObject, family: Family | None) -> tuple[JsonObject, tuple[Repair, ...]]:
    """Return the request with its thoughts where the model reads them, the very same if nothing changes."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body, ()
    made: list[Json] = []
    changed = moved = False
    for message in messages:
        rewritten = _as_read(message, family)
        moved |= len(rewritten) > 1
        changed |= rewritten[0] is not message
        made += rewritten
    if not changed:
        return body, ()
    records: list[Repair] = []
    if moved:
        records.append(Repair("thought_beside_text", "", "", _MOVED))
    return {**body, "messages": made}, tuple(records)


def _as_read(message: Json, family: Family | None) -> Sequence[Json]:
    """A message as the model reads it; two where text may not stand beside its thought."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return (message,)
    brought = {name: text for name in _FIELDS if (text := as_text(message.get(name)))}
    thought = thought_of(message)
    if not thought:
        return (message,)
    family = family or _UNKNOWN
    if PARTS in family.fields:
        return (_in_parts(message, thought),)
    if not _is_read(brought, family.fields):
        message = {**message, (family.fields or (_DEFAULT,))[0]: thought}
        message.pop(_DETAILS, None)
    return _alone(message) if family.alone else (message,)


def _without(message: JsonObject) -> JsonObject:
    """A message without its thoughts, the very same if it has none."""
    fields = {key: value for key, value in message.items() if key not in (*_FIELDS, _DETAILS)}
    if len(fields) == len(message):
        return message
    return fields


def _is_read(brought: Mapping[str, str], fields: tuple[str, ...]) -> bool:
    """True if the model reads a thought in a field in which the client brings it, as far as that is known."""
    if not fields:
        return bool(brought)
    return any(name in brought for name in fields)


def _of_details(details: Json) -> str:
    """The text in OpenRouter's details: `[{"type": "reasoning.text", "text": "…"}]`."""
    texts = (part.get("text") or part.get("summary") for part in objects_in(details))
    return "".join(text for text in texts if isinstance(text, str))


def _in_parts(message: JsonObject, thought: str) -> JsonObject:
    """A message with its thought among the parts of its content."""
    content = message.get("content")
    parts: list[Json] = [{"type": "thinking", "thinking": thought}]
    if isinstance(content, str) and content:
        parts.append({"type": "text", "text": content})
    elif isinstance(content, list):
        if any(as_object(part).get("type") == "thinking" for part in content):
            return message
        parts += content
    return {**_without(message), "content": parts}


def _alone(message: JsonObject) -> Sequence[JsonObject]:
    """A message whose text stands before its thought and its calls, in one of its own."""
    if not message.get("tool_calls") or not message.get("content"):
        return (message,)
    text_message: JsonObject = {"role": "assistant", "content": message["content"]}
    return (text_message, {**message, "content": ""})
