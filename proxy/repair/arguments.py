"""Reader for the arguments of structured calls (F19 to F21, F26 to F31).

Strict JSON stays unchanged, byte for byte. All other text is read by the reader of calls in text
(`notations.literals`), guided by the tool's schema. This module strips what surrounds the object. It invents nothing
(contract C9): every string was between its quotation marks, and ambiguous text is rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import regex

from proxy.json import JsonObject, dump, is_deep, load_json, load_prefix, read_json
from proxy.notations.calls import shapes
from proxy.notations.literals import Literals
from proxy.notations.reader import CallReader
from proxy.notations.schema import ANYTHING, Schema
from proxy.notations.source import NoCall, Source, end_of
from proxy.notations.strings import Oddity
from proxy.notations.toolset import Tool, ToolSet, is_torn
from proxy.notations.validator import same

# Maximum levels of JSON strings in JSON strings.
MAX_ENCODED = 3
# Text allowed before and after the arguments (F31).
_BEFORE = re.compile(
    r"(?![^{]*\b(?:not|never|don't|error|example|wrong)\b)"
    r"\s*(?:[\w .'-]{1,60}:|\w{1,40})?\s*(?:```\w*)?\s*(?:<[|｜][^<>]{1,40}[|｜]>|<\w*(?:call|arguments)>)?\s*(?=\{)",
    re.I,
)
_TAGS = r"<(?:/[\w:|｜-]|[\w:-])[\w:|｜-]{0,40}>|<[|｜][^<>]{1,40}[|｜]>|\[/?\w{1,40}\]|```"
_BEHIND = regex.compile(rf"(?:[^{{}}\"']{{0,3}}|\}}{{0,3}}(?:\s*(?:{_TAGS}))*\s*)\Z")
# A character after a tool's name that cannot be part of a name.
_NOT_NAME = re.compile(r"[^\w.-]")
_ONLY_TAGS = re.compile(rf"(?:\s*(?:{_TAGS}))+\s*")
_BLANKS = re.compile(r"\s*")
# A member of an object. A key that starts with a bracket is not one: `"{path": 1}`.
_MEMBER = re.compile(r'\s*"(?!\s*[{\[])(?:[^"\\]|\\.)*+"\s*:', re.DOTALL)
# The boundary between a raw value and the next pair, and the text between a key and its value, by the last character
# before the key.
_PAIR = re.compile(r"(</(?:arg_value|(?:｜DSML｜)?parameter)>)\s*(<arg_key>|<(?:｜DSML｜)?parameter(?:=| name=\"))")
_BEHIND_KEY = {">": "</arg_key><arg_value>", "=": ">", '"': '">'}
# Characters that can continue an object.
_GOES_ON = (",", ":", '"', "'", "{", "}", "[", "]")
_KEYS = re.compile(r"""(["'])[^"'\\]*\1\s*:""")


@dataclass(frozen=True, slots=True)
class Form:
    """A way in which arguments differ from strict JSON."""

    id: str
    why: str


EMPTY = Form("empty_arguments", "an empty text or null means no arguments")
ENCODED = Form("double_encoded", "the object was written as a JSON string")
UNOPENED = Form("opening_brace", "the opening brace was missing")
DOUBLED = Form("doubled", "the same object was sent twice")
JUNK = Form("junk", "there was text before or after the object")
MARKUP = Form("call_markup", "the name or the arguments contained markup of the call")
LITERALS = Form("literals", "the object was not in JSON syntax")
ODD = {
    Oddity.OTHER: LITERALS,
    Oddity.DUPLICATE_KEY: Form("duplicate_key", "a key was repeated with the same value"),
    Oddity.BARE_KEYS: Form("bare_keys", "keys had no quotation marks"),
    Oddity.LOST_COMMAS: Form("lost_commas", "commas were missing"),
    Oddity.COMMENTS: Form("comments", "the object contained comments"),
    Oddity.SMART_QUOTES: Form("smart_quotes", "the quotation marks were typographic"),
    Oddity.CLOSERS: Form("closers", "the model stopped, and only closers were missing"),
    Oddity.INNER_QUOTES: Form(
        "inner_quotes", "quotation marks inside strings were not escaped; the schema shows where the strings end"
    ),
}
FORMS: tuple[Form, ...] = (EMPTY, ENCODED, UNOPENED, DOUBLED, JUNK, MARKUP, *ODD.values())


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """An object, its strict JSON text, and the ways in which its source differed from JSON (none for strict JSON).

    `told`: accept the object only if it satisfies the schema, because the schema decided where its values end or
    because text preceded it.
    """

    values: JsonObject
    text: str
    forms: tuple[Form, ...] = ()
    told: bool = False


def read_arguments(text: str, schema: Schema | None = None, *, stopped: bool = True) -> ReadArguments | None:
    """Return the object in a text; None if there is no object, or more than one.

    `schema` is the tool's; None if the tool is unknown. `stopped`: the model stopped normally, so missing closing
    brackets may be added.
    """
    forms: list[Form] = []
    while len(forms) < MAX_ENCODED and (inner := _encoded(text)):
        text = inner
        forms.append(ENCODED)
    strict = strict_object(text)
    if strict is None and (once := _once(text)) != text:
        text, strict = once, strict_object(once)
        forms.append(DOUBLED)
    if strict is not None:
        return ReadArguments(strict, text, tuple(forms))
    if text.strip() in ("", "null", '""'):
        return ReadArguments({}, "{}", (EMPTY,)) if stopped else None
    if _MEMBER.match(text):
        text = "{" + text
        forms.append(UNOPENED)
    try:
        found = _read_object(text, schema or ANYTHING)
    except (NoCall, ValueError, RecursionError):
        return None
    if not stopped and (found.told or ODD[Oddity.CLOSERS] in found.forms):
        return None
    return ReadArguments(found.values, found.text, (*forms, *found.forms), found.told)


def read_call(name: str, text: str, tools: ToolSet, *, stopped: bool = True) -> tuple[str, ReadArguments | None]:
    """Return the name and the arguments of a structured call, even if they contain the model's markup.

        {"name": "bash<arg_key>command</arg_key><arg_value>ls</arg_value>", "arguments": "{}"}
        {"name": "bash", "arguments": "<parameter=command>\\nls\\n</parameter>"}
    """
    tool = tools.resolve(name)
    for begun in tools.begun(name)[:1] if tool is None else ():
        rest = name[len(begun.name) :]
        written = text if _ONLY_TAGS.fullmatch(rest) else rest.removeprefix(">")
        empty = text.strip() in ("", "{}", "null")
        if _NOT_NAME.match(rest) and (empty or written is text):
            found = _read_any(written, begun, tools, stopped=stopped)
            if found is not None:
                return begun.name, replace(found, forms=tuple(dict.fromkeys((MARKUP, *found.forms))))
    if tool is None:
        return name, read_arguments(text, stopped=stopped)
    return name, _read_any(text, tool, tools, stopped=stopped)


def _read_any(text: str, tool: Tool, tools: ToolSet, *, stopped: bool) -> ReadArguments | None:
    """Return arguments written as an object, as the tags of a notation, or as Python keyword arguments."""
    found = read_arguments(text, tool.compiled, stopped=stopped)
    if found is None:
        return _read_tags(text, tool, tools) if stopped else None
    if (whole := _whole_call(found.values, tool, tools)) is not None:
        return ReadArguments(whole, dump(whole), (*found.forms, MARKUP), found.told)
    if len(found.values) == 1:
        ((key, value),) = found.values.items()
        if value == "" and key not in tool.properties and ("=" in key or "<" in key):  # {"command=ls": ""}
            return _read_tags(key, tool, tools)
        if is_torn(key, value):
            return None
    return _read_pairs(found.values, tool, tools) or found


def _read_pairs(values: JsonObject, tool: Tool, tools: ToolSet) -> ReadArguments | None:
    """Return the arguments of an object without some required keys, if one of its values contains their pairs.

        {"path": "app.log</arg_value><arg_key>content</arg_key>\\n<arg_value>error"}
    """
    if tool.required <= values.keys():
        return None
    torn = [
        (key, value, found)
        for key, value in values.items()
        if isinstance(value, str) and (found := _PAIR.search(value))
    ]
    if len(torn) != 1:
        return None
    key, value, found = torn[0]
    if "\n</" in value:
        value = f"\n{value}\n"
    end_tag, tag = found.groups()
    read = _read_tags(f"{tag}{key}{_BEHIND_KEY[tag[-1]]}{value}{end_tag}", tool, tools)
    if read is None or read.values.keys() & values.keys() != {key}:
        return None
    whole: JsonObject = {}
    for each, given in values.items():
        whole |= read.values if each == key else {each: given}
    return replace(read, values=whole, text=dump(whole)) if tool.required <= whole.keys() else None


def _whole_call(values: JsonObject, tool: Tool, tools: ToolSet) -> JsonObject | None:
    """Return the arguments of a call that is repeated inside its own arguments; None otherwise.

        {"name": "bash", "arguments": {"command": "ls"}}, {"bash": {"command": "ls"}}
    """
    if values.keys() & tool.properties.keys():
        return None
    try:
        (call,) = shapes(values, tools)
    except (NoCall, ValueError):
        return None
    clear = call.says_arguments and (tool.properties or not call.says_name)
    fits = clear and tools.resolve(call.name) is tool
    return call.arguments if fits and isinstance(call.arguments, dict) else None


def _read_tags(text: str, tool: Tool, tools: ToolSet) -> ReadArguments | None:
    """Return arguments that are written entirely as tags or as Python keyword arguments: `command="ls"`."""
    written = text.strip()
    try:
        values, end, *_ = CallReader(Source(written), tools).tag_values(0, tool)
        if not values and "=" in written:
            values, end, *_ = CallReader(Source(f"({written})"), tools).parenthesised(0, tool)
            end -= 2
        if not values or not values.keys() <= tool.properties.keys() or not _BEHIND.match(written, end):
            return None
        return ReadArguments(values, dump(values), (MARKUP,), told=True)
    except (NoCall, ValueError, RecursionError):
        return None


def _encoded(text: str) -> str | None:
    """Return the content of a JSON string if it may contain an object."""
    if not text.lstrip().startswith('"'):
        return None
    try:
        value = load_json(text)
    except ValueError:
        return None
    return value if isinstance(value, str) and "{" in value else None


def strict_object(text: str) -> JsonObject | None:
    """Return the object in a strict JSON text; None for other text."""
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _read_object(text: str, schema: Schema) -> ReadArguments:
    """Return the object in a text that may have a little junk around it. Raises NoCall or ValueError for other text."""
    start = end_of(_BEFORE, text, 0) or end_of(_BLANKS, text, 0)
    literals = Literals(Source(text), schema, _BEHIND)
    literals.alone = True
    value, end = literals.whole(start)
    if not isinstance(value, dict) or is_deep(value) or not _BEHIND.match(text, end):
        raise NoCall("no object, or more than one")
    before, behind = text[:start].strip(), text[end:].strip()
    told = literals.marks_told or before != ""
    forms = [JUNK] if before or behind else []
    forms += [form for oddity, form in ODD.items() if oddity in literals.odd]
    written = text[start:end]
    if strict_object(written) is None:
        written, forms = dump(value), forms if literals.odd else [*forms, LITERALS]
    return ReadArguments(value, written, tuple(forms), told)


def _once(text: str) -> str:
    """Return the first of several equal objects; any other text unchanged."""
    written = text.strip()
    middle = len(written) // 2
    first = written[:middle].rstrip()
    if first.startswith("{") and first == written[middle:].lstrip():
        return first
    first, *others = objects_in(written)
    values = strict_object(first)
    if others and values is not None and all(same(strict_object(each), values) for each in others):
        return first
    return text


def objects_in(text: str) -> list[str]:
    """Return the texts of consecutive objects, the last of which may be cut off. Any other text is returned as one
    item.
    """
    found: list[str] = []
    start = 0
    while text.startswith("{", start):
        try:
            end = load_prefix(text, start)[1]
        except ValueError:
            end = len(text)
        found.append(text[start:end])
        start = end_of(_BLANKS, text, end)
    if not found or start < len(text):
        return [text]
    return found


def may_go_on(text: str, behind: str) -> bool:
    """Return whether an object may continue in the text after its apparent end.

        {"command": "ls", }     and then    -l"}
        {"items": [1, 2]}       and then    , 3]}

    A little junk cannot continue it, and neither can prose without a quotation mark that the object uses.
    """
    if is_junk(behind):
        return False
    if not behind[:1].isspace() or behind.lstrip().startswith(_GOES_ON) or behind.count('"') % 2:
        return True
    # An object whose only strings are keys cannot have a string that continues.
    values = _KEYS.sub("", text)
    return any(mark in values and mark in behind for mark in ('"', "'"))


def is_junk(text: str) -> bool:
    """Return whether a text after the arguments is meaningless (F31): a few characters, closers or markup."""
    return bool(_BEHIND.match(text.strip()))
