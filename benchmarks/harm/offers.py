"""Random tools, and random calls of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any

from benchmarks.harm import texts

Values = dict[str, Any]
Schema = dict[str, Any]

_NAMES = ("read_file", "write_file", "run_command", "search", "edit_file", "list_dir", "fetch_page", "get_weather")
_KEYS: dict[str, tuple[str, ...]] = {
    "string": (
        "path",
        "content",
        "command",
        "old_string",
        "new_string",
        "query",
        "pattern",
        "url",
        "text",
        "file_name",
    ),
    "integer": ("limit", "offset", "timeout_ms", "line"),
    "number": ("ratio", "min_score"),
    "boolean": ("recursive", "dry_run", "force"),
    "enum": ("mode", "sort_by"),
    "strings": ("tags", "include_globs"),
    "objects": ("edits", "todo_items"),
    "object": ("options", "text_range"),
    "null_string": ("note", "cwd_path"),
    "null_integer": ("depth", "max_items"),
}
_KINDS = ("string", "string", "string", "string", *_KEYS)
ODD_KEYS = (
    *("-A", "-n", "--glob", "max-items", "file name", "who is it for", "a.b", "x.y.z"),
    *("größe", "файл", "名前", "name", "arguments", "type"),
)
_INNER = ("string", "string", "integer", "boolean")
_ENUM = ("fast", "slow", "off")


class Shape(Enum):
    """Peculiarity of the offered tools: odd keys, no required arguments, or an empty object in a union."""

    USUAL = auto()
    ODD_KEYS = auto()
    OPTIONAL = auto()
    UNION = auto()


class Mixed:
    """Ingredients of strings: the tool's keys, and markup for at most one string."""

    def __init__(self, rng: Random, fits: Callable[[str], bool]) -> None:
        self.rng = rng
        self.fits = fits
        self.keys: tuple[str, ...] = ()
        self.markup: tuple[str, ...] = ()
        # Markup begins or ends its value.
        self.at_edge = False

    def text(self) -> str:
        """Return a string that the family can write."""
        if self.markup and self.rng.random() < 0.5:
            write = texts.at_edge if self.at_edge else texts.around
            shown = write(self.rng, self.rng.choice(self.markup))
            if self.fits(shown):
                self.markup = ()
                return shown
        while True:
            found = texts.text(self.rng, self.keys)
            if self.fits(found):
                return found


@dataclass(frozen=True, slots=True)
class Offer:
    """One offered tool: its name and the JSON Schema of its arguments."""

    name: str
    schema: Schema

    @property
    def properties(self) -> Schema:
        """The declared arguments."""
        properties: Schema = self.schema["properties"]
        return properties

    @property
    def open(self) -> bool:
        """True if the schema explicitly allows undeclared keys."""
        return self.schema.get("additionalProperties") is True

    @property
    def only_string(self) -> str:
        """The only required argument if it is an unrestricted string, else ""."""
        required = self.schema.get("required", ())
        plain = len(required) == 1 and self.properties[required[0]] == {"type": "string"}
        return required[0] if plain else ""

    def as_tool(self) -> Values:
        """The entry of a request's `tools`."""
        return {"type": "function", "function": {"name": self.name, "parameters": self.schema}}


def fold(name: str) -> str:
    """Return a name in lower case and without separators."""
    return re.sub(r"[-_.]", "", name).casefold()


def spelled(name: str, style: str) -> str:
    """Return a snake_case name in another spelling."""
    first, *rest = name.split("_")
    match style:
        case "camel":
            return first + "".join(word.capitalize() for word in rest)
        case "pascal":
            return "".join(word.capitalize() for word in (first, *rest))
        case "kebab":
            return "-".join((first, *rest))
        case "upper":
            return name.upper()
    return name


def offers(rng: Random, shape: Shape = Shape.USUAL, keys: str = ".+") -> list[Offer]:
    """Return one to four tools of a shape. Odd keys must match the pattern `keys`."""
    style = rng.choice(("snake", "snake", "camel"))
    names = rng.sample(_NAMES, rng.randint(1, 4))
    usual = [Offer(spelled(name, style), _object(rng, _KINDS, rng.randint(1, 5), style)) for name in names]
    if shape is Shape.USUAL:
        return usual
    return [Offer(offer.name, _shaped(rng, offer.schema, shape, keys)) for offer in usual]


def _shaped(rng: Random, schema: Schema, shape: Shape, keys: str) -> Schema:
    """Return the schema of a tool in this shape."""
    if shape is Shape.OPTIONAL:
        return {**schema, "required": []}
    properties: Schema = {**schema["properties"]}
    if shape is Shape.UNION:
        kinds = ["object", rng.choice(("null", "integer"))]
        properties["settings"] = {"anyOf": [{"type": kind} for kind in kinds], "type": kinds}
        return {**schema, "properties": properties, "required": [*schema.get("required", ()), "settings"]}
    odd = [key for key in ODD_KEYS if re.fullmatch(keys, key)]
    new = dict(zip(properties, rng.sample(odd, min(len(odd), rng.randint(1, 3))), strict=False))
    required = [new.get(key, key) for key in schema.get("required", ())]
    return {**schema, "properties": {new.get(key, key): properties[key] for key in properties}, "required": required}


def _object(rng: Random, kinds: Sequence[str], most: int, style: str) -> Schema:
    """Return an object's schema that forbids, allows, or does not mention other keys."""
    properties: Schema = {}
    for _ in range(most):
        kind = rng.choice(kinds)
        key = spelled(rng.choice(_KEYS[kind]), style)
        properties.setdefault(key, _property(rng, kind, style))
    keys = list(properties)
    schema: Schema = {"type": "object", "properties": properties}
    required = [key for key in keys if rng.random() < 0.6]
    if required:
        schema["required"] = required
    others = rng.choice((False, True, None))
    if others is not None:
        schema["additionalProperties"] = others
    return schema


def _property(rng: Random, kind: str, style: str) -> Schema:
    match kind:
        case "enum":
            return {"type": "string", "enum": list(_ENUM)}
        case "strings":
            return {"type": "array", "items": {"type": "string"}}
        case "objects":
            return {"type": "array", "items": _object(rng, _INNER, rng.randint(1, 3), style)}
        case "object":
            return _object(rng, _INNER, rng.randint(1, 3), style)
        case "null_string":
            return {"type": ["string", "null"]}
        case "null_integer":
            return {"type": ["integer", "null"]}
    return {"type": kind}


def arguments(rng: Random, schema: Schema, mixed: Mixed) -> Values:
    """Return random valid arguments: all required ones, and some of the others."""
    properties: Schema = schema["properties"]
    needed = schema.get("required", ())
    chosen = [key for key in properties if key in needed or rng.random() < 0.7]
    rng.shuffle(chosen)
    return {key: value(rng, properties[key], mixed) for key in chosen}


def value(rng: Random, schema: Schema, mixed: Mixed) -> Any:
    """Return a random valid value."""
    kind = schema["type"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return {}
    if isinstance(kind, list):
        if rng.random() < 0.3:
            return None
        kind = kind[0]
        # Raw text cannot express the string "null" if null is allowed.
        return _nullable(rng, kind, mixed)
    match kind:
        case "string":
            return mixed.text()
        case "integer":
            return rng.choice((0, 1, 10, -7, 2048, 10**12))
        case "number":
            return rng.choice((0.5, 10, -3.25, 1e-3))
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [value(rng, schema["items"], mixed) for _ in range(rng.randint(1, 3))]
    return arguments(rng, schema, mixed)


def _nullable(rng: Random, kind: str, mixed: Mixed) -> Any:
    if kind != "string":
        return rng.choice((0, 3, 500))
    return "s" + mixed.text()


def accepts(schema: Schema, given: Any) -> bool:
    """Return whether a value is valid. Supports the part of JSON Schema that these tools use."""
    if not _is_of_type(schema["type"], _kind(given)):
        return False
    if "enum" in schema and given not in schema["enum"]:
        return False
    if isinstance(given, list):
        return all(accepts(schema["items"], item) for item in given)
    if isinstance(given, dict):
        return _accepts_members(schema, given)
    return True


def _is_of_type(said: str | list[str], kind: str) -> bool:
    kinds = said if isinstance(said, list) else [said]
    if kind == "integer" and "number" in kinds:
        return True
    return kind in kinds


def _accepts_members(schema: Schema, given: Values) -> bool:
    """Return whether an object has all required keys, no forbidden ones, and valid values."""
    properties: Schema = schema.get("properties", {})
    if not given.keys() >= set(schema.get("required", ())):
        return False
    if schema.get("additionalProperties") is not True and given.keys() - properties.keys():
        return False
    return all(accepts(properties[key], inner) for key, inner in given.items() if key in properties)


def _kind(given: Any) -> str:
    if given is None:
        return "null"
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds[type(given)]
