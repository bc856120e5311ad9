"""The rows of the table: which vLLM, what its model says, what is asked, and what must come of it on both sides.

A row is one entry of `ROWS`. What stands in a cell, by what it asks:

    call      the calls that the model meant, and no others
    TEXT      no call: it was shown as prose
    SILENT    nothing: neither a call, nor text, nor an error
    thought   thoughts, and nothing else
    400       the status of a refusal
    ERROR     an error in the midst of the stream
    same      through the proxy: the very bytes that vLLM sent (of two choices, each one's events in their order)
    aborted   the client went away, and vLLM ended the request

With `a+b` for two choices of one answer, and `a b` where the row asks twice. Behind the bar is how many requests vLLM
got for it: `call/2` was asked for once more by the proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.healing.shapes import POISONED, SHAPES, TEMPLATE, tool
from tests.real import llama
from tests.real.vllm import TEMPLATE as CHATML
from tests.support.chat_templates import FOLDER
from tests.support.reply import Call
from tests.vllm.ask import PATHS, Side, session
from tests.vllm.thinking import thinks

THINKING = CHATML.with_name("thinking.jinja")
PLUGIN = "our plugin"
AUTO = ("--enable-auto-tool-choice", "--tool-call-parser")


@dataclass(frozen=True)
class Server:
    """A vLLM: its flags, the file of its chat template, and the rules of the proxy before it."""

    flags: tuple[str, ...] = ()
    template: Path = CHATML
    rules: str = ""


SERVERS: Mapping[str, Server] = {
    "no parser": Server(),
    "hermes": Server((*AUTO, "hermes")),
    "qwen3_xml, thoughts": Server((*AUTO, "qwen3_xml", "--reasoning-parser", "qwen3")),
    "thoughts in the text": Server((), THINKING),
    "qwen3_xml, parse: proxy": Server((*AUTO, "qwen3_xml"), rules="models: [{match: '*', parse: proxy}]\n"),
    PLUGIN: Server((*AUTO, "tool_proxy", "--tool-parser-plugin", "proxy.vllm_plugin")),
    "Mistral's template": Server((), FOLDER / f"{TEMPLATE}.jinja"),
}


@dataclass(frozen=True)
class Said:
    """What the model says, turn by turn, and the calls that it means by the first one."""

    turns: tuple[str, ...]
    calls: tuple[Call, ...] = ()


WRITTEN = {"path": "a.txt", "content": "hi\n"}
SHORT = {"path": "a.txt", "content": "hi"}
_SCRIPTS = llama.load_scripts()
_HERMES = _SCRIPTS["hermes"][0].partition("\n")[2]
# By name; a text that only a row of this table needs is written here.
SAID: Mapping[str, Said] = {
    "hermes": Said((*_SCRIPTS["hermes"],), (("write_file", WRITTEN),)),
    "toolstag": Said((*_SCRIPTS["toolstag"],), (("write_file", WRITTEN),)),
    "two": Said((*_SCRIPTS["two"],), (("write_file", WRITTEN), ("write_file", {"path": "b.txt", "content": "ho"}))),
    "coder": Said((*_SCRIPTS["coder"],), (("write_file", SHORT),)),
    "fence": Said((*_SCRIPTS["fence"],), (("write_file", SHORT),)),
    "plain": Said((*_SCRIPTS["plain"],)),
    "thinking": Said(("<think>\nI write it.\n</think>\n\n" + _SCRIPTS["coder"][0],), (("write_file", SHORT),)),
    # As the reply of a model whose template opens the thought.
    "begun": Said(
        ("I write it.\n</think>\n\n" + _SCRIPTS["hermes"][0], *_SCRIPTS["hermes"][1:]), (("write_file", WRITTEN),)
    ),
    "long": Said(("word " * 3000,)),
    # What the grammar of a forced tool lets through: the calls of the parser's family, and nothing else.
    "alone": Said((_HERMES,), (("write_file", WRITTEN),)),
}


@dataclass(frozen=True)
class Row:
    """One row of the table: on this server (`on`) the model says a script (`says`), and a client asks for it in a
    `dialect`, with these fields (`more`; `stream` is one of them) beside those that every request has, so many `times`.
    The `model` has a number behind this name, so that nothing is known of it.

    `do` is instead of all that: it asks a side as it likes, and returns the cell.
    """

    name: str
    on: str
    direct: str
    proxied: str
    says: str = ""
    dialect: str = "chat"
    more: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1
    model: str = "tiny"
    do: Callable[[Side], str] | None = None


def scripts() -> dict[str, Sequence[str]]:
    return {name: said.turns for name, said in SAID.items()}


def _everywhere(on: str, says: str, direct: Mapping[str, str], proxied: str) -> tuple[Row, ...]:
    """A row of each dialect, streamed and whole."""
    return tuple(
        Row(
            f"{says}, {dialect}, {'streamed' if stream else 'whole'}",
            on,
            direct[dialect],
            proxied,
            says,
            dialect,
            {"stream": stream},
        )
        for dialect in PATHS
        for stream in (True, False)
    )


def gone(side: Side) -> str:
    """A client that goes away in the midst of a stream, which takes half a minute to its end: what vLLM does then."""
    before = side.server.finished()
    # Without a tool: with one this server refuses.
    body = side.body("chat", "long", stream=True, tools=None)
    with session() as client, client.post(side.url + PATHS["chat"], json=body, stream=True, timeout=60) as answer:
        # Kept until the request is seen to run: with its iterator the answer's connection ends.
        pieces = answer.iter_content(64)
        next(pieces)
        began = side.server.awaits(1)
    ended = side.server.awaits(0)
    return "aborted" if began and ended and side.server.finished() == before else "ran on"


def poisoned(shape: str) -> Callable[[Side], str]:
    """A conversation that templates refuse, asked twice: the first refusal teaches the proxy."""

    def do(side: Side) -> str:
        body = {"model": side.model, "messages": SHAPES[shape], "tools": [tool()], "max_tokens": 1}
        return " ".join(str(side.post("chat", body).status) for _ in range(2))

    return do


REFUSED = {"chat": "400/1", "messages": "400/1", "responses": "TEXT/1"}
PARSED = {"chat": "call/1", "messages": "call/1", "responses": "call/1"}
_FORCED = {"tool_choice": {"type": "function", "function": {"name": "write_file"}}}
_REQUIRED = {"tool_choice": "required"}


_STREAM = {"stream": True}
_USAGE = {"stream_options": {"include_usage": True}}
PLUGIN_SAYS = ("hermes", "coder", "toolstag", "fence", "two")
ROWS: tuple[Row, ...] = (
    # Without a parser vLLM refuses tools; Responses alone gives the raw text.
    *_everywhere("no parser", "hermes", REFUSED, "call/2"),
    *_everywhere("no parser", "coder", REFUSED, "call/2"),
    *_everywhere("no parser", "toolstag", REFUSED, "call/2"),
    *_everywhere("no parser", "fence", REFUSED, "call/2"),
    *_everywhere("no parser", "two", REFUSED, "call/2"),
    *_everywhere("no parser", "plain", REFUSED, "TEXT/2"),
    Row("it is remembered", "no parser", "400/1 400/1", "call/2 call/1", "hermes", times=2),
    Row("n: 2, streamed", "no parser", "400/1", "call+call/2", "hermes", more={**_STREAM, "n": 2}),
    Row("n: 2, whole", "no parser", "400/1", "call+call/2", "hermes", more={"n": 2}),
    Row("logprobs, streamed", "no parser", "400/1", "call/2", "hermes", more={**_STREAM, "logprobs": True}),
    Row("logprobs, whole", "no parser", "400/1", "call/2", "hermes", more={"logprobs": True}),
    # What a client forces goes up as it is.
    Row("forced, streamed", "no parser", "400/1", "400/1", "alone", more={**_FORCED, **_STREAM}),
    Row("forced, whole", "no parser", "400/1", "400/1", "alone", more=_FORCED),
    Row("required, streamed", "no parser", "400/1", "400/1", "alone", more={**_REQUIRED, **_STREAM}),
    Row("required, whole", "no parser", "400/1", "400/1", "alone", more=_REQUIRED),
    Row("stream_options, whole", "no parser", "400/1", "call/2", "hermes", more=_USAGE),
    Row("a client goes away", "no parser", "aborted", "aborted", do=gone),
    # The parser of the family.
    *_everywhere("hermes", "hermes", PARSED, "call/1"),
    Row("right parser, streamed", "hermes", "call/1", "same/1", "hermes", more=_STREAM),
    Row("right parser, whole", "hermes", "call/1", "same/1", "hermes"),
    Row("two calls, streamed", "hermes", "call/1", "same/1", "two", more=_STREAM),
    Row("two calls, whole", "hermes", "call/1", "same/1", "two"),
    Row("a text, streamed", "hermes", "TEXT/1", "same/1", "plain", more=_STREAM),
    Row("a text, whole", "hermes", "TEXT/1", "same/1", "plain"),
    Row("n: 2, streamed", "hermes", "call+call/1", "same/1", "hermes", more={**_STREAM, "n": 2}),
    Row("n: 2, whole", "hermes", "call+call/1", "same/1", "hermes", more={"n": 2}),
    Row("logprobs, streamed", "hermes", "call/1", "same/1", "hermes", more={**_STREAM, "logprobs": True}),
    Row("logprobs, whole", "hermes", "call/1", "same/1", "hermes", more={"logprobs": True}),
    Row("stream_options, whole", "hermes", "400/1", "call/1", "hermes", more=_USAGE),
    Row("forced, streamed", "hermes", "call/1", "call/1", "alone", more={**_FORCED, **_STREAM}),
    Row("forced, whole", "hermes", "call/1", "call/1", "alone", more=_FORCED),
    Row("required, streamed", "hermes", "call/1", "call/1", "alone", more={**_REQUIRED, **_STREAM}),
    Row("required, whole", "hermes", "call/1", "call/1", "alone", more=_REQUIRED),
    Row("a client goes away", "hermes", "aborted", "aborted", do=gone),
    # The parser of another family swallows the call; this one leaves it in the text of a whole answer.
    # Of a stream whose client asks for no counts it is known by the second reply.
    Row("swallowed, streamed", "hermes", "SILENT/1 SILENT/1", "call/3 call/1", "coder", more=_STREAM, times=2),
    Row("swallowed, usage", "hermes", "SILENT/1 SILENT/1", "call/2 call/1", "coder", more=_STREAM | _USAGE, times=2),
    Row("left in the text, whole", "hermes", "TEXT/1", "call/1", "coder"),
    *_everywhere("qwen3_xml, thoughts", "coder", PARSED, "call/1"),
    *_everywhere("qwen3_xml, thoughts", "thinking", PARSED, "call/1"),
    # This one takes what begins like a call out of the text under `tool_choice: "none"`, too: another family's is lost,
    # and its own is found by the server alone.
    Row("swallowed, streamed", "qwen3_xml, thoughts", "SILENT/1", "SILENT/3", "alone", more=_STREAM),
    Row("swallowed, whole", "qwen3_xml, thoughts", "SILENT/1", "SILENT/2", "alone"),
    Row("behind it, whole", "qwen3_xml, thoughts", "call/1", "same/1", "coder"),
    *_everywhere("qwen3_xml, parse: proxy", "coder", PARSED, "call/2")[1:],
    Row("coder, chat, streamed", "qwen3_xml, parse: proxy", "call/1", "call/3", "coder", more=_STREAM),
    # The reader inside vLLM: the proxy has nothing left to do.
    *(row for says in PLUGIN_SAYS for row in _everywhere(PLUGIN, says, PARSED, "call/1")),
    *_everywhere(PLUGIN, "plain", dict.fromkeys(PATHS, "TEXT/1"), "TEXT/1"),
    Row("n: 2, streamed", PLUGIN, "call+call/1", "call+call/1", "hermes", more={**_STREAM, "n": 2}),
    Row("none, streamed", PLUGIN, "TEXT/1", "same/1", "hermes", more={**_STREAM, "tool_choice": "none"}),
    Row("none, whole", PLUGIN, "TEXT/1", "same/1", "hermes", more={"tool_choice": "none"}),
    Row("cut, streamed", PLUGIN, "TEXT/1", "same/1", "hermes", more={**_STREAM, "max_tokens": 30}),
    Row("cut, whole", PLUGIN, "TEXT/1", "same/1", "hermes", more={"max_tokens": 30}),
    # Without any flag: the model's name says the family, and the refusal of the first request that the proxy parses.
    *(
        Row(
            f"{script}, {dialect}",
            "thoughts in the text",
            direct,
            "thought+call thought+call back",
            model=model,
            do=thinks(dialect, script, SAID[script].calls),
        )
        for script, model in (("thinking", "Qwen3-8B"), ("begun", "Qwen3.5-4B"))
        for dialect, direct in (("chat", "400 400"), ("messages", "400 400"), ("responses", "TEXT TEXT"))
    ),
    # Of a template that refuses, and a server without a parser: the model's name says the family, or nothing.
    *(
        Row(shape, "Mistral's template", "400 400", "200 200", model="Mistral-Nemo-Instruct", do=poisoned(shape))
        for shape in POISONED
    ),
    *(Row(f"{shape}, learnt", "Mistral's template", "400 400", "200 200", do=poisoned(shape)) for shape in POISONED),
)
