"""Calls in a value of JSON: the shapes in which models say a name and arguments."""

from __future__ import annotations

from proxy.notations.source import NoCall
from proxy.notations.calls import CLEAR, LOOSE
from proxy.notations.tables import ARGUMENT_WORDS, BESIDE_WORDS, LIST_WORDS, NAME_WORDS



class Shape:
    """A call as a value says it: the name, the arguments, and how clearly."""

    def __init__(self, name: str, arguments, clear: int, id: str = "") -> None:
        self.name, self.arguments, self.clear, self.id = name, arguments, clear, id
        self.says_name = self.says_arguments = True


def shapes(value, tools, depth: int = 0) -> list[Shape]:
    """The calls that a value of JSON says, all of it; NoCall if a part of it is none."""
    if depth > 3:
        raise NoCall("too deep")
    if isinstance(value, list):
        if not value:
            raise NoCall("an empty list")
        return [shape for item in value for shape in shapes(item, tools, depth + 1)]
    if not isinstance(value, dict) or not value:
        raise NoCall("no object")
    keys = [*value]
    for word in LIST_WORDS:
        if (
            isinstance(value.get(word), list)
            and value[word]
            and not (set(keys) - {word, "role", "content"})
            and not value.get("content")
        ):
            found = shapes(value[word], tools, depth + 1)
            for shape in found:
                shape.clear = LOOSE
            return found
    inner = value.get("function", value.get("tool_call"))
    if isinstance(inner, dict) and not set(keys) - {"function", "tool_call", *BESIDE_WORDS}:
        if isinstance(inner.get("function" if "function" in value else "tool_call"), dict):
            raise NoCall("a call in a call")
        found = shapes(inner, tools, depth + 1)
        if "type" not in value and "id" not in value:
            for shape in found:
                shape.clear = LOOSE
        return found
    if len(keys) == 1 and isinstance(value[keys[0]], str) and keys[0] in ("response", "tool_call", "content"):
        import json

        try:
            found = shapes(json.loads(value[keys[0]]), tools, depth + 1)
        except ValueError:
            raise NoCall("a text") from None
        for shape in found:
            shape.clear = LOOSE
        return found
    name_word = next((w for w in NAME_WORDS if isinstance(value.get(w), str) and tools.resolve(value[w])), None)
    if name_word is None:
        name_word = next((w for w in NAME_WORDS if isinstance(value.get(w), str)), None)
    argument_word = next((w for w in ARGUMENT_WORDS if w in value), None)
    if name_word is None and len(keys) == 1 and isinstance(value[keys[0]], dict) and (tools.resolve(keys[0]) or depth):
        shape = Shape(keys[0], value[keys[0]], LOOSE if depth == 0 else CLEAR)
        shape.says_name = False
        return [shape]
    if name_word is None:
        raise NoCall("no name")
    more = set(keys) - {name_word, argument_word} - BESIDE_WORDS - {"tool_name" if name_word == "name" else "name"}
    tool = tools.resolve(value[name_word])
    if argument_word is None:
        if more and tool is not None and more <= set(tool.properties):
            return [
                Shape(value[name_word], {k: value[k] for k in keys if k in more}, CLEAR, str(value.get("id") or ""))
            ]
        if more:
            raise NoCall("no arguments")
        shape = Shape(value[name_word], {}, CLEAR, str(value.get("id") or ""))
        shape.says_arguments = False
        return [shape]
    if not more and isinstance(value[argument_word], str) and value[argument_word].strip():
        return [Shape(value[name_word], value[argument_word], LOOSE, str(value.get("id") or ""))]
    if more:
        raise NoCall("another key beside name and arguments")
    usual = name_word in ("name", "tool_name", "function") and argument_word in ("arguments", "parameters", "args")
    usual = (
        usual
        and not (name_word == "function" and argument_word != "parameters")
        and not (name_word == "tool_name" and argument_word == "params")
    )
    return [Shape(value[name_word], value[argument_word], CLEAR if usual else LOOSE, str(value.get("id") or ""))]
