"""The probes: server kind, calls, streams, reasoning, and what the chat template refuses or drops.

The server's parser is judged by comparing its call with the model's raw text. The template is judged with the examples
of the healings (`healing/healings.json`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from proxy.doctor.asking import Reply, shown
from proxy.doctor.examination import (
    NAME,
    THINK,
    TOOL,
    Examination,
    Finding,
    Probe,
    finding,
    written_in,
)
from proxy.doctor.prompts import Fate
from proxy.exchange.plan import KEEPS_TOOLS, NO_PARSER, PARSER_FAILED
from proxy.healing.families import FAMILIES, Parsers
from proxy.healing.heal import HEALINGS, TemplateProbe
from proxy.json import Json, JsonObject, as_object, dump, is_object_text, load_json
from proxy.notations.thoughts import ALL_MARKERS
from proxy.upstream.context_overflow import read_overflow
from proxy.upstream.model_list import kind_of

NAMES = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang", "lmdeploy": "LMDeploy"}
# Fewer tokens than this prove nothing: the end-of-turn token counts as one.
_SOME_TOKENS = 6
_THINKING_TOKENS = 1200
# Servers that refuse a too long prompt before processing it. Elsewhere the request would cost a full context.
_REFUSE_EARLY = ("vllm", "sglang", "llamacpp")
_MAX_WORDS = 300_000
_TEMPLATE_FLAG = "--chat-template-file with the template for tools that the model was trained on"
# The text searched for in the prompt: one run of letters, which every vocabulary can spell.
MARK = "mkwatched"
_ASK: JsonObject = {"role": "user", "content": "Write it."}
_OWN_SYNTAX = "its own syntax"


def _kind(examination: Examination) -> Iterator[Finding]:
    kind, version = examination.kind, examination.version or "of an unknown version"
    name = NAMES.get(kind, kind)
    if not kind:
        yield finding("kind_unknown")
    elif kind_of(examination.cards):
        yield finding("kind", name=name, version=version)
    else:
        yield finding("kind_unsaid", name=name, version=version, kind=kind)


def _context(examination: Examination) -> Iterator[Finding]:
    """Report the context, and how the server refuses a longer prompt."""
    context, model = examination.context, examination.model
    if not context:
        yield finding("context_unknown", model=model)
        return
    yield finding("context", model=model, context=context)
    if examination.kind not in _REFUSE_EARLY or context > _MAX_WORDS or not examination.plain().taken:
        yield finding("overflow_unknown")
        return
    answer = examination.plain(messages=[{"role": "user", "content": "yes " * (context + 100)}])
    if answer.taken:
        yield finding("overflow_taken", context=context)
    elif answer.status in (0, 200):
        yield finding("overflow_unknown")
    elif read_overflow(answer.error, answer.body) is None:
        yield finding("overflow_words", status=answer.status, words=shown(answer.error))
    else:
        yield finding("overflow", status=answer.status)


def _calls(examination: Examination) -> Iterator[Finding]:
    """Probe whether one complete call arrives, the first thing that agents need."""
    auto = examination.reply("auto")
    if NO_PARSER.search(auto.error):
        yield finding("parser_missing", words=shown(auto.error), flag=_flag(examination))
    elif PARSER_FAILED.search(auto.error):
        yield finding("parser_fails", words=shown(auto.error), flag=_flag(examination))
    elif not auto.taken:
        # A request without tools shows whether the server answers at all.
        unknown = "call_unknown" if examination.plain().taken else "chat_unanswered"
        yield finding(unknown, words=auto.why_not)
    elif auto.calls:
        yield from _structured(examination, auto)
    else:
        yield from _not_structured(examination, auto)


def _flag(examination: Examination) -> str:
    """Return the flag for the server's parser, and the rule that makes it unnecessary."""
    known = _server_flag(examination)
    if examination.kind in KEEPS_TOOLS:
        return f"{known}; or parse: proxy in the model's entry (the proxy then reads the calls itself)"
    return known


def _server_flag(examination: Examination) -> str:
    return flags(examination.kind, examination.parsers, examination.syntax) or "no flag of the server is known"


def flags(kind: str, own: Parsers | None, syntax: str) -> str:
    """Return the server flags that make it parse the model's calls; "" if none is known.

    `own` are the parsers of the model's family, used if they fit the syntax that the model writes. Otherwise the last
    family with that syntax, the most general one, names the parser.
    """
    if own is None or syntax not in ("", own.syntax):
        rows = (family.parsers for family in reversed(FAMILIES) if family.parsers is not None)
        own = next((row for row in rows if row.syntax and row.syntax == syntax), Parsers(syntax, ""))
    if kind == "vllm" and own.vllm:
        return f"--enable-auto-tool-choice --tool-call-parser {own.vllm}"
    if kind == "sglang" and own.sglang:
        return f"--tool-call-parser {own.sglang}"
    # llama.cpp has no named parsers: it reads the format that its template prescribes. One that takes tools was started
    # with --jinja.
    return _TEMPLATE_FLAG if kind == "llamacpp" and syntax else ""


def _structured(examination: Examination, auto: Reply) -> Iterator[Finding]:
    broken = next((text for name, text in auto.calls if name == NAME and not is_object_text(text)), None)
    if broken is not None:
        yield finding("arguments_broken", words=shown(broken))
    else:
        yield finding("parser_finds", syntax=examination.syntax or _OWN_SYNTAX)
    raw = examination.raw()
    if raw.taken and _is_swallowed(raw):
        yield finding("none_takes_calls")


def _not_structured(examination: Examination, auto: Reply) -> Iterator[Finding]:
    tokens, raw = auto.count("completion_tokens"), examination.raw()
    if not _is_swallowed(auto):
        if calls := written_in(auto.text):
            syntax, flag = calls[0] or _OWN_SYNTAX, _flag(examination)
            yield finding("parser_leaves_text", syntax=syntax, words=shown(auto.text), flag=flag)
        else:
            yield finding("call_unknown", words=f"the model did not call: {shown(auto.text)!r}")
    elif examination.written():
        yield finding("call_swallowed", tokens=tokens, flag=_flag(examination))
    elif raw.taken and _is_swallowed(raw):
        flag = flags(examination.kind, examination.parsers, "") or "the parser of the model family"
        yield finding("all_swallowed", tokens=tokens, flag=flag)
    else:
        yield finding("call_unknown", words=f"it used {tokens} tokens, but its own text has no call")


def _is_swallowed(reply: Reply) -> bool:
    """Return whether tokens were used without any output, although the model stopped normally."""
    if reply.finish == "length" or reply.reasoning:
        return False
    return reply.is_silent and (reply.count("completion_tokens") or 0) >= _SOME_TOKENS


def _forced(examination: Examination) -> Iterator[Finding]:
    reply = examination.reply("required")
    broken = [text for _, text in reply.calls if not is_object_text(text)]
    if NO_PARSER.search(reply.error):
        yield finding("forced_refused", words=shown(reply.error), flag=_server_flag(examination))
    elif not reply.taken or (not reply.calls and reply.finish == "length"):
        yield finding("forced_unknown", words="the reply was cut" if reply.taken else reply.why_not)
    elif not reply.calls:
        flag = "use a server that decodes by a grammar (vLLM, SGLang, llama.cpp with --jinja)"
        if examination.kind == "llamacpp":
            flag = _TEMPLATE_FLAG
        yield finding("forced_ignored", words=shown(reply.text) or "nothing", flag=flag)
    elif broken:
        yield finding("forced_broken", words=shown(broken[0]))
    else:
        yield finding("forced")


def _streams(examination: Examination) -> Iterator[Finding]:
    whole, stream = examination.reply("auto"), examination.reply("auto", stream=True)
    if whole.status != 200:
        yield finding("stream_unknown", words=whole.why_not)
    elif stream.status != 200:
        yield finding("stream_refused", words=stream.why_not)
    elif stream.error:
        yield finding("stream_breaks", words=shown(stream.error))
    elif whole.calls and not stream.calls:
        yield finding("stream_loses_calls", words=shown(stream.text) or "nothing")
    elif whole.calls:
        faults = "; ".join(_faults_of(stream))
        yield finding("stream_misshapen", words=faults) if faults else finding("stream_faithful")
    elif stream.is_silent and written_in(whole.text):
        yield finding("stream_swallows", flag=_flag(examination))
    elif not whole.is_silent and not stream.calls and whole.text.split() == stream.text.split():
        yield finding("stream_same_text")
    else:
        yield finding("stream_unknown", words="the two answers cannot be compared")


def _faults_of(stream: Reply) -> Iterator[str]:
    broken = [arguments for _, arguments in stream.calls if not is_object_text(arguments)]
    if broken:
        yield f"the joined arguments are not a JSON object: {shown(broken[0])!r}"
    if not all(stream.ids):
        yield "a call has no id"
    elif len({*stream.ids}) < len(stream.ids):
        yield "two calls have the same id"
    if stream.bare_deltas:
        yield "deltas of calls have no index"
    if not stream.finish:
        yield "it ends without a finish_reason"
    elif stream.finish != "tool_calls":
        yield f"it ends with finish_reason {stream.finish!r} after a call"
    if not stream.done:
        yield "it ends without [DONE]"


def _reasoning(examination: Examination) -> Iterator[Finding]:
    messages = [{"role": "user", "content": THINK}]
    reply = examination.plain(messages=messages, max_tokens=_THINKING_TOKENS, temperature=0)
    family = examination.family
    marks = (family.markers if family is not None else ()) or ALL_MARKERS
    # Wherever reasoning started, perhaps in the prompt, the text shows its end.
    ended = [
        mark.closers[0]
        for mark in marks
        if mark.may_begin and any(closer.strip() and closer in reply.text for closer in mark.closers)
    ]
    if not reply.taken:
        yield finding("reasoning_unknown", words=reply.why_not)
    elif ended:
        yield finding("reasoning_in_text", words=ended[0])
    elif reply.reasoning_field:
        yield finding("reasoning_in_field", words=reply.reasoning_field)
    else:
        yield finding("no_reasoning")


@dataclass(frozen=True, slots=True)
class _Shape:
    """One conversation for the template. `probe.text`, in its `messages` or in the tool, must reach the prompt.

    `heal` is the healing that fixes it, or "". If the shape `base` is refused, this one is not decided. `in_call`: the
    text is in a call, and no healing fixes it if the template loses even the plainest call.
    """

    probe: TemplateProbe
    messages: Sequence[Json]
    heal: str = ""
    base: str = ""
    in_call: bool = False

    def make(self, text: str) -> JsonObject:
        """Return the conversation with the watched text replaced."""
        conversation: Json = {"messages": [*self.messages], "tools": [TOOL]}
        return as_object(load_json(dump(conversation).replace(self.probe.text, text)))


def _shapes() -> Iterator[_Shape]:
    """Yield the offered tools, then the examples of healings, with a user message before calls and after system
    messages.
    """
    harm = "the model does not know any tool, and calls none"
    yield _Shape(TemplateProbe("tools", "the offered tools", NAME, harm), [_ASK])
    for healing in HEALINGS:
        if healing.probe is None:
            continue
        before = healing.example[0] or []
        has_call = any("tool_calls" in message for message in before)
        messages = [_ASK, *before] if has_call else [*before]
        if before[-1]["role"] == "system":
            messages.append(_ASK)
        base = "results" if has_call and healing.probe.id != "results" else "tools"
        in_call = any(healing.probe.text in dump(message.get("tool_calls")) for message in before)
        yield _Shape(healing.probe, messages, healing.id, base, in_call)


_SHAPES = {shape.probe.id: shape for shape in _shapes()}
# The conversation of the shape `results`, but here the argument of its call must reach the prompt.
_PLAINEST_CALL = _Shape(TemplateProbe("plainest_call", "a call", "notes.txt", ""), _SHAPES["results"].messages)


def _fate(examination: Examination, shape: _Shape) -> tuple[Fate, str]:
    """Return the fate of the text in a shape; unknown if its base is refused."""
    if shape.base and _fate(examination, _SHAPES[shape.base])[0] in (Fate.REFUSED, Fate.UNKNOWN):
        return Fate.UNKNOWN, ""
    id_ = shape.probe.id
    if id_ not in examination.fates:
        examination.fates[id_] = examination.prompts.fate(shape.make, MARK)
    return examination.fates[id_]


def _template(shape: _Shape, examination: Examination) -> Iterator[Finding]:
    probe, (fate, words) = shape.probe, _fate(examination, shape)
    texts = {"title": probe.title, "harm": probe.harm, "words": shown(words)}
    found = finding(f"template_{fate.value}", **texts, seen_by=examination.prompts.source.value)
    found = replace(found, id=f"{probe.id}_{fate.value}")
    if fate not in (Fate.REFUSED, Fate.LOST):
        yield found
        return
    heal = shape.heal
    if shape.in_call and fate is Fate.LOST and _fate(examination, _PLAINEST_CALL)[0] is Fate.LOST:
        heal = ""  # every call is lost
    remedy = "the chat template for tools that the model was trained on (--chat-template)"
    if heal:
        remedy = f"a chat template that accepts it, or heal: {{on: [{heal}]}} in the model's entry"
    yield replace(found, remedy=remedy, heal=heal)


PROBES = (
    Probe("kind and version of the server", _kind),
    Probe("context, and a prompt that is too long", _context),
    Probe("a call under tool_choice none and auto", _calls),
    Probe("a forced call (tool_choice required)", _forced),
    Probe("a stream compared with the whole answer", _streams),
    Probe("the model's reasoning", _reasoning),
    *(Probe(f"the template: {shape.probe.title}", partial(_template, shape)) for shape in _SHAPES.values()),
)
