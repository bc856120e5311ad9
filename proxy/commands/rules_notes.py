"""Notes on a rules file that is valid, but may not mean what its author thinks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.config.load import BUILT_IN, RulesText, builtin_text, rules_of
from proxy.config.rules import Rules
from proxy.config.yaml_nodes import lines_of, shown

# `qwen2.*` may well be a glob: a version with anything after it.
_REGULAR_EXPRESSION = re.compile(r"(?<![0-9])\.\*|^\^|\$$|\\[dws]")


def notes(text: RulesText, rules: Rules) -> Iterator[str]:
    """Yield a sentence, with its line, for each pattern that looks like a regular expression and each section that
    replaces built-in entries. `rules` is what the text says.
    """
    if text.source == BUILT_IN:
        return
    own = rules_of(builtin_text())
    replaced = {
        "tools": [rule.tool for rule in own.tools if rule not in rules.tools],
        "models": [model.match for model in own.models if model not in rules.models],
    }
    for path, line in lines_of(text.data, text.source).items():
        match path:
            case ("tools" | "aliases", str(glob)):
                pass
            case ("models", int(at), "match"):
                glob = rules.models[at].match
            case _:
                glob = ""
        if _REGULAR_EXPRESSION.search(glob):
            words = "looks like a regular expression, but is read as a glob: * matches any text"
            yield f"{text.source}:{line}: {shown(glob)} {words}"
        if len(path) == 1 and (gone := dict.fromkeys(replaced.get(str(path[0]), ()))):
            yield (
                f"{text.source}:{line}: the section {path[0]} replaces the built-in entries for {', '.join(gone)}; "
                "copy from the built-in rules.yaml those that you want to keep"
            )
