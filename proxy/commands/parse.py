"""`vllm-tool-proxy parse`: the calls in a text or a capture, and why the rest is not a call."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from proxy.codec.json_access import as_list
from proxy.codec.json_text import Json, load_json
from proxy.commands.capture_report import lines, reread
from proxy.commands.parsers import add_rules, command_parser, rules_flag
from proxy.commands.text_report import TextReport, as_json, explained, printable, read_text
from proxy.config.load import load
from proxy.errors import RulesError
from proxy.exchange.capture import read_capture
from proxy.tools.toolset import ToolSet, read_tools

_ABOUT = """\
Prints the calls in the text of a reply with their evidence: strong calls count anywhere, weak ones only at the end of
the reply; each with its repairs and as the client gets it. Then what looked like a call and was rejected, with the
reason; then the content that is left. Ends with status 1 if there is no call.

With --capture, prints what the model server sent, what the client gets, each repair with its reason, and why other
text was not recognised as a tool call.
"""

NO_CALL = 1


def parse_command(name: str, argv: Sequence[str]) -> int:
    """Run `parse` with its arguments; raises RulesError for bad input."""
    parser = command_parser(name, "parse", _ABOUT)
    parser.add_argument("file", metavar="FILE", nargs="?", help="the text of one reply, UTF-8; - reads standard input")
    about = "JSON: the request's tools, as Chat Completions, Responses or Messages has them, or a whole request body"
    parser.add_argument("--tools", metavar="TOOLS.json", help=about)
    parser.add_argument(
        "--finish",
        choices=("stop", "length"),
        default="stop",
        help="why the reply ended (stop): a call that was cut off by its length is not completed",
    )
    parser.add_argument("--model", default="", metavar="NAME", help="apply the rules for this model")
    parser.add_argument("--capture", metavar="FILE", help="a file that serve --capture DIR wrote, instead of a text")
    parser.add_argument("--json", action="store_true", help="print the report on a text as JSON")
    add_rules(parser)
    options = parser.parse_args(argv)
    if options.capture is not None:
        _print(_of_capture(options))
        return 0
    report = _of_text(options)
    if options.json:
        print(json.dumps(as_json(report), indent=2))
    else:
        _print(printable(line, "\n\t") for line in explained(report))
    return 0 if any(each.repaired for each in report.calls) else NO_CALL


def _of_text(options: argparse.Namespace) -> TextReport:
    if options.file is None or options.tools is None:
        raise RulesError("give FILE and --tools TOOLS.json, or --capture FILE")
    _, rules = load(rules_flag(options))
    tools = _tools(options.tools)
    return read_text(_read(options.file), tools, rules.policy(options.model), stopped=options.finish == "stop")


def _of_capture(options: argparse.Namespace) -> Iterator[str]:
    if options.file is not None or options.tools is not None or options.model or options.json:
        raise RulesError("--capture takes no FILE, --tools or --model: the capture has them; nor --json")
    settings, rules = load(rules_flag(options))
    captured = read_capture(_read_bytes(options.capture), options.capture)
    return lines(captured, reread(captured, settings, rules))


def _print(listed: Iterable[str]) -> None:
    """Print lines, escaping what the terminal cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    text = "\n".join(listed).encode(encoding, "backslashreplace").decode(encoding)
    print(text)


def _read(file: str) -> str:
    data = _read_bytes(file)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RulesError(f"{file} is no UTF-8 text, at byte {error.start}; save the reply's text as UTF-8") from error


def _read_bytes(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RulesError(f"{file} cannot be read ({reason}); give a file, or - for standard input") from error


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
    """Convert a tool of the Messages or Responses API to the Chat Completions form."""
    if not isinstance(entry, dict) or isinstance(entry.get("function"), dict):
        return entry
    schema = entry.get("input_schema", entry.get("parameters"))
    return {"type": "function", "function": {"name": entry.get("name"), "parameters": schema}}
