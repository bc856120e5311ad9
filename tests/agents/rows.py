"""The rows of the matrix: the model server's behaviour, and the expected result with the proxy in front of it.

Rows of the real llama.cpp server name a script. The others are streams of a scripted server: in `chat` for the proxy,
and directly in the agent's own dialect, with the same fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.agents import chat_replies as chat
from tests.agents import native_replies as native
from tests.agents import texts
from tests.agents.agent import MODEL, Agent, Body
from tests.real import llama

# The replies of each dialect, by the names of the rows.
SAID = {"chat": chat.REPLIES, "messages": native.IN_MESSAGES, "responses": native.IN_RESPONSES}


@dataclass(frozen=True)
class Row:
    """One row.

    `expected` is a glob for the cell with the proxy, and `others` has those of some agents. `calls` is the number of
    the model's calls, and `written` its text if it writes its call as text. A server that is `cut` closes the
    connection in the middle of its reply; one with a `refusal` answers with that status and message.

    `agents` are the row's agents, if not all. `arguments` are added to the agent's own, `environment` overrides its
    variables, and `rules` are the proxy's. The agent's output, or the file `notes` below its home, must contain `told`.
    If the model `thinks`, its text begins with reasoning, which the agent must receive as reasoning and send back.

    `without` has globs for the cell without the proxy, by the agent's dialect or name; other agents may have any cell.
    `seconds` is the time limit of a run. The agent's own timeout, its `patience`, is shorter.
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
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    told: str = ""
    notes: str = ""
    rules: str = ""
    thinks: bool = False
    without: Mapping[str, str] = field(default_factory=dict)
    seconds: int = 150

    def says(self, dialect: str) -> bool:
        """Return whether the row's server can send something in this dialect."""
        return bool(self.script) or dialect in self.bodies

    @property
    def patience(self) -> int:
        """The agent's own timeout in seconds, short enough that it can still report it."""
        return self.seconds * 2 // 5

    def is_for(self, agent: Agent) -> bool:
        """Return whether the row has runs of this agent."""
        return not self.agents or agent.name in self.agents

    def expects(self, agent: Agent, side: str = "with") -> str:
        """Return the glob for this agent's cell on a side."""
        if side == "without":
            return self.without.get(agent.name) or self.without.get(agent.dialect, "*")
        if agent.name in self.others:
            return self.others[agent.name]
        word, _, number = self.expected.partition("/")
        return f"{word}/{int(number) + agent.extra}"


def _real(form: str, expected: str = "ok/2", **others: str) -> Row:
    def written(agent: Agent) -> str:
        return llama.load_scripts()[agent.script(form)][0]

    return Row(f"llama.cpp {form}", expected, others, script=form, written=written)


def _thinks(form: str, family: str) -> Row:
    """Return a row whose server leaves the model's reasoning in the text."""
    rules = f'models:\n  - {{match: "*", reasoning: split, family: {family}}}\n'
    row = _real(form)
    return replace(row, agents=("claude", "opencode"), rules=rules, thinks=True)


def _text(name: str, written: Callable[[Agent], str]) -> Row:
    """Return a row whose server leaves a call in the model's text."""
    bodies: dict[str, Body] = {
        "chat": lambda agent: chat.text(written(agent)),
        "messages": lambda agent: native.text(native.MESSAGES, written(agent)),
        "responses": lambda agent: native.text(native.RESPONSES, written(agent)),
    }
    return Row(name, bodies=bodies, written=written)


def _all(name: str, expected: str = "ok/2", calls: int = 1, cut: bool = False, **others: str) -> Row:
    """Return a row with a fault that all dialects can express."""
    bodies = {dialect: replies[name] for dialect, replies in SAID.items() if name in replies}
    return Row(name, expected, others, bodies=bodies, calls=calls, cut=cut)


def _chat(name: str, calls: int = 1) -> Row:
    """Return a row with a fault that only chat completions can express."""
    return Row(name, bodies={"chat": chat.REPLIES[name]}, calls=calls)


def _claude(name: str, like: str, expected: str, **said: Any) -> Row:
    """Return a row for Claude Code only, with the server of another row."""
    return Row(name, expected, bodies={"chat": chat.REPLIES[like]}, agents=("claude",), **said)


def _codex(name: str, expected: str = "ok/2", **said: Any) -> Row:
    """Return a row for Codex only."""
    return Row(name, expected, bodies={"chat": chat.REPLIES[name]}, agents=("codex",), **said)


ROWS = (
    _real("hermes"),
    _real("tools"),
    # The server's own parser fails after the first words, so a second request is needed. The proxy sends it if the
    # client has received nothing yet. Otherwise Claude Code sends it, without a stream, unless a block has ended; by
    # then the proxy parses. Clients of chat completions get the error. Their next request works, or with `parse: proxy`
    # in the model's entry, the first one.
    _real("coder", "ok/3", pi="CRASH/1", qwen="CRASH/1", cline="CRASH/1"),
    _real("fence"),
    # The model opens its reasoning, or the template does in the prompt.
    _thinks("think", "qwen3"),
    _thinks("begun", "qwen3.5"),
    _all("ok"),
    _all("two_ok", calls=2),
    *(_text(name, written) for name, written in texts.WRITTEN.items()),
    _all("reason_call"),
    # The reply is empty, so the proxy retries each request. Claude Code and OpenClaw send it twice, Qwen Code and Cline
    # three times. All but Claude Code then report an error.
    _all(
        "empty",
        "SILENT/4",
        codex="SILENT/2",
        pi="SILENT/2",
        opencode="SILENT/3",
        qwen="CRASH/6",
        cline="CRASH/6",
        openclaw="CRASH/4",
    ),
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
    # A partial call must not be run, and no success reported. Claude Code runs a call whose block has ended, even if
    # an error follows: the cell would be `toolerr`. Codex is configured to retry once. OpenClaw and OpenCode retry for
    # some time.
    _all("cut_mid", "CRASH/1", codex="CRASH/2", openclaw="CRASH/*", opencode="CRASH/*", cut=True),
    # Claude Code lists the aliases that begin with `claude`. It requests the list only if nonessential traffic is
    # allowed, and then also a name for its session.
    _claude(
        "discovered",
        "name_repeat",
        "ok/3",
        rules=f'aliases: {{"claude-*": {MODEL}}}\n',
        environment={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": ""},
        notes=".claude/cache/gateway-models.json",
        told=f'"id":"claude-{MODEL}"',
    ),
    # A function in a namespace: if the call lacks the namespace, Codex returns "unsupported call" to the model.
    _codex("namespaced"),
    # A custom tool: its input is free text, which in chat completions is a function's string argument.
    _codex("apply_patch"),
    # The context is full, before or during the reply: Codex reports it and does not retry.
    _codex("context_overflow", "CRASH/1", refusal=(400, chat.OVERFLOW), told="ran out of room"),
    _codex("context_full", "CRASH/1", told="ran out of room"),
)
BY_NAME = {row.name: row for row in ROWS}
