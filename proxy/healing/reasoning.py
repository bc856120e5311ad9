"""Reasoning in requests: switches in the family's words, earlier reasoning sent back, and the marks of the reply.

Earlier reasoning is sent back in the client's field, and also in the field that the family's template reads, if that is
another one. What is sent upstream depends on the request alone, and each message is independent of later ones (contract
C8). The template decides how much earlier reasoning is in the prompt.

Clients send `reasoning_effort`, `enable_thinking`, `thinking` or OpenRouter's `reasoning`. A chat template reads only
one variable, and some raise on an unknown word. The client's value for the template's own variable takes precedence.

    {"reasoning_effort": "none"}         {"chat_template_kwargs": {"enable_thinking": false}}        Qwen3
    {"reasoning_effort": "xhigh"}        {"chat_template_kwargs": {"thinking_effort": "max"}}        Kimi K3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.healing.conversation import replaced, text_part
from proxy.healing.families import FAMILIES, PARTS, Family, Opens, Switch, family_of
from proxy.json import Json, JsonObject, as_list, as_object, as_text, dump_json, objects_in, without
from proxy.notations.thoughts import ALL_MARKERS, REASONING_MARKERS, Thoughts
from proxy.repair.record import Repair

# The fields in which clients send reasoning, the most common first.
_FIELDS = ("reasoning_content", "reasoning", "thinking")
_DETAILS = "reasoning_details"
_DEFAULT = "reasoning_content"
# The fields in which clients prescribe the form of the whole reply: vLLM, llama.cpp, SGLang.
_GRAMMARS = (
    *("structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice"),
    *("grammar", "json_schema", "regex", "ebnf"),
)
_OF_FAMILIES = {marker.opener: marker for family in FAMILIES for marker in family.markers if "<|" in marker.opener}
# Marks recognized in replies if the family is unknown. Of the marks that only some families write, those with special
# tokens are included: ordinary text may begin with `<answer>`.
SHOWN_BY_REPLY = Thoughts(tuple({**_OF_FAMILIES, **{marker.opener: marker for marker in REASONING_MARKERS}}.values()))

_KWARGS = "chat_template_kwargs"
_EFFORT = "reasoning_effort"
_SWITCHES = ("enable_thinking", "thinking")
# The fields in which clients set thinking, besides the template's own variable.
_SWITCH_FIELDS = (*_SWITCHES, "reasoning", _EFFORT)
_WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# The suffixes of a model name that set thinking: `qwen3:nothink`.
_SUFFIXES = {"think": True, "nothink": False}
SUFFIXES = (*_SUFFIXES, *_WORDS)
# The words offered to users, from the least to the most effort.
_OFFERED = ("none", "low", "medium", "high", "xhigh")
_TYPES = {"enabled": True, "adaptive": True, "disabled": False}


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
    made = given_back(told, family)
    return ThinkingRequest(made, switching, thoughts_of(made, family))


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


def given_back(body: JsonObject, family: Family | None) -> JsonObject:
    """Return the request with its reasoning in the model's field; the same object if nothing changes."""
    fields = family.fields if family else ()
    return replaced(body, "messages", [_as_read(message, fields) for message in as_list(body.get("messages"))])


def _as_read(message: Json, fields: Sequence[str]) -> Json:
    """Return a message with its reasoning in the best of these fields, or in `reasoning_content` if there are none."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    thought, content = thought_of(message), message.get("content")
    if not thought:
        return message
    if PARTS in fields:
        texts = [text_part(content)] if isinstance(content, str) and content else as_list(content)
        if any(as_object(part).get("type") == "thinking" for part in texts):
            return message
        parts: list[Json] = [{"type": "thinking", "thinking": thought}, *texts]
        return {**without(message, *_FIELDS, _DETAILS), "content": parts}
    read = fields or _FIELDS
    if any(as_text(message.get(name)) for name in read):
        return message
    return without({**message, read[0]: thought}, _DETAILS)


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


# Switches.


def of_rules(switch: str) -> Family | None:
    """Return a family with the switch that the rules name, for a model of unknown family; None if they name none.

    `reasoning_effort` is sent as gpt-oss reads it.
    """
    if switch == _EFFORT:
        return family_of("", "gpt-oss")
    return Family(switch=Switch(switch)) if switch in _SWITCHES else None


def switched(body: JsonObject, family: Family | None, suffix: str = "") -> tuple[JsonObject, tuple[Repair, ...]]:
    """Return the request in the words of the family; the same object if nothing changes.

    `suffix` is the suffix of the model's name; it takes precedence over everything else.
    """
    if family is None or not (family.switch or family.efforts):
        return body, ()
    switch, efforts = family.switch, family.efforts
    switches = (switch.name, *switch.also) if switch else ()
    own = (*switches, efforts.name) if efforts and not efforts.top else switches
    foreign = tuple(name for name in _SWITCHES if name not in own)
    on, effort = (_SUFFIXES.get(suffix), suffix) if suffix else _wish(body, foreign)
    if effort not in _WORDS:
        effort = ""
    if on is None and effort == "none":
        on = False
    if on is False:
        effort = "none"
    if on is None and not effort:
        return body, ()
    variables = without(as_object(body.get(_KWARGS)), *foreign, *(own if suffix else ()))
    made = without(body, *_SWITCH_FIELDS, _KWARGS)
    if switch:
        wanted = effort != "minimal" if on is None and efforts is None else on
        if wanted is not None and variables.keys().isdisjoint(switches):
            variables[switch.name] = switch.on if wanted else switch.off
    word = efforts.words.get(effort or "on") if efforts else None
    if efforts and word is not None:
        if efforts.top:
            made[efforts.name] = word
        else:
            variables.setdefault(efforts.name, word)
    if variables:
        made[_KWARGS] = variables
    if made == body:
        return body, ()
    record = Repair("thinking", _shown(body), _shown(made), "thinking is switched in the model's own words")
    # Keep the client's order. New fields precede the messages, which stay last (contract C8).
    first = {name: value for name, value in made.items() if name not in body}
    return {**first, **{name: made[name] for name in body if name in made}}, (record,)


def effort_words(family: Family | None) -> tuple[str, ...]:
    """Return the effort words with distinct meanings for the family; none if it has no effort."""
    if family is None or family.efforts is None:
        return ("none", "medium") if family and family.switch else ()
    words: dict[str, str] = {}
    for word in _OFFERED:
        meant = family.efforts.words.get(word, "")
        if meant not in words or word == meant:
            words[meant] = word
    return tuple(words.values())


def _wish(body: JsonObject, foreign: tuple[str, ...]) -> tuple[bool | None, str]:
    """Return whether the client wants thinking, and the effort, from fields that the template does not read."""
    variables, reasoning = as_object(body.get(_KWARGS)), as_object(body.get("reasoning"))
    thinking = body.get("thinking")
    if not isinstance(thinking, bool):  # other APIs send {"type": "disabled"}
        thinking = _TYPES.get(str(as_object(thinking).get("type")))
    switches = [*map(variables.get, foreign), body.get("enable_thinking"), thinking, reasoning.get("enabled")]
    on = next((value for value in switches if isinstance(value, bool)), None)
    return on, as_text(body.get(_EFFORT) or reasoning.get("effort"))


def _shown(body: JsonObject) -> str:
    return dump_json({name: body[name] for name in (*_SWITCH_FIELDS, _KWARGS) if name in body}).decode()
