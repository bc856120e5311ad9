"""Notes on a rules file that is valid, but may not mean what its author thinks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from proxy.config.load import BUILT_IN, RulesText, builtin_text, rules_of
from proxy.config.rules import Rules
from proxy.config.yaml_nodes import compose, place_of, shown

# `qwen2.*` may well be meant as a glob: a version that goes on.
_REGULAR_EXPRESSION = re.compile(r"(?<![0-9])\.\*|^\^|\$$|\\[dws]")


def notes(text: RulesText, rules: Rules) -> Iterator[str]:
    """Yield a sentence, with its line, for each pattern that looks like a regular expression and each section that
    replaces built-in entries. `rules` is what the text says.
    """
    root = compose(text.data, text.source)
    if text.source == BUILT_IN or not isinstance(root, MappingNode):
        return
    own = rules_of(builtin_text())
    replaced = {
        "tools": [rule.tool for rule in own.tools if rule not in rules.tools],
        "models": [model.match for model in own.models if model not in rules.models],
    }
    for key, section in root.value:
        for glob in _globs(key.value, section):
            if _REGULAR_EXPRESSION.search(glob.value):
                yield (
                    f"{place_of(glob)}: {shown(glob.value)} looks like a regular expression, but is read as a glob: "
                    "* matches any text"
                )
        gone = [*dict.fromkeys(replaced.get(key.value, ()))]
        if gone:
            yield (
                f"{place_of(key)}: the section {key.value} replaces the built-in entries for {', '.join(gone)}; copy "
                "from the built-in rules.yaml those that you want to keep"
            )


def _globs(section: str, node: Node) -> Iterator[ScalarNode]:
    """Yield the globs of a section: the keys of `tools` and `aliases`, and each `match` of `models`."""
    if section in ("tools", "aliases") and isinstance(node, MappingNode):
        yield from (key for key, _ in node.value)
    elif section == "models" and isinstance(node, SequenceNode):
        for entry in node.value:
            if isinstance(entry, MappingNode):
                yield from (value for key, value in entry.value if key.value == "match")
