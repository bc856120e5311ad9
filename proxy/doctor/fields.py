"""Fields of requests, token counts and errors: what the server takes, and in which shape it refuses."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.codec.json_access import as_list, as_object, as_text
from proxy.codec.json_text import JsonObject
from proxy.doctor.ask import Answer
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Found, Level, Probe, Told, found
from proxy.doctor.reply import NO_REPLY, Reply
from proxy.upstream.context_overflow import read_overflow
from proxy.upstream.paths import CHAT_COMPLETIONS, MESSAGES_COUNT_TOKENS, TOKENIZE

# Servers that refuse a prompt which is too long before they read it: elsewhere it would cost a whole context.
_REFUSE_EARLY = ("vllm", "sglang", "llamacpp")
# No prompt of more words than these is sent.
_MAX_WORDS = 300_000
_SHOWN = 160


def _special_tokens(examination: Examination) -> Iterator[Found]:
    reply = examination.ask.chat(examination.plain_request(skip_special_tokens=False))
    if reply.taken:
        yield found("special_taken")
    elif reply.status in (400, 422) and examination.plain.taken:
        yield found("special_refused", words=reply.error[:_SHOWN])
    else:
        yield found("special_untold")


def _stream_options(examination: Examination) -> Iterator[Found]:
    usage: JsonObject = {"include_usage": True}
    stream = examination.ask.chat(examination.plain_request(stream=True, stream_options=usage))
    if not stream.taken:
        yield found("usage_untold", why=stream.trouble or stream.error[:_SHOWN] or NO_REPLY)
    elif stream.prompt_tokens is None:
        yield found("usage_missing")
    else:
        yield found("usage")
    whole = examination.ask.chat(examination.plain_request(stream_options=usage))
    if whole.status in (400, 422) and examination.plain.taken:
        yield found("options_refused", words=whole.error[:_SHOWN])
    elif whole.taken:
        yield found("options_taken")


def _token_counts(examination: Examination) -> Iterator[Found]:
    text: JsonObject = {"model": examination.model, "prompt": "one two", "content": "one two"}
    counted = examination.ask.post(TOKENIZE, text)
    counts = counted.json if counted.status == 200 else {}
    by_text = type(counts.get("count")) is int or bool(as_list(counts.get("tokens")))
    messages: JsonObject = {"model": examination.model, "messages": [{"role": "user", "content": "one two"}]}
    answer = examination.ask.post(MESSAGES_COUNT_TOKENS, messages)
    by_messages = answer.status == 200 and type(answer.json.get("input_tokens")) is int
    paths = [path for path, there in ((TOKENIZE, by_text), (MESSAGES_COUNT_TOKENS, by_messages)) if there]
    if paths:
        yield found("counts", paths=" and ".join(paths))
    elif counted.status == 0:
        yield found("counts_untold", why=counted.trouble)
    else:
        yield found("counts_missing")


def _errors(examination: Examination) -> Iterator[Found]:
    if not examination.plain.taken:
        why = _why_untold(examination.plain)
        yield found("errors_untold", why=why)
        yield found("overflow_untold", why=why)
        return
    wrong = examination.ask.post(CHAT_COMPLETIONS, examination.plain_request(model=f"{examination.model}-not-there"))
    if wrong.status == 200:
        yield found("any_model")
    elif wrong.status:
        yield from _shape(wrong, "a wrong model")
    bad = examination.ask.post(CHAT_COMPLETIONS, examination.plain_request(temperature="hot"))
    if bad.status == 200:
        yield found("bad_field_taken")
    elif bad.status:
        yield from _shape(bad, "a bad field")
    yield from _too_long(examination)


def _why_untold(plain: Reply) -> str:
    """The reason why nothing is told of errors: the request without a fault has no reply."""
    if plain.trouble:
        return plain.trouble
    if plain.status == 200:
        return plain.error[:_SHOWN] or "a request without a fault is answered by what is no reply"
    return f"a request without a fault is refused, too ({plain.status})"


def _shape(answer: Answer, what: str) -> Iterator[Found]:
    """A finding on an error's shape: the SDKs read `{"error": {"message": …}}`."""
    if as_text(as_object(answer.json.get("error")).get("message")):
        yield found("error_shape", what=what, status=answer.status)
    else:
        shown = answer.body[:_SHOWN].decode("utf-8", "replace")
        yield found("error_odd", what=what, status=answer.status, shown=" ".join(shown.split()) or "nothing")


def _too_long(examination: Examination) -> Iterator[Found]:
    context = examination.context
    if context is None or examination.kind not in _REFUSE_EARLY or context > _MAX_WORDS:
        yield found("overflow_untold", why="its context is not known, or it may be read before it is refused")
        return
    long = [{"role": "user", "content": "yes " * (context + 100)}]
    answer = examination.ask.post(CHAT_COMPLETIONS, examination.plain_request(messages=long))
    if answer.status == 200 and as_list(answer.json.get("choices")):
        yield found("overflow_taken", context=context)
    elif answer.status == 200:
        yield found("overflow_untold", why="what was answered is no reply")
    elif not answer.status:
        yield found("overflow_untold", why=answer.trouble)
    elif read_overflow(answer.error, answer.body) is None:
        yield found("overflow_unknown", status=answer.status, words=answer.error[:_SHOWN])
    else:
        yield found("overflow", status=answer.status)


PROBES = (
    Probe(
        "special_tokens",
        "special tokens",
        _special_tokens,
        (
            Told("special_taken", Level.GOOD, "skip_special_tokens: false is taken"),
            Told(
                "special_refused",
                Level.NOTE,
                "skip_special_tokens: false is refused: {words}",
                "calls whose marks are special tokens arrive without them where the server has no parser",
                "it leaves the field out after the refusal, and reads what is left of the marks",
                "the server's own tool parser",
            ),
            Told("special_untold", Level.UNTOLD, "whether skip_special_tokens is taken could not be told"),
        ),
    ),
    Probe(
        "stream_options",
        "stream_options",
        _stream_options,
        (
            Told("usage", Level.GOOD, "a stream says the usage where it is asked for (stream_options)"),
            Told(
                "usage_missing",
                Level.NOTE,
                "a stream does not say the usage although it is asked for",
                "agents do not know how full the context is, and do not compact in time",
                "it says no counts that the server does not give; it answers count_tokens all the same",
                "a newer release of the server",
            ),
            Told("usage_untold", Level.UNTOLD, "whether a stream says the usage could not be told: {why}"),
            Told("options_taken", Level.GOOD, "stream_options is taken beside stream: false, too"),
            Told(
                "options_refused",
                Level.NOTE,
                "stream_options beside stream: false is refused: {words}",
                "clients that always send it get a 400 for every whole answer",
                "it leaves the field out",
                "none is needed behind the proxy",
            ),
        ),
    ),
    Probe(
        "token_counts",
        "token counts",
        _token_counts,
        (
            Told("counts", Level.GOOD, "tokens are counted by {paths}"),
            Told(
                "counts_missing",
                Level.NOTE,
                "the server counts no tokens (no /tokenize, no /v1/messages/count_tokens)",
                "Claude Code asks for counts, and compacts by them",
                "it answers count_tokens with an estimate",
                "none is needed behind the proxy",
            ),
            Told("counts_untold", Level.UNTOLD, "whether tokens are counted could not be told: {why}"),
        ),
    ),
    Probe(
        "errors",
        "the shapes of errors",
        _errors,
        (
            Told("error_shape", Level.GOOD, "{what} is refused as SDKs read it ({status})"),
            Told(
                "error_odd",
                Level.NOTE,
                "{what} is refused in a shape that SDKs do not read ({status}): {shown}",
                "the agent shows no reason, or fails at the error itself",
                "it says the same words in the shape of the client's dialect",
                "none is needed behind the proxy",
            ),
            Told(
                "any_model",
                Level.NOTE,
                "a model that is not there is answered by the one that is",
                "a misspelt name goes unnoticed",
                "an API key with models of its own refuses the others",
                "none",
            ),
            Told(
                "bad_field_taken",
                Level.NOTE,
                'a field of a wrong type (temperature: "hot") is taken',
                "a client's mistake goes unnoticed",
                "it passes such fields as they are",
                "none",
            ),
            Told("errors_untold", Level.UNTOLD, "the shapes of errors could not be told: {why}"),
            Told("overflow", Level.GOOD, "a prompt that is too long is refused in words that are known ({status})"),
            Told(
                "overflow_unknown",
                Level.HARM,
                "a prompt that is too long is refused in words that are not known ({status}): {words}",
                "the agent does not know that the context is full, and does not compact",
                "it passes the words on, without the code by which agents compact",
                "a report of these words",
            ),
            Told(
                "overflow_taken",
                Level.HARM,
                "a prompt longer than the context ({context} tokens) is taken",
                "the beginning of the conversation, and with it the tools, is cut off in silence",
                "it cannot see that",
                "the context's size in the server's configuration, so that it refuses (llama.cpp: --no-context-shift)",
            ),
            Told("overflow_untold", Level.UNTOLD, "what becomes of a prompt that is too long was not tried: {why}"),
        ),
    ),
)
