"""The pages that are made of the code's own tables and examples, each as its path below docs/ and its Markdown.

None of them is committed: what `make agents` and `setup` use, what the parsers' tests read, what the schema and the
settings say is what stands there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from documentation.markdown import as_json, block, code, table
from documentation.schema import reference
from proxy.audit_record import KINDS
from proxy.cli.agents import AGENTS
from proxy.cli.configuration import Agent, Configuration, Values
from proxy.cli.setup import described
from proxy.config.settings import SPECS
from proxy.healing.families import FAMILIES
from proxy.healing.heal import HEALINGS, Level
from proxy.repair.arguments import FORMS
from proxy.repair.schema_fixes import FIXES

ROOT = Path(__file__).parents[1]
FOLDER = "generated"
# What stands for the user's own in the configurations.
EXAMPLE = Values("http://127.0.0.1:8003", "Qwen/Qwen3-Coder-30B-A3B-Instruct", 262144)
_CORPORA = ROOT / "tests" / "corpora" / "formats"
# Files of the corpus whose rows are no formats of their own.
_OTHERS = ("near_misses", "residues")
_LEVELS = {Level.ALWAYS: "always", Level.TEMPLATE: "by the template"}
_LONGEST_EXAMPLE = 1500


def pages() -> dict[str, str]:
    """Every generated page."""
    made = {
        "agents.md": _agents(),
        "formats.md": _formats(),
        "repairs.md": _repairs(),
        "healings.md": _healings(),
        "families.md": _families(),
        "settings.md": _settings(),
        "rules.md": _rules(),
        "benchmarks.md": iter([(ROOT / "benchmarks" / "README.md").read_text("utf-8")]),
    }
    return {f"{FOLDER}/{name}": "\n".join(lines) + "\n" for name, lines in made.items()}


def format_examples() -> dict[str, dict[str, Any]]:
    """By the name of each text format the row of the corpus that shows it: the shortest one that holds calls."""
    examples: dict[str, dict[str, Any]] = {}
    for path in sorted(_CORPORA.glob("*.jsonl")):
        if any(word in path.stem for word in _OTHERS):
            continue
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["calls"] and len(row["text"]) < _size_of(examples.get(row["format"])):
                examples[row["format"]] = row
    return examples


def _size_of(row: dict[str, Any] | None) -> int:
    return _LONGEST_EXAMPLE if row is None else len(row["text"])


def _agents() -> Iterator[str]:
    yield "# Each agent's configuration\n"
    yield "Exactly what `vllm-tool-proxy setup AGENT` prints, and what `make agents` runs them with; here for a proxy"
    yield f"at `{EXAMPLE.url}` with the model `{EXAMPLE.model}` of {EXAMPLE.context} tokens."
    yield "`setup AGENT --write` merges it with what is there, `launch AGENT` gives it to the agent for one run without"
    yield "writing a file of yours; [agents](../agents.md) has the details."
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
    yield "A reply for each text format, and the calls that are found in it: rows of the corpus that the parsers' tests"
    yield "read whole and at every cut. [Text formats](../formats.md) has the models that write them, and the evidence."
    for name, row in sorted(format_examples().items()):
        yield f"\n## {name}\n"
        yield from block(row["text"])
        yield f"\nEvidence: {row['evidence']}.\n"
        for call in row["calls"]:
            yield f"- {code(call['name'])} {code(as_json(call['arguments']))}"


def _repairs() -> Iterator[str]:
    yield "# Examples of each repair\n"
    yield "From the tables of the code; the log, the audit and `/metrics` name them by these ids."
    yield "[Repairs](../repairs.md) has all that is put right in a call. Besides there are `rule:` with"
    yield "the name of a rule of yours, and `heal_` with a [healing's](healings.md) id.\n"
    yield "## Calls, texts and requests\n"
    yield from table(
        ("id", "what it tells", "before", "after"),
        ((code(each.id), each.words, code(each.before), code(each.after)) for each in KINDS),
    )
    yield "\n## Arguments that are no JSON\n"
    yield from table(("id", "why", "example"), ((code(each.id), each.why, code(each.example)) for each in FORMS))
    yield "\n## Arguments that the schema refuses\n"
    yield from table(
        ("id", "why", "schema", "before", "after"),
        ((code(each.id), each.why, *(code(as_json(part)) for part in each.example)) for each in FIXES),
    )


def _healings() -> Iterator[str]:
    yield "# Examples of each healing\n"
    yield "From the table of the code; [healing](../healing.md) says when each acts.\n"
    for each in HEALINGS:
        before, after = each.example
        yield f"## {each.id}\n"
        yield f"{each.why}; {_LEVELS[each.level]}.\n"
        yield from block(json.dumps(before, indent=1, ensure_ascii=False), "json")
        yield "\nbecomes\n"
        yield from block(json.dumps(after, indent=1, ensure_ascii=False), "json")
        yield ""


def _families() -> Iterator[str]:
    yield "# Model families\n"
    yield "The table of `proxy/healing/families.json`. Each fact of a model comes from the first row that has it."
    yield "[Healing](../healing.md#families) says how a model's family is found.\n"
    yield from table(
        ("family", "names", "healings", "reasoning", "read from", "syntax of calls", "vLLM's parser", "SGLang's"),
        (
            (
                code(each.name),
                *(" ".join(map(code, words.split())) for words in (each.match, each.heals)),
                " ".join(code(marker.opener.strip()) for marker in each.markers[:1]),
                " ".join(map(code, each.fields)),
                *((each.parsers.syntax, each.parsers.vllm, each.parsers.sglang) if each.parsers else ("", "", "")),
            )
            for each in FAMILIES
        ),
    )


def _settings() -> Iterator[str]:
    yield "# Settings\n"
    yield "Each is a flag, an environment variable and a key under `settings:` of the rules file; the flag wins,"
    yield "then the variable, then the file. [Configuration](../configuration.md) has the ones to know."
    for group in dict.fromkeys(spec.group for spec in SPECS):
        yield f"\n## {group}\n"
        yield from table(
            ("setting", "default", "", "flags", "variables"),
            (
                (
                    code(spec.name),
                    code(as_json(spec.default)),
                    spec.help,
                    ", ".join(map(code, spec.flags)),
                    ", ".join(map(code, spec.variables)),
                )
                for spec in SPECS
                if spec.group == group
            ),
        )


def _rules() -> Iterator[str]:
    yield "# Reference of the rules file\n"
    yield "From [rules.schema.json](../rules.schema.json), with which editors check the file;"
    yield "[the rules file](../rules.md) explains each part with examples."
    yield from reference(json.loads((ROOT / "docs" / "rules.schema.json").read_text("utf-8")))
