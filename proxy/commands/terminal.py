"""The progress of a command, on standard error: a bar on a terminal, else plain lines, or nothing.

    with progress("doctor", total=12) as bar:
        for probe in probes:
            bar.step(probe.name)
            ask(probe)

The bar is drawn by `rich`, which is optional (`pip install vllm-tool-proxy[terminal]`); without it a plainer one is
drawn. Standard output is never touched: what a command prints there stays whole, whatever becomes of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, TypeVar

from proxy.codec.display import printable

_Item = TypeVar("_Item")
# Without a terminal each step is a line. From so many on they would only hide what the command says.
MAX_LINES = 50
# Signs of the bar that is drawn without `rich`.
_BAR = 24


class Progress(Protocol):
    """The progress of a command, step by step."""

    def step(self, text: str) -> None:
        """The next step begins; the one before is done."""


@contextmanager
def progress(
    title: str, total: int, *, stream: TextIO | None = None, most_lines: int = MAX_LINES
) -> Iterator[Progress]:
    """Show how many of `total` steps are done, until the block is left.

    `stream` is standard error if it is None. What is shown on a terminal is gone afterwards; plain lines stay. With
    more than `most_lines` steps there are no plain lines at all.
    """
    stream = sys.stderr if stream is None else stream
    if stream.isatty():
        draw = _bar if has_rich() else _plain_bar
        with draw(title, total, stream) as bar:
            yield bar
        return
    if total <= most_lines:
        yield _Lines(title, total, stream)
        return
    yield _Nothing()


def each(
    items: Iterable[_Item], title: str, shown: Callable[[_Item], str] = str, *, stream: TextIO | None = None
) -> Iterator[_Item]:
    """The items, one after the other, with a step for each: for a loop over files or cases."""
    listed = [*items]
    with progress(title, len(listed), stream=stream) as bar:
        for item in listed:
            bar.step(shown(item))
            yield item


class _Nothing:
    """No place to show anything."""

    def step(self, text: str) -> None:
        """Show nothing."""


class _Lines:
    """A line for each step, as it begins."""

    def __init__(self, title: str, total: int, stream: TextIO) -> None:
        self._title = title
        self._total = total
        self._stream = stream
        self._begun = 0

    def step(self, text: str) -> None:
        """Write the line."""
        self._begun += 1
        print(f"{self._title}: {self._begun}/{self._total} {plain(text)}", file=self._stream, flush=True)


def plain(text: str) -> str:
    """A text on one line, without what a terminal would act on."""
    return printable(text, " ")


def has_rich() -> bool:
    """True if what is drawn on a terminal can be drawn."""
    try:
        import rich.progress  # noqa: F401, PLC0415 (only a command on a terminal pays for it)
    except ImportError:
        return False
    return True


@contextmanager
def _plain_bar(title: str, total: int, stream: TextIO) -> Iterator[Progress]:
    """A bar of ASCII on one line, which each step writes over."""
    # One sign less than a line has: a full one may begin another. A terminal that does not know its size says 0.
    width = (os.get_terminal_size(stream.fileno()).columns or 80) - 1
    begun = 0

    def write(line: str) -> None:
        stream.write(f"\r{line[:width]:{width}}\r")
        stream.flush()

    class Bar:
        def step(self, text: str) -> None:
            """Draw it."""
            nonlocal begun
            signs = "#" * (_BAR * begun // max(total, 1))
            write(f"{plain(title)} [{signs:{_BAR}}] {begun}/{total} {plain(text)}")
            begun += 1

    try:
        yield Bar()
    finally:
        write("")


@contextmanager
def _bar(title: str, total: int, stream: TextIO) -> Iterator[Progress]:
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as RichProgress  # noqa: PLC0415

    # The texts are shown as they are: a name may hold what rich takes for markup.
    columns = (
        TextColumn("{task.fields[title]}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with RichProgress(*columns, console=Console(file=stream), transient=True) as drawn:
        task = drawn.add_task("", total=total, title=title)
        begun = 0

        class Bar:
            def step(self, text: str) -> None:
                """Draw it."""
                nonlocal begun
                drawn.update(task, completed=begun, description=plain(text))
                begun += 1

        yield Bar()
        drawn.update(task, completed=begun, refresh=True)
