"""Reasoning of a model: the request in its family's words, earlier reasoning sent back, and how the reply marks it.

Earlier reasoning is sent back in the field in which the client brings it; where the family's template reads another
one, in that too. What is sent upstream is a function of the request alone, each message written without regard to
later ones (contract C8): which of the earlier reasoning is in the prompt is decided by the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.healing.families import FAMILIES, PARTS, Family, Opens
from proxy.healing.switches import of_rules, switched
from proxy.notations.thoughts import ALL_MARKERS, REASONING_MARKERS, Thoughts

# The fields in which clients bring thoughts.
_FIELDS = ("reasoning_content", "reasoning", "thinking")
_DETAILS = "reasoning_details"
_DEFAULT = "reasoning_content"
_UNKNOWN = Family("", ())
_MOVED = "the template takes no text beside a thought and a call: it stands before them"
# The fields in which clients say what the whole reply must look like: vLLM, llama.cpp, SGLang.
_GRAMMARS = (
    *("structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice"),
    *("grammar", "json_schema", "regex", "ebnf"),
)
_OF_FAMILIES = {marker.opener: marker for family in FAMILIES for marker in family.markers if "<|" in marker.opener}
# What the reply itself can show where the model's family is not known. Of the marks that only some families write,
# those with special tokens count: a text may well begin with `<answer>`.
SHOWN_BY_REPLY = Thoughts(tuple({**_OF_FAMILIES, **{marker.opener: marker for marker in REASONING_MARKERS}}.values()))


@dataclass(frozen=True, slots=True)
class ThinkingRules:
    """The facts of a model: its family, None if unknown; what the rules name as its switch; `suffix`:
    what the name that the client uses says of thinking.
    """

    family: Family | None
    switch: str = "none"
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingRequest:
    """A request in the words of the model's family, the records of what was done to it, and how the thoughts in the
    text of its reply would be told. `changed`: its body is another one than came.
    """

    body: JsonObject
    audit: tuple[Repair, ...]
    thoughts: Thoughts
    changed: bool


def think(body: JsonObject, rules: ThinkingRules) -> ThinkingRequest:
    """The request in the words of the model's family."""
    family = rules.family
    if rules.suffix and (family is None or not family.markers):
        family = of_rules(rules.switch)
    told, switching = switched(body, family, rules.suffix)
    made, giving = given_back(told, rules.family)
    return ThinkingRequest(made, (*switching, *giving), thoughts_of(made, rules.family), made is not body)


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


def thoughts_of(body: JsonObject, family: Family | None) -> Thoughts:
    """The thoughts of the reply to a request, as it goes up; of a model of no known family nothing is known."""
    if family is None or not family.markers:
        return Thoughts(ALL_MARKERS, unknown=True)
    opens = _opens(family, is_on(body, family))
    if opens is Opens.YES and (_goes_on(body) or _is_guided(body)):
        opens = Opens.UNKNOWN
    begun = family.markers[0].opener if opens is Opens.YES else ""
    return Thoughts(family.markers, begun, unknown=opens is Opens.UNKNOWN, family=family.name)


def _opens(family: Family, on: bool | None) -> Opens:
    if on is None:
        return family.prompt.unsaid
    return family.prompt.on if on else family.prompt.off


def _goes_on(body: JsonObject) -> bool:
    """True if the model goes on with the last message instead of beginning one: a thought may be open in that."""
    return bool(body.get("continue_final_message")) or body.get("add_generation_prompt") is False


def _is_guided(body: JsonObject) -> bool:
    """True if the server's grammar decides how the reply begins: one that does not know thoughts leaves none."""
    choice = body.get("tool_choice")
    if choice == "required" or isinstance(choice, dict):
        return True
    if as_object(body.get("response_format")).get("type", "text") != "text":
        return True
    return any(body.get(name) for name in _GRAMMARS)


def is_on(body: JsonObject, family: Family) -> bool | None:
    """True if a request switches thinking on, False for off, in the words of the family; None if it says nothing of it.
    """
    variables = as_object(body.get("chat_template_kwargs"))
    switch, efforts = family.switch, family.efforts
    if switch is not None:
        for name in (switch.name, *switch.also):
            if name in variables:
                return variables[name] != switch.off
    if efforts is None or switch is not None:
        return None
    word = variables.get(efforts.name, body.get(efforts.name))
    if word is None:
        return None
    return word != efforts.words.get("none", "none")
