"""The reference tables of the pages in docs/, generated from the code's own tables.

A table is between `<!-- generated: NAME -->` and `<!-- end -->`. `python -m documentation` writes all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from documentation.corpora import format_examples
from documentation.markdown import as_json, code, table
from documentation.schema import rules_schema, sections
from proxy.config.settings import SPECS
from proxy.healing.families import FAMILIES
from proxy.healing.heal import HEALINGS
from proxy.repair.arguments import FORMS
from proxy.repair.schema_fixes import FIXES
from proxy.server.metrics import COUNTERS, HISTOGRAMS, PREFIX

RULE_WORDS = yaml.safe_load(Path(__file__).with_name("rule_words.yaml").read_text("utf-8"))
REPAIRS = yaml.safe_load(Path(__file__).with_name("repairs.yaml").read_text("utf-8"))
_MARKED = re.compile(r"(?s)(<!-- generated: (\w+) -->\n).*?(<!-- end -->)")
_REASONING = re.compile(r"(?s)^.*</think>")
# Characters of an example in the table of formats.
_WIDTH = 120


def filled(page: str) -> str:
    """Return the page with each of its tables generated again. Raises KeyError for an unknown name."""
    return _MARKED.sub(lambda found: "\n".join([f"{found[1]}", *TABLES[found[2]](), f"\n{found[3]}"]), page)


def _settings() -> Iterator[str]:
    yield from table(
        ("setting", "default", "", "other names"),
        (
            (
                code(spec.name),
                code(as_json(spec.default)),
                spec.help,
                ", ".join(map(code, (*spec.flags[1:], *spec.variables[1:], *spec.keys[1:]))),
            )
            for spec in SPECS
        ),
    )


def _rules() -> Iterator[str]:
    for name, rows in sections(rules_schema()):
        if name not in ("the file", "Settings", "Tool"):
            yield f"\n**{name}**\n"
            yield from table(("key", "value", ""), rows)


def _rule_words() -> Iterator[str]:
    for kind, means in (("conditions", "holds if"), ("actions", "does")):
        yield ""
        yield from table((kind[:-1], means, "example", "call", "becomes"), map(_rule_word, RULE_WORDS[kind]))


def _rule_word(row: dict[str, Any]) -> tuple[str, ...]:
    rule = yaml.safe_dump(row["fix"], default_flow_style=True, sort_keys=False, width=1000).strip()
    before, after = ("<br>".join(code(call[side]) for call in row["calls"]) for side in (0, 1))
    return code(row["word"]), row["means"], code(rule), before, after


def _notations() -> Iterator[str]:
    rows = ((name, row["evidence"], _REASONING.sub("", row["text"]).strip()) for name, row in format_examples().items())
    cut = ((name, evidence, text if len(text) < _WIDTH else f"{text[:_WIDTH]}…") for name, evidence, text in rows)
    shown = ((code(name), evidence, code(text)) for name, evidence, text in sorted(cut))
    yield from table(("format", "evidence", "example"), shown)


def _repairs() -> Iterator[str]:
    rows: list[tuple[str, ...]] = [*map(tuple, REPAIRS["records"])]
    rows += [(each.id, each.why, REPAIRS["forms"][each.id], "") for each in FORMS]
    rows += [(each.id, each.why, *map(as_json, REPAIRS["fixes"][each.id][1:])) for each in FIXES]
    yield from table(("id", "why", "before", "after"), ((code(id_), why, *map(code, pair)) for id_, why, *pair in rows))


def _healings() -> Iterator[str]:
    yield from table(
        ("id", "failures", "for", "why"),
        (
            (code(each.id), each.failure, "every model" if each.always else "by template", each.why)
            for each in HEALINGS
        ),
    )


def _families() -> Iterator[str]:
    yield from table(
        ("family", "names", "healings", "reasoning", "read from", "calls", "vLLM's parser", "SGLang's"),
        (
            (
                code(each.name),
                *(" ".join(map(code, words)) for words in (each.match, each.healings)),
                " ".join(code(marker.opener.strip()) for marker in each.markers[:1]),
                " ".join(map(code, each.fields)),
                *((each.parsers.syntax, each.parsers.vllm, each.parsers.sglang) if each.parsers else ("", "", "")),
            )
            for each in FAMILIES
        ),
    )


def _metrics() -> Iterator[str]:
    def row(name: str, labels: str, text: str) -> tuple[str, str]:
        return code(f"{PREFIX}{name}{{{labels}}}" if labels else f"{PREFIX}{name}"), text

    rows = [row(f"{name}_total", ",".join(labels), text) for name, (labels, text) in COUNTERS.items()]
    rows += [row(name, "dialect", text) for name, (_, text) in HISTOGRAMS.items()]
    rows += [
        row("log_lost_total", "", "Log lines that were lost because their reader was too slow."),
        row("active_streams", "", "Running streams."),
        row("rules_in_force", "", "0 if the rules or keys that were read last cannot be used."),
        row("info", "version", "Always 1."),
    ]
    yield from table(("metric", ""), rows)


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "settings": _settings,
    "rules": _rules,
    "rule_words": _rule_words,
    "notations": _notations,
    "repairs": _repairs,
    "healings": _healings,
    "families": _families,
    "metrics": _metrics,
}
