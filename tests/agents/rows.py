"""The rows of the matrix: what the model server does, and what must come of it when the proxy stands before it.

A row of the real llama.cpp server names its script. All others are streams of a scripted server: `chat` in the dialect
that the proxy asks for, and by the agent's own dialect what a server with the same fault sends to an agent directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.agents import chat_replies as chat
from tests.agents import messages_replies as messages
from tests.agents import responses_replies as responses
from tests.agents import texts
from tests.agents.agent import Agent
from tests.agents.claude import CLAUDE
from tests.agents.codex import CODEX, COMPACTS, WITH_CATALOG
from tests.agents.opencode import OPENCODE

Body = Callable[[Agent], bytes]


@dataclass(frozen=True)
class Row:
    """One row. `expected` is the cell with the proxy, but for the agents that `others` names; `calls` is how many the
    model makes, `written` what it says where it writes its call into the text. A server that is `cut` ends the
    connection in the midst of its reply; one with a `refusal` answers with that status and those words.

    A row that is not for all agents says for which (`agents`). `files` are written over the agent's own, and `told`
    must stand in what it prints. `rules` are the proxy's. In a row that `thinks` the model says a thought in its text
    first: the agent must have it as one, and give it back to the prompt of its next request.
    """

    name: str
    expected: str = "ok/2"
    others: Mapping[str, str] = field(default_factory=dict)
    script: str = ""
    bodies: Mapping[str, Body] = field(default_factory=dict)
    calls: int = 1
    cut: bool = False
    written: Callable[[Agent], str] | None = None
    refusal: tuple[int, str] | None = None
    agents: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    told: str = ""
    rules: str = ""
    thinks: bool = False

    def says(self, dialect: str) -> bool:
        """Say whether the row's server has something to send in this dialect."""
        return bool(self.script) or dialect in self.bodies

    def is_for(self, agent: Agent) -> bool:
        """Say whether the agent takes part in it."""
        if self.agents:
            return agent.name in self.agents
        return not agent.invited

    def expects(self, agent: Agent) -> str:
        """Return the cell of this agent with the proxy."""
        return self.others.get(agent.name, self.expected)


def _real(form: str, expected: str = "ok/2", **others: str) -> Row:
    return Row(f"llama.cpp {form}", expected, others, script=form)


def _thinks(form: str, family: str) -> Row:
    """A model whose server leaves its thoughts in the text. OpenCode has its session named by a request of its own."""
    rules = f'models:\n  - {{match: "*", reasoning: split, family: {family}}}\n'
    row = _real(form, opencode="ok/3")
    return replace(row, agents=(CLAUDE.name, OPENCODE.name), rules=rules, thinks=True)


def _text(written: Callable[[Agent], str]) -> Row:
    """The model writes the call into its text, and the server leaves it there."""
    return Row(
        written.__name__,
        bodies={
            "chat": lambda agent: chat.text(written(agent)),
            "messages": lambda agent: messages.text(written(agent)),
            "responses": lambda agent: responses.text(written(agent)),
        },
        written=written,
    )


def _all(name: str, expected: str = "ok/2", calls: int = 1, cut: bool = False, **others: str) -> Row:
    """A fault that more dialects can say than chat completions."""
    said = {"chat": chat, "messages": messages, "responses": responses}
    bodies = {dialect: getattr(replies, name) for dialect, replies in said.items() if hasattr(replies, name)}
    return Row(name, expected, others, bodies=bodies, calls=calls, cut=cut)


def _chat(name: str, calls: int = 1) -> Row:
    """A fault of chat completions alone."""
    return Row(name, bodies={"chat": getattr(chat, name)}, calls=calls)


def _codex(name: str, expected: str = "ok/2", **said: Any) -> Row:
    """What Codex alone has, or makes something of its own of."""
    return Row(name, expected, bodies={"chat": getattr(chat, name)}, agents=(CODEX.name,), **said)


ROWS = (
    _real("hermes"),
    _real("tools"),
    # The server's own parser fails behind the first words: one request more. The proxy sends it itself if nothing had
    # left. Else Claude Code does, without a stream, as long as no block was stopped, and by then the proxy parses.
    _real("coder", "ok/3"),
    _real("fence"),
    # The model opens its thought itself, and where its template does so in the prompt.
    _thinks("think", "qwen3"),
    _thinks("begun", "qwen3.5"),
    _all("ok"),
    _all("two_ok", calls=2),
    _text(texts.tools_text),
    _text(texts.tool_call_text),
    _text(texts.coder_xml),
    _text(texts.coder_xml_bare),
    _text(texts.fence_json),
    _text(texts.bare_json),
    _text(texts.think_leak),
    _all("reason_call"),
    # Nothing comes, so the proxy asks once more; Claude Code asks twice by itself.
    _all("empty", "SILENT/4", codex="SILENT/2"),
    _all("empty_args_first"),
    _all("no_id"),
    _all("empty_id"),
    _all("no_index"),
    _chat("no_index_whole"),
    _chat("index_null"),
    _chat("two_same_index", calls=2),
    _chat("two_no_index", calls=2),
    _chat("id_churn"),
    _chat("id_churn_name"),
    _chat("name_repeat"),
    _all("args_object"),
    _all("args_double"),
    _all("args_python"),
    _all("args_trunc"),
    _chat("no_args_key"),
    _chat("null_content"),
    _chat("no_type"),
    _all("name_bad_case"),
    _all("finish_stop"),
    _all("finish_missing"),
    _all("no_done"),
    _all("no_usage"),
    # Half a call must not be run, and no success be told. Claude Code takes a block for a call once it is stopped,
    # error or not: then the cell would be `toolerr`. Codex asks as often as its configuration says, here once more.
    _all("cut_mid", "CRASH/1", codex="CRASH/2", cut=True),
    # A function of a namespace: without the namespace of the call Codex tells the model "unsupported call".
    _codex("namespaced"),
    # A custom tool: its input is free text, in chat completions it is the string of a function.
    _codex("apply_patch", files=WITH_CATALOG),
    # The context is full, before the reply and in it: Codex says so and asks no second time.
    _codex("context_overflow", "CRASH/1", refusal=(400, chat.OVERFLOW), told="ran out of room"),
    _codex("context_full", "CRASH/1", told="ran out of room"),
    # The conversation becomes a summary, from which Codex goes on: so the next request begins anew.
    _codex("compacted", "prefix/3", files=COMPACTS),
)
BY_NAME = {row.name: row for row in ROWS}
