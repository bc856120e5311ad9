"""`vllm-tool-proxy parse`: what the engine finds in a text, and why it takes the rest for no call."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from proxy.codec.json_access import as_list
from proxy.codec.json_text import Json, dump, load_json
from proxy.commands.parsers import add_rules, command_parser, rules_flag
from proxy.config.load import load
from proxy.errors import RulesError
from proxy.notations.front import Reader
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
    """Yield lines about a text: its calls and the rows that read them, rejected text, and the content that is left.

    `off` names the rows that read nothing.
    """
    reader = Reader(tools, off=off)
    pieces = (*reader.feed(text), *reader.finish(stopped=stopped))
    number, start, content = 0, 0, ""
    for piece in pieces:
        for call in piece.calls or ():
            number += 1
            written = "" if call.written == call.name else f", written {call.written!r}"
            evidence = "weak" if call.weak else "strong"
            yield f"call {number}: {call.name}{written} ({evidence} evidence, {piece.row}, {_line(text, start)})"
            yield f"  {dump(call.arguments)}"
        content += piece.text if piece.is_prose else ""
        start += len(piece.text)
    if not number:
        yield "no call"
    for refused in sorted(set(reader.refused), key=lambda each: each.start):
        shown = text[refused.start : refused.start + _SHOWN].split("\n", maxsplit=1)[0]
        yield f"refused at {_line(text, refused.start)}: {shown!r}, read by {refused.row}: {refused.why}"
    if not content:
        yield "no content"
        return
    yield "content:"
    yield content


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise RulesError(f"{file} cannot be read ({error.strerror}); give a file, or - for standard input") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RulesError(f"{file} is no UTF-8 text, at byte {error.start}; save the reply's text as UTF-8") from error


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
