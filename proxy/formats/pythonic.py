"""Calls as Python writes them: `[read(path='a.py'), now()]` (Llama 3.2 and 4, LFM2, OLMo 3, ToolACE; F15).

Nothing is evaluated: the values are literals (`literals.py`). Models and their templates leave quotation marks and
commas out and inner quotation marks unescaped, so a value ends where what may follow it does: a comma and the next
keyword, or the end of the call.
"""

from __future__ import annotations

import ast
import re

from ..events import Json
from ..literals import Also, dump, read_literal
from ..reader import MAX_KEY, NotACall, Parsing, RawCall, Reader
from ..tools import Tool
from .ends import ends_here
from .several import one_of_several
from .values import arguments

_AFTER_NAME = re.compile(rb"[^A-Za-z0-9_.\-\x80-\xff]")
# A call may have a counter: `read:0(`.
_AFTER_CALLED = re.compile(rb"[^A-Za-z0-9_.:\-\x80-\xff]")
_QUOTES = (b'"""', b"'''", b'"', b"'")
_ENDS = {quote: re.compile(b"[\\\\" + quote[:1] + b"]") for quote in _QUOTES}
_BARE_END = re.compile(rb"[,)]")
_AFTER_NUMBER = re.compile(rb"[^0-9.+-]")
_WORDS = (b"true", b"True", b"false", b"False", b"null", b"None")
# Words, numbers, dates, paths and addresses without quotation marks.
_PLAIN = re.compile(r"[\w./:@~-]+\Z")
_POSITIONAL = (b'"', b"'", b"[", *(bytes([digit]) for digit in b"-0123456789"))
# A string without quotation marks is held no longer than this.
MAX_BARE = 4096


def python_list(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one list of calls that stands here."""
    yield from reader.expect(b"[")
    calls: list[RawCall] = []
    some = False
    while True:
        yield from reader.blanks()
        if some and (yield from reader.which((b"]",))):
            return tuple(calls)
        calls += yield from one_of_several(reader, _call, len(calls))
        some = True
        yield from reader.blanks()
        if (yield from reader.which((b"]",))):
            return tuple(calls)
        if (yield from reader.which((b",",))) is None:
            if (yield from ends_here(reader)):
                return tuple(calls)
            raise reader.refuse("the list of calls goes on with something else")


def _call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    name = yield from _called(reader)
    if not reader.wrapped and reader.tools.resolve(name) is None:
        raise reader.refuse(f"no tool {name!r} is offered")
    yield from reader.blanks()
    tool = reader.tool(name)
    return (RawCall(tool, name, (yield from python_arguments(reader, tool))),)


def python_arguments(reader: Reader, tool: Tool) -> Parsing[str]:
    """Read what stands between the brackets of a call, with them; the text of the arguments' object."""
    yield from reader.expect(b"(")
    yield from reader.blanks()
    if (yield from reader.byte()) == b"{":
        value = yield from reader.value()
        yield from reader.blanks()
        yield from reader.expect(b")")
        return "" if reader.void else arguments(value, tool)
    values: dict[str, Json] = {}
    while True:
        yield from reader.blanks()
        if (yield from reader.which((b")",))):
            return dump(tool.fit(values))
        key = yield from _keyword(reader)
        if not key:
            if (yield from reader.byte()) not in _POSITIONAL:
                raise reader.refuse("a keyword was expected")
            key = _only_parameter(tool)
            reader.annul(bool(values) or not key, "which parameter a value is of cannot be told")
        reader.annul(key in values, f"the parameter {key!r} stands there twice")
        values[key] = yield from _value(reader, tool, key)
        yield from reader.blanks()
        yield from reader.which((b",",))


def _only_parameter(tool: Tool) -> str:
    """The parameter that a value without a keyword can be of; empty if that cannot be told."""
    names = tool.required or frozenset(tool.properties)
    return next(iter(names)) if len(names) == 1 else ""


def _name(reader: Reader) -> Parsing[str]:
    return (yield from reader.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")


def _called(reader: Reader) -> Parsing[str]:
    """Read the name of a call."""
    return (yield from reader.until(_AFTER_CALLED, MAX_KEY)).decode("utf-8", "replace")


def _keyword(reader: Reader) -> Parsing[str]:
    """Read a keyword and its sign; empty, and nothing read, if there is none."""
    return (yield from reader.maybe(_assigned(reader))) or ""


def _assigned(reader: Reader) -> Parsing[str]:
    name = yield from _name(reader)
    yield from reader.blanks()
    yield from reader.expect(b"=")
    if (yield from reader.byte()) == b"=":
        return ""
    yield from reader.blanks()
    return name


def _value(reader: Reader, tool: Tool, key: str) -> Parsing[Json]:
    here = yield from reader.byte()
    if here in (b'"', b"'"):
        return (yield from _string(reader, tool))
    if here in (b"{", b"["):
        value = yield from reader.value()
        try:
            return None if reader.void else read_literal(value.decode("utf-8", "surrogatepass"), also=Also.PYTHON)
        except ValueError as error:
            raise NotACall(f"a value cannot be read: {error}") from None
    return (yield from _bare(reader, tool, key))


def _string(reader: Reader, tool: Tool) -> Parsing[str]:
    """Read a string, up to the quotation mark behind which a string can be over."""
    start = reader.pos
    quote = (yield from reader.which(_QUOTES)) or b'"'
    inside = reader.pos
    while True:
        yield from reader.until(_ENDS[quote])
        end = reader.pos
        if (yield from reader.byte()) == b"\\":
            reader.pos += 1
            if (yield from reader.byte()):
                reader.pos += 1
            continue
        if (yield from reader.which((quote,))) is None:
            reader.pos += 1
            continue
        if (yield from reader.ahead(reader.maybe(_follows(reader, tool)))):
            return _unquoted(reader.text(start, reader.pos), reader.text(inside, end), quote.decode())


def _unquoted(written: str, inside: str, quote: str) -> str:
    """What a string stands for; inner quotation marks without a backslash are its own."""
    if len(quote) == 1:
        try:
            return str(read_literal(written, also=Also.PYTHON))
        except ValueError:
            if written and _is_expression(written):
                raise NotACall("a value is no literal") from None
    mark = quote[0]
    inner = re.compile(rf"\\.|{mark}", re.S)
    escaped = inner.sub(lambda found: f"\\{mark}" if found.group() == mark else found.group(), inside)
    try:
        return str(read_literal(f"{mark}{escaped}{mark}", also=Also.PYTHON))
    except ValueError as error:
        raise NotACall(f"a string cannot be read: {error}") from None


def _bare(reader: Reader, tool: Tool, key: str) -> Parsing[Json]:
    """Read a number, a word, or a string without quotation marks."""
    start = reader.pos
    if not (yield from reader.which(_WORDS)):
        yield from reader.until(_AFTER_NUMBER)
    while reader.pos - start <= MAX_BARE:
        if reader.pos > start and (yield from reader.ahead(reader.maybe(_follows(reader, tool)))):
            text = reader.text(start, reader.pos).strip()
            if not reader.void and not _PLAIN.match(text) and _is_expression(text):
                raise NotACall("a value is no literal")
            return _typed(tool, key, text)
        if (yield from reader.which((b",", b")"))) and reader.pos == start + 1:
            raise NotACall("a value was expected")
        yield from reader.until(_BARE_END, MAX_BARE)
    raise NotACall("a value without quotation marks does not end")


def _is_expression(text: str) -> bool:
    """Whether Python would compute something here; the text is parsed, never evaluated."""
    try:
        tree = ast.parse(text.removeprefix("*"), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    tree = tree.operand if isinstance(tree, ast.UnaryOp) else tree
    plain = isinstance(tree, ast.Constant) and not isinstance(tree.value, str | bytes)
    return not plain and not isinstance(tree, ast.Name | ast.Attribute)


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


def _follows(reader: Reader, tool: Tool) -> Parsing[bool]:
    """Whether what may follow a value stands here: the next keyword, or the end of the call."""
    yield from reader.blanks()
    mark = yield from reader.which((b",", b")"))
    if mark == b")":
        return (yield from _over(reader))
    yield from reader.blanks()
    if mark == b"," and (yield from reader.which((b")",))):
        return (yield from _over(reader))
    key = yield from _keyword(reader)
    return bool(key) and (mark == b"," or key in tool.properties)


def _over(reader: Reader) -> Parsing[bool]:
    """Whether a call can be over here: the list ends, or another call begins."""
    yield from reader.blanks()
    if (yield from reader.which((b"]",))):
        return True
    if (yield from reader.which((b",",))):
        yield from reader.blanks()
        if (yield from reader.peek((b"]",))):
            return True
    elif (yield from ends_here(reader)):
        return True
    name = yield from _called(reader)
    return bool(name) and (yield from reader.which((b"(",))) is not None
