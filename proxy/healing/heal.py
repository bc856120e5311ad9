"""The healings of a request body: the ordered table, the ones in force, their records, and lessons from refusals.

Each healing is a pure, idempotent function that returns the same body if it has nothing to do. Unchanged objects are
not encoded again, so a healthy history is sent byte for byte (contract C1). The order, reasons and examples are in
`healings.json`, which the documentation, the tests and `doctor` also read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from proxy.healing import calls, messages, results, tools
from proxy.healing.conversation import Change, on_messages
from proxy.healing.parameters import OfferedTools, Sampling, offer, sample
from proxy.json import Json, JsonObject, as_list, dump
from proxy.repair.record import Repair

# The word for all healings in `off`.
ALL = "all"
# The word in `off` for the sentence that tells the model about repeated calls (`results.py`).
REPEATS = "repeated_calls"
# The server has shown that it requires the reasoning of earlier turns (F74).
WANTS_REASONING = "reasoning_back"
# The function of each healing, in the order of healings.json.
_CHANGES: Mapping[str, Change] = {
    "function_call": calls.function_call,
    "empty_calls": calls.empty_calls,
    "call_type": calls.call_type,
    "arguments": calls.arguments,
    "null_content": messages.null_content,
    "part_types": messages.part_types,
    "content_text": messages.content_text,
    "markup_calls": calls.markup_calls,
    "call_ids": results.call_ids,
    "call_results": results.call_results,
    "orphan_results": results.orphan_results,
    "developer": messages.developer,
    "token_counts": messages.token_counts,
    "call_names": calls.call_names,
    "tool_parameters": tools.tool_parameters,
    "no_tools": tools.no_tools,
    "null_beside_calls": messages.null_beside_calls,
    "reasoning_back": messages.reasoning_back,
    "plain_schemas": tools.plain_schemas,
    "tool_descriptions": tools.tool_descriptions,
    "tool_names": tools.tool_names,
    "pictures": messages.pictures,
    "flat_texts": messages.flat_texts,
    "late_system": messages.late_system,
    "one_system": messages.one_system,
    "no_system": messages.no_system,
    "text_calls": messages.text_calls,
    "one_call": results.one_call,
    "assistant_last": messages.assistant_last,
    "call_text": messages.call_text,
    "user_first": messages.user_first,
    "user_after_result": messages.user_after_result,
    "empty_answers": messages.empty_answers,
    "alternate": messages.alternate,
    "mistral_ids": results.mistral_ids,
    "kimi_ids": results.kimi_ids,
}


class TemplateProbe(msgspec.Struct, frozen=True):
    """How `doctor` tests whether a template needs a healing: it looks in the prompt for `text`, a part of the example.

    `title` describes the conversation, and `harm` the effect of losing the text.
    """

    id: str
    title: str
    text: str
    harm: str


class Healing(msgspec.Struct, frozen=True):
    """One healing.

    It is in force for every model (`always`), or only if the chat template needs it. `failure` lists its numbers in
    docs/contracts.md. `example` is a broken and a healed value of `key`: messages, or tools.
    """

    id: str
    failure: str
    why: str
    example: tuple[list[dict[str, Any]] | None, list[dict[str, Any]]]
    always: bool = False
    key: str = "messages"
    probe: TemplateProbe | None = None


HEALINGS = msgspec.json.decode(Path(__file__).with_name("healings.json").read_bytes(), type=tuple[Healing, ...])
IDS = (*(healing.id for healing in HEALINGS), REPEATS)
_ALWAYS = frozenset((REPEATS, *(healing.id for healing in HEALINGS if healing.always)))


@dataclass(frozen=True, slots=True)
class Healed:
    """A body to send upstream, and a record for each change of it."""

    body: JsonObject
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class HealPlan:
    """The changes to a model's requests: healings that are `on` in addition to those for every model, healings that are
    `off`, and the rules for parameters and tools.
    """

    on: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    sampling: Sampling = field(default_factory=Sampling)
    tools: OfferedTools = field(default_factory=OfferedTools)

    @property
    def ids(self) -> frozenset[str]:
        """The healings in force: those for every model and those that are `on`, except those `off`."""
        return frozenset() if ALL in self.off else (_ALWAYS | self.on) - self.off

    def learnt(self, ids: Collection[str]) -> HealPlan:
        """Return the plan with more healings. One that is off stays off."""
        return replace(self, on=self.on | {*ids}) if ids else self


# The plan that sends a request unchanged.
NO_HEALING = HealPlan(off=frozenset((ALL,)))


def heal_request(body: JsonObject, plan: HealPlan) -> Healed:
    """Apply a plan to the body: the rules for tools and parameters, then the healings."""
    ruled = sample(offer(body, plan.tools), plan.sampling)
    repairs = [] if ruled is body else [_by_rule(body, ruled)]
    healed = heal(ruled, plan.ids)
    repairs += healed.repairs
    told = healed.body
    if REPEATS in plan.ids:
        told = on_messages(lambda given: results.tell_repeats(given, plan.tools.polls))(told)
    if told is not healed.body:
        note = "a note names the call the model repeats"
        repairs.append(_repair(REPEATS, note, healed.body.get("messages"), told.get("messages")))
    return Healed(told, tuple(repairs))


def _by_rule(before: JsonObject, after: JsonObject) -> Repair:
    """Return the record of the changes by the rules for the model: the changed fields, and the number of tools."""
    others = {**before, **after}.keys() - {"messages", "tools"}
    names = sorted(key for key in others if before.get(key) != after.get(key))

    def shown(body: JsonObject) -> str:
        return dump({key: body[key] for key in names if key in body} | {"tools": len(as_list(body.get("tools")))})

    return Repair("rule_request", shown(before), shown(after), "a rule for the model requires it")


def heal(body: JsonObject, ids: Collection[str]) -> Healed:
    """Apply the healings with these ids, in the table's order."""
    repairs: list[Repair] = []
    for healing in HEALINGS:
        if healing.id not in ids:
            continue
        try:
            new = _CHANGES[healing.id](body)
        except (ValueError, RecursionError):  # nested too deeply to be encoded
            continue
        if new is not body:
            repairs.append(_repair(healing.id, healing.why, body.get(healing.key), new.get(healing.key)))
            body = new
    return Healed(body, tuple(repairs))


def record_id(healing: str) -> str:
    """Return the id of a healing's records."""
    return f"heal_{healing}"


def _repair(name: str, why: str, old: Json, new: Json) -> Repair:
    """Return the record of a healing: the first changed place of the messages or tools, before and after."""
    pairs = zip_longest(as_list(old), as_list(new))
    at = next((index for index, (one, other) in enumerate(pairs) if one is not other), 0)

    def shown(value: Json) -> str:
        items = as_list(value)
        return dump(items[at]) if at < len(items) else "" if items else dump(value)

    return Repair(record_id(name), shown(old), shown(new), why)


# Patterns of refusals by chat templates (`raise_exception`), Jinja, vLLM, SGLang and llama.cpp.
_LONGEST = 4096
_SYSTEMS = ("one_system", "late_system")
_TURNS = ("user_first", "user_after_result", "empty_answers", "alternate")
_TOOLS = ("plain_schemas", "tool_descriptions")


# This lesson removes pictures permanently, so the words must say that the model reads none. Other refusals are about
# one picture, or about their number, on a model that reads them:
# "At most 1 image(s) may be provided", "unsupported image format"
_KINDS = r"(?:images?|vision|multi-?modal|audio|videos?)"
_NOT_OF_ONE = r"(?!\w|/|[ _-]*(?:formats?|types?|files?|urls?|uri|data|mime|media|size|scheme|encoding|mode)\b)"
# Words about a single picture: "Images larger than 20 MB are not supported".
_ONE = r"larger|bigger|smaller|exceed|too (?:large|big|small|many)|dimension|channel|animated|truncated|corrupt"
_ANY = r"(?:images|vision|multi-?modal|audio|videos|(?:image|video)[ _-](?:inputs?|contents?|parts?|modality))"
_NO_PICTURES = (
    rf"^(?![\s\S]*(?:{_ONE}))[\s\S]*?(?:"
    rf"at most 0\b|mmproj|not an? {_KINDS}\b[^.]{{0,16}}\bmodel|text.only"
    r"|(?:unknown|unsupported) (?:content )?part|unsupported content\["
    rf"|\b{_ANY}{_NOT_OF_ONE}[^.]{{0,40}}(?:not supported|unsupported|only supported|not loaded|not enabled|disabled)"
    rf"|(?:not support|unsupported|not accept|model can ?not process)[^.]{{0,16}} {_KINDS}{_NOT_OF_ONE}"
    r"|image_url[^.]{0,16}only supported by)"
)
_TEXT_WANTED = r"can only concatenate|not \"list\"|valid string|(?:be|expected) a? ?string"
# The most specific pattern first: only the first match teaches.
_LESSONS = (
    (r"reasoning_content\W.{0,80}(?:pass|missing|required|must)|thinking is enabled but", ("reasoning_back",)),
    (r"single tool.calls? at once|only (?:one|1|a single) tool.call|parallel tool calls", ("one_call",)),
    (r"alphanumeric\w* .{0,40}\b9\b", ("mistral_ids",)),
    (r"system role (?:is )?not supported|does not support (?:a )?system", ("no_system", *_SYSTEMS)),
    (r"no user query|first user message|at least one user|no user message", ("user_first",)),
    (r"prefill|assistant messages? at the end|(?:last|final) message .{0,40}assistant", ("assistant_last",)),
    (r"both content and thinking", ("call_text",)),
    (_NO_PICTURES, ("pictures",)),
    (r"alternat|unexpected role|after role|tool.{0,40}previous assistant", (*_SYSTEMS, *_TURNS)),
    # Still rejected although the turns alternate: the template counts results as turns, as Gemma 2 and 3 do.
    (r"roles must alternate user/assistant/user", ("text_calls",)),
    (r"system message|message role|invalid role|only user|roles? (?:are|is) supported", (*_SYSTEMS, *_TURNS)),
    (r"assistant message must|non-?empty|(?:must|can) ?not be empty|content is required", ("empty_answers",)),
    (r"nonetype'(?: object is not iterable| has no len)", ("no_tools",)),
    (r"nonetype|invalid content type|content.{0,40}(?:null|none)\b", ("null_beside_calls",)),
    (_TEXT_WANTED, ("flat_texts",)),
    (_TEXT_WANTED, ("flat_texts", "pictures")),
    (r"functions?\b.{0,60}\bname\b|tools?\W.{0,60}\bname\b|string_too_long|a-zA-Z0-9_", ("tool_names",)),
    (r"parse grammar|schema|\$ref|recursion|description|'type'", (*_TOOLS,)),
    (
        r"jinja|chat.?template|undefined|has no (?:attribute|element)|typeerror|not iterable|unknown (?:method|filter)",
        (*_TOOLS, "null_beside_calls", "flat_texts", *_SYSTEMS, *_TURNS),
    ),
)


def lesson(message: str, body: JsonObject, plan: HealPlan) -> tuple[str, ...]:
    """Return the healings that a refusal asks for, in the table's order.

    Healings that are in force or off, or would not change the body, are left out.
    """
    words = message[:_LONGEST]
    for pattern, ids in _LESSONS:
        if re.search(pattern, words, re.IGNORECASE):
            after = plan.learnt(ids).ids
            done = {repair.id for repair in heal(body, after).repairs}
            useful = tuple(name for name in IDS if name in after - plan.ids and record_id(name) in done)
            if useful:
                return useful
    return ()
