"""The tools of a request, and the spellings of their names and keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

from proxy.json import Json, JsonObject, as_list, as_object, dump_json, load_json
from proxy.notations.schema import Schema, compile_schema, or_anything, type_of

_MAX_NAME = 256
_MAX_ANSWERS = 256
# Text that models and servers add around a name (F8, F11, F36): namespaces, counters, left-over tokens.
_PREFIX = re.compile(r"\A(?:functions?|tools?|default_api|repo_browser)[.:/]")
_SUFFIX = re.compile(r"(?::\d{1,6}|<\|[^<]{0,48}|</[^<>]{0,32}>?|\[(?:CALL_ID|ARGS)\].{0,32})\Z")
# Namespaces and counters that may also be part of a name: removed only if no name matches with them.
_NAMESPACE = re.compile(r"\A(?:(?:functions?|tools?|default_api|google|mcp|api)[.:/])+|[.!:]\d{1,6}\Z")
# Kimi's id with separators changed by a server: `functions_read_2` (F8).
_UNDERSCORED = re.compile(r"\Afunctions_(?P<bare>.+)_[0-9]{1,6}\Z")
# Markup that sticks to keys.
_TAG = re.compile(r"</?[\w:.-]{1,40}(?:=|\s+name=)?\"?>?|[<\[][|｜][^<>]{0,40}[|｜][>\]]")
_PIECE = re.compile(r"</?[|｜\w]*(?:arg_key|arg_value|parameter)\b")
_SEPARATORS = str.maketrans("", "", "-_.")
# Names that every server accepts: 64 letters, digits, `_` and `-`.
_LONGEST_NAME = 64
_DIGEST = 8
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True)
class Tool:
    """One offered function: its exact name and the JSON Schema of its parameters."""

    name: str
    schema: JsonObject

    @cached_property
    def compiled(self) -> Schema:
        """The compiled schema."""
        return compile_schema(self.schema)

    @property
    def properties(self) -> JsonObject:
        """The declared parameters; empty if the schema declares none."""
        return as_object(self.schema.get("properties"))

    @property
    def required(self) -> frozenset[str]:
        """The names of the required parameters."""
        return self.compiled.required

    def parameter(self, name: str) -> Schema:
        """Return the schema of a parameter's value; an undeclared parameter allows anything."""
        return or_anything(self.compiled.properties.get(name))

    def meant(self, name: str, given: Iterable[str] = ()) -> str:
        """Return the parameter that `name` misspells, unless it is already given; otherwise `name`.

        Raw text is typed by the schema before its key is repaired.
        """
        if name in self.properties:
            return name
        return respelled(name, self.properties.keys() - set(given)) or name

    def is_text(self, name: str) -> bool:
        """Return whether parameter `name` can only be a string."""
        return self.parameter(name).types == {"string"}

    def accepts(self, names: Iterable[str]) -> bool:
        """Return whether every name is declared and every required one is given (contract C3, weak evidence)."""
        given = set(names)
        return given <= self.properties.keys() and self.required <= given

    def tolerates(self, values: JsonObject) -> bool:
        """Return whether all required names are given, with at most one undeclared name that the schema allows."""
        more = values.keys() - self.properties.keys()
        if not self.required <= values.keys() or len(more) > 1:
            return False
        parts = self.compiled.all_parts()
        if more and any(part.closed for part in parts):
            return False
        return all(type_of(values[name]) in part.others.types for name in more for part in parts if part.others)


class ToolSet:
    """All tools of one request, by name.

    `resolve` maps a name from the model to the tool it means, or to None. It compares in the following order, and stops
    at the first step that exactly one tool passes (contract C3, F36): exact; known prefix, suffix or token residue
    stripped; letter case; `-`, `_`, `\\_` and `.`; Kimi's id with underscores (F8); repeated name (F39). It never
    guesses by similarity. `listed` is the request's own list of tools.
    """

    def __init__(self, tools: Iterable[Tool], listed: Json = None) -> None:
        self.listed = listed
        self._exact = {tool.name: tool for tool in tools}
        self._answers: dict[str, Tool | None] = {}

    def __bool__(self) -> bool:
        return bool(self._exact)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._exact.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the request's spelling."""
        return tuple(self._exact)

    def begun(self, text: str) -> list[Tool]:
        """Return the tools whose names start a text, the longest name first."""
        return sorted((tool for tool in self if text.startswith(tool.name)), key=lambda tool: -len(tool.name))

    def resolve(self, name: str) -> Tool | None:
        """Return the offered tool that `name` means, or None if there is none or more than one."""
        tool = self._exact.get(name)
        if tool is not None or len(name) > _MAX_NAME:
            return tool
        if name in self._answers:
            return self._answers[name]
        answer = self._resolve_respelled(name)
        if len(self._answers) < _MAX_ANSWERS:
            self._answers[name] = answer
        return answer

    def _resolve_respelled(self, name: str) -> Tool | None:
        bare = _SUFFIX.sub("", _PREFIX.sub("", name.strip()))
        for written in dict.fromkeys((bare, _NAMESPACE.sub("", bare))):
            for spell, tools in self._by_spelling:
                if alike := tools.get(spell(written)):
                    return alike[0] if len(alike) == 1 else None
        if (kimi := _UNDERSCORED.match(bare)) and kimi["bare"] in self._exact:
            # Unless a part of it is a name, too.
            others = {bare.rpartition("_")[0], bare.removeprefix("functions_")}
            if not self._exact.keys() & others:
                return self._exact[kimi["bare"]]
        # The text only repeats a name: `readread`, `read.read`, `read:read`.
        repeated = [tool for tool in self.begun(bare) if re.fullmatch(rf"({re.escape(tool.name)})(?:[.:]?\1)+", bare)]
        return repeated[0] if len(repeated) == 1 else None

    @cached_property
    def _by_spelling(self) -> Sequence[tuple[Callable[[str], str], dict[str, list[Tool]]]]:
        """The tools by their short names, by case-folded names, and by names without separators.

        Each table comes with the spelling in which a written name is looked up.
        """
        tables = []
        for written, named in ((str, short_name), (str.casefold, str.casefold), (fold, fold)):
            table: dict[str, list[Tool]] = {}
            for tool in self:
                table.setdefault(named(tool.name), []).append(tool)
            tables.append((written, table))
        return tables


# Maximum size in bytes of the tools of one cached request, and maximum number of cached requests.
MAX_KEPT, MAX_KNOWN = 256 * 1024, 32


def read_tools(tools: Json) -> ToolSet:
    """Read the tools of a chat-completions request body; entries other than functions are skipped."""
    data = dump_json(tools)
    return _read(data) if len(data) <= MAX_KEPT else _read.__wrapped__(data)


@lru_cache(maxsize=MAX_KNOWN)
def _read(data: bytes) -> ToolSet:
    """Return the tools in JSON text. They are cached, because an agent offers the same ones with every request."""
    tools = load_json(data)
    return ToolSet(_functions(tools), tools)


def _functions(tools: Json) -> Iterator[Tool]:
    for entry in as_list(tools):
        function = as_object(as_object(entry).get("function"))
        name = function.get("name")
        if isinstance(name, str) and name:
            yield Tool(name, as_object(function.get("parameters")))


def without_markup(key: str) -> str:
    """Return the key without the markup and quotation marks around it."""
    bare = _TAG.sub("", key).strip(" \t\r\n\"'\\<>")
    return bare.removeprefix("parameter=").removeprefix("parameter name=").strip("\"'")


def is_torn(key: str, value: object) -> bool:
    """Return whether a server split a key and its value at the wrong place: both contain pieces of their tags.

    {"path<arg_key": "limit</arg_key><arg_value>5"}
    """
    return ("<" in key or ">" in key) and isinstance(value, str) and bool(_PIECE.search(value))


def fold(name: str) -> str:
    """Return a name or key without letter case and separators. Markdown may escape an underscore: `read\\_file`."""
    return name.casefold().replace(r"\_", "").translate(_SEPARATORS)


def respelled(key: str, names: Iterable[str]) -> str | None:
    """Return the name, out of these, that a key misspells."""
    free = {*names}
    alike = free & {without_markup(key)} or {name for name in free if fold(name) == fold(key)}
    return alike.pop() if len(alike) == 1 else None


def short_name(name: str, identity: str = "") -> str:
    """Return the tool's upstream name: unchanged if short and plain, else shortened with a distinct digest.

    `identity` identifies the tool in the digest; the default is its name.
    """
    plain = _FORBIDDEN.sub("_", name)
    return name if plain == name and len(name) <= _LONGEST_NAME else with_digest(plain, identity or name)


def with_digest(name: str, identity: str) -> str:
    """Return a plain name, shortened so that a digest of `identity` can be added."""
    digest = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"
