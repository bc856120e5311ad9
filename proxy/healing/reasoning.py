"""Reasoning in requests: switches in the family's words, earlier reasoning sent back, and the marks of the reply.

Earlier reasoning is sent back in the client's field, and also in the field that the family's template reads, if that is
another one. What is sent upstream depends on the request alone, and each message is independent of later ones (contract
C8). The template decides how much earlier reasoning is in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.healing.conversation import replaced, text_part, without
from proxy.healing.families import FAMILIES, PARTS, Family, Opens
from proxy.healing.switches import of_rules, switched
from proxy.json import Json, JsonObject, as_list, as_object, as_text, objects_in
from proxy.notations.thoughts import ALL_MARKERS, REASONING_MARKERS, Thoughts
from proxy.repair.record import Repair

# The fields in which clients send reasoning.
_FIELDS = ("reasoning_content", "reasoning", "thinking")
_DETAILS = "reasoning_details"
_DEFAULT = "reasoning_content"
_UNKNOWN = Family("", "")
_MOVED = "the template accepts no text next to reasoning and a call, so the text is moved before them"
# The fields in which clients prescribe the form of the whole reply: vLLM, llama.cpp, SGLang.
_GRAMMARS = (
    *("structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice"),
    *("grammar", "json_schema", "regex", "ebnf"),
)
_OF_FAMILIES = {marker.opener: marker for family in FAMILIES for marker in family.markers if "<|" in marker.opener}
# Marks recognized in replies if the family is unknown. Of the marks that only some families write, those with special
# tokens are included: ordinary text may begin with `<answer>`.
SHOWN_BY_REPLY = Thoughts(tuple({**_OF_FAMILIES, **{marker.opener: marker for marker in REASONING_MARKERS}}.values()))


@dataclass(frozen=True, slots=True)
class ThinkingRequest:
    """A request translated for the model's family, its audit records, and the reasoning marks of the reply."""

    body: JsonObject
    audit: tuple[Repair, ...]
    thoughts: Thoughts


def think(body: JsonObject, family: Family | None, switch: str = "none", suffix: str = "") -> ThinkingRequest:
    """Translate the request for the model's family; without changes, the body is the same object.

    `switch` is named by the rules, for a family without one. `suffix` is that of the client's model name.
    """
    switching_family = of_rules(switch) if suffix and (family is None or not family.markers) else family
    told, switching = switched(body, switching_family, suffix)
    made, giving = given_back(told, family)
    return ThinkingRequest(made, (*switching, *giving), thoughts_of(made, family))


def field_back(family: Family | None, *, wanted: bool) -> str:
    """Return the field for earlier reasoning if the client's API has none; "" if reasoning is not sent back.

    The family decides, or the server: `wanted` if it has rejected a request without reasoning.
    """
    return _DEFAULT if wanted or (family is not None and family.fields) else ""


def thought_of(message: JsonObject) -> str:
    """Return the reasoning of an assistant message from any field, or ""."""
    brought = (as_text(message.get(name)) for name in _FIELDS)
    # OpenRouter: `[{"type": "reasoning.text", "text": "…"}]`
    details = (as_text(part.get("text") or part.get("summary")) for part in objects_in(message.get(_DETAILS)))
    return next(filter(None, brought), "") or "".join(details)


def given_back(body: JsonObject, family: Family | None) -> tuple[JsonObject, tuple[Repair, ...]]:
    """Return the request with its reasoning in the model's field; the same object if nothing changes."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body, ()
    made: list[Json] = []
    moved = False
    for message in messages:
        rewritten = _as_read(message, family or _UNKNOWN)
        moved |= len(rewritten) > 1
        made += rewritten
    new = replaced(body, "messages", made)
    return new, (Repair("thought_beside_text", "", "", _MOVED),) if moved else ()


def _as_read(message: Json, family: Family) -> Sequence[Json]:
    """Return a message in the form that the model reads: two messages if text must not be next to its reasoning."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return (message,)
    thought, content = thought_of(message), message.get("content")
    if not thought:
        return (message,)
    if PARTS in family.fields:
        texts = [text_part(content)] if isinstance(content, str) and content else as_list(content)
        if any(as_object(part).get("type") == "thinking" for part in as_list(content)):
            return (message,)
        parts: list[Json] = [{"type": "thinking", "thinking": thought}, *texts]
        return ({**without(message, *_FIELDS, _DETAILS), "content": parts},)
    read = family.fields or _FIELDS
    if not any(as_text(message.get(name)) for name in read if name in _FIELDS):
        message = without({**message, (family.fields or (_DEFAULT,))[0]: thought}, _DETAILS)
    if not family.alone or not message.get("tool_calls") or not content:
        return (message,)
    return ({"role": "assistant", "content": content}, {**message, "content": ""})


def thoughts_of(body: JsonObject, family: Family | None) -> Thoughts:
    """Return how the reply to a request marks reasoning: with any known mark if the family is unknown."""
    if family is None or not family.markers:
        return Thoughts(ALL_MARKERS, unknown=True)
    on, prompt = is_on(body, family), family.prompt
    opens = prompt.unsaid if on is None else prompt.on if on else prompt.off
    # The model may continue the last message, or the server's grammar may decide how the reply begins.
    goes_on = body.get("continue_final_message") or body.get("add_generation_prompt") is False
    if opens is Opens.YES and (goes_on or _is_guided(body)):
        opens = Opens.UNKNOWN
    begun = family.markers[0].opener if opens is Opens.YES else ""
    return Thoughts(family.markers, begun, unknown=opens is Opens.UNKNOWN, family=family.name)


def _is_guided(body: JsonObject) -> bool:
    choice = body.get("tool_choice")
    if choice == "required" or isinstance(choice, dict):
        return True
    if as_object(body.get("response_format")).get("type", "text") != "text":
        return True
    return any(map(body.get, _GRAMMARS))


def is_on(body: JsonObject, family: Family) -> bool | None:
    """Return whether a request in the family's words turns thinking on; None if it does not say."""
    variables = as_object(body.get("chat_template_kwargs"))
    switch, efforts = family.switch, family.efforts
    if switch is not None:
        said = (variables[name] != switch.off for name in (switch.name, *switch.also) if name in variables)
        return next(said, None)
    if efforts is None:
        return None
    word = variables.get(efforts.name, body.get(efforts.name))
    return None if word is None else word != efforts.words.get("none", "none")
