"""The probes: server kind, calls, streams, reasoning, and what the chat template refuses or drops.

The server's parser is judged by comparing its call with the model's raw text. The template is judged with the examples
of the healings (`healing/healings.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proxy.doctor.asking import Reply, shown
from proxy.doctor.examination import (
    NAME,
    THINK,
    TOOL,
    Examination,
    Finding,
    Level,
    Probe,
    good,
    is_an_object,
    unknown,
    written_in,
)
from proxy.doctor.prompts import Fate
from proxy.exchange.plan import KEEPS_TOOLS, PARSER_FAILED
from proxy.healing.families import FAMILIES, Parsers
from proxy.healing.heal import HEALINGS, TemplateProbe, in_force
from proxy.json import Json, JsonObject, as_object, dump, load_json
from proxy.notations.thoughts import ALL_MARKERS, ReasoningMarkers
from proxy.upstream.context_overflow import read_overflow
from proxy.upstream.model_list import kind_of

NAMES = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang", "lmdeploy": "LMDeploy"}
_NO_PARSER = re.compile(r"--enable-auto-tool-choice|--tool-call-parser")
# Fewer tokens than this prove nothing: the end-of-turn token counts as one.
_SOME_TOKENS = 6
_THINKING_TOKENS = 1200
# Servers that refuse a too long prompt before processing it. Elsewhere the request would cost a full context.
_REFUSE_EARLY = ("vllm", "sglang", "llamacpp")
_MAX_WORDS = 300_000
_NO_ANSWERS = (0, 200, 404, 405, 501)
_PROXY_PARSES = ("parse", "proxy")
_WHOLE = ("transport", "whole")
_ASK_WHOLE = "upstream: whole in the model's entry: the proxy requests the whole answer and builds the stream from it"
_NO_CALL = "the agent sees an empty reply, and its turn ends"
_TEMPLATE_FLAG = "--chat-template-file with the template for tools that the model was trained on"
# The text searched for in the prompt: one run of letters, which every vocabulary can spell.
MARK = "mkwatched"
_ASK: JsonObject = {"role": "user", "content": "Write it."}
_EVERY_TURN = "every further request of the session is refused, and the agent cannot continue"


def _kind(examination: Examination) -> Iterator[Finding]:
    name = NAMES.get(examination.kind, examination.kind)
    version = examination.version or "of an unknown version"
    if not examination.kind:
        yield Finding(
            "kind_unknown",
            Level.NOTE,
            "the kind of the server is unknown",
            "the proxy sends it only what every server accepts",
            "server: vllm, sglang, lmdeploy or llamacpp in the model's entry, if it is one of them",
        )
    elif kind_of(examination.cards):
        yield good("kind", f"the server is {name} {version}")
    else:
        yield Finding(
            "kind_unsaid",
            Level.NOTE,
            f"the server is {name} {version}, but its list of models does not say so",
            "the proxy does not know that it may read the calls from the model's own text",
            f"server: {examination.kind} in the model's entry",
            rule=("server_kind", examination.kind),
        )


def _context(examination: Examination) -> Iterator[Finding]:
    """Report the context, and how the server refuses a longer prompt."""
    context = examination.context
    if not context:
        yield Finding(
            "context_unknown",
            Level.NOTE,
            f"the server does not report the context of {examination.model}",
            "agents assume a size: requests that are too long are refused or cut",
            "set the context in the agent's own configuration",
        )
        return
    yield good("context", f"the model {examination.model} has a context of {context} tokens")
    if examination.kind not in _REFUSE_EARLY or context > _MAX_WORDS or not examination.plain().taken:
        yield unknown("overflow_unknown", "how a prompt that is too long is refused")
        return
    answer = examination.plain(messages=[{"role": "user", "content": "yes " * (context + 100)}])
    if answer.taken:
        yield Finding(
            "overflow_taken",
            Level.HARM,
            f"a prompt longer than the context ({context} tokens) is accepted",
            "the start of the conversation, and with it the tools, is cut off silently",
            "set the context's size in the server's configuration, so that it refuses (llama.cpp: --no-context-shift)",
        )
    elif answer.status in (0, 200):
        yield unknown("overflow_unknown", "how a prompt that is too long is refused")
    elif read_overflow(answer.error, answer.body) is None:
        yield Finding(
            "overflow_words",
            Level.HARM,
            f"a prompt that is too long is refused in unknown words ({answer.status}): {shown(answer.error)}",
            "the agent does not notice that the context is full, and does not compact",
            "report these words to the project",
        )
    else:
        yield good("overflow", f"a prompt that is too long is refused in known words ({answer.status})")


def _calls(examination: Examination) -> Iterator[Finding]:
    """Probe whether one complete call arrives, the first thing that agents need."""
    auto = examination.reply("auto")
    if _NO_PARSER.search(auto.error):
        yield _lost(
            "parser_missing",
            f"the server was started without a tool parser: {shown(auto.error)}",
            "every request with tools is refused",
            examination,
        )
    elif PARSER_FAILED.search(auto.error):
        yield _lost(
            "parser_fails",
            f"the server's parser fails on what the model writes: {shown(auto.error)}",
            "the agent gets an error instead of the call",
            examination,
        )
    elif _is_unanswered(examination):
        yield Finding(
            "chat_unanswered",
            Level.HARM,
            f"requests for chat are not answered: {auto.why_not}",
            "no agent can work with this server",
            "use a server that answers POST /v1/chat/completions; its log says why it does not. --timeout waits longer",
        )
    elif not auto.taken:
        yield unknown("call_unknown", f"whether calls arrive ({auto.why_not})")
    elif auto.calls:
        yield from _structured(examination, auto)
    else:
        yield from _not_structured(examination, auto)


def _lost(id_: str, what: str, harm: str, examination: Examination) -> Finding:
    """Return the finding of a call that is lost without the proxy, which reads it from the raw text."""
    return Finding(id_, Level.HARM, what, harm, _flag(examination), handled=True, rule=_PROXY_PARSES, kind="whole")


def _flag(examination: Examination) -> str:
    """Return the flag for the server's parser, and the rule that makes it unnecessary."""
    known = flags(examination.kind, examination.parsers, examination.syntax) or "no flag of the server is known"
    if examination.kind in KEEPS_TOOLS:
        return f"{known}; or parse: proxy in the model's entry (the proxy then reads the calls itself)"
    return known


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


def _is_unanswered(examination: Examination) -> bool:
    """Return whether requests with tools get no answer. A server error counts only if a plain request fails, too."""
    replies = (examination.reply("auto"), examination.raw())
    if all(not reply.taken and reply.status in _NO_ANSWERS for reply in replies):
        return True
    return all(reply.status >= 500 for reply in replies) and examination.plain().status >= 500


def _structured(examination: Examination, auto: Reply) -> Iterator[Finding]:
    broken = next((text for name, text in auto.calls if name == NAME and not is_an_object(text)), None)
    if broken is not None:
        yield Finding(
            "arguments_broken",
            Level.HARM,
            f"the arguments of a call are not a JSON object: {shown(broken)}",
            "the agent rejects the call, or fails",
            "not needed with the proxy, which repairs them",
            handled=True,
            kind="whole",
        )
    else:
        syntax = examination.syntax or "its own syntax"
        yield good("parser_finds", f"the server finds the model's calls ({syntax})", "whole")
    raw = examination.raw()
    if raw.taken and _is_swallowed(raw):
        yield Finding(
            "none_takes_calls",
            Level.NOTE,
            "under tool_choice none the server removes the model's call from the text",
            "the proxy cannot read the calls itself, so parse: proxy would lose them",
            "parse: server in the model's entry",
            rule=("parse", "server"),
        )


def _not_structured(examination: Examination, auto: Reply) -> Iterator[Finding]:
    tokens, raw = auto.count("completion_tokens"), examination.raw()
    if not _is_swallowed(auto):
        if calls := written_in(auto.text):
            yield _lost(
                "parser_leaves_text",
                f"the server leaves a call in the text ({calls[0].syntax or 'its own syntax'}): {shown(auto.text)}",
                "the agent shows the call as prose, and its turn ends",
                examination,
            )
        else:
            yield unknown("call_unknown", f"whether calls arrive (the model did not call: {shown(auto.text)!r})")
    elif examination.written():
        what = f"the server swallows the model's call: under auto it used {tokens} tokens and returned nothing"
        yield _lost("call_swallowed", what, _NO_CALL, examination)
    elif raw.taken and _is_swallowed(raw):
        yield Finding(
            "all_swallowed",
            Level.HARM,
            f"the server used {tokens} tokens and returned nothing, under tool_choice auto and none: "
            "its parser removes calls even when it is switched off",
            _NO_CALL,
            f"{flags(examination.kind, examination.parsers, '') or 'the parser of the model family'}; "
            "or no tool parser, and parse: proxy in the model's entry",
            kind="whole",
        )
    else:
        yield unknown("call_unknown", f"whether calls arrive (it used {tokens} tokens, but its own text has no call)")


def _is_swallowed(reply: Reply) -> bool:
    """Return whether tokens were used without any output, although the model stopped normally."""
    if reply.finish == "length" or reply.reasoning:
        return False
    return reply.is_silent and (reply.count("completion_tokens") or 0) >= _SOME_TOKENS


def _forced(examination: Examination) -> Iterator[Finding]:
    reply = examination.reply("required")
    broken = [text for _, text in reply.calls if not is_an_object(text)]
    if _NO_PARSER.search(reply.error):
        yield Finding(
            "forced_refused",
            Level.HARM,
            f"a forced call is refused: {shown(reply.error)}",
            "agents that force a tool (titles, structured answers) get an error",
            flags(examination.kind, examination.parsers, examination.syntax) or "no flag of the server is known",
            kind="forced",
        )
    elif not reply.taken or (not reply.calls and reply.finish == "length"):
        why = "the reply was cut" if reply.taken else reply.why_not
        yield unknown("forced_unknown", f"whether a forced call arrives ({why})")
    elif not reply.calls:
        yield Finding(
            "forced_ignored",
            Level.HARM,
            f"tool_choice required is accepted, but no call is returned: {shown(reply.text) or 'nothing'}",
            "agents that force a tool get prose",
            _TEMPLATE_FLAG
            if examination.kind == "llamacpp"
            else "use a server that decodes by a grammar (vLLM, SGLang, llama.cpp with --jinja)",
            kind="forced",
        )
    elif broken:
        yield Finding(
            "forced_broken",
            Level.HARM,
            f"the arguments of a forced call are not a JSON object: {shown(broken[0])}",
            "the agent rejects the call, or fails",
            "not needed with the proxy, which repairs them",
            handled=True,
            kind="forced",
        )
    else:
        yield good("forced", "a forced call is returned as a call", "forced")


def _streams(examination: Examination) -> Iterator[Finding]:
    whole, stream = examination.reply("auto"), examination.reply("auto", stream=True)
    if whole.status != 200:
        yield unknown("stream_unknown", f"whether streams are faithful ({whole.why_not})")
    elif stream.status != 200:
        what = f"a streamed request is refused, but not the whole one: {stream.why_not}"
        yield _not_live("stream_refused", what, "agents stream: they get an error")
    elif stream.error:
        what = f"a stream ends in an error: {shown(stream.error)}"
        yield _not_live("stream_breaks", what, "the agent's turn ends with an error")
    elif whole.calls and not stream.calls:
        what = f"the whole answer has a call, but the stream has none (its text: {shown(stream.text) or 'nothing'})"
        yield _not_live("stream_loses_calls", what, "agents stream: the call is lost, or shown as prose")
    elif whole.calls:
        faults = "; ".join(_faults_of(stream))
        yield _misshapen(faults) if faults else good("stream_faithful", "a stream has the same call", "streamed")
    elif stream.is_silent and written_in(whole.text):
        what = "the whole answer has the call in its text, but the stream is empty"
        found = _lost("stream_swallows", what, f"agents stream: {_NO_CALL}", examination)
        yield Finding(found.id, found.level, what, found.harm, found.remedy, True, _PROXY_PARSES, kind="streamed")
    elif not whole.is_silent and not stream.calls and whole.text.split() == stream.text.split():
        yield good("stream_same_text", "a stream has the same text as the whole answer")
    else:
        yield unknown("stream_unknown", "whether streams are faithful (the two answers cannot be compared)")


def _not_live(id_: str, what: str, harm: str) -> Finding:
    return Finding(id_, Level.HARM, what, harm, _ASK_WHOLE, rule=_WHOLE, kind="streamed")


def _misshapen(faults: str) -> Finding:
    return Finding(
        "stream_misshapen",
        Level.HARM,
        f"strict clients cannot read the calls of a stream: {faults}",
        "strict agents fail, or lose the call",
        "not needed with the proxy, which writes ids, indexes, arguments and the finish reason",
        handled=True,
        kind="streamed",
    )


def _faults_of(stream: Reply) -> Iterator[str]:
    broken = [arguments for _, arguments in stream.calls if not is_an_object(arguments)]
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
    if not reply.taken:
        yield unknown("reasoning_unknown", f"where reasoning is returned ({reply.why_not})")
        return
    found = next((mark for mark in marks if _is_in(reply.text, mark)), None)
    if found is not None:
        yield Finding(
            "reasoning_in_text",
            Level.HARM,
            f"reasoning is returned in the text (…{found.closers[0]})",
            "the agent shows it, and sends it back as text; a call in it may be run",
            "the server's reasoning parser (vLLM, SGLang: --reasoning-parser; llama.cpp: --reasoning-format auto), "
            "or reasoning: split in the model's entry",
            rule=("reasoning", "split"),
        )
    elif reply.reasoning_field:
        yield good("reasoning_in_field", f"reasoning is returned in the field {reply.reasoning_field}")
    else:
        yield good("no_reasoning", "the model showed no reasoning")


def _is_in(text: str, mark: ReasoningMarkers) -> bool:
    """Return whether reasoning ends in the text, wherever it started."""
    return mark.may_begin and any(closer.strip() and closer in text for closer in mark.closers)


@dataclass(frozen=True, slots=True)
class _Shape:
    """One conversation for the template. `probe.text`, in its `messages` or `tool`, must reach the prompt.

    `heal` is the healing that fixes it, or "". If the shape `base` is refused, this one is not decided. `in_call`: the
    text is in a call, and no healing fixes it if the template loses even the plainest call.
    """

    probe: TemplateProbe
    messages: Sequence[Json]
    tool: JsonObject
    heal: str = ""
    base: str = ""
    in_call: bool = False

    def make(self, text: str) -> JsonObject:
        """Return the conversation with the watched text replaced."""
        conversation: Json = {"messages": [*self.messages], "tools": [self.tool]}
        return as_object(load_json(dump(conversation).replace(self.probe.text, text)))


def _shapes() -> Iterator[_Shape]:
    """Yield the offered tools, then the examples of healings, with a user message before calls and after system
    messages.
    """
    harm = "the model does not know any tool, and calls none"
    yield _Shape(TemplateProbe("tools", "the offered tools", NAME, harm), [_ASK], TOOL)
    for healing in HEALINGS:
        if healing.probe is None:
            continue
        before = healing.example[0] or []
        has_call = any("tool_calls" in message for message in before)
        messages = [_ASK, *before] if has_call else [*before]
        if before[-1]["role"] in ("system", "developer"):
            messages.append(_ASK)
        base = "results" if has_call and healing.probe.id != "results" else "tools"
        in_call = any(healing.probe.text in dump(message.get("tool_calls")) for message in before)
        yield _Shape(healing.probe, messages, TOOL, healing.id, base, in_call)


_SHAPES = {shape.probe.id: shape for shape in _shapes()}
_CALL: JsonObject = {
    "id": "callabcd1",
    "type": "function",
    "function": {"name": NAME, "arguments": dump({"path": "notes.txt", "content": ""})},
}
_PLAINEST_CALL = _Shape(
    TemplateProbe("plainest_call", "a call", "notes.txt", ""),
    [
        _ASK,
        {"role": "assistant", "content": "", "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "callabcd1", "content": "text"},
    ],
    TOOL,
    base="results",
)


def _fate(examination: Examination, shape: _Shape) -> tuple[Fate, str]:
    """Return the fate of the text in a shape; untold if its base is refused."""
    if shape.base and _fate(examination, _SHAPES[shape.base])[0] in (Fate.REFUSED, Fate.UNTOLD):
        return Fate.UNTOLD, ""
    id_ = shape.probe.id
    if id_ not in examination.fates:
        examination.fates[id_] = examination.prompts.fate(shape.make, MARK)
    return examination.fates[id_]


def _template(shape: _Shape) -> Probe:
    """Return the probe of one shape."""
    probe = shape.probe

    def look(examination: Examination) -> Iterator[Finding]:
        fate, words = _fate(examination, shape)
        if fate is Fate.KEPT:
            yield good(f"{probe.id}_kept", f"the template accepts {probe.title}")
            return
        if fate is Fate.UNTOLD:
            yield unknown(f"{probe.id}_unknown", f"the template and {probe.title}")
            return
        what, harm = f"the template refuses {probe.title}: {shown(words)}", _EVERY_TURN
        if fate is Fate.LOST:
            seen_by = examination.prompts.source.value
            what, harm = f"the template silently omits {probe.title} from the prompt (seen by {seen_by})", probe.harm
        heal = shape.heal
        if shape.in_call and fate is Fate.LOST and _fate(examination, _PLAINEST_CALL)[0] is Fate.LOST:
            heal = ""  # every call is lost
        # Healings for every model need no entry: hardly any server accepts arguments that are not JSON.
        handled = heal in in_force((), ())
        remedy = "not needed with the proxy, which heals every request"
        if not heal:
            remedy = "the chat template for tools that the model was trained on (--chat-template)"
        elif not handled:
            remedy = f"a chat template that accepts it, or heal: {{on: [{heal}]}} in the model's entry"
        level = Level.NOTE if handled else Level.HARM
        yield Finding(f"{probe.id}_{fate.value}", level, what, harm, remedy, handled, heal=heal)

    return Probe(f"the template: {probe.title}", look)


PROBES = (
    Probe("kind and version of the server", _kind),
    Probe("context, and a prompt that is too long", _context),
    Probe("a call under tool_choice none and auto", _calls),
    Probe("a forced call (tool_choice required)", _forced),
    Probe("a stream compared with the whole answer", _streams),
    Probe("the model's reasoning", _reasoning),
    *map(_template, _SHAPES.values()),
)
