"""Does the server's parser find the model's calls: what it makes of them, held against the model's own text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.codec.display import cut
from proxy.codec.json_access import as_text
from proxy.doctor import words
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Found, Level, Probe, Told, found
from proxy.doctor.reply import NO_REPLY, Reply
from proxy.doctor.syntaxes import (
    NAME,
    Syntax,
    Trial,
    flags,
    is_an_object,
    is_the_call,
    plausible,
    untried,
    written_in,
)
from proxy.exchange.plan import KEEPS_TOOLS
from proxy.exchange.retry import PARSER_FAILED

_NO_PARSER = re.compile(r"--enable-auto-tool-choice|--tool-call-parser")
# Fewer tokens than these say nothing: the end of a turn is one.
_SOME_TOKENS = 6
_SHOWN = 160
_NO_ANSWERS = (0, 200, 404, 405, 501)
_FAILED = 500
_NO_FLAG = "no flag of the server's is known that mends it"
_WITHOUT = "parse: proxy in the model's entry (the proxy then finds the calls, and the server needs no parser)"


def _calls(examination: Examination) -> Iterator[Found]:
    """The first thing that agents need: one call, whole."""
    auto = examination.reply(words.CALL, "auto")
    if _NO_PARSER.search(auto.error):
        yield found("parser_missing", flag=_flag(examination), words=_cut(auto.error))
    elif PARSER_FAILED.search(auto.error):
        yield found("parser_fails", words=_cut(auto.error), flag=_flag(examination))
    elif _is_unanswered(examination):
        yield found("chat_unanswered", why=_why(auto))
    elif not auto.taken:
        yield found("call_untold", why=_why(auto))
    elif auto.calls:
        yield from _structured(examination, auto)
    else:
        yield from _not_structured(examination, auto)


def _is_unanswered(examination: Examination) -> bool:
    """True if neither a call nor the model's own text comes; where the server fails, the plainest request does, too."""
    replies = (examination.reply(words.CALL, "auto"), examination.raw())
    if all(map(_is_no_answer, replies)):
        return True
    return all(reply.status >= _FAILED for reply in (*replies, examination.plain))


def _is_no_answer(reply: Reply) -> bool:
    """True if nothing came, or nothing that is a reply, or there is no such path; a refusal is an answer."""
    return not reply.taken and reply.status in _NO_ANSWERS


def _structured(examination: Examination, auto: Reply) -> Iterator[Found]:
    broken = next((text for name, text in auto.calls if name == NAME and not is_an_object(text)), None)
    if broken is not None:
        yield found("arguments_broken", arguments=_cut(broken))
    else:
        yield found("parser_finds", syntax=_syntax(examination) or "its syntax")
    raw = examination.raw()
    if raw.taken and _is_swallowed(raw):
        yield found("none_takes_calls", tokens=raw.completion_tokens)


def _not_structured(examination: Examination, auto: Reply) -> Iterator[Found]:
    if _is_swallowed(auto):
        yield from _swallowed(examination, auto)
    elif written_in(auto.text):
        syntax = written_in(auto.text)[0].syntax or "a syntax of its own"
        yield found("parser_leaves_text", syntax=syntax, text=_cut(auto.text), flag=_flag(examination))
    else:
        yield found("call_untold", why=f"the model did not call: {_cut(auto.text)!r}")


def _swallowed(examination: Examination, auto: Reply) -> Iterator[Found]:
    tokens = auto.completion_tokens
    raw = examination.raw()
    if examination.written():
        syntax = _syntax(examination) or "a syntax of its own"
        yield found("call_swallowed", tokens=tokens, syntax=syntax, flag=_flag(examination))
    elif raw.taken and _is_swallowed(raw):
        known = flags(examination.kind, examination.parsers, "") or "the parser of the model's family"
        yield found("all_swallowed", tokens=tokens, flag=known)
    else:
        yield found("call_untold", why=f"under auto it used {tokens} tokens and said nothing; its own text has no call")


def _is_swallowed(reply: Reply) -> bool:
    """True if tokens were used and nothing was said, though the model ended by itself."""
    if reply.finish == "length" or reply.reasoning:
        return False
    return reply.is_silent and (reply.completion_tokens or 0) >= _SOME_TOKENS


def _syntax(examination: Examination) -> str:
    """The syntax that the model writes by itself, "" where that could not be seen."""
    return next((call.syntax for call in examination.written() if call.syntax), "")


def _flag(examination: Examination) -> str:
    """The remedy for the parser: its flag, as far as it can be told, and what makes it needless."""
    known = flags(examination.kind, examination.parsers, _syntax(examination)) or _NO_FLAG
    if examination.kind in KEEPS_TOOLS:
        return f"{known}; or {_WITHOUT}"
    return known


def _why(reply: Reply) -> str:
    return reply.trouble or f"status {reply.status}: {_cut(reply.error) or NO_REPLY}"


def _cut(text: str) -> str:
    return cut(" ".join(text.split()), _SHOWN)


def _syntaxes(examination: Examination) -> Iterator[Found]:
    """Which syntaxes the parser reads: the model repeats a call in each, and what comes of it is looked at."""
    trials = _trials(examination)
    examination.trials = untried(examination.parsers) | trials
    read = [syntax for syntax, trial in trials.items() if trial is Trial.READ]
    own = _syntax(examination)
    if Trial.NO_PARSER in trials.values():
        yield found("syntaxes_none")
    elif not read:
        yield found("syntaxes_untold")
    elif own and own not in read and _is_refuted(examination):
        yield found("parser_wrong", read=", ".join(read), own=own, flag=_flag(examination))
    else:
        yield found("syntaxes", read=", ".join(read))


def _trials(examination: Examination) -> dict[str, Trial]:
    """The trial of a call in each plausible syntax, and of the model's own call in its own."""
    syntaxes = plausible(examination.parsers)
    auto = examination.reply(words.CALL, "auto")
    if _NO_PARSER.search(auto.error):
        return {syntax.id: Trial.NO_PARSER for syntax in syntaxes}
    trials = {syntax.id: _trial(examination, syntax) for syntax in syntaxes}
    # Marks that are special tokens are not repeated from a text: what the model writes by itself is their only trial.
    own = _syntax(examination)
    if own and own not in trials and auto.taken:
        trials[own] = Trial.READ if any(is_an_object(arguments) for _, arguments in auto.calls) else Trial.UNREAD
    return trials


def _is_refuted(examination: Examination) -> bool:
    """True if the parser was seen not to find the model's own call."""
    auto = examination.reply(words.CALL, "auto")
    return auto.taken and not auto.calls


def _trial(examination: Examination, syntax: Syntax) -> Trial:
    """The result of a call in this syntax: the model repeats it under `auto`, and under `none`, which gives its own
    text. A model that calls by itself instead of repeating writes its own syntax, and that text tells.
    """
    reply = examination.reply(words.echo(syntax.call), "auto")
    raw = examination.raw(words.echo(syntax.call))
    if not raw.taken or [call.syntax for call in written_in(raw.text)] != [syntax.id]:
        return Trial.UNWRITTEN
    if not reply.taken or len(reply.calls) != 1:
        return Trial.UNREAD
    return Trial.READ if is_the_call(reply.calls[0][1]) else Trial.UNREAD


def _forced(examination: Examination) -> Iterator[Found]:
    reply = examination.reply(words.CALL, "required")
    if _NO_PARSER.search(reply.error):
        known = flags(examination.kind, examination.parsers, _syntax(examination)) or _NO_FLAG
        yield found("forced_refused", words=_cut(reply.error), flag=known)
    elif not reply.taken:
        yield found("forced_untold", why=_why(reply))
    elif not reply.calls:
        yield from _forced_without(reply)
    elif broken := [text for _, text in reply.calls if not is_an_object(text)]:
        yield found("forced_broken", arguments=_cut(broken[0]))
    else:
        yield found("forced")


def _forced_without(reply: Reply) -> Iterator[Found]:
    if reply.finish == "length":
        yield found("forced_untold", why="the reply was cut off by its length")
    else:
        yield found("forced_ignored", text=_cut(reply.text) or "nothing")


def _said_flags(examination: Examination) -> Iterator[Found]:
    """The parsers by the server's own words (SGLang has them), and by the model's name."""
    own = examination.parsers
    answer = examination.answers.get("/get_server_info")
    if answer is None:
        yield found("flags_unsaid", suggested=_suggested(examination))
        return
    parser = as_text(answer.json.get("tool_call_parser"))
    if not parser:
        yield found("flag_missing", flag=_flag(examination))
    elif own is not None and own.sglang and own.sglang != parser:
        yield found("flag_other", parser=parser, wanted=own.sglang)
    else:
        yield found("flag", parser=parser)


def _suggested(examination: Examination) -> str:
    wanted = flags(examination.kind, examination.parsers, "")
    return f"; the model's name suggests {wanted}" if wanted else ""


_FINDS_ITSELF = "it sends tool_choice none, gets the model's own text, and finds the call in it"
PROBES = (
    Probe(
        "flags",
        "parser flags, as the server says them",
        _said_flags,
        (
            Told("flag", Level.GOOD, "the server says that its tool parser is {parser}"),
            Told("flags_unsaid", Level.NOTE, "the server does not say its flags{suggested}"),
            Told(
                "flag_missing",
                Level.NOTE,
                "the server says that it has no tool parser",
                "calls come as text",
                "it finds the calls in the text",
                "{flag}",
            ),
            Told(
                "flag_other",
                Level.NOTE,
                "the server says that its tool parser is {parser}; the model's name suggests {wanted}",
                "a parser of another family swallows calls, or leaves them in the text",
                "what it swallows is gone; what it leaves is found",
                "--tool-call-parser {wanted}, if the other findings say that calls are lost",
            ),
        ),
    ),
    Probe(
        "calls",
        "a call under tool_choice none and auto",
        _calls,
        (
            Told("parser_finds", Level.GOOD, "the server gives the model's calls ({syntax}) as calls"),
            Told(
                "parser_missing",
                Level.HARM,
                "the server was started without a tool parser: {words}",
                "every request with tools is refused, in chat and in Messages",
                f"after the first refusal of a model {_FINDS_ITSELF}",
                "{flag}",
                rule=("parse", "proxy"),
            ),
            Told(
                "parser_fails",
                Level.HARM,
                "the server's parser fails at what the model writes: {words}",
                "the agent gets an error in the midst of the stream, or a 500, instead of the call",
                f"it asks once more: {_FINDS_ITSELF}",
                "{flag}",
                rule=("parse", "proxy"),
            ),
            Told(
                "parser_leaves_text",
                Level.HARM,
                "the server leaves a call in the text ({syntax}): {text}",
                "the agent shows the call as prose, and its turn is over",
                "it finds the call in the text",
                "{flag}",
                rule=("parse", "proxy"),
            ),
            Told(
                "call_swallowed",
                Level.HARM,
                "the server swallows the model's call ({syntax}): under auto it used {tokens} tokens and said nothing",
                "the agent sees an empty reply, and its turn is over without a word",
                f"of the bytes that came nothing can be told; it asks once more: {_FINDS_ITSELF}",
                "{flag}",
                rule=("parse", "proxy"),
            ),
            Told(
                "all_swallowed",
                Level.HARM,
                "the server used {tokens} tokens and said nothing, under auto and under none: its parser takes calls "
                "out of the text even where it is told not to look for any",
                "the agent sees an empty reply, and its turn is over without a word",
                "it cannot help: what the model wrote never leaves the server",
                "{flag}; or no tool parser at all, and parse: proxy in the model's entry",
            ),
            Told(
                "none_takes_calls",
                Level.NOTE,
                "under tool_choice none the server takes the model's call out of the text ({tokens} tokens, no word)",
                "the proxy cannot read the calls itself, so parse: proxy would lose them",
                "by parse: auto it leaves them to the server, which finds them",
                "parse: server in the model's entry",
                rule=("parse", "server"),
            ),
            Told(
                "arguments_broken",
                Level.HARM,
                "the arguments of a call are no JSON object: {arguments}",
                "the agent refuses the call, or fails",
                "it repairs the arguments by the tool's schema, live",
                "none is needed behind the proxy",
            ),
            Told(
                "chat_unanswered",
                Level.HARM,
                "requests for chat are not answered: {why}",
                "no agent can work with this server",
                "it tells the agent so, by an error in the shape of its dialect",
                "a server that answers POST /v1/chat/completions; its log says why it does not, or --timeout gives it "
                "longer",
            ),
            Told("call_untold", Level.UNTOLD, "whether calls arrive could not be told: {why}"),
        ),
    ),
    Probe(
        "syntaxes",
        "a call in each plausible syntax",
        _syntaxes,
        (
            Told("syntaxes", Level.GOOD, "the server's parser reads {read}"),
            Told("syntaxes_none", Level.NOTE, "the server has no parser, so it reads no syntax"),
            Told(
                "parser_wrong",
                Level.HARM,
                "the server's parser reads {read}, and the model writes {own}: it is another family's",
                "calls are swallowed, or shown as text",
                "it finds those that are left in the text, and asks once more where nothing was said",
                "{flag}",
                rule=("parse", "proxy"),
            ),
            Told("syntaxes_untold", Level.UNTOLD, "which syntaxes the parser reads could not be told"),
        ),
    ),
    Probe(
        "forced",
        "a forced call (tool_choice required)",
        _forced,
        (
            Told("forced", Level.GOOD, "a call that is forced comes as a call"),
            Told(
                "forced_refused",
                Level.HARM,
                "a forced call is refused: {words}",
                "agents that force a tool (titles, structured answers) get an error",
                "none: a forced choice goes up as it is, for the server's guided decoding makes it valid",
                "{flag}",
            ),
            Told(
                "forced_ignored",
                Level.HARM,
                "tool_choice required is taken, and no call comes: {text}",
                "agents that force a tool get prose",
                "it finds a call that is in the text, with the arguments alone, too",
                "a server that decodes by a grammar (vLLM, SGLang, llama.cpp with --jinja)",
            ),
            Told(
                "forced_broken",
                Level.HARM,
                "the arguments of a forced call are no JSON object: {arguments}",
                "the agent refuses the call, or fails",
                "it repairs the arguments by the tool's schema",
                "none is needed behind the proxy",
            ),
            Told("forced_untold", Level.UNTOLD, "whether a forced call arrives could not be told: {why}"),
        ),
    ),
)
