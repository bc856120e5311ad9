"""Generated pages of the site that are not committed: agents' configurations, examples of formats and healings."""

from __future__ import annotations

import json
from collections.abc import Iterator

from documentation.corpora import format_examples
from documentation.links import ROOT
from documentation.markdown import as_json, block, code
from proxy.cli.agents import AGENTS
from proxy.cli.configuration import Agent, Configuration, Values
from proxy.cli.setup import described
from proxy.healing.heal import HEALINGS

FOLDER = "generated"
# The proxy, model and context of the configurations.
EXAMPLE = Values("http://127.0.0.1:8003", "Qwen/Qwen3-Coder-30B-A3B-Instruct", 262144)


def pages() -> dict[str, str]:
    """Return the Markdown of every generated page by its path in docs/."""
    made = {
        "agents.md": _agents(),
        "formats.md": _formats(),
        "healings.md": _healings(),
        "benchmarks.md": iter([(ROOT / "benchmarks" / "README.md").read_text("utf-8")]),
    }
    return {f"{FOLDER}/{name}": "\n".join(lines) + "\n" for name, lines in made.items()}


def _agents() -> Iterator[str]:
    yield "# Each agent's configuration\n"
    yield f"The output of `vllm-tool-proxy setup AGENT` for a proxy at `{EXAMPLE.url}` with the model"
    yield f"`{EXAMPLE.model}` and {EXAMPLE.context} tokens of context. `make agents` uses the same."
    yield "`setup AGENT --write` merges it with your files, `launch AGENT` uses it for one run; see"
    yield "[agents](../agents.md)."
    for agent in AGENTS.values():
        yield from _agent(agent)


def _agent(agent: Agent) -> Iterator[str]:
    yield f"\n## {agent.title}\n"
    configuration = agent.configure(EXAMPLE)
    yield from block(command_for(agent, configuration), "sh")
    yield ""
    yield from block("\n".join(described(agent, EXAMPLE, configuration)))


def command_for(agent: Agent, configuration: Configuration) -> str:
    """Return the command that points the agent at the proxy: `launch`, if it can be started for one run."""
    if configuration.command:
        return f"vllm-tool-proxy launch {agent.name} --upstream http://127.0.0.1:8000"
    return f"vllm-tool-proxy setup {agent.name}"


def _formats() -> Iterator[str]:
    yield "# Examples of each format\n"
    yield "A reply in each text format, and the calls found in it. These are rows of the corpora that the tests read"
    yield "whole and at every cut; [text formats](../formats.md) explains the evidence."
    for name, row in sorted(format_examples().items()):
        yield f"\n## {name}\n"
        yield from block(row["text"])
        yield f"\nEvidence: {row['evidence']}.\n"
        for call in row["calls"]:
            yield f"- {code(call['name'])} {code(as_json(call['arguments']))}"


def _healings() -> Iterator[str]:
    yield "# Examples of each healing\n"
    yield "[What it does](../what-it-does.md#requests) says when each healing is in force.\n"
    for each in HEALINGS:
        before, after = each.example
        yield f"## {each.id}\n"
        yield f"{each.why}\n"
        yield from block(json.dumps(before, indent=1, ensure_ascii=False), "json")
        yield "\nbecomes\n"
        yield from block(json.dumps(after, indent=1, ensure_ascii=False), "json")
        yield ""
