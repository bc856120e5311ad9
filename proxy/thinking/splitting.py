"""Telling the thoughts in a reply's text from it, by the model's family and the request's own switch."""

from __future__ import annotations

from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject
from proxy.notations.thoughts import ALL_MARKERS, REASONING_MARKERS, Thoughts
from proxy.thinking.families import FAMILIES, Family, Opens

# The fields in which clients say what the whole reply must look like: vLLM, llama.cpp, SGLang.
_GRAMMARS = (
    *("structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice"),
    *("grammar", "json_schema", "regex", "ebnf"),
)
_OF_FAMILIES = {marker.opener: marker for family in FAMILIES for marker in family.markers if "<|" in marker.opener}
# What the reply itself can show where the model's family is not known. Of the marks that only some families write,
# those with special tokens count: a text may well begin with `<answer>`.
SHOWN_BY_REPLY = Thoughts(tuple({**_OF_FAMILIES, **{marker.opener: marker for marker in REASONING_MARKERS}}.values()))


def thoughts_of(body: JsonObject, family: Family | None) -> Thoughts:
    """The thoughts of the reply to a request, as it goes up; of a model of no known family nothing is known."""
    if family is None:
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
