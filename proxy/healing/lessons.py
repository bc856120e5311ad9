"""Lessons from a server's refusal: the healings that its words ask for, if they change anything in the request.

The words are those of chat templates (`raise_exception`), of Jinja, of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re

from proxy.codec.json_text import JsonObject
from proxy.healing.heal import IDS, HealPlan, heal, record_id

_LONGEST = 4096
_SYSTEMS = ("one_system", "late_system")
_TURNS = ("user_first", "user_after_result", "empty_answers", "alternate")
_TOOLS = ("plain_schemas", "tool_descriptions")


def _words(pattern: str, *ids: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    return re.compile(pattern, re.IGNORECASE), ids


# Pictures are taken out for good, so the words must say that the model reads none. Others are of one picture, or of too
# many, for a model that does: "At most 1 image(s) may be provided", "unsupported image format".
_KINDS = r"(?:images?|vision|multi-?modal|audio|videos?)"
_NOT_OF_ONE = r"(?!\w|/|[ _-]*(?:formats?|types?|files?|urls?|uri|data|mime|media|size|scheme|encoding|mode)\b)"
# What only one picture can be: "Images larger than 20 MB are not supported".
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
# The surest first: what one of them teaches is all that is learnt.
_LESSONS = (
    _words(r"reasoning_content\W.{0,80}(?:pass|missing|required|must)|thinking is enabled but", "reasoning_back"),
    _words(r"single tool.calls? at once|only (?:one|1|a single) tool.call|parallel tool calls", "one_call"),
    _words(r"alphanumeric\w* .{0,40}\b9\b", "mistral_ids"),
    _words(r"system role (?:is )?not supported|does not support (?:a )?system", "no_system", *_SYSTEMS),
    _words(r"no user query|first user message|at least one user|no user message", "user_first"),
    _words(r"prefill|assistant messages? at the end|(?:last|final) message .{0,40}assistant", "assistant_last"),
    _words(r"both content and thinking", "call_text"),
    _words(_NO_PICTURES, "pictures"),
    _words(r"alternat|unexpected role|after role|tool.{0,40}previous assistant", *_SYSTEMS, *_TURNS),
    # Still refused with turns that alternate: the template counts results as turns, as Gemma 2 and 3 do.
    _words(r"roles must alternate user/assistant/user", "text_calls"),
    _words(r"system message|message role|invalid role|only user|roles? (?:are|is) supported", *_SYSTEMS, *_TURNS),
    _words(r"assistant message must|non-?empty|(?:must|can) ?not be empty|content is required", "empty_answers"),
    _words(r"nonetype'(?: object is not iterable| has no len)", "no_tools"),
    _words(r"nonetype|invalid content type|content.{0,40}(?:null|none)\b", "null_beside_calls"),
    _words(_TEXT_WANTED, "flat_texts"),
    _words(_TEXT_WANTED, "flat_texts", "pictures"),
    _words(r"functions?\b.{0,60}\bname\b|tools?\W.{0,60}\bname\b|string_too_long|a-zA-Z0-9_", "tool_names"),
    _words(r"parse grammar|schema|\$ref|recursion|description|'type'", *_TOOLS),
    _words(
        r"jinja|chat.?template|undefined|has no (?:attribute|element)|typeerror|not iterable|unknown (?:method|filter)",
        *_TOOLS,
        "null_beside_calls",
        "flat_texts",
        *_SYSTEMS,
        *_TURNS,
    ),
)


def lesson(message: str, body: JsonObject, plan: HealPlan) -> tuple[str, ...]:
    """Return the healings that the words of a refusal ask for, in the table's order.

    Only those that are neither in force nor off, and would change the body.
    """
    words = message[:_LONGEST]
    for pattern, ids in _LESSONS:
        if pattern.search(words):
            after = plan.learnt(ids).ids
            done = {repair.id for repair in heal(body, after).repairs}
            useful = tuple(name for name in IDS if name in after - plan.ids and record_id(name) in done)
            if useful:
                return useful
    return ()
