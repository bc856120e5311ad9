"""YAML files of people: block mappings edited in place."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from proxy.agents.spans import Edit, NotMergeableError, apply, line_end
from proxy.agents.yaml_comments import comments_in, dash_before
from proxy.codec.json_access import as_list
from proxy.codec.json_text import Json, JsonObject

_NULL = "tag:yaml.org,2002:null"


def edited(text: str, content: JsonObject, listed: str = "") -> str:
    """The text with the content in it, whatever else it says."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(root, yaml.CollectionNode) and _is_empty(root):
        text, root = text[: root.start_mark.index] + text[root.end_mark.index :], None
    if root is None:
        gap = "" if text.endswith("\n") or not text else line_end(text)
        return text + gap + _dumped(content, "", text)
    if not isinstance(root, yaml.MappingNode):
        raise NotMergeableError("it is no mapping")
    if not text.endswith("\n"):
        text += line_end(text)
    return apply(text, _edits(text, root, content, listed))


def _edits(text: str, node: yaml.MappingNode, content: JsonObject, listed: str = "") -> Iterator[Edit]:
    """The edits of a mapping of the text."""
    if node.flow_style:
        raise NotMergeableError("a mapping in braces would have to be changed")
    indent = " " * node.start_mark.column
    there = {key.value: value for key, value in node.value}
    new: JsonObject = {}
    for key, value in content.items():
        old = there.get(key)
        if old is None:
            new[key] = value
        elif _is_empty(old) and isinstance(value, (dict, list)):
            yield from _block_edits(text, old, value, indent)
        elif key == listed:
            yield from _item_edits(text, old, value)
        elif isinstance(value, dict):
            yield from _inner_edits(text, old, value)
        elif repr(_content(old)) != repr(value):  # 1 is no true
            yield _scalar_edit(text, old, value)
    if new:
        place = _behind(text, node)
        yield Edit(place, place, _dumped(new, indent, text))


def _is_empty(node: yaml.Node) -> bool:
    """Say whether a node is `[]`, `{}`, or nothing at all."""
    if isinstance(node, yaml.CollectionNode):
        return not node.value
    return bool(node.tag == _NULL)


def _block_edits(text: str, node: yaml.Node, value: Json, indent: str) -> Iterator[Edit]:
    """Lines below its key in the place of what is empty. What was said in that stands before them then."""
    start, end = node.start_mark.index, node.end_mark.index
    yield Edit(len(text[:start].rstrip(" ")), end, "")
    comments = "".join(f"{indent}{comment}{line_end(text)}" for comment in comments_in(text, start, end))
    place = _behind(text, node)
    _, _, lines = _dumped({"key": value}, indent, text).partition("\n")
    yield Edit(place, place, comments + lines)


def _inner_edits(text: str, node: yaml.Node, content: JsonObject) -> Iterator[Edit]:
    """The edits of a place where a mapping must stand."""
    if not isinstance(node, yaml.MappingNode):
        raise NotMergeableError("something else stands where a mapping must")
    yield from _edits(text, node, content)


def _scalar_edit(text: str, node: yaml.Node, value: Json) -> Edit:
    """A scalar becomes another."""
    if not isinstance(node, yaml.ScalarNode):
        raise NotMergeableError("a mapping or a list stands where a word must")
    scalar = yaml.safe_dump(value, allow_unicode=True, width=1000).removesuffix("\n").removesuffix("\n...")
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):  # a block of text goes on to the next line, and may have a comment in its first one
        scalar = "  ".join([scalar, *comments_in(text, start, end)]) + line_end(text)
    return Edit(start, end, scalar)


def _item_edits(text: str, node: yaml.Node, items: Json) -> Iterator[Edit]:
    """The edits of a list of items that have names."""
    if not isinstance(node, yaml.SequenceNode) or node.flow_style:
        raise NotMergeableError("something else stands where a list must, or one in brackets")
    indent = " " * node.start_mark.column
    there = {_name(_content(item)): item for item in node.value}
    for item in as_list(items):
        old = there.get(_name(item))
        dumped = _dumped([item], indent, text)
        if old is None:
            place = _behind(text, node)
            yield Edit(place, place, dumped)
        elif _content(old) != item:
            # From its dash on, which is in the column of the list. What was said in it of it stands before it then.
            start, end = dash_before(text, old.start_mark.index), _behind(text, old)
            comments = [f"{comment}{line_end(text)}{indent}" for comment in comments_in(text, start, end)]
            yield Edit(start, end, "".join(comments) + dumped.removeprefix(indent))


def _behind(text: str, node: yaml.Node) -> int:
    """The beginning of the line behind a node: a collection ends with what it holds, not with the comments behind."""
    last = node
    while isinstance(last, yaml.CollectionNode) and last.value and not last.flow_style:
        item = last.value[-1]
        last = item[1] if isinstance(item, tuple) else item
    end = last.end_mark.index
    if text[end - 1 : end] == "\n":
        return end  # a block of text
    return text.find("\n", end) + 1


def _content(node: yaml.Node) -> Json:
    """The value of a node."""
    loader = yaml.SafeLoader("")
    try:
        content: Json = loader.construct_document(node)
    finally:
        loader.dispose()
    return content


def _name(item: Json) -> Json:
    return item.get("name") if isinstance(item, dict) else None


def _dumped(value: Json, indent: str, text: str) -> str:
    """Lines of YAML, each with such an end as those of the text have."""
    dumped = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
    return "".join(f"{indent}{line}{line_end(text)}" for line in dumped.splitlines())
