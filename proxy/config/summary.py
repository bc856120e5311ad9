"""The entries of a rules file, each on one line and with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from proxy.codec.display import cut, escaped
from proxy.config.load import BUILT_IN, RulesText, builtin_text

_SECTIONS = ("tools", "models", "aliases", "clients")
_SHOWN = 300


class Entry(NamedTuple):
    """An entry of a section: `models Qwen*: {parse: proxy}` at `rules.yaml:3`. Its `title` is `Qwen*`."""

    section: str
    title: str
    text: str
    place: str


@lru_cache(maxsize=4)
def summary(text: RulesText) -> tuple[Entry, ...]:
    """Return the entries that a valid rules file puts in force, with `text` and `place` safe to print.

    Sections that the file lacks are the built-in ones. Each fix of a tool is an entry.
    """
    entries: list[Entry] = []
    own, builtin = _sections(text), _sections(builtin_text())
    for section in _SECTIONS:
        source, pair = (text.source, own[section]) if section in own else (BUILT_IN, builtin.get(section))
        for title, value, line in _entries(section, pair[1]) if pair else ():
            shown = escaped(cut(f"{section} {title}: {_flow(value)}", _SHOWN))
            entries.append(Entry(section, title, shown, f"{source}:{line}"))
    return tuple(entries)


def section_lines(text: RulesText) -> dict[str, int]:
    """Return the line of each section that a valid rules file has, if it is not empty."""
    return {name: key.start_mark.line + 1 for name, (key, _) in _sections(text).items()}


def _sections(text: RulesText) -> dict[str, tuple[Node, Node]]:
    root = yaml.compose(text.data, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, MappingNode) else []
    return {key.value: (key, node) for key, node in pairs if not isinstance(node, ScalarNode)}


def _entries(section: str, node: Node) -> Iterator[tuple[str, Node, int]]:
    """Yield the title, the value and the line of each entry."""
    for item in node.value:
        if isinstance(item, MappingNode):  # of models
            title = next((value.value for key, value in item.value if key.value == "match"), "")
            rest = [pair for pair in item.value if pair[0].value != "match"]
            yield title, MappingNode(item.tag, rest), item.start_mark.line + 1
            continue
        key, value = item
        if section != "tools":
            yield key.value, value, key.start_mark.line + 1
            continue
        others = [pair for pair in value.value if pair[0].value != "fixes"]
        for fixes in (pair[1] for pair in value.value if pair[0].value == "fixes"):
            for fix in fixes.value:
                yield key.value, MappingNode(fix.tag, [*fix.value, *others]), fix.start_mark.line + 1


def _flow(node: Node) -> str:
    """Return a node as YAML on one line."""
    if isinstance(node, MappingNode):
        return f"{{{', '.join(f'{key.value}: {_flow(value)}' for key, value in node.value)}}}"
    if isinstance(node, SequenceNode):
        return f"[{', '.join(map(_flow, node.value))}]"
    is_plain = isinstance(node, ScalarNode) and node.style is None
    return str(node.value) if is_plain else json.dumps(node.value, ensure_ascii=False)
