"""`vllm-tool-proxy parse`: the calls in a text or a capture, and why the rest is not a call.

A capture passes through the same engine and dialect as a served response, but without time limits on held text.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy import sse
from proxy.cli.output import show
from proxy.config.load import load
from proxy.config.rules import Profile, Rules
from proxy.config.settings import Settings
from proxy.dialects.chat.answer import ChatOptions, read_answer
from proxy.dialects.chat.client_view import ReplyView, view_reply
from proxy.dialects.chat.writer import ChatWriter, error_body
from proxy.display import escaped
from proxy.engine.engine import Engine
from proxy.errors import InternalError, ProxyError, RulesError, UpstreamBroken
from proxy.exchange.capture import Captured, read_capture
from proxy.exchange.plan import make_task, thoughts_in_text
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.whole_answer import AnswerWriter
from proxy.healing.families import family_of
from proxy.healing.reasoning import thoughts_of
from proxy.json import load_json, objects_in
from proxy.library import TextReport, explained, offered_tools, read_text, reasons
from proxy.notations.toolset import ToolSet
from proxy.repair.record import Repair

NO_CALL = 1
_SEED = b"capture"


def parse_command(
    *,
    file: str | None,
    tools: str | None,
    finish: str,
    model: str,
    capture: str | None,
    as_json: bool,
    rules: str | None,
) -> int:
    """Run `parse` and return its exit status. Raises RulesError."""
    settings, loaded = load({"rules": rules})
    report: CaptureReport | TextReport
    if capture is not None:
        if file is not None or tools is not None or model:
            raise RulesError("--capture takes no FILE, --tools or --model, because the capture has them; remove them")
        captured = reread(read_capture(_read_bytes(capture), capture), settings, loaded)
        report, text, status = captured, lines(captured), 0
    elif file is None or tools is None:
        raise RulesError("give FILE and --tools TOOLS.json, or --capture FILE")
    else:
        toolset = _tools(tools)
        found = read_text(_read(file), toolset, loaded.policy(model), stopped=finish == "stop")
        report, text = found, explained(found)
        status = 0 if any(each.name for each in found.calls) else NO_CALL
    if as_json:
        print(json.dumps(report, indent=2, default=_fields))
    else:
        show(text)
    return status


def _fields(report: Any) -> dict[str, Any]:
    """Return a dataclass as JSON. Unlike `asdict`, it leaves deeply nested arguments to the encoder."""
    return {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}


def _read(file: str) -> str:
    try:
        return _read_bytes(file).decode()
    except UnicodeDecodeError as error:
        raise RulesError(f"{file} is not UTF-8 (byte {error.start}); save the reply's text as UTF-8") from error


def _read_bytes(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RulesError(f"{file} cannot be read ({reason}); give a file, or - for standard input") from error


def _tools(file: str) -> ToolSet:
    """Return the tools of a file, in the form of any API."""
    try:
        listed = load_json(_read(file))
    except ValueError as error:
        raise RulesError(f"{file} is not JSON ({error}); give the request's tools, a JSON array") from error
    tools = offered_tools(objects_in(listed.get("tools") if isinstance(listed, dict) else listed))
    if not tools:
        raise RulesError(f'{file} has no tools; give an array like [{{"type": "function", "function": {{…}}}}]')
    return tools


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """A captured answer, processed again: `before` is the model server's answer, `after` is the client's.

    `refused` counts rejected calls by reason, and `places` describes their places. `crashes` are defects of the engine.
    `swallowed`: tokens were used, but the reply is empty.
    """

    model: str
    status: int
    streamed: bool
    complete: bool
    truncated: bool
    changed: bool
    before: ReplyView
    after: ReplyView
    repairs: tuple[Repair, ...]
    refused: dict[str, int]
    places: tuple[str, ...]
    crashes: tuple[str, ...]
    swallowed: bool


def reread(captured: Captured, settings: Settings, rules: Rules) -> CaptureReport:
    """Process a captured answer under these settings and rules."""
    chat = captured.chat
    profile = rules.profile(chat.model, captured.client or settings.client)
    options = ChatOptions(chat.model, True, profile.clean, parsed=chat.tools is not None, reasoning=profile.reasoning)
    engine, crashes = _engine(captured, profile, settings, rules), list[Exception]()
    data, swallowed = _answer(captured, engine, options, crashes)
    before = view_reply(captured.body, streamed=captured.streamed)
    places: list[str] = []
    if engine.refusals and chat.tools is not None:
        for choice in before.choices.values():
            policy = rules.policy(chat.model)
            places += read_text(choice.text, chat.tools, policy, stopped=captured.complete).refused
    return CaptureReport(
        model=chat.model,
        status=captured.status,
        streamed=captured.streamed,
        complete=captured.complete,
        truncated=captured.truncated,
        changed=data != captured.body,
        before=before,
        after=view_reply(data, streamed=captured.status == 200 and chat.stream),
        repairs=engine.audit,
        refused={**engine.refusals},
        places=tuple(places),
        crashes=tuple(f"{type(error).__name__}: {error}" for error in crashes),
        swallowed=swallowed and options.parsed,
    )


def _answer(captured: Captured, engine: Engine, options: ChatOptions, crashes: list[Exception]) -> tuple[bytes, bool]:
    """Return the answer for the client, and whether the server used tokens for an empty reply."""
    if captured.status != 200:
        return captured.body, False
    writer = ChatWriter(options)
    reply = StreamReply(engine, writer if captured.chat.stream else AnswerWriter(writer), crashes.append)
    return (_streamed if captured.streamed else _whole)(captured, reply), reply.swallowed


def _engine(captured: Captured, profile: Profile, settings: Settings, rules: Rules) -> Engine:
    chat = captured.chat
    parse = "proxy" if captured.raw_text else profile.parse
    thoughts = thoughts_of(chat.body, family_of(chat.model, profile.family or captured.family))
    if profile.family in ("", captured.family):
        # The capture records whether this reply began with reasoning.
        thoughts = dataclasses.replace(thoughts, begun=captured.begun, unknown=captured.unknown)
    task = dataclasses.replace(
        make_task(chat, thoughts=thoughts_in_text(thoughts, profile, parse, blocks=captured.ordered)),
        policy=rules.policy(chat.model),
        seed=_SEED,
        raw_text=captured.raw_text,
        ordered=captured.ordered,
        max_held=settings.max_held,
    )
    return Engine(task)


def _streamed(captured: Captured, reply: StreamReply) -> bytes:
    """Return the stream for the client. An error before its start, served as a status, is an event here."""
    if not captured.chat.stream:
        return error_body(UpstreamBroken("the model server answered with a stream that was not asked for"))
    data = reply.receive(captured.body)
    if captured.complete and reply.failure is None:
        data += reply.finish()
    error = reply.failure
    if error is None and not captured.complete:
        error = UpstreamBroken("the capture ends before the reply did")
    if error is None:
        return data
    end = reply.fail(error)
    return data + end if reply.started else end


def _whole(captured: Captured, reply: StreamReply) -> bytes:
    failure: ProxyError | None
    try:
        answer, data = read_answer(captured.body)
    except ProxyError as error:
        failure = error
    else:
        reply.receive_answer(data, answer)
        written = reply.finish()
        failure = reply.failure
        if failure is None:
            return written
        if isinstance(failure, InternalError) and not captured.chat.stream:
            return captured.body
    body = error_body(failure)
    return sse.encode(body) if captured.chat.stream else body


def lines(report: CaptureReport) -> Iterator[str]:
    """Yield lines about a captured answer, safe for a terminal: before, after, repairs, rejections."""
    kind = "a stream" if report.streamed else "a whole answer"
    end = ", too long to be captured whole" if report.truncated else "" if report.complete else ", incomplete"
    yield f"capture: model {escaped(report.model)}, {kind}, status {report.status}{end}"
    yield "before:"
    yield from _view(report.before)
    yield "after:" if report.changed else "after: unchanged"
    if report.changed:
        yield from _view(report.after)
    for repair in report.repairs:
        tool = f", tool {escaped(repair.tool)}" if repair.tool else ""
        yield f"repair {escaped(repair.id)}{tool}: {escaped(repair.why)}"
        if repair.before != repair.after:
            yield from _block("before", repair.before)
            yield from _block("after", repair.after)
    for reason, count in sorted(report.refused.items()):
        yield f"not a call ({escaped(reason)}, {count}): {reasons().get(reason, 'see the log')}"
    yield from (f"  {escaped(place)}" for place in report.places)
    yield from (f"the engine failed: {escaped(crash)}" for crash in report.crashes)
    if report.swallowed:
        yield "tokens were used for an empty reply: the server's tool parser may have swallowed a call (parse: proxy)"
    if not (report.repairs or report.refused or report.crashes):
        yield "nothing repaired, nothing rejected"


def _view(seen: ReplyView) -> Iterator[str]:
    for number, choice in sorted(seen.choices.items()):
        if len(seen.choices) > 1:
            yield f"  choice {number}:"
        yield from _block("reasoning", choice.reasoning)
        yield from _block("text", choice.text)
        for at, call in sorted(choice.tool_calls.items()):
            yield f"  call {at}: {escaped(call.name) or 'without a name'}, id {escaped(call.id) or 'missing'}"
            yield from _block("arguments", call.arguments)
        yield f"  finish: {escaped(choice.finish or '') or 'none'}"
    if seen.error:
        yield from _block("error", seen.error)
    if not seen.choices and not seen.error:
        yield "  nothing"


def _block(title: str, text: str) -> Iterator[str]:
    """Yield a text under its title, indented so that none of its lines looks like one of the report's."""
    if text:
        yield f"  {title}:"
        yield from (f"    {escaped(line)}" for line in text.split("\n"))
