"""The entries of a rules file, each on one line with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from proxy.config.load import RulesText, builtin_text
from proxy.config.yaml_nodes import compose, entries, place_of
from proxy.display import cut, escaped

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
    in_force = {**sections(builtin_text()), **sections(text)}
    found = []
    for section in _SECTIONS:
        for title, value, node in _entries(section, in_force[section][1]) if section in in_force else ():
            shown = escaped(cut(f"{section} {title}: {_flow(value)}", _SHOWN))
            found.append(Entry(section, title, shown, place_of(node)))
    return tuple(found)


def sections(text: RulesText) -> dict[str, tuple[Node, Node]]:
    """Return the key node and the value node of each section that a valid rules file has, if it is not empty."""
    root = compose(text.data, text.source)
    pairs = entries(root, "the file") if root else ()
    return {name: (key, node) for name, key, node in pairs if not isinstance(node, ScalarNode)}


def _entries(section: str, node: Node) -> Iterator[tuple[str, Node, Node]]:
    """Yield the title and the value of each entry, and the node that shows its place."""
    if isinstance(node, SequenceNode):  # models
        for item in node.value:
            rest = [pair for pair in item.value if pair[0].value != "match"]
            yield next(value.value for key, value in item.value if key.value == "match"), MappingNode("", rest), item
        return
    for title, key, value in entries(node, section):
        if section != "tools":
            yield title, value, key
            continue
        others = [pair for pair in value.value if pair[0].value != "fixes"]
        for fix in (fix for name, _, fixes in entries(value, title) if name == "fixes" for fix in fixes.value):
            yield title, MappingNode("", [*fix.value, *others]), fix


def _flow(node: Node) -> str:
    """Return a node as YAML on one line."""
    if isinstance(node, MappingNode):
        return f"{{{', '.join(f'{key.value}: {_flow(value)}' for key, value in node.value)}}}"
    if isinstance(node, SequenceNode):
        return f"[{', '.join(map(_flow, node.value))}]"
    is_plain = isinstance(node, ScalarNode) and node.style is None
    return str(node.value) if is_plain else json.dumps(node.value, ensure_ascii=False)
