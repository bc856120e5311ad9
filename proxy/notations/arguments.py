"""Calls without tags: JSON objects, a name followed by its arguments, and Python calls."""

from __future__ import annotations

import re
from itertools import pairwise

import regex

from proxy.json import Json, JsonObject
from proxy.notations import tables as n
from proxy.notations.calls import NO_OPENER, Call, JsonArguments, Opener, ReadCalls, shapes
from proxy.notations.literals import CLOSING, BareLiterals, Literals, PythonLiterals, strict_value, typed
from proxy.notations.raw_values import ends_turn
from proxy.notations.schema import ANYTHING, Schema
from proxy.notations.source import NeedMore, NoCall, Rejection, Source, Tokens, end_of
from proxy.notations.strings import Oddity, OpenString
from proxy.notations.tags import CALL_TAG, VALUE_END, TagReader
from proxy.notations.toolset import Tool, ToolSet

# The opening line of a code fence.
FENCE = regex.compile(r"```[ \t]*[\w+-]{0,20}[ \t]*\n?")
FILLERS, NAME_FOLLOWS = Tokens(n.FILLERS), Tokens(n.NAME_FOLLOWS)
_NAME_WORD = r"[\"'](?:name|tool_name)[\"']"
_JSON_NAME = re.compile(rf"[\"'](?:{'|'.join(n.NAME_WORDS)})[\"']\s*:\s*[\"']([^\"'\n]{{1,200}})[\"']")
_BESIDE = rf"[\"'](?:{'|'.join(sorted(n.BESIDE_WORDS))})[\"']\s*:\s*"
# The start of JSON up to its first key, or to the first key after an id and a type.
_JSON_HEAD = regex.compile(
    rf"[\[{{\s]+(?P<beside>{_BESIDE}(?:[\"'][^\"'\n\\,]{{0,80}}[\"']|-?\d{{1,20}}|null)\s*,\s*){{0,3}}"
    r"[\"'“](?P<K>[^\"'”\n\\]{1,64})[\"'”]\s*:"
)
_JSON_NAMED = regex.compile(rf"\{{\s*{_NAME_WORD}\s*:\s*[\"'](?P<N>[^\"'\n\\]{{1,200}})[\"']\s*,")
# The start of a JSON call in a wrapper, up to its name. An id or a type may precede the name.
_JSON_HEAD_NAME = regex.compile(
    rf"(?:\[\s*)?\{{\s*(?:(?:{_BESIDE}[\"'][^\"'\n\\]{{0,80}}[\"']\s*,\s*)?"
    r"(?:[\"']function[\"']\s*:\s*\{\s*)?"
    rf"{_NAME_WORD}\s*:\s*[\"'](?P<N>[^\"'\n\\]{{1,200}})[\"']\s*,|[\"'](?P<K>[\w.-]{{1,200}})[\"']\s*:\s*\{{)"
)
# Whitespace, a key or a name too long for the start of a JSON call.
NO_HEAD = re.compile(r"[\[{\s]*(?:\s{200}|(?:\"(?:name|tool_name|id|type)\"\s*:\s*)?\"[^\"\\]{200})")
# A name that goes on after its closing quotation mark.
_BROKEN_NAME = regex.compile(rf"\{{\s*[\"'](?:{'|'.join(n.NAME_WORDS)})[\"']\s*:\s*[\"'][\w.-]{{1,200}}[\"']\w")
_CALL_WORDS = frozenset(
    (*n.NAME_WORDS, *n.ARGUMENT_WORDS, *n.LIST_WORDS, *n.BESIDE_WORDS, "role", "content", "response")
)
_KEY_TAG = regex.compile(r"</[^<>\s]*arg_key[^<>\s]*>")
_PRINTED = regex.compile(r"print\(\s{0,200}(?=default_api\.)")
_GLUED_JSON = regex.compile(r"(?:functions\.)?([A-Za-z_][\w-]{0,128}?)(?::\d{1,6})? ?json\s{0,200}(?=[{`])")
_NAME_GOES_ON = re.compile(r":[^\s<>{}\[\]()\"'`,;=|:]*")
_CALL_ID = regex.compile(r"\[CALL_ID\]([\w.:-]+)")
_KIMI_ID = re.compile(r"functions\.[^\s:]+:[0-9]{1,6}")
_PYTHON_NAME = regex.compile(r"([A-Za-z_][\w.-]*)(?::\d{1,6})?\s*\(")
# Between a name and its object: `read>{…}` (GLM 5.3), `[Calling tool: read with arguments: {…}]`.
_BEFORE_OBJECT = regex.compile(r"(?:>|with arguments:)\s*(?=\{)")
_TOOL_SEP = regex.compile(r"<(?:[\w.-]+[:|])?tool_sep(?::\w+)?>")
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_RESIDUE = re.compile(
    r"\s*</(?:parameter|arg_value)>\s*<(?:parameter=|arg_key>)([\w-]+)(?:>|</arg_key>)\s*(?:<arg_value>)?\s*\Z"
)
_GEMMA_ENDS = (("<tool_call|>",), ("<end_function_call>",))
_INKLING = "<|content_invoke_tool_json|>"
# Surplus closing brackets before the end of a fence.
_LEFT_BRACKETS = re.compile(r"[}\]]{0,2}")
# Maximum number of words such as `function` before the name of a call.
MAX_NAMES = 4
# Characters to search for a name in a call with unreadable JSON.
MAX_TO_NAME = 2_000
# Maximum nesting of envelopes. {"tool_calls": [{"function": {…}}]} has three levels.
MAX_ENVELOPES = 5


class ArgumentReader(TagReader):
    """Reader of calls without tags."""

    def __init__(self, source: Source, tools: ToolSet) -> None:
        super().__init__(source, tools)
        # `positional`: accept a single positional argument in a Python call. `code`: Python calls need no wrapper.
        self.positional = self.code = False
        # `delimited`: strings delimited by tokens were read. `row_begun`: the row already has a call.
        self.delimited = self.row_begun = False
        # `_strict`: try strict JSON first. `_read_value`: a value was read.
        self._strict, self._read_value = True, False

    # -- JSON -------------------------------------------------------------------------------------------------------

    def json(self, pos: int, *, alone: bool) -> ReadCalls:
        """Return the calls in a JSON value; `alone`: it is not in a wrapper."""
        self._check_head(pos, alone=alone)
        literals = Literals(self.source, lambda: self._envelope(pos), CLOSING)
        value, end = self.whole(literals, pos)
        self.deep |= literals.completed
        found = shapes(value, self.tools)
        if literals.completed and not all(shape.says_arguments for shape in found):
            raise NoCall("the arguments are missing")
        calls = []
        for shape, span in zip(found, _item_spans(self.source.text, pos, end, len(found), value), strict=True):
            tool = self.tool(shape.name)
            arguments = self.object(shape.arguments, tool)
            call = Call(tool, shape.name, arguments, *span, loose=shape.loose, id=shape.id, json=shape.says_name)
            call.told, call.odd, call.in_list = literals.is_told, frozenset(literals.odd), isinstance(value, list)
            calls.append(call)
        return calls, end

    def _check_head(self, pos: int, *, alone: bool) -> None:
        """Reject JSON that cannot begin a call. In a wrapper, only note the tool that an incomplete call names."""
        source = self.source
        if not alone:
            named = source.match(_JSON_HEAD_NAME, pos)
            if named and named["K"] not in _CALL_WORDS and json_end(source.text, source.text.index("{", pos)) < 0:
                self.tool(named["N"] or named["K"])
            return
        head = None if NO_HEAD.match(source.text, pos) else source.match(_JSON_HEAD, pos)
        key, beside = head.group("K", "beside") if head else ("", "")
        known = key in _CALL_WORDS or self.tools.resolve(key)
        if not known and not (beside and any(key in tool.properties for tool in self.tools)):
            raise NoCall("no call begins like this, or with this key")
        if source.match(_BROKEN_NAME, pos):
            raise NoCall("the name continues after its quotation mark")
        name = None if self.row_begun else source.match(_JSON_HEAD_NAME, pos)
        if name and name["N"] and self.tool(name["N"]) is None:
            raise NoCall("no tool of this name is offered", Rejection.NOT_OFFERED)

    def _envelope(self, pos: int) -> Schema:
        """Return the schema of a JSON call: a name and the arguments of the tool named nearby, or of any tool."""
        found = _JSON_NAME.search(self.source.text, pos, pos + MAX_TO_NAME)
        tool = self.tools.resolve(found.group(1)) if found else None
        tools = [tool] if tool else [*self.tools]
        arguments = Schema(properties={key: each.parameter(key) for each in tools for key in each.properties})
        envelope = Schema()
        # Nested copies: a schema that contains itself is a cycle, which only the garbage collector frees.
        for _ in range(MAX_ENVELOPES):
            inner, envelope = envelope, Schema()
            envelope.items = inner
            envelope.properties = {
                **{each.name: each.compiled for each in tools},
                **dict.fromkeys((*n.BESIDE_WORDS, "role", "content"), ANYTHING),
                **dict.fromkeys((*n.NAME_WORDS, *n.LIST_WORDS), inner),
                **dict.fromkeys(n.ARGUMENT_WORDS, arguments),
            }
        return envelope

    def whole(self, literals: Literals, at: int) -> tuple[Json, int]:
        """Return a value and its end. Set `deep` if an unreadable string may contain everything that follows."""
        literals.strict = self._strict
        try:
            value, end = literals.whole(at)
            self._read_value = True
            # A string whose end was inferred may contain a call.
            shown = (self.tools.resolve(found["N"]) for text in literals.told for found in _JSON_NAMED.finditer(text))
            if literals.marks_told and (n.STRONG.search(self.source.text, at, end) or any(shown)):
                raise OpenString("a string may end elsewhere")
        except OpenString:
            self.deep = True
            raise
        return value, end

    def json_arguments(self, at: int, tool: Tool | None, literals: Literals | None = None) -> JsonArguments:
        """Return the arguments object of a call, and its end."""
        literals = literals or Literals(self.source, schema_of(tool), CLOSING)
        value, end = self.whole(literals, at)
        return JsonArguments(self.object(value, tool), end, literals.is_told, frozenset(literals.odd))

    def object(self, arguments: Json, tool: Tool | None) -> JsonObject:
        """Return arguments as an object. Decode a JSON string, and unwrap a list with one item."""
        for _ in range(2):
            if isinstance(arguments, str) and arguments.strip():
                inner = Source(arguments)
                arguments, end = Literals(inner, schema_of(tool)).whole(inner.blanks(0))
                if not inner.at_end(end):
                    raise NoCall("more than an object")
        if isinstance(arguments, list) and len(arguments) == 1:
            arguments = arguments[0]
        if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
            return {}
        if not isinstance(arguments, dict):
            raise NoCall("the arguments are no object")
        return without_residue(arguments)

    # -- a name, then arguments -------------------------------------------------------------------------------------

    def named(self, pos: int, opener: Opener | None, names: int = 0) -> ReadCalls:
        """Return the call that consists of a name and arguments; `names` counts the words before the name."""
        source, start = self.source, pos
        if names > MAX_NAMES:
            raise NoCall("names behind names")
        if names and source.text.startswith("<", pos) and source.match(CALL_TAG, pos):
            return self.tag_call(pos, opener)
        if source.starts("call:", pos):
            pos = source.blanks(pos + 5)
        elif source.text.startswith(":", pos):
            pos += 1
        if printed := source.match(_PRINTED, pos):
            calls, at = self.named(printed.end(), opener, names + 1)
            if not source.starts(")", source.blanks(at)):
                raise NoCall("an end of the brackets was expected")
            calls[0].start = start
            return calls, source.blanks(at) + 1
        found = source.match(n.NAME, pos)
        if found and opener is None:
            # The words `function` and `json` may be glued to the name: `functionread{`, `readjson{`.
            word = found.group()
            if word != "function" and word.startswith("function") and self.tools.resolve(word) is None:
                pos += len("function")
                found = source.match(n.NAME, pos)
            glued = source.match(_GLUED_JSON, pos)
            if glued and self.tools.resolve(glued.group(1)):
                return self.arguments(source.blanks(glued.end()), glued.group(1), start)
        if not found:
            raise NoCall("the name of a tool was expected")
        if not source.final and _NAME_GOES_ON.fullmatch(source.text, found.end()):
            raise NeedMore
        name, at, call_id = found.group(), source.blanks(found.end()), ""
        if source.starts(_INKLING, at):
            return self.wrapped(at, 1)
        if source.text.startswith("<", at) and self.tools.resolve(name) is None and source.match(_KEY_TAG, at):
            for tool in self.tools.begun(name):  # the opening tag of the first key may be missing (F7)
                if (key := name.removeprefix(tool.name)) in tool.properties:
                    name, at = tool.name, found.end() - len(key)
                    break
        if name == "function" and at < source.size and source.text[at] not in "{(":
            at = source.blanks(at + len(source.token(NAME_FOLLOWS, at)))
            return self.named(at, opener, names + 1)
        # Skip tokens between the name and the arguments.
        while True:
            if source.starts("[CALL_ID]", at) and (written := source.match(_CALL_ID, at)):
                call_id, end = written.group(1), written.end()
            elif follows := source.token(NAME_FOLLOWS, at):
                end = source.blanks(at + len(follows))
                if not source.text.startswith(("{", "`", '"'), end):
                    return self.named(end, opener, names + 1)
            else:
                end = self._filler_end(at)
            if not end:
                return self.arguments(at, name, start, call_id, opener)
            at = source.blanks(end)

    def _filler_end(self, at: int) -> int:
        """Return the position after a filler token or a stray closing tag, or 0."""
        source = self.source
        if filler := source.token(FILLERS, at):
            return at + len(filler)
        if found := source.match(_BEFORE_OBJECT, at):
            return found.end()
        if not source.text.startswith("<", at):
            return 0
        found = source.match(_TOOL_SEP, at) or source.match(VALUE_END, at)
        return found.end() if found and "arg_key" not in found.group() else 0

    def arguments(self, at: int, name: str, start: int, call_id: str = "", opener: Opener | None = None) -> ReadCalls:
        """Return the call of `name`, reading its arguments from position `at`."""
        sign, tool = self.source.text[at : at + 1], self.tool(name)
        if tool is None and sign == "(":
            tool = self.tool(name.removesuffix(".call"))
        if tool is None and (opener is None or opener is NO_OPENER):
            raise NoCall("no tool of this name is offered", Rejection.NOT_OFFERED)
        if not call_id and _KIMI_ID.fullmatch(name):
            call_id = name
        read = self._read_arguments(at, tool, opener)
        if not read.value and (not sign or sign not in '{(`"') and (tool is None or tool.required or not opener):
            raise NoCall("the arguments are missing")
        call = Call(tool, name, read.value, start, read.end, id=call_id, told=read.told, bare=True, odd=read.odd)
        return [call], read.end

    def _read_arguments(self, at: int, tool: Tool | None, opener: Opener | None) -> JsonArguments:
        """Return the arguments at a position; the first character selects the notation."""
        source, alone = self.source, opener is None or opener is NO_OPENER
        sign = source.text[at : at + 1]
        gemma = opener is not None and opener.closers[:1] in _GEMMA_ENDS
        if sign == "{" and gemma:
            literals, self.delimited = BareLiterals(source, schema_of(tool), CLOSING), True
            read = self.json_arguments(at, tool, literals)
            # Keys usually have no quotation marks here.
            return read._replace(value=_typed(read.value, tool, literals.bares), odd=read.odd & {Oddity.CLOSERS})
        if sign == "{" or (sign == '"' and tool and not alone):
            return self.json_arguments(at, tool)
        if sign == "`" and (fence := source.match(FENCE, at)):
            read = self.json_arguments(source.blanks(fence.end()), tool)
            end = source.blanks(end_of(_LEFT_BRACKETS, source.text, read.end))
            return read._replace(end=end + 3 if source.starts("```", end) else end)
        if sign == "(":
            if opener is NO_OPENER and not self.code:
                raise NoCall("code")
            return self.parenthesised(at, tool, python=not gemma, exact=alone)
        pair = opener and opener.tag and tool and sign and sign != "`" and self.key_style(at, tool) == "pair"
        if sign in ("<", "]") or pair:
            return self.tag_values(at, tool)
        if sign == "" or (opener and self.closer(at, opener) >= 0):
            return JsonArguments({}, at)
        raise NoCall("the arguments were expected")

    # -- Python -----------------------------------------------------------------------------------------------------

    def parenthesised(self, at: int, tool: Tool | None, *, python: bool = True, exact: bool = False) -> JsonArguments:
        """Return arguments in parentheses, as Python keywords or as one object, and their end.

        `exact`: reject inexact Python strings.
        """
        source, schema = self.source, schema_of(tool)
        literals = PythonLiterals(source, schema)
        literals.python = python
        after = literals.skip(at + 1)
        sign = source.text[after : after + 1]
        only = next(iter(tool.required)) if self.positional and tool and len(tool.required) == 1 else ""
        arguments: JsonObject
        if sign == "{" or (only and sign and sign in "\"'"):
            (value, *more), end = literals.items(at + 1, ")", Schema(items=schema))
            if more:
                raise NoCall("an end of the brackets was expected")
            arguments = self.object(value, tool) if sign == "{" else {only: value}
        else:
            arguments, end = literals.members(at + 1, ")", schema, ("=", ":"))
        literals.check()
        if literals.completed:
            raise NoCall("brackets without their end")
        if literals.marks_told and exact:
            raise NoCall("a string may end elsewhere")
        return JsonArguments(_typed(arguments, tool, literals.bares), end)

    def python_list(self, pos: int) -> ReadCalls:
        """Return the calls of `[NAME(…), NAME(…)]`."""
        source, calls, at = self.source, list[Call](), self.source.blanks(pos + 1)
        while not source.starts("]", at):
            if calls and source.starts(",", at):
                at = source.blanks(at + 1)
                continue
            if calls and (at == source.size or self.is_left(at)):
                return calls, at
            found = source.match(_PYTHON_NAME, at)
            if not found:
                raise NoCall("the call of a function was expected")
            tool = self.tool(found.group(1))
            read = self.parenthesised(found.end() - 1, tool)
            calls.append(Call(tool, found.group(1), read.value, at, read.end))
            self.astray, at = False, source.blanks(read.end)
        return calls, at + 1

    def is_left(self, pos: int) -> bool:
        """Return whether an end-of-turn token or an unmatched closing tag is here."""
        return bool(ends_turn(self.source, pos) or self.orphan_end(pos))


def schema_of(tool: Tool | None) -> Schema:
    """Return the schema of a tool's arguments."""
    return tool.compiled if tool else ANYTHING


def _typed(values: JsonObject, tool: Tool | None, bares: set[str]) -> JsonObject:
    """Return the values, with unquoted ones converted to the types in the schema."""
    if tool is None:
        return values
    return {
        key: typed(tool.parameter(key), value) if isinstance(value, str) and value in bares else value
        for key, value in values.items()
    }


def json_end(text: str, pos: int) -> int:
    """Return the end of the strict JSON at a position, or -1."""
    try:
        return strict_value(text, pos)[1]
    except (ValueError, RecursionError, NoCall):
        return -1


def _item_spans(text: str, pos: int, end: int, count: int, value: Json) -> list[tuple[int, int]]:
    """Return the (start, end) of each call in a value; those of the value if it is not a list of strict JSON."""
    spans, at = list[tuple[int, int]](), pos + 1
    for _ in value if isinstance(value, list) and len(value) == count > 1 else ():
        start = end_of(_BETWEEN_ITEMS, text, at)
        at = json_end(text, start)
        if at < 0:
            return [(pos, end)] * count
        spans.append((start, at))
    return spans or [(pos, end)] * count


def without_residue(values: JsonObject) -> JsonObject:
    """Remove trailing tags that name the next key from values (F17)."""
    for key, following in pairwise([*values]):
        value = values[key]
        found = _RESIDUE.search(value) if isinstance(value, str) else None
        if found and found.group(1) == following:
            values[key] = found.string[: found.start()]
    return values
