"""The fate of agents' conversations in the chat template: taken, refused, or left out of the prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.codec.json_access import as_object
from proxy.codec.json_text import Json, JsonObject, dump
from proxy.doctor.asking import shown
from proxy.doctor.examination import Examination, Finding, Level, Probe, good, unknown
from proxy.doctor.prompts import Fate, MakeConversation
from proxy.doctor.syntaxes import TOOL
from proxy.healing.heal import in_force

# What is looked for in the prompt: one token or several, but one run of letters in every vocabulary.
MARK = "mkwatched"


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of a conversation: what it is in words, the conversation with a text in it, and the harm that is done
    where that text is lost. `heal` is the healing that mends it, "" if there is none. Where the shape `base` is
    refused, so is this one, and nothing is known of it.
    """

    id: str
    title: str
    make: MakeConversation
    harm: str
    heal: str
    base: str = "tools"


def _say(role: str, content: Json) -> JsonObject:
    return {"role": role, "content": content}


def _call(number: int, arguments: str, content: Json = "") -> JsonObject:
    return {**_say("assistant", content), "tool_calls": [_entry(number, arguments)]}


def _entry(number: int, arguments: str) -> JsonObject:
    # An id that every template takes, Mistral's too: nine letters and digits.
    function: JsonObject = {"name": "write_file", "arguments": arguments}
    return {"id": f"callabcd{number}", "type": "function", "function": function}


def _result(number: int, content: str = "done") -> JsonObject:
    return {**_say("tool", content), "tool_call_id": f"callabcd{number}", "name": "write_file"}


def _with(*messages: JsonObject) -> JsonObject:
    return {"messages": [*messages], "tools": [TOOL]}


def _written(text: str) -> str:
    return dump({"path": "a", "content": text})


_ASK = _say("user", "Write it.")


def _tools(text: str) -> JsonObject:
    function: JsonObject = {**as_object(TOOL["function"]), "name": text}
    return {"messages": [_ASK], "tools": [{"type": "function", "function": function}]}


def _developer(text: str) -> JsonObject:
    return _with(_say("developer", text), _ASK)


def _late_system(text: str) -> JsonObject:
    return _with(_say("system", "Be brief."), _ASK, _say("assistant", "Yes."), _say("system", text), _ASK)


def _two_systems(text: str) -> JsonObject:
    return _with(_say("system", "Be brief."), _say("system", text), _ASK)


def _two_calls(text: str) -> JsonObject:
    both: JsonObject = {**_say("assistant", ""), "tool_calls": [_entry(1, _written("one")), _entry(2, _written(text))]}
    return _with(_ASK, both, _result(1), _result(2))


def _poisoned(text: str) -> JsonObject:
    return _with(_ASK, _call(1, f'{{"path": "a", "content": "{text}'), _result(1))


def _text_beside(text: str) -> JsonObject:
    return _with(_ASK, _call(1, _written("one"), text), _result(1))


def _result_text(text: str) -> JsonObject:
    return _with(_ASK, _call(1, _written("one")), _result(1, text))


def _user_behind_result(text: str) -> JsonObject:
    return _with(_ASK, _call(1, _written("one")), _result(1), _say("user", text))


def _two_users(text: str) -> JsonObject:
    return _with(_say("user", "Hello."), _say("user", text))


def _other_ids(text: str) -> JsonObject:
    entry: JsonObject = {**_entry(1, _written(text)), "id": "call_0123456789abcdef01234567"}
    result: JsonObject = {**_result(1), "tool_call_id": "call_0123456789abcdef01234567"}
    return _with(_ASK, {**_say("assistant", ""), "tool_calls": [entry]}, result)


_INSTRUCTIONS = "the agent's instructions never reach the model"
_NOT_READ = "what the user says never reaches the model"
_OWN_CALL = "the model does not see its own call, and makes it again"
_EVERY_TURN = "every further request of the session is refused, and the agent cannot go on"
SHAPES = (
    Shape("tools", "the tools on offer", _tools, "the model does not know of any tool, and calls none", "", ""),
    Shape("results", "the result of a call", _result_text, "the model does not see what its call gave", "text_calls"),
    Shape("developer", "a developer message", _developer, _INSTRUCTIONS, "developer"),
    Shape("late_system", "a system message in the midst", _late_system, _INSTRUCTIONS, "late_system"),
    Shape("two_systems", "two system messages at the top", _two_systems, _INSTRUCTIONS, "one_system"),
    Shape(
        "several_calls",
        "several calls in one turn",
        _two_calls,
        "the model does not see its own second call, and makes it again",
        "one_call",
        "results",
    ),
    Shape(
        "poisoned_arguments",
        "a call of an earlier turn whose arguments are no JSON",
        _poisoned,
        "the model sees its own call without what it wrote, and may make it again",
        "arguments",
        "results",
    ),
    Shape(
        "text_beside_call",
        "a text beside a call",
        _text_beside,
        "the model does not see what it said before it called",
        "call_text",
        "results",
    ),
    Shape(
        "user_behind_result",
        "a user behind a result",
        _user_behind_result,
        _NOT_READ,
        "user_after_result",
        "results",
    ),
    Shape("two_users", "two user messages in a row", _two_users, _NOT_READ, "alternate"),
    Shape("other_ids", "a call's id as other servers give it", _other_ids, _OWN_CALL, "mistral_ids", "results"),
)


_BY_ID = {shape.id: shape for shape in SHAPES}


def _fate(examination: Examination, shape: Shape) -> tuple[Fate, str]:
    """The fate of the text in a shape; untold where a plainer shape, which this one has in it, is refused."""
    base = _BY_ID.get(shape.base)
    if base is not None and _fate(examination, base)[0] in (Fate.REFUSED, Fate.UNTOLD):
        return Fate.UNTOLD, ""
    if shape.id not in examination.fates:
        examination.fates[shape.id] = examination.prompts.fate(shape.make, MARK)
    return examination.fates[shape.id]


def _probe(shape: Shape) -> Probe:
    """Return the probe of one shape."""

    def look(examination: Examination) -> Iterator[Finding]:
        fate, words = _fate(examination, shape)
        if fate is Fate.KEPT:
            yield good(f"{shape.id}_kept", f"the template takes {shape.title}")
        elif fate is Fate.UNTOLD:
            yield unknown(f"{shape.id}_unknown", f"the template and {shape.title}")
        else:
            yield _not_taken(shape, fate, words, examination.prompts.source.value)

    return Probe(f"the template: {shape.title}", look)


def _not_taken(shape: Shape, fate: Fate, words: str, seen_by: str) -> Finding:
    """Return the finding for a shape that is refused or left out, and what fixes it."""
    what = f"the template refuses {shape.title}: {shown(words)}"
    harm = _EVERY_TURN
    if fate is Fate.LOST:
        what = f"the template silently leaves {shape.title} out of the prompt (seen by {seen_by})"
        harm = shape.harm
    # The healings for every model need no entry: hardly a server takes arguments that are not JSON.
    handled = shape.heal in in_force((), ())
    remedy = "none is needed with the proxy, which heals every request"
    if not shape.heal:
        remedy = "the chat template for tools that the model was trained on (--chat-template)"
    elif not handled:
        remedy = f"a chat template that takes it, or heal: {{on: [{shape.heal}]}} in the model's entry"
    level = Level.NOTE if handled else Level.HARM
    return Finding(f"{shape.id}_{fate.value}", level, what, harm, remedy, handled, heal=shape.heal)


PROBES = tuple(map(_probe, SHAPES))
