"""Calls as Python writes them: `[read(path='a.py'), now()]` (Llama 3.2 and 4, LFM2, OLMo 3, ToolACE; F15).

Nothing is evaluated: the values are literals (`codec/literals.py`). Models and their templates leave quotation marks
and commas out and inner quotation marks unescaped, so a value ends where what may follow it does: a comma and the next
keyword, or the end of the call.
"""

from __future__ import annotations

import ast
import re

from proxy.codec.json_text import Json, dump
from proxy.codec.literals import Also, has_doubtful_path, read_literal
from proxy.formats.argument_values import arguments
from proxy.formats.brackets import Brackets
from proxy.formats.sibling_calls import sibling_calls
from proxy.formats.terminators import ends_here
from proxy.parsing.cursor import MAX_KEY, Cursor, NotACall, Parsing, RawCall, Rejection
from proxy.tools.toolset import Tool

_AFTER_NAME = re.compile(rb"[^A-Za-z0-9_.\-\x80-\xff]")
# A call may have a counter: `read:0(`.
_AFTER_CALLED = re.compile(rb"[^A-Za-z0-9_.:\-\x80-\xff]")
_QUOTES = (b'"""', b"'''", b'"', b"'")
_ENDS = {quote: re.compile(b"[\\\\" + quote[:1] + b"]") for quote in _QUOTES}
_ROUND = Brackets(b"(){}[]")
_BARE_END = re.compile(rb"[,)]")
_AFTER_NUMBER = re.compile(rb"[^0-9.+-]")
_WORDS = (b"true", b"True", b"false", b"False", b"null", b"None")
# The end of a call, and the next one up to its first text.
_NEXT_CALL = re.compile(r"""[)\s],\s*+[A-Za-z_][\w.]{0,127}\(\s*+[A-Za-z_]\w{0,127}\s*+=\s*+["']""")
_NEXT_KEY = re.compile(r"""[,\s]\s*+([A-Za-z_]\w{0,127})\s*+=\s*+["']""")
# Words, numbers, dates, paths and addresses without quotation marks.
_PLAIN = re.compile(r"[\w./:@~-]+\Z")
_POSITIONAL = (b'"', b"'", b"[", *(bytes([digit]) for digit in b"-0123456789"))
# A string without quotation marks is held no longer than this.
MAX_BARE = 4096


def python_list(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one list of calls that stands here."""
    yield from cursor.expect(b"[")
    calls: list[RawCall] = []
    some = False
    while True:
        yield from cursor.blanks()
        if some and (yield from cursor.which((b"]",))):
            return tuple(calls)
        calls += yield from sibling_calls(cursor, _call, len(calls))
        some = True
        yield from cursor.blanks()
        if (yield from cursor.which((b"]",))):
            return tuple(calls)
        if (yield from cursor.which((b",",))) is None:
            if (yield from ends_here(cursor)):
                return tuple(calls)
            raise cursor.refuse("the list of calls goes on with something else")


def _call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    name = yield from _called(cursor)
    if not cursor.context.wrapped and cursor.context.tools.resolve(name) is None:
        raise cursor.refuse(f"no tool {name!r} is offered", Rejection.NOT_OFFERED)
    yield from cursor.blanks()
    tool = cursor.tool(name)
    return (RawCall(tool, name, (yield from python_arguments(cursor, tool))),)


def python_arguments(cursor: Cursor, tool: Tool) -> Parsing[str]:
    """Read what stands between the brackets of a call, with them; the text of the arguments' object."""
    yield from cursor.expect(b"(")
    yield from cursor.blanks()
    if (yield from cursor.byte()) == b"{":
        value = yield from cursor.value()
        yield from cursor.blanks()
        yield from cursor.expect(b")")
        return "" if cursor.void else arguments(value, tool)
    values: dict[str, Json] = {}
    while True:
        yield from cursor.blanks()
        if (yield from cursor.which((b")",))):
            return dump(tool.coerce_strings(values))
        key = yield from _keyword(cursor)
        if not key:
            if (yield from cursor.byte()) not in _POSITIONAL:
                raise cursor.refuse("a keyword was expected")
            key = _only_parameter(tool)
            cursor.reject_if(bool(values) or not key, "which parameter a value is of cannot be told")
        cursor.reject_if(key in values, f"the parameter {key!r} stands there twice")
        values[key] = yield from _value(cursor, tool, key)
        yield from cursor.blanks()
        yield from cursor.which((b",",))


def _only_parameter(tool: Tool) -> str:
    """The parameter that a value without a keyword can be of; empty if that cannot be told."""
    names = tool.required or frozenset(tool.properties)
    return next(iter(names)) if len(names) == 1 else ""


def _name(cursor: Cursor) -> Parsing[str]:
    return (yield from cursor.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")


def _called(cursor: Cursor) -> Parsing[str]:
    """Read the name of a call."""
    return (yield from cursor.until(_AFTER_CALLED, MAX_KEY)).decode("utf-8", "replace")


def _keyword(cursor: Cursor) -> Parsing[str]:
    """Read a keyword and its sign; empty, and nothing read, if there is none."""
    return (yield from cursor.maybe(_assigned(cursor))) or ""


def _assigned(cursor: Cursor) -> Parsing[str]:
    name = yield from _name(cursor)
    yield from cursor.blanks()
    yield from cursor.expect(b"=")
    if (yield from cursor.byte()) == b"=":
        return ""
    yield from cursor.blanks()
    return name


def _value(cursor: Cursor, tool: Tool, key: str) -> Parsing[Json]:
    here = yield from cursor.byte()
    if here in (b'"', b"'"):
        return (yield from _string(cursor, tool))
    if here in (b"{", b"["):
        value = yield from cursor.value()
        try:
            return None if cursor.void else read_literal(value.decode("utf-8", "surrogatepass"), also=Also.PYTHON)
        except ValueError as error:
            raise NotACall(f"a value cannot be read: {error}") from None
    if here == b"(":
        start = cursor.pos
        found = yield from _bracketed(cursor, tool)
        if found is not None:
            return found[0]
        # `number=(555) 123-4567`: brackets are a text's own too.
        cursor.pos = start
    return (yield from _bare(cursor, tool, key))


def _bracketed(cursor: Cursor, tool: Tool) -> Parsing[tuple[Json] | None]:
    """Read a literal in round brackets, and give it in a tuple; None if it is none, or not all of the value."""
    start = cursor.pos
    yield from _ROUND.skip(cursor)
    if not (yield from cursor.ahead(cursor.maybe(_follows(cursor, tool)))):
        return None
    try:
        return (read_literal(cursor.text(start, cursor.pos), also=Also.PYTHON),)
    except ValueError:
        return None


def _string(cursor: Cursor, tool: Tool) -> Parsing[str]:
    """Read a string, up to the quotation mark behind which a string can be over."""
    start = cursor.pos
    quote = (yield from cursor.which(_QUOTES)) or b'"'
    inside = cursor.pos
    while True:
        yield from cursor.until(_ENDS[quote])
        end = cursor.pos
        if (yield from cursor.byte()) == b"\\":
            cursor.pos += 1
            if (yield from cursor.byte()):
                cursor.pos += 1
            continue
        if (yield from cursor.which((quote,))) is None:
            cursor.pos += 1
            continue
        if (yield from cursor.ahead(cursor.maybe(_follows(cursor, tool)))):
            return _unquoted(cursor.text(start, cursor.pos), cursor.text(inside, end), quote.decode(), tool)


def _unquoted(written: str, inside: str, quote: str, tool: Tool) -> str:
    """What a string stands for; inner quotation marks without a backslash are its own."""
    if len(quote) == 1:
        try:
            return str(read_literal(written, also=Also.PYTHON))
        except ValueError:
            if _is_expression(written):
                raise NotACall("a value is no literal") from None
    if _NEXT_CALL.search(inside):
        # `[bash(command="ls), bash(command="pwd")]`: the mark may be missing before the next call.
        raise NotACall("a text may end before the next call")
    if any(found in tool.properties for found in _NEXT_KEY.findall(inside)):
        # `bash(command="ls, mode="b")`: or before the next keyword.
        raise NotACall("a text may end before the next keyword")
    if has_doubtful_path(inside):
        raise NotACall("the backslashes of a path can be read in two ways")
    mark = quote[0]
    inner = re.compile(rf"\\.|{mark}", re.S)
    escaped = inner.sub(lambda found: f"\\{mark}" if found.group() == mark else found.group(), inside)
    try:
        return str(read_literal(f"{mark}{escaped}{mark}", also=Also.PYTHON))
    except ValueError as error:
        raise NotACall(f"a string cannot be read: {error}") from None


def _bare(cursor: Cursor, tool: Tool, key: str) -> Parsing[Json]:
    """Read a number, a word, or a string without quotation marks."""
    start = cursor.pos
    if not (yield from cursor.which(_WORDS)):
        yield from cursor.until(_AFTER_NUMBER)
    while cursor.pos - start <= MAX_BARE:
        if cursor.pos > start and (yield from cursor.ahead(cursor.maybe(_follows(cursor, tool)))):
            text = cursor.text(start, cursor.pos).strip()
            if _is_computed(text):
                raise NotACall("a value is no literal")
            return _typed(tool, key, text)
        if (yield from cursor.which((b",", b")"))) and cursor.pos == start + 1:
            raise NotACall("a value was expected")
        yield from cursor.until(_BARE_END, MAX_BARE)
    raise NotACall("a value without quotation marks does not end")


def _is_computed(text: str) -> bool:
    """Whether a text without quotation marks, if it is known, is an expression: `len(x)` rather than `a.py`."""
    if _PLAIN.match(text):
        return False
    return _is_expression(text)


def _is_expression(text: str) -> bool:
    """Whether Python would compute something here; the text is parsed, never evaluated."""
    try:
        tree = ast.parse(text.removeprefix("*"), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    if isinstance(tree, ast.UnaryOp):
        tree = tree.operand
    if isinstance(tree, ast.Constant):
        return isinstance(tree.value, str | bytes)
    return not isinstance(tree, ast.Name | ast.Attribute)


def _typed(tool: Tool, key: str, text: str) -> Json:
    if text.encode() in _WORDS and not tool.is_text(key):
        # A word is no text, whatever the schema makes of it: `timeout=null`.
        return read_literal(text, also=Also.PYTHON)
    if key in tool.properties:
        return tool.typed(key, text)
    try:
        return read_literal(text, also=Also.PYTHON)
    except ValueError:
        return text


def _follows(cursor: Cursor, tool: Tool) -> Parsing[bool]:
    """Whether what may follow a value stands here: the next keyword, or the end of the call."""
    yield from cursor.blanks()
    if (yield from cursor.which((b")",))):
        return (yield from _over(cursor))
    comma = yield from cursor.which((b",",))
    yield from cursor.blanks()
    if comma and (yield from cursor.which((b")",))):
        return (yield from _over(cursor))
    key = yield from _keyword(cursor)
    if not key:
        return False
    if comma is not None:
        return True
    return key in tool.properties


def _over(cursor: Cursor) -> Parsing[bool]:
    """Whether a call can be over here: the list ends, or another call begins."""
    yield from cursor.blanks()
    if (yield from cursor.which((b"]",))):
        return True
    if (yield from cursor.which((b",",))):
        yield from cursor.blanks()
        if (yield from cursor.peek((b"]",))):
            return True
    elif (yield from ends_here(cursor)):
        return True
    name = yield from _called(cursor)
    if not name:
        return False
    return (yield from cursor.which((b"(",))) is not None
