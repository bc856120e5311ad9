"""The rows of the matrix: what the model server does, and what must come of it when the proxy stands before it.

A row of the real llama.cpp server names its script. All others are streams of a scripted server: `chat` in the dialect
that the proxy asks for, and by the agent's own dialect what a server with the same fault sends to an agent directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.agents import chat_replies as chat
from tests.agents import messages_replies as messages
from tests.agents import texts
from tests.agents.agent import Agent

Body = Callable[[Agent], bytes]


@dataclass(frozen=True)
class Row:
    """One row. `expected` is the cell with the proxy, `calls` how many the model makes, `written` what it says where it
    writes its call into the text. A server that is `cut` ends the connection in the midst of its reply.
    """

    name: str
    expected: str = "ok/2"
    script: str = ""
    bodies: Mapping[str, Body] = field(default_factory=dict)
    calls: int = 1
    cut: bool = False
    written: Callable[[Agent], str] | None = None

    def says(self, dialect: str) -> bool:
        """Say whether the row's server has something to send in this dialect."""
        return bool(self.script) or dialect in self.bodies


def _real(form: str, expected: str = "ok/2") -> Row:
    return Row(f"llama.cpp {form}", expected, script=form)


def _text(written: Callable[[Agent], str]) -> Row:
    """The model writes the call into its text, and the server leaves it there."""
    return Row(
        written.__name__,
        bodies={
            "chat": lambda agent: chat.text(written(agent)),
            "messages": lambda agent: messages.text(written(agent)),
        },
        written=written,
    )


def _both(name: str, expected: str = "ok/2", calls: int = 1, cut: bool = False) -> Row:
    """A fault that both dialects can say."""
    bodies = {"chat": getattr(chat, name), "messages": getattr(messages, name)}
    return Row(name, expected, bodies=bodies, calls=calls, cut=cut)


def _chat(name: str, calls: int = 1) -> Row:
    """A fault of chat completions alone."""
    return Row(name, bodies={"chat": getattr(chat, name)}, calls=calls)


ROWS = (
    _real("hermes"),
    _real("tools"),
    # The server's own parser fails behind the first words: one request more. The proxy sends it itself if nothing had
    # left. Else Claude Code does, without a stream, as long as no block was stopped, and by then the proxy parses.
    _real("coder", "ok/3"),
    _real("fence"),
    _both("ok"),
    _both("two_ok", calls=2),
    _text(texts.tools_text),
    _text(texts.tool_call_text),
    _text(texts.coder_xml),
    _text(texts.coder_xml_bare),
    _text(texts.fence_json),
    _text(texts.bare_json),
    _text(texts.think_leak),
    _both("reason_call"),
    # Nothing came, so nothing can be mended; Claude Code asks once more by itself.
    _both("empty", "SILENT/2"),
    _both("empty_args_first"),
    _both("no_id"),
    _both("empty_id"),
    _both("no_index"),
    _chat("no_index_whole"),
    _chat("index_null"),
    _chat("two_same_index", calls=2),
    _chat("two_no_index", calls=2),
    _chat("id_churn"),
    _chat("id_churn_name"),
    _chat("name_repeat"),
    _both("args_object"),
    _both("args_double"),
    _both("args_python"),
    _both("args_trunc"),
    _chat("no_args_key"),
    _chat("null_content"),
    _chat("no_type"),
    _both("name_bad_case"),
    _both("finish_stop"),
    _both("finish_missing"),
    _both("no_done"),
    _both("no_usage"),
    # Half a call must not be run, and no success be told. Claude Code takes a block for a call once it is stopped,
    # error or not: then the cell would be `toolerr`.
    _both("cut_mid", "CRASH/1", cut=True),
)
BY_NAME = {row.name: row for row in ROWS}
