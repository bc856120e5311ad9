"""In which line of a rules file each of its rules stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from yaml.nodes import MappingNode, Node, SequenceNode

from proxy.config.yaml_nodes import compose


@lru_cache(maxsize=4)
def rule_lines(text: bytes, source: str) -> Mapping[str, tuple[int, ...]]:
    """The lines of the rules of each section that the file has, in the file's order. Raises RulesError.

    `models: [{match: a}]` in line 3 is `{"models": (3,)}`; of `tools` each fix counts.
    """
    root = compose(text, source)
    if not isinstance(root, MappingNode):
        return {}
    return {key.value: tuple(map(_line, _rules(key.value, node))) for key, node in root.value}


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _rules(section: str, node: Node) -> Iterator[Node]:
    if isinstance(node, SequenceNode):
        yield from node.value
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            if section == "tools":
                yield from _fixes(value)
            else:
                yield key


def _fixes(tool: Node) -> Iterator[Node]:
    """The fixes of an entry of `tools`."""
    if not isinstance(tool, MappingNode):
        return
    for key, value in tool.value:
        if key.value == "fixes" and isinstance(value, SequenceNode):
            yield from value.value
