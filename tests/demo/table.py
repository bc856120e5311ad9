"""The demo's table: four columns that wrap, for a terminal of 100 columns."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

from benchmarks.models.replies import Reply

WIDTHS = (9, 18, 27, 40)  # with two blanks between them: 100
GAP = "  "
HEADS = ("agent", "the model wrote", "the server sent", "through the proxy, the agent gets")


def header() -> Iterator[str]:
    """Return the lines above the rows."""
    yield from row(HEADS)
    yield rule("=")


def rule(mark: str = "-") -> str:
    """Return the line below the heads, or between agents."""
    return GAP.join(mark * width for width in WIDTHS)


def row(cells: Sequence[str]) -> Iterator[str]:
    """Return the lines of one row: each cell wrapped to its column, its own line breaks kept."""
    columns = [_wrap(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
    for parts in itertools.zip_longest(*columns, fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(parts, WIDTHS, strict=True))
        yield GAP.join(padded).rstrip()


def _wrap(cell: str, width: int) -> list[str]:
    """Return the lines of a cell."""
    return [line for part in cell.split("\n") for line in textwrap.wrap(part, width) or [""]]


def before(reply: Reply) -> str:
    """Say in a few words what the server sent by itself."""
    if reply.error:
        return "ERROR " + textwrap.shorten(reply.error, 60, placeholder=" ...")
    if not reply.calls:
        return f"text only, finish {reply.finish}"
    names = ", ".join(name for name, _ in reply.calls)
    return f"call {names}; finish {reply.finish}"


def after(reply: Reply, faults: Sequence[str]) -> str:
    """Say what the agent gets, the calls in full, and what is wrong with it."""
    if faults:
        return "WRONG " + "\n".join(faults)
    if not reply.calls:
        return f"the same text, byte for byte ({len(reply.text.encode())}); finish {reply.finish}"
    calls = "\n".join(f"{name} {arguments}" for name, arguments in reply.calls)
    return f"{calls}\nfinish {reply.finish}"
