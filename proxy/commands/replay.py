"""`vllm-tool-proxy replay`: a capture before and after the proxy, under given rules.

The answer takes the very way of a served one, through the engine and the dialect, but without a clock: how long text
was held plays no part. A capture holds what became of it when it was served: where that is something else now, `replay`
says what, and its exit code is 1.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from proxy.audit_record import Repair
from proxy.codec import sse
from proxy.codec.json_text import JsonObject
from proxy.commands.capture_files import Total, files_of, is_folder, read_file
from proxy.commands.parse import printable
from proxy.commands.parsers import add_rules, command_parser, rules_flag
from proxy.commands.progress import Progress
from proxy.config.load import load
from proxy.config.rules import Rules
from proxy.config.settings import Settings
from proxy.dialects.chat.answer import ChatDialect, read_answer, read_whole, says_nothing
from proxy.dialects.chat.client_view import ReplyView, view_reply
from proxy.dialects.chat.writer import ChatOptions, error_body, new_writer
from proxy.engine.engine import Engine
from proxy.errors import InternalError, ProxyError, RulesError, UpstreamBroken
from proxy.exchange.capture import Captured
from proxy.exchange.healing_record import healing_differences
from proxy.exchange.reply_record import Difference, ReplyRecord, differences
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.task import make_task
from proxy.exchange.whole_answer import answer_as_answer, answer_as_stream
from proxy.notations.thoughts import Thoughts
from proxy.thinking.families import family_of
from proxy.thinking.splitting import thoughts_of
from proxy.web.thinking import thoughts_in_text

_ABOUT = """\
Prints what the model server said in a capture (serve --capture DIR writes them): what a client would have seen without
the proxy, what it sees with it, each repair, and each reason why something was no call; then what of it is not as it
was recorded. Of a folder, or of several captures, it prints only what is not as it was recorded, and how many are.

exit codes:
  0   all is as it was recorded, or nothing was recorded
  1   something is not as it was recorded
  2   bad input: no such file, no capture, a folder without any, rules that cannot be used
"""
_SEED = b"replay"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay: the bytes for the client, repairs, what was no call by its reason, and defects.

    `swallowed`: tokens were used and nothing was said. `made` is the record of it (`exchange/reply_record.py`).
    `healing` is what is healed in the request in another way than it was.
    """

    data: bytes
    streamed: bool
    audit: tuple[Repair, ...]
    refusals: tuple[tuple[str, int], ...]
    crashes: tuple[str, ...]
    swallowed: bool
    made: JsonObject
    healing: tuple[Difference, ...] = ()


def replay_command(name: str, argv: Sequence[str]) -> int:
    """Run `replay` with the words behind it; raises RulesError for bad input."""
    parser = command_parser(name, "replay", _ABOUT)
    about = "a file that serve --capture DIR wrote, or a folder of them; any number of both"
    parser.add_argument("captures", metavar="CAPTURE", nargs="+", help=about)
    add_rules(parser)
    about = "take the answer for raw text, in which the proxy alone looks for calls (parse: proxy)"
    parser.add_argument("--raw-text", action="store_true", help=about)
    options = parser.parse_args(argv)
    settings, rules = load(rules_flag(options))
    again = partial(replay, settings=settings, rules=rules, raw_text=options.raw_text)
    if len(options.captures) > 1 or is_folder(options.captures[0]):
        return _replay_many(name, files_of(options.captures), again)
    captured = read_file(options.captures[0])
    result = again(captured)
    _print([*lines(captured, result), *compared(captured, result)])
    return 1 if has_changed(captured, result) else 0


def _replay_many(name: str, files: Sequence[str], again: Callable[[Captured], Replayed]) -> int:
    """Replay captures one after the other; tell of those that have changed, and how many there are of each kind."""
    total = Total()
    progress = Progress("replay", len(files))
    for file in files:
        progress.step(file)
        try:
            captured = read_file(file)
            result = again(captured)
        except RulesError as error:
            print(f"{name}: error: {error.message}", file=sys.stderr, flush=True)
            total.bad += 1
            continue
        total.add(_is_recorded(captured), changed=has_changed(captured, result))
        if has_changed(captured, result):
            _print([f"{printable(file)}: changed", *compared(captured, result)])
    _print([str(total)])
    return total.exit_code


def _print(listed: Sequence[str]) -> None:
    """Print lines, as the terminal can show them."""
    encoding = sys.stdout.encoding or "utf-8"
    text = "\n".join(listed).encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read the lines has seen enough


def has_changed(captured: Captured, result: Replayed) -> bool:
    """True if something is not as it was recorded, or the engine failed where it had not."""
    if not _is_recorded(captured):
        return False
    return result.crashes != () or any(_differences(captured, result))


def _is_recorded(captured: Captured) -> bool:
    """True if something is known of what became of the answer, or of what was healed in the request."""
    return captured.made is not None or bool(captured.healing and captured.healing.get("done"))


def _differences(captured: Captured, result: Replayed) -> Iterator[Difference]:
    """What is not as it was recorded, of the request and of the answer."""
    yield from result.healing
    if captured.made is not None:
        yield from differences(captured.made, result.made)


def compared(captured: Captured, result: Replayed) -> Iterator[str]:
    """Lines about what is not as it was recorded."""
    if not _is_recorded(captured):
        yield "nothing was recorded of what became of it"
        return
    if not has_changed(captured, result):
        yield "all as it was recorded"
    for crash in result.crashes:
        yield f"the engine failed: {printable(crash)}"
    for difference in _differences(captured, result):
        yield f"changed: {printable(difference.what)}"
        yield from _block("recorded", difference.before or "nothing")
        yield from _block("now", difference.now or "nothing")


def replay(captured: Captured, settings: Settings, rules: Rules, *, raw_text: bool = False) -> Replayed:
    """The captured answer through engine and dialect; `raw_text` also where the capture does not say so."""
    chat = captured.chat
    profile = rules.profile(chat.model, captured.client or settings.client)
    options = ChatOptions(chat.model, True, profile.clean, parsed=chat.tools is not None, reasoning=profile.reasoning)
    raw_text = raw_text or captured.raw_text
    parse = "proxy" if raw_text else profile.parse
    family = family_of(chat.model, profile.family or captured.family)
    family_thoughts = thoughts_of(chat.body, family)
    if profile.family in ("", captured.family):
        family_thoughts = _recorded(captured, family_thoughts)
    task = make_task(
        chat,
        rules.policy(chat.model),
        seed=_SEED,
        raw_text=raw_text,
        ordered=captured.ordered,
        thoughts=thoughts_in_text(family_thoughts, profile, parse, blocks=captured.ordered),
        max_held=settings.max_held,
        max_calls=settings.max_calls,
    )
    engine, crashes, record = Engine(task), list[Exception](), ReplyRecord()
    swallowed = False
    if captured.status != 200:
        data = captured.body
    elif captured.streamed:
        reply = StreamReply(engine, new_writer(options), crashes.append, max_event=settings.max_event, record=record)
        data = _streamed(captured, reply)
        swallowed = reply.swallowed
    else:
        data = _complete_answer(captured, engine, options, crashes, record)
        swallowed = _is_empty(captured.body)
    healing = _healed_otherwise(captured, rules, crashes)
    failures = tuple(f"{type(error).__name__}: {error}" for error in crashes)
    streamed = captured.status == 200 and chat.stream
    refusals = engine.refusals
    return Replayed(
        data,
        streamed,
        engine.audit,
        tuple(sorted(refusals.items())),
        failures,
        swallowed and options.parsed,
        record.as_json(engine.audit, refusals),
        healing,
    )


def _healed_otherwise(captured: Captured, rules: Rules, crashes: list[Exception]) -> tuple[Difference, ...]:
    """What is healed in the request in another way than it was."""
    if captured.healing is None:
        return ()
    try:
        return tuple(healing_differences(captured.healing, rules.heal_plan(captured.chat.model)))
    except Exception as error:  # the outermost boundary of the healing
        crashes.append(error)
        return ()


def _recorded(captured: Captured, family_thoughts: Thoughts) -> Thoughts:
    """Replace what the family says of how the reply begins by what the capture recorded of it."""
    begun = family_thoughts.begun if captured.begun is None else captured.begun
    unknown = family_thoughts.unknown if captured.unknown is None else captured.unknown
    return dataclasses.replace(family_thoughts, begun=begun, unknown=unknown)


def lines(captured: Captured, result: Replayed) -> Iterator[str]:
    """Lines about a replayed capture, safe for a terminal."""
    yield _title(captured)
    yield "before:"
    yield from _view_lines(view_reply(captured.body, streamed=captured.streamed))
    if result.data == captured.body:
        yield "after: the very same bytes"
    else:
        yield "after:"
        yield from _view_lines(view_reply(result.data, streamed=result.streamed))
    for number, repair in enumerate(result.audit, 1):
        yield from _repair_lines(number, repair)
    for reason, count in result.refusals:
        yield f"refused: {printable(reason)} ({count})"
    for crash in result.crashes:
        yield f"the engine failed: {printable(crash)}"
    if result.swallowed:
        yield "tokens were used and nothing was said: the server's tool parser may have swallowed a call (parse: proxy)"
    if not (result.audit or result.refusals or result.crashes):
        yield "no repair, nothing refused"


def _title(captured: Captured) -> str:
    words = f"capture: model {printable(captured.chat.model)}, "
    words += "a stream" if captured.streamed else "a whole answer"
    words += f", status {captured.status}"
    if captured.truncated:
        words += ", too long to be kept whole"
    elif not captured.complete:
        words += ", broke off"
    return words


def _repair_lines(number: int, repair: Repair) -> Iterator[str]:
    name = printable(repair.id)
    if repair.tool:
        name += f", tool {printable(repair.tool)}"
    yield f"repair {number}: {name}: {printable(repair.why)}"
    yield from _block("before", repair.before)
    yield from _block("after", repair.after)


def _streamed(captured: Captured, reply: StreamReply) -> bytes:
    """The stream as the client gets it; an error before its start, which would be a status, is an event here."""
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
    if not reply.started:
        return end
    return data + end


def _complete_answer(
    captured: Captured, engine: Engine, options: ChatOptions, crashes: list[Exception], record: ReplyRecord
) -> bytes:
    failure: ProxyError
    try:
        answer, body = read_answer(captured.body)
        if captured.chat.stream:
            return answer_as_stream(answer, engine, new_writer(options, expand=True), record)
        return answer_as_answer(body, answer, engine, ChatDialect(options), record)
    except ProxyError as error:
        failure = error
    except Exception as error:  # the outermost boundary of the engine
        crashes.append(error)
        if not captured.chat.stream:
            return captured.body
        failure = InternalError("the proxy failed while it read the answer")
    if captured.chat.stream:
        return sse.encode(error_body(failure))
    return error_body(failure)


def _is_empty(body: bytes) -> bool:
    try:
        return says_nothing(read_whole(body))
    except ProxyError:
        return False


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
    """A text of any lines, indented: no line of it can be taken for one of ours."""
    if text:
        yield f"  {title}:"
        yield from (f"    {printable(line)}" for line in text.split("\n"))
