"""`vllm-tool-proxy parse`: what the engine finds in a text, and why it takes the rest for no call."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from proxy.codec.json_access import as_list
from proxy.codec.json_text import Json, load_json
from proxy.commands.parsers import add_rules, command_parser, rules_flag
from proxy.config.load import load
from proxy.errors import RulesError
from proxy.formats.grammar import grammars
from proxy.formats.markers import OPENERS
from proxy.formats.scanner import Scanner
from proxy.formats.spans import CallSpan, Piece, RejectedSpan
from proxy.parsing.markdown import Markdown
from proxy.tools.toolset import ToolSet, read_tools

_ABOUT = """\
Prints the calls that are found in the text of a reply, with their evidence: strong calls count wherever they stand,
weak ones because the reply ends with them. Then what began like a call and was refused, and why; then the content
that is left.
"""
_SHOWN = 60


def parse_command(name: str, argv: Sequence[str]) -> int:
    """Run `parse` with the words behind it; raises RulesError for bad input."""
    parser = command_parser(name, "parse", _ABOUT)
    parser.add_argument("file", metavar="FILE", help="the text of one reply, UTF-8; - reads standard input")
    about = "JSON: the request's tools, as Chat Completions, Responses or Messages has them, or a whole request body"
    parser.add_argument("--tools", metavar="TOOLS.json", required=True, help=about)
    parser.add_argument(
        "--finish",
        choices=("stop", "length"),
        default="stop",
        help="why the reply ended (stop): what was cut off by its length is not completed",
    )
    parser.add_argument("--model", default="", metavar="NAME", help="apply the rules for this model")
    add_rules(parser)
    options = parser.parse_args(argv)
    _, rules = load(rules_flag(options))
    off = rules.policy(options.model).disabled_formats
    tools = _tools(options.tools)
    try:
        lines = explained(_read(options.file), tools, stopped=options.finish == "stop", off=off)
        print("\n".join(printable(line, "\n\t") for line in lines), flush=True)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read the lines has seen enough
    return 0


def printable(text: str, keep: str = "") -> str:
    """Text without what a terminal would act on or hide: control, format and lone surrogate characters are escaped,
    but for those that are `keep`.
    """
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode("ascii") for sign in text
    )


def explained(text: str, tools: ToolSet, *, stopped: bool, off: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield lines about a text: its calls, rejected text, and the content that is left.

    `off` names the formats in which no calls are read.
    """
    refused: list[RejectedSpan] = []
    scanner = Scanner(tools, grammars(json_reply=False, raw_text=False), off=off, refused=refused)
    pieces = (*scanner.feed(text), *scanner.finish(stopped=stopped))
    data = text.encode("utf-8", "surrogatepass")
    calls = [(span, call) for span in pieces if isinstance(span, CallSpan) for call in span.calls]
    for number, (span, call) in enumerate(calls, 1):
        written = ""
        if call.written_name != call.tool.name:
            written = f", written {call.written_name!r}"
        evidence = "weak" if span.weak else "strong"
        where = f"{evidence} evidence, {span.format}, {_line(data, span.start)}"
        yield f"call {number}: {call.tool.name}{written} ({where})"
        yield f"  {call.arguments}"
    if not calls:
        yield "no call"
    for no_call in sorted((*refused, *_in_code(data, pieces, refused)), key=lambda rejected: rejected.start):
        yield f"refused at {_line(data, no_call.start)}: {_start_of(data, no_call.start)}: {no_call.why}"
    content = _content(data, pieces)
    if not content:
        yield "no content"
        return
    yield "content:"
    yield content


@dataclass(frozen=True, slots=True)
class _Occurrence:
    start: int
    opener: bytes


def _in_code(data: bytes, pieces: Sequence[Piece], refused: Sequence[RejectedSpan]) -> Iterator[RejectedSpan]:
    """The wrappers in code, which were not even looked at."""
    calls = [piece for piece in pieces if isinstance(piece, CallSpan)]
    taken: list[CallSpan | RejectedSpan] = [*calls, *refused]
    markdown, seen = Markdown(), 0
    for place in _openers(data):
        if any(span.start <= place.start < span.end for span in taken):
            continue
        after = max((call.end for call in calls if call.end <= place.start), default=0)
        if after > seen:
            markdown, seen = Markdown(), after  # the text begins anew behind a call
        markdown.feed(data[seen : place.start])
        seen = place.start
        if markdown.in_code:
            yield RejectedSpan(place.start, place.start + len(place.opener), "code", "it stands in code")


def _openers(data: bytes) -> list[_Occurrence]:
    """The wrappers' openers in the order in which they stand; of several at one place the last of the table."""
    openers = [opener.encode() for opener in OPENERS]
    places = {at: _Occurrence(at, opener) for opener in openers for at in _occurrences(data, opener)}
    return [places[at] for at in sorted(places)]


def _occurrences(data: bytes, literal: bytes) -> Iterator[int]:
    at = data.find(literal)
    while at >= 0:
        yield at
        at = data.find(literal, at + 1)


def _line(data: bytes, at: int) -> str:
    return f"line {data[:at].count(10) + 1}"


def _start_of(data: bytes, at: int) -> str:
    shown = data[at : at + _SHOWN].decode("utf-8", "replace").split("\n")[0].rstrip("\ufffd")
    return repr(shown)


def _content(data: bytes, pieces: Sequence[Piece]) -> str:
    prose = b"".join(data[piece.start : piece.end] for piece in pieces if not isinstance(piece, CallSpan))
    return prose.decode("utf-8", "replace")


def _read(file: str) -> str:
    try:
        data = _read_bytes(file)
    except OSError as error:
        raise RulesError(f"{file} cannot be read ({error.strerror}); give a file, or - for standard input") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RulesError(f"{file} is no UTF-8 text, at byte {error.start}; save the reply's text as UTF-8") from error


def _read_bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    return Path(file).read_bytes()


def _tools(file: str) -> ToolSet:
    try:
        listed = load_json(_read(file))
    except ValueError as error:
        raise RulesError(f"{file} is no JSON ({error}); give the request's tools, a JSON array") from error
    if isinstance(listed, dict):
        listed = listed.get("tools")
    tools = read_tools([_as_chat(entry) for entry in as_list(listed)])
    if not tools:
        raise RulesError(f'{file} holds no tools; give an array like [{{"type": "function", "function": {{…}}}}]')
    return tools


def _as_chat(entry: Json) -> Json:
    """A tool as Chat Completions has it, from what Messages or Responses has."""
    if not isinstance(entry, dict) or isinstance(entry.get("function"), dict):
        return entry
    schema = entry.get("input_schema", entry.get("parameters"))
    return {"type": "function", "function": {"name": entry.get("name"), "parameters": schema}}
