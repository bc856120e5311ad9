"""Throughput on hostile text: `python -m benchmarks.hostile [--quick]`.

Prints megabytes per second of CPU for each kind of text: repeated openers of each family, incomplete openers, brackets,
fences and quotation marks, random mixtures of them, and numbered ones. Ten tools are offered. Each text is also read in
one piece, as a reply that is not streamed. No text contains a call, and every byte must be returned.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import body, report
from benchmarks.report import Bound
from benchmarks.scanner import scanned
from proxy.notations.tables import TOKENS, WRAPPER_WORDS
from proxy.notations.toolset import read_tools

FULL, QUICK = 1_000_000, 25_000
PIECE = 4_000
# Texts that would take more seconds than this are shortened and marked in the table.
MOST_SECONDS = 8.0
LEAST = 2.0

_OPENERS = (*(f"<{word}>" for word in WRAPPER_WORDS), *TOKENS)
_OTHERS = (
    *("<function=", "<function=read>", "<function=unknown>", "<invoke name=", '<invoke name="unknown">', ">>>"),
    *("<|channel|>commentary", "<|start|>assistant", "<|message_model|>", "TOOL_CALLS ", "\nAction:"),
    *("<|", "<tool_cal", "<|tool_cal", "<function", "<", "</", "</tool_call>", "<|im_end|>", "</s>", "<a>"),
    *("<!--", "<!-- -->", "<think>", "</think>", "<think></think>", '"', "'", "\\"),
    *("[", "{", "\n[", "\n{", "{[", "[{", '{"', '["', "{'", '\n{"', '\n["', '[["', '\n[{"', "\n[a", "\n[read(path="),
    *('{"a": ', '{"name": ', '\n{"name": ', '\n{"name": "read", "arguments": {', '{"a": 1}\n', "\n[now()]"),
    *("\n```\n", "\n```json\n", "```", "``` ", "`", "~~~\n", "\n~~~", "a\n`b` ", "\n", "\n\n", "\n ", "\n>", "\n    a"),
    *("<tool_call>a\n", "<tool_call>{", "<tool_call>[", '<tool_call>{"name": ', "<tool_call><function="),
    *("<tool_call></tool_call>", "[TOOL_CALLS][", "<｜DSML｜invoke"),
    *('<tool_call>{"name": "unknown", "arguments": {}}</tool_call>', "<tool_call>x<arg_key>"),
    *("<|tool_calls_section_begin|><|tool_call_begin|>functions.unknown:0", '<tool_call>\n{\n```\n<|"[[<function=x>'),
)
# Random mixtures, without repetition.
RANDOM = {"openers at random": _OPENERS, "all of these at random": _OPENERS + _OTHERS}
# Replaced by a different number in each piece, to avoid repetition.
NUMBER = "#"
NUMBERED = (
    *("<tool_call># ", "<tool_call>a # <tools>b # ", "<tool_call>#<|tool_call_begin|>#[TOOL_CALLS]#", "<tool_call>{#"),
    *('<tool_call>{"name": "#" ', '<tool_call>\n{"name": "#"\n'),
    *('<tool_call>{"name": "a#", "arguments": {}}</tool_call>', "<function=#>"),
    *('<invoke name="#">', '<｜DSML｜invoke name="#">', "<｜DSML｜#>", "<tool_call>x#<arg_key>"),
    *('\n{"#": ', '\n["#", ', "\n[read(a=#", "\nAction: [#\n", "TOOL_CALLS # ", ">>>#\n", '\n```json\n{"#"\n'),
    *("<|im_end|>#\n", "\n<think>#</think>", "<!--#-->"),
)
KINDS = tuple(dict.fromkeys((*_OPENERS, *_OTHERS, *RANDOM, *NUMBERED)))
BOUNDS = (
    Bound("the slowest run, MB/s", "run", least=LEAST, unit="MB/s"),
    Bound("at random, MB/s", "random", least=LEAST, unit="MB/s"),
    Bound("numbered, MB/s", "numbered", least=LEAST, unit="MB/s"),
)


@dataclass(frozen=True, slots=True)
class Speed:
    """Throughput in MB/s for a text of `size` bytes, in pieces and in one piece."""

    size: int
    pieces: float
    whole: float

    @property
    def least(self) -> float:
        """The lower throughput."""
        return min(self.pieces, self.whole)


def main() -> int:
    """Measure every kind and print the table and the verdicts; return 1 if a text was changed."""
    parser = argparse.ArgumentParser(description="the reading core's speed with hostile text, on one core")
    parser.add_argument("--quick", action="store_true", help="shorter texts, for a first look")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    began = time.monotonic()
    speeds: dict[str, Speed] = {}
    for kind in KINDS:
        try:
            speeds[kind] = measured(kind, size)
        except ValueError as error:
            print(f"{kind!r}: {error}", file=sys.stderr)
            return 1
    print("\n".join(table(speeds)))
    slowest = {
        "run": min(speed.least for kind, speed in speeds.items() if kind not in RANDOM and kind not in NUMBERED),
        "random": min(speeds[kind].least for kind in RANDOM),
        "numbered": min(speeds[kind].least for kind in NUMBERED),
    }
    print("\nNumbers to hold")
    print("\n".join(report.held(BOUNDS, slowest)))
    print(f"\n{time.monotonic() - began:.0f} s{', quick: the figures are coarse' if options.quick else ''}")
    return 0


def table(speeds: dict[str, Speed]) -> Iterator[str]:
    """Yield the lines of the table, in Markdown, the slowest first."""
    yield f"| {'text, again and again':<72} |   MB | in pieces, MB/s | whole, MB/s |"
    yield f"| {'-' * 72} | ---: | --------------: | ----------: |"
    for kind, speed in sorted(speeds.items(), key=lambda item: item[1].least):
        yield f"| {kind!r:<72} | {speed.size / 1e6:4.2f} | {speed.pieces:15.2f} | {speed.whole:11.2f} |"


def measured(kind: str, size: int) -> Speed:
    """Return the speed of one kind."""
    quarter = _seconds(kind, size // 4, PIECE)
    while 4 * quarter > MOST_SECONDS:
        size //= 2
        quarter = _seconds(kind, size // 4, PIECE)
    return Speed(size, size / _seconds(kind, size, PIECE) / 1e6, size / _seconds(kind, size, size) / 1e6)


def _seconds(kind: str, size: int, piece: int) -> float:
    """Return the CPU time for a text of about `size` bytes, in pieces of `piece` characters."""
    text = text_of(kind, size)
    return scanned([text[at : at + piece] for at in range(0, len(text), piece)], read_tools([*body.tools()]))


def text_of(kind: str, size: int) -> str:
    """Return a text of a kind with about `size` bytes and without calls."""
    if kind in RANDOM:
        # Prevent accidental calls.
        return "".join(random.Random(1).choices(RANDOM[kind], k=size // 12)).replace('"arguments"', '"x"')
    if kind in NUMBERED:
        return "".join(kind.replace(NUMBER, str(number)) for number in range(size // (len(kind.encode()) + 4)))
    return kind * (size // len(kind.encode()) + 1)


if __name__ == "__main__":
    sys.exit(main())
