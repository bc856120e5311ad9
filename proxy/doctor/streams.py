"""Is a stream what the whole answer is, and do several calls arrive."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.doctor import words
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Found, Level, Probe, Told, found
from proxy.doctor.reply import Reply
from proxy.doctor.syntaxes import is_an_object, written_in

_SHOWN = 160


def _streams(examination: Examination) -> Iterator[Found]:
    whole = examination.reply(words.CALL, "auto")
    stream = examination.reply(words.CALL, "auto", stream=True)
    if whole.status != 200:
        yield found("stream_untold", why=f"of the whole answer there is none: {_trouble(whole)}")
    elif stream.status != 200:
        yield found("stream_refused", words=_trouble(stream))
    elif stream.error:
        yield found("stream_breaks", words=stream.error[:_SHOWN])
    elif whole.calls:
        yield from _calls_in(stream)
    else:
        yield from _texts(whole, stream)
    if stream.taken and not stream.done:
        yield found("stream_without_done")


def _trouble(reply: Reply) -> str:
    return (reply.trouble or f"status {reply.status}: {reply.error or 'it is no reply'}")[:_SHOWN]


def _calls_in(stream: Reply) -> Iterator[Found]:
    """The whole answer has a call: does the stream have it, and whole?"""
    if not stream.calls:
        yield found("stream_loses_calls", text=" ".join(stream.text.split())[:_SHOWN] or "nothing")
        return
    faults = [*_faults_of(stream)]
    if faults:
        yield found("stream_misshapen", faults="; ".join(faults))
    else:
        yield found("stream_faithful")


def _faults_of(stream: Reply) -> Iterator[str]:
    """The faults of the calls of a stream that has some."""
    broken = [arguments for _, arguments in stream.calls if not is_an_object(arguments)]
    if broken:
        yield f"the arguments, joined, are no JSON object: {broken[0][:_SHOWN]!r}"
    if not all(stream.ids):
        yield "a call has no id"
    elif len({*stream.ids}) < len(stream.ids):
        yield "two calls have one id"
    if stream.bare_deltas:
        yield "deltas of calls have no index"
    if not stream.finish:
        yield "it ends without a finish_reason"
    elif stream.finish != "tool_calls":
        yield f"it ends with finish_reason {stream.finish!r} beside a call"


def _texts(whole: Reply, stream: Reply) -> Iterator[Found]:
    """The whole answer has no call: what it says, the stream must say."""
    if stream.calls:
        yield found("stream_untold", why="the stream has a call, and the whole answer had none")
    elif stream.is_silent and written_in(whole.text):
        yield found("stream_swallows", tokens=stream.completion_tokens or "some")
    elif whole.is_silent:
        yield found("stream_untold", why="the whole answer says nothing")
    elif " ".join(whole.text.split()) == " ".join(stream.text.split()):
        yield found("stream_same_text")
    else:
        yield found("stream_untold", why="the model said something else when it was asked again")


def _parallel(examination: Examination) -> Iterator[Found]:
    auto = examination.reply(words.TWO_CALLS, "auto")
    if len(auto.calls) > 1:
        stream = examination.reply(words.TWO_CALLS, "auto", stream=True)
        if not stream.taken:
            yield found("parallel_untold", why=_trouble(stream))
        elif len(stream.calls) < len(auto.calls):
            yield found("parallel_lost_in_stream", whole=len(auto.calls), streamed=len(stream.calls))
        elif len({*stream.ids}) < len(stream.calls):
            yield found("parallel_one_id", calls=len(stream.calls))
        else:
            yield found("parallel", calls=len(auto.calls))
        return
    written = len(examination.written(words.TWO_CALLS))
    if written > 1 and _is_the_same(auto):
        yield found("parallel_lost", written=written, came=len(auto.calls))
    elif not auto.taken:
        yield found("parallel_untold", why=_trouble(auto))
    else:
        yield found("parallel_untold", why="the model did not write two calls in one answer")


def _is_the_same(auto: Reply) -> bool:
    """True if nothing says that the model wrote something else under auto than under none: a text without a call."""
    if not auto.taken:
        return False
    return bool(auto.calls) or auto.is_silent or bool(written_in(auto.text))


_WHOLE = "upstream: whole in the model's entry: the proxy asks for the whole answer, and makes the stream of it"
PROBES = (
    Probe(
        "streams",
        "a stream beside the whole answer",
        _streams,
        (
            Told("stream_faithful", Level.GOOD, "a stream has the same call as the whole answer"),
            Told("stream_same_text", Level.GOOD, "a stream has the same text as the whole answer"),
            Told(
                "stream_refused",
                Level.HARM,
                "a streamed request is refused, the whole one is not: {words}",
                "agents stream: they get an error",
                "nothing by itself",
                _WHOLE,
                rule=("upstream", "whole"),
            ),
            Told(
                "stream_breaks",
                Level.HARM,
                "a stream ends in an error: {words}",
                "the agent's turn ends with an error after a success was begun",
                "where it says that the parser failed, it asks for the raw text instead",
                _WHOLE,
                rule=("upstream", "whole"),
            ),
            Told(
                "stream_loses_calls",
                Level.HARM,
                "the whole answer has a call, and the stream has none (its text: {text})",
                "agents stream: the call is lost, or shown as prose",
                "it finds what is left in the text",
                _WHOLE,
                rule=("upstream", "whole"),
            ),
            Told(
                "stream_swallows",
                Level.HARM,
                "the whole answer has the call in its text, and the stream, of {tokens} tokens, says nothing",
                "agents stream: they see an empty reply, and their turn is over without a word",
                "it asks once more, with tool_choice none, and finds the call in the raw text",
                "the parser of the model's family; or parse: proxy in the model's entry",
                rule=("parse", "proxy"),
            ),
            Told(
                "stream_misshapen",
                Level.HARM,
                "the calls of a stream are not as clients take them: {faults}",
                "strict agents fail, or lose the call",
                "it puts ids, indexes, arguments and the finish right",
                "none is needed behind the proxy",
            ),
            Told(
                "stream_without_done",
                Level.NOTE,
                "a stream ends without [DONE]",
                "some clients take it for one that broke off",
                "it supplies the end",
                "none is needed behind the proxy",
            ),
            Told("stream_untold", Level.UNTOLD, "whether streams are faithful could not be told: {why}"),
        ),
    ),
    Probe(
        "parallel",
        "two calls in one answer",
        _parallel,
        (
            Told("parallel", Level.GOOD, "{calls} calls in one answer arrive, streamed and whole"),
            Told(
                "parallel_lost",
                Level.HARM,
                "the model wrote {written} calls in one answer, and {came} came as calls",
                "the agent does less than the model meant, and the model does not know",
                "it finds those that are left in the text",
                "the parser of the model's family; or parse: proxy in the model's entry",
                rule=("parse", "proxy"),
            ),
            Told(
                "parallel_lost_in_stream",
                Level.HARM,
                "of {whole} calls in one answer {streamed} are in the stream",
                "the agent does less than the model meant, and the model does not know",
                "of what did not come nothing can be told",
                _WHOLE,
                rule=("upstream", "whole"),
            ),
            Told(
                "parallel_one_id",
                Level.HARM,
                "the {calls} calls of one answer share an id",
                "the agent's results are given to the wrong call, or refused",
                "it gives each call an id of its own, and keeps it for the conversation",
                "none is needed behind the proxy",
            ),
            Told("parallel_untold", Level.UNTOLD, "whether several calls arrive could not be told: {why}"),
        ),
    ),
)
