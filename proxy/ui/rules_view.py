"""The rules in force, in words, each with the line in which it stands."""

from __future__ import annotations

from collections import Counter
from importlib import resources

from proxy.codec.json_text import Json, JsonObject
from proxy.commands.describe_rules import summary
from proxy.config.load import BUILT_IN
from proxy.config.rule_lines import rule_lines
from proxy.config.rules import Rules
from proxy.worker.state import WorkerState


def rules_in_force(worker: WorkerState) -> JsonObject:
    """The rules by which requests are served that begin now, and why newer ones are not in force."""
    rules = worker.current().rules
    entries: list[Json] = [*described(rules, worker.published.text)]
    return {
        "source": rules.source,
        "sha256": rules.sha256,
        "error": worker.published.error,
        "entries": entries,
    }


def described(rules: Rules, text: bytes) -> list[JsonObject]:
    """A line of words for each rule, with its section and its place; `text` is that of the rules file, b"" if it is not
    known. A section that the file lacks is the built-in one's.
    """
    builtin = rule_lines(resources.files("proxy").joinpath("rules.yaml").read_bytes(), BUILT_IN)
    own = {} if rules.source == BUILT_IN else rule_lines(text, rules.source)
    seen: Counter[str] = Counter()
    entries: list[JsonObject] = []
    for line in summary(rules):
        section = line.partition(" ")[0]
        source, lines = (rules.source, own) if section in own else (BUILT_IN, builtin)
        place = ""
        if seen[section] < len(lines.get(section, ())):
            place = f"{source}:{lines[section][seen[section]]}"
        seen[section] += 1
        entries.append({"section": section.removesuffix(":"), "text": line, "place": place})
    return entries
