"""Calls, the openers of their wrappers, and the JSON shapes of a name with arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from proxy.json import Json, JsonObject, read_json
from proxy.notations.source import NoCall
from proxy.notations.strings import NOT_ODD, Oddity
from proxy.notations.tables import ARGUMENT_WORDS, BESIDE_WORDS, LIST_WORDS, NAME_WORDS, NO_CLOSER
from proxy.notations.toolset import Tool, ToolSet

# Maximum nesting of lists and envelopes.
MAX_SHAPES = 3
_ENVELOPES = ("function", "tool_call")
_TEXT_KEYS = ("response", "tool_call", "content")
# Keys for arguments that, together with a key for the name, occur only in calls.
_ARGUMENTS = ("arguments", "parameters", "args")
_USUAL = {"name": _ARGUMENTS, "tool_name": (*_ARGUMENTS, "tool_input"), "function": ("parameters",)}


@dataclass(slots=True, eq=False)
class Call:
    """A call read from text[start:end]. `tool` is None if no tool named `written` is offered.

    `loose`: it counts only as the whole reply. `told`: the end of a string was inferred from the following text.
    `json`: it is an object with a key for its name. `tagged`: its name is in a tag. `closed_itself`: its own end tag
    was found. `bare`: it is a name followed by arguments. `in_list`: it is a list item. `unclosed`: its wrapper was
    opened by a token that needs no closer, and none was found. `odd`: how its JSON deviates from the standard.
    """

    tool: Tool | None
    written: str
    arguments: JsonObject
    start: int
    end: int
    loose: bool = False
    id: str = ""
    told: bool = False
    json: bool = False
    tagged: bool = False
    closed_itself: bool = False
    bare: bool = False
    in_list: bool = False
    unclosed: bool = False
    odd: frozenset[Oddity] = NOT_ODD

    @property
    def spoils_row(self) -> bool:
        """True if the call's tool is not offered and it may be code, so that weak calls next to it do not count."""
        return self.tool is None and (self.in_list or not self.json or self.loose)

    @property
    def name(self) -> str:
        """The name of the offered tool, or else the name as written."""
        return self.tool.name if self.tool else self.written


@dataclass(frozen=True, slots=True)
class Opener:
    """The opener of a wrapper: `text`, which ends at `end`.

    `tag`: it is a tag. `name` is the tool's name in it.
    """

    end: int
    closers: tuple[str, ...] = ()
    tag: bool = False
    name: str = ""
    text: str = ""

    @property
    def no_closer(self) -> bool:
        """True if a complete call needs no closer."""
        return self.text in NO_CLOSER


class JsonArguments(NamedTuple):
    """JSON arguments: their end, whether a string's end was inferred (`told`), and deviations from standard JSON."""

    value: JsonObject
    end: int
    told: bool = False
    odd: frozenset[Oddity] = NOT_ODD


NO_OPENER = Opener(0)
# Calls, and the position after them.
ReadCalls: TypeAlias = tuple[list[Call], int]


def closed_calls(calls: list[Call], refusal: NoCall) -> list[Call]:
    """Return the calls closed by their own end tags. Raise the refusal if there are none, or one is not offered."""
    closed = [call for call in calls if call.closed_itself]
    if not closed or any(call.tool is None for call in closed):
        raise refusal
    return closed


@dataclass(slots=True)
class Shape:
    """A call in a JSON value.

    `loose`: the shape is not specific to calls. `says_name`: a key marks the name. `says_arguments`: a key marks the
    arguments.
    """

    name: str
    arguments: Json
    loose: bool = False
    id: str = ""
    says_name: bool = True
    says_arguments: bool = True


def shapes(value: Json, tools: ToolSet, depth: int = 0) -> list[Shape]:
    """Return the calls in a value. Raise NoCall if any part of it is not a call."""
    if depth > MAX_SHAPES:
        raise NoCall("nested too deeply")
    if isinstance(value, list):
        if not value:
            raise NoCall("an empty list")
        return [shape for item in value for shape in shapes(item, tools, depth + 1)]
    if not isinstance(value, dict) or not value:
        raise NoCall("an object was expected")
    inner = _enveloped(value)
    if inner is None:
        return [_shape(value, tools, depth)]
    found = shapes(inner, tools, depth + 1)
    for shape in found:
        shape.loose = True
    return found


def _enveloped(value: JsonObject) -> Json:
    """Return the content of an envelope around calls; None if the object is not an envelope."""
    keys = value.keys()
    for word in LIST_WORDS:
        calls = value.get(word)
        if isinstance(calls, list) and calls and not keys - {word, "role", "content"} and not value.get("content"):
            return calls
    word = next((each for each in _ENVELOPES if each in value), "")
    inner = value.get(word)
    if isinstance(inner, dict) and not keys - {*_ENVELOPES, *BESIDE_WORDS}:
        if isinstance(inner.get(word), dict):
            raise NoCall("a call in a call")
        return inner
    key, text = next(iter(value.items()))
    if len(value) > 1 or not isinstance(text, str) or key not in _TEXT_KEYS:
        return None
    try:
        inner = read_json(text)
    except ValueError:
        raise NoCall("a text") from None
    return inner if inner is not None else []


def _shape(value: JsonObject, tools: ToolSet, depth: int) -> Shape:
    """Return the call described by an object's own keys."""
    words = [word for word in NAME_WORDS if isinstance(value.get(word), str)]
    name_word = next((word for word in words if tools.resolve(str(value[word]))), next(iter(words), ""))
    if not name_word:
        # The only key may be the name.
        name, arguments = next(iter(value.items()))
        if len(value) > 1 or not isinstance(arguments, dict) or not (tools.resolve(name) or depth):
            raise NoCall("a name was expected")
        return Shape(name, arguments, not depth, says_name=False)
    name, id_ = str(value[name_word]), str(value.get("id") or "")
    argument_word = next((word for word in ARGUMENT_WORDS if word in value), "")
    more = value.keys() - BESIDE_WORDS - {name_word, argument_word, "tool_name" if name_word == "name" else "name"}
    if not argument_word:
        tool = tools.resolve(name)
        if more and (tool is None or not more <= tool.properties.keys()):
            raise NoCall("the arguments are missing")
        return Shape(name, {key: value[key] for key in value if key in more}, id=id_, says_arguments=bool(more))
    if more:
        raise NoCall("another key beside name and arguments")
    arguments = value[argument_word]
    # Arguments are an object or the JSON text of one. Any other text is weaker evidence.
    is_text = isinstance(arguments, str) and arguments.strip() and not arguments.lstrip().startswith("{")
    usual = argument_word in _USUAL.get(name_word, ()) and not is_text
    return Shape(name, arguments, not usual, id_)
