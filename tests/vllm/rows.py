"""The rows of the table: the vLLM server, its model's reply, the request, and the expected result on both sides.

A row is one entry of `ROWS`. The words in the cells:

    call      the calls that the model meant, and no others
    TEXT      no call: it was shown as prose
    SILENT    neither a call, nor text, nor an error
    thought   only reasoning
    400       the status of a refusal
    ERROR     an error within the stream
    same      vLLM's bytes, unchanged by the proxy (with two choices, the events of each are in order)
    aborted   the client left, and vLLM aborted the request

`a+b` is two choices of one answer; `a b` is two requests. After the slash is the number of requests that vLLM received:
`call/2` means that the proxy sent a second one.
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
    """A vLLM server: its flags, the file of its chat template, and the rules of its proxy."""

    flags: tuple[str, ...] = ()
    template: Path = CHATML
    rules: str = ""


SERVERS: Mapping[str, Server] = {
    "no parser": Server(),
    "hermes": Server((*AUTO, "hermes")),
    "qwen3_xml, reasoning": Server((*AUTO, "qwen3_xml", "--reasoning-parser", "qwen3")),
    "reasoning in the text": Server((), THINKING),
    "qwen3_xml, parse: proxy": Server((*AUTO, "qwen3_xml"), rules="models: [{match: '*', parse: proxy}]\n"),
    PLUGIN: Server((*AUTO, "tool_proxy", "--tool-parser-plugin", "proxy.vllm_plugin")),
    "Mistral's template": Server((), FOLDER / f"{TEMPLATE}.jinja"),
}


@dataclass(frozen=True)
class Said:
    """The model's replies by turn, and the intended calls of the first one."""

    turns: tuple[str, ...]
    calls: tuple[Call, ...] = ()


WRITTEN = {"path": "a.txt", "content": "hi\n"}
SHORT = {"path": "a.txt", "content": "hi"}
_SCRIPTS = llama.load_scripts()
_HERMES = _SCRIPTS["hermes"][0].partition("\n")[2]
# Replies by name. Texts that only this table uses are written here.
SAID: Mapping[str, Said] = {
    "hermes": Said((*_SCRIPTS["hermes"],), (("write_file", WRITTEN),)),
    "toolstag": Said((*_SCRIPTS["toolstag"],), (("write_file", WRITTEN),)),
    "two": Said((*_SCRIPTS["two"],), (("write_file", WRITTEN), ("write_file", {"path": "b.txt", "content": "ho"}))),
    "coder": Said((*_SCRIPTS["coder"],), (("write_file", SHORT),)),
    "fence": Said((*_SCRIPTS["fence"],), (("write_file", SHORT),)),
    "plain": Said((*_SCRIPTS["plain"],)),
    "thinking": Said(("<think>\nI write it.\n</think>\n\n" + _SCRIPTS["coder"][0],), (("write_file", SHORT),)),
    # The reply of a model whose template opens the reasoning.
    "begun": Said(
        ("I write it.\n</think>\n\n" + _SCRIPTS["hermes"][0], *_SCRIPTS["hermes"][1:]), (("write_file", WRITTEN),)
    ),
    "long": Said(("word " * 3000,)),
    # The grammar of a forced tool allows only calls in the notation of the parser's family.
    "alone": Said((_HERMES,), (("write_file", WRITTEN),)),
}


@dataclass(frozen=True)
class Row:
    """One row of the table: on the server `on`, a client requests the script `says`, `times` times, in a `dialect`.

    `more` are additional fields of the request, such as `stream`. A number is appended to the `model` name, so that the
    proxy has learned nothing about it. `do`, if given, sends the requests itself and returns the cell.
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
    """Return the rows for each dialect, streamed and whole."""
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
    """Leave in the middle of a stream of half a minute, and return whether vLLM aborted the request or ran on."""
    before = side.server.finished()
    # Without a tool, because this server refuses tools.
    body = side.body("chat", "long", stream=True, tools=None)
    with session() as client, client.post(side.url + PATHS["chat"], json=body, stream=True, timeout=60) as answer:
        # Kept until the request is running, because the connection ends with its iterator.
        pieces = answer.iter_content(64)
        next(pieces)
        began = side.server.awaits(1)
    ended = side.server.awaits(0)
    return "aborted" if began and ended and side.server.finished() == before else "ran on"


def poisoned(shape: str) -> Callable[[Side], str]:
    """Return a row's `do` that sends a conversation twice. Templates refuse it; the proxy learns from that."""

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
    # Without a parser, vLLM refuses tools; only Responses returns the raw text.
    *_everywhere("no parser", "hermes", REFUSED, "call/2"),
    *_everywhere("no parser", "coder", REFUSED, "call/2"),
    *_everywhere("no parser", "toolstag", REFUSED, "call/2"),
    *_everywhere("no parser", "fence", REFUSED, "call/2"),
    *_everywhere("no parser", "two", REFUSED, "call/2"),
    *_everywhere("no parser", "plain", REFUSED, "TEXT/2"),
    Row("refusal is remembered", "no parser", "400/1 400/1", "call/2 call/1", "hermes", times=2),
    Row("n: 2, streamed", "no parser", "400/1", "call+call/2", "hermes", more={**_STREAM, "n": 2}),
    Row("n: 2, whole", "no parser", "400/1", "call+call/2", "hermes", more={"n": 2}),
    Row("logprobs, streamed", "no parser", "400/1", "call/2", "hermes", more={**_STREAM, "logprobs": True}),
    Row("logprobs, whole", "no parser", "400/1", "call/2", "hermes", more={"logprobs": True}),
    # Forced calls are sent upstream unchanged.
    Row("forced, streamed", "no parser", "400/1", "400/1", "alone", more={**_FORCED, **_STREAM}),
    Row("forced, whole", "no parser", "400/1", "400/1", "alone", more=_FORCED),
    Row("required, streamed", "no parser", "400/1", "400/1", "alone", more={**_REQUIRED, **_STREAM}),
    Row("required, whole", "no parser", "400/1", "400/1", "alone", more=_REQUIRED),
    Row("stream_options, whole", "no parser", "400/1", "call/2", "hermes", more=_USAGE),
    Row("client disconnects", "no parser", "aborted", "aborted", do=gone),
    # The parser of the family.
    *_everywhere("hermes", "hermes", PARSED, "call/1"),
    Row("right parser, streamed", "hermes", "call/1", "call/1", "hermes", more=_STREAM),
    Row("right parser, whole", "hermes", "call/1", "same/1", "hermes"),
    Row("two calls, streamed", "hermes", "call/1", "call/1", "two", more=_STREAM),
    Row("two calls, whole", "hermes", "call/1", "same/1", "two"),
    Row("a text, streamed", "hermes", "TEXT/1", "same/1", "plain", more=_STREAM),
    Row("a text, whole", "hermes", "TEXT/1", "same/1", "plain"),
    Row("n: 2, streamed", "hermes", "call+call/1", "call+call/1", "hermes", more={**_STREAM, "n": 2}),
    Row("n: 2, whole", "hermes", "call+call/1", "same/1", "hermes", more={"n": 2}),
    Row("logprobs, streamed", "hermes", "call/1", "call/1", "hermes", more={**_STREAM, "logprobs": True}),
    Row("logprobs, whole", "hermes", "call/1", "same/1", "hermes", more={"logprobs": True}),
    Row("stream_options, whole", "hermes", "400/1", "call/1", "hermes", more=_USAGE),
    Row("forced, streamed", "hermes", "call/1", "call/1", "alone", more={**_FORCED, **_STREAM}),
    Row("forced, whole", "hermes", "call/1", "call/1", "alone", more=_FORCED),
    Row("required, streamed", "hermes", "call/1", "call/1", "alone", more={**_REQUIRED, **_STREAM}),
    Row("required, whole", "hermes", "call/1", "call/1", "alone", more=_REQUIRED),
    Row("client disconnects", "hermes", "aborted", "aborted", do=gone),
    # This parser is of another family. It swallows the call in a stream, and leaves it in the text of a whole answer.
    # If the client's streams have no usage, the proxy knows that from the second reply on.
    Row("swallowed, streamed", "hermes", "SILENT/1 SILENT/1", "call/3 call/1", "coder", more=_STREAM, times=2),
    Row("swallowed, usage", "hermes", "SILENT/1 SILENT/1", "call/2 call/1", "coder", more=_STREAM | _USAGE, times=2),
    Row("left in the text, whole", "hermes", "TEXT/1", "call/1", "coder"),
    *_everywhere("qwen3_xml, reasoning", "coder", PARSED, "call/1"),
    *_everywhere("qwen3_xml, reasoning", "thinking", PARSED, "call/1"),
    # This parser removes text that begins like a call even with `tool_choice: "none"`. Another family's call is lost,
    # and only the server can find one of its own.
    Row("swallowed, streamed", "qwen3_xml, reasoning", "SILENT/1", "SILENT/3", "alone", more=_STREAM),
    Row("swallowed, whole", "qwen3_xml, reasoning", "SILENT/1", "SILENT/2", "alone"),
    Row("parsed, whole", "qwen3_xml, reasoning", "call/1", "same/1", "coder"),
    *_everywhere("qwen3_xml, parse: proxy", "coder", PARSED, "call/2")[1:],
    Row("coder, chat, streamed", "qwen3_xml, parse: proxy", "call/1", "call/3", "coder", more=_STREAM),
    # The reader runs inside vLLM, so the proxy has nothing to do.
    *(row for says in PLUGIN_SAYS for row in _everywhere(PLUGIN, says, PARSED, "call/1")),
    *_everywhere(PLUGIN, "plain", dict.fromkeys(PATHS, "TEXT/1"), "TEXT/1"),
    Row("n: 2, streamed", PLUGIN, "call+call/1", "call+call/1", "hermes", more={**_STREAM, "n": 2}),
    Row("none, streamed", PLUGIN, "TEXT/1", "same/1", "hermes", more={**_STREAM, "tool_choice": "none"}),
    Row("none, whole", PLUGIN, "TEXT/1", "same/1", "hermes", more={"tool_choice": "none"}),
    Row("cut, streamed", PLUGIN, "TEXT/1", "same/1", "hermes", more={**_STREAM, "max_tokens": 30}),
    Row("cut, whole", PLUGIN, "TEXT/1", "same/1", "hermes", more={"max_tokens": 30}),
    # Without flags: the model's name shows the family, and the first refusal shows that the proxy must parse.
    *(
        Row(
            f"{script}, {dialect}",
            "reasoning in the text",
            direct,
            "thought+call thought+call back",
            model=model,
            do=thinks(dialect, script, SAID[script].calls),
        )
        for script, model in (("thinking", "Qwen3-8B"), ("begun", "Qwen3.5-4B"))
        for dialect, direct in (("chat", "400 400"), ("messages", "400 400"), ("responses", "TEXT TEXT"))
    ),
    # A template that refuses, and a server without a parser: the model's name is of a known family, or of none.
    *(
        Row(shape, "Mistral's template", "400 400", "200 200", model="Mistral-Nemo-Instruct", do=poisoned(shape))
        for shape in POISONED
    ),
    *(Row(f"{shape}, learnt", "Mistral's template", "400 400", "200 200", do=poisoned(shape)) for shape in POISONED),
)
