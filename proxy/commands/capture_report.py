"""Report on a capture: what the model server sent, what the client gets, and the reason of each change.

The answer passes the same engine and dialect as a served one, without a clock: how long text was held plays no part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec import sse
from proxy.commands.text_report import printable, reasons, rejected, written_calls
from proxy.config.rules import Profile, Rules
from proxy.config.settings import Settings
from proxy.dialects.chat.answer import ChatDialect, read_answer, read_whole, says_nothing
from proxy.dialects.chat.client_view import ChoiceView, ReplyView, view_reply
from proxy.dialects.chat.writer import ChatOptions, error_body, new_writer
from proxy.engine.engine import Engine
from proxy.engine.events import CallClosed, Event, Unchanged
from proxy.errors import InternalError, ProxyError, UpstreamBroken
from proxy.exchange.capture import Captured
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.task import make_task
from proxy.exchange.whole_answer import answer_as_answer, answer_as_stream
from proxy.healing.families import family_of
from proxy.healing.reasoning import thoughts_of
from proxy.notations.thoughts import Thoughts
from proxy.web.thinking import thoughts_in_text

_SEED = b"capture"


@dataclass(frozen=True, slots=True)
class Reread:
    """A captured answer read again.

    `data` is what the client gets, `calls` are its calls with their repairs, `audit` all repairs, `refusals` the number
    of rejected calls by reason, `crashes` defects of the engine. `swallowed`: tokens were used and nothing was said.
    """

    data: bytes
    streamed: bool
    calls: tuple[CallClosed, ...]
    audit: tuple[Repair, ...]
    refusals: Mapping[str, int]
    crashes: tuple[str, ...]
    swallowed: bool


class _Calls:
    """Collects the calls of a reply from its events."""

    def __init__(self) -> None:
        self.closed: list[CallClosed] = []

    def observe(self, events: Iterable[Event]) -> None:
        """Add the calls that are complete."""
        for event in events:
            if isinstance(event, Unchanged):
                self.observe(event.events)
            elif isinstance(event, CallClosed):
                self.closed.append(event)


def reread(captured: Captured, settings: Settings, rules: Rules) -> Reread:
    """Read a captured answer under these settings and rules."""
    chat = captured.chat
    profile = rules.profile(chat.model, captured.client or settings.client)
    options = ChatOptions(chat.model, True, profile.clean, parsed=chat.tools is not None, reasoning=profile.reasoning)
    engine, calls, crashes = _engine(captured, profile, settings, rules), _Calls(), list[Exception]()
    swallowed = False
    if captured.status != 200:
        data = captured.body
    elif captured.streamed:
        writer = new_writer(options)
        reply = StreamReply(engine, writer, crashes.append, listener=calls)
        data = _streamed(captured, reply)
        swallowed = reply.swallowed
    else:
        data = _whole(captured, engine, options, calls, crashes)
        swallowed = _is_empty(captured.body)
    return Reread(
        data,
        streamed=captured.status == 200 and chat.stream,
        calls=tuple(calls.closed),
        audit=engine.audit,
        refusals=engine.refusals,
        crashes=tuple(f"{type(error).__name__}: {error}" for error in crashes),
        swallowed=swallowed and options.parsed,
    )


def _engine(captured: Captured, profile: Profile, settings: Settings, rules: Rules) -> Engine:
    chat = captured.chat
    parse = "proxy" if captured.raw_text else profile.parse
    thoughts = thoughts_of(chat.body, family_of(chat.model, profile.family or captured.family))
    if profile.family in ("", captured.family):
        thoughts = _as_captured(captured, thoughts)
    task = make_task(
        chat,
        rules.policy(chat.model),
        seed=_SEED,
        raw_text=captured.raw_text,
        ordered=captured.ordered,
        thoughts=thoughts_in_text(thoughts, profile, parse, blocks=captured.ordered),
        max_held=settings.max_held,
    )
    return Engine(task)


def _as_captured(captured: Captured, thoughts: Thoughts) -> Thoughts:
    """Return the family's reasoning marks, with how this reply began as the capture has it."""
    begun = thoughts.begun if captured.begun is None else captured.begun
    unknown = thoughts.unknown if captured.unknown is None else captured.unknown
    return dataclasses.replace(thoughts, begun=begun, unknown=unknown)


def _streamed(captured: Captured, reply: StreamReply) -> bytes:
    """Return the stream for the client. An error before its start, served as a status, is an event here."""
    if not captured.chat.stream:
        return error_body(UpstreamBroken("the model server answered with a stream that was not asked for"))
    data = reply.receive(captured.body)
    if captured.complete and reply.failure is None:
        data += reply.finish()
    error = reply.failure
    if error is None:
        if captured.complete:
            return data
        error = UpstreamBroken("the capture ends before the reply did")
    end = reply.fail(error)
    return data + end if reply.started else end


def _whole(captured: Captured, engine: Engine, options: ChatOptions, calls: _Calls, crashes: list[Exception]) -> bytes:
    failure: ProxyError
    try:
        answer, body = read_answer(captured.body)
        if captured.chat.stream:
            return answer_as_stream(answer, engine, new_writer(options, expand=True), calls)
        return answer_as_answer(body, answer, engine, ChatDialect(options), calls)
    except ProxyError as error:
        failure = error
    except Exception as error:  # the outermost boundary of the engine
        crashes.append(error)
        if not captured.chat.stream:
            return captured.body
        failure = InternalError("the proxy failed while it read the answer")
    return sse.encode(error_body(failure)) if captured.chat.stream else error_body(failure)


def _is_empty(body: bytes) -> bool:
    try:
        return says_nothing(read_whole(body))
    except ProxyError:
        return False


def lines(captured: Captured, result: Reread) -> Iterator[str]:
    """Yield lines about a captured answer, safe for a terminal: before, after, calls, other repairs, rejections."""
    before = view_reply(captured.body, streamed=captured.streamed)
    yield _title(captured)
    yield "before:"
    yield from _view_lines(before)
    if result.data == captured.body:
        yield "after: unchanged"
    else:
        yield "after:"
        yield from _view_lines(view_reply(result.data, streamed=result.streamed))
    yield from _repaired(captured, result, before)
    yield from _rejected(captured, result, before)
    for crash in result.crashes:
        yield f"the engine failed: {printable(crash)}"
    if result.swallowed:
        yield "tokens were used and nothing was said: the server's tool parser may have swallowed a call (parse: proxy)"
    if not (result.audit or result.refusals or result.crashes):
        yield "nothing repaired, nothing rejected"


def _title(captured: Captured) -> str:
    words = f"capture: model {printable(captured.chat.model)}, "
    words += "a stream" if captured.streamed else "a whole answer"
    words += f", status {captured.status}"
    if captured.truncated:
        words += ", too long to be kept whole"
    elif not captured.complete:
        words += ", broke off"
    return words


def _repaired(captured: Captured, result: Reread, before: ReplyView) -> Iterator[str]:
    """Yield each call as the model wrote it and as the client gets it, with its repairs; then the other repairs."""
    others = list(result.audit)
    written = {number: _written(captured, choice) for number, choice in before.choices.items()}
    for call in result.calls:
        in_text = any(repair.id == "text_call" for repair in call.fixes)
        source = next(written.get(call.choice, (iter(()), iter(())))[in_text], "")
        yield f"call {call.index}: {printable(call.call.name)}" + ("" if call.fixes else ", unchanged")
        yield from _block("the model wrote", source)
        if call.fixes:
            yield from _block("the client gets", call.call.arguments)
        for repair in call.fixes:
            yield from _repair_lines(repair, call.call.name)
            if repair in others:
                others.remove(repair)
    if others:
        yield "other repairs:"
        for repair in others:
            yield from _repair_lines(repair, "")


def _written(captured: Captured, choice: ChoiceView) -> tuple[Iterator[str], Iterator[str]]:
    """Return what the model wrote for the structured calls of a choice, and for those in its text."""
    structured = (f"{call.name} {call.arguments}" for _, call in sorted(choice.tool_calls.items()))
    tools = captured.chat.tools
    if tools is None:
        return structured, iter(())
    return structured, written_calls(choice.text, tools, stopped=captured.complete)


def _repair_lines(repair: Repair, called: str) -> Iterator[str]:
    """Yield a repair; `called` is the tool of the call under which it is listed."""
    tool = f", tool {printable(repair.tool)}" if repair.tool not in ("", called) else ""
    yield f"  repair {printable(repair.id)}{tool}: {printable(repair.why)}"
    if repair.before != repair.after:
        for title, text in (("before", repair.before), ("after", repair.after)):
            yield from (f"  {line}" for line in _block(title, text))


def _rejected(captured: Captured, result: Reread, before: ReplyView) -> Iterator[str]:
    """Yield why text was not recognised as a call: the engine's reasons, then the places in the text."""
    sentences = reasons()
    for reason, count in sorted(result.refusals.items()):
        yield f"not a call ({printable(reason)}, {count}): {sentences.get(reason, 'see the log')}"
    tools = captured.chat.tools
    if not result.refusals or tools is None:
        return
    for choice in before.choices.values():
        for line in rejected(choice.text, tools, stopped=captured.complete):
            yield f"  {printable(line)}"


def _view_lines(seen: ReplyView) -> Iterator[str]:
    for number, choice in sorted(seen.choices.items()):
        if len(seen.choices) > 1:
            yield f"  choice {number}:"
        yield from _block("reasoning", choice.reasoning)
        yield from _block("text", choice.text)
        for at, call in sorted(choice.tool_calls.items()):
            yield f"  call {at}: {printable(call.name) or 'without a name'}, id {printable(call.id) or 'missing'}"
            yield from _block("arguments", call.arguments)
        yield f"  finish: {printable(choice.finish or '') or 'none'}"
    if seen.error:
        yield from _block("error", seen.error)
    if not seen.choices and not seen.error:
        yield "  nothing"


def _block(title: str, text: str) -> Iterator[str]:
    """Yield a text under its title, indented so that none of its lines looks like one of the report's."""
    if text:
        yield f"  {title}:"
        yield from (f"    {printable(line)}" for line in text.split("\n"))
