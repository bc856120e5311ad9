"""How far a command is: a bar on a terminal, else plain lines, or nothing."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import termios
from collections.abc import Iterator

import pytest

from proxy.commands.terminal import MAX_LINES, each, progress

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A pseudo-terminal: `stream` is where a command writes, `shown` all that came there."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w")

    def shown(self) -> str:
        """What was written, without the codes that move the cursor; closes the terminal."""
        self.stream.close()
        parts: list[bytes] = []
        try:
            while part := os.read(self._ours, 65536):
                parts.append(part)
        except OSError:  # Linux' word for the end of a pseudo-terminal
            pass
        os.close(self._ours)
        return _CODES.sub("", b"".join(parts).decode())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_without_a_terminal_each_step_is_a_line() -> None:
    out = io.StringIO()
    with progress("doctor", 2, stream=out) as bar:
        bar.step("models")
        assert out.getvalue() == "doctor: 1/2 models\n"
        bar.step("streams")
    assert out.getvalue() == "doctor: 1/2 models\ndoctor: 2/2 streams\n"


def test_many_steps_make_no_lines() -> None:
    out = io.StringIO()
    with progress("replay", MAX_LINES + 1, stream=out) as bar:
        bar.step("a file")
    assert out.getvalue() == ""


def test_standard_error_is_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("doctor", 1) as bar:
        bar.step("models")
    assert capsys.readouterr() == ("", "doctor: 1/1 models\n")


def test_a_step_is_one_line_whatever_its_text_holds() -> None:
    out = io.StringIO()
    with progress("replay", 1, stream=out) as bar:
        bar.step("a\nb\x1b[2J\u202e")
    assert out.getvalue() == "replay: 1/1 a b [2J \n"


def test_a_terminal_gets_a_bar(terminal: Terminal) -> None:
    with progress("doctor", 3, stream=terminal.stream) as bar:
        bar.step("models [bold]of[/bold] it")
        bar.step("streams")
        bar.step("roles")
    shown = terminal.shown()
    assert "doctor" in shown and "3/3" in shown and "roles" in shown
    assert "doctor: 1/3" not in shown, "no plain lines beside the bar"


def test_what_rich_would_take_for_markup_is_shown_as_it_is(terminal: Terminal) -> None:
    with progress("[red]", 1, stream=terminal.stream) as bar:
        bar.step("[bold]of[/bold]")
    shown = terminal.shown()
    assert "[red]" in shown and "[bold]of[/bold]" in shown


def test_an_error_in_the_block_leaves_the_terminal_in_order(terminal: Terminal) -> None:
    with pytest.raises(ValueError, match="broken"), progress("doctor", 2, stream=terminal.stream) as bar:
        bar.step("models")
        raise ValueError("broken")
    assert "1/2" not in terminal.shown(), "a step that failed is not done"


@pytest.fixture
def _without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)


def written_over(shown: str) -> list[str]:
    """What stood on the terminal's line, one after the other; that it is one line only is asserted."""
    assert "\n" not in shown
    return [line.rstrip() for line in shown.split("\r") if line]


@pytest.mark.usefixtures("_without_rich")
def test_without_rich_a_terminal_gets_a_bar_of_one_line_that_is_gone_in_the_end(terminal: Terminal) -> None:
    with progress("doctor", 4, stream=terminal.stream) as bar:
        for name in ("models", "streams", "a\nb\x1b[2J"):
            bar.step(name)
    assert written_over(terminal.shown()) == [
        "doctor [                        ] 0/4 models",
        "doctor [######                  ] 1/4 streams",
        "doctor [############            ] 2/4 a b [2J",
        "",
    ]


@pytest.mark.usefixtures("_without_rich")
@pytest.mark.parametrize(("columns", "width"), [(20, 19), (0, 79)], ids=["narrow", "of no size"])
def test_it_fits_the_terminal_and_more_steps_than_it_has_lines_are_no_matter(
    terminal: Terminal, columns: int, width: int
) -> None:
    termios.tcsetwinsize(terminal.stream.fileno(), (24, columns))
    with pytest.raises(ValueError, match="broken"), progress("replay", 500, stream=terminal.stream) as bar:
        bar.step("name" * 40)
        raise ValueError("broken")
    shown = terminal.shown()
    assert {len(line) for line in shown.split("\r") if line} == {width}
    assert written_over(shown)[-1] == "", "an error leaves the line empty too"


def test_a_loop_makes_a_step_of_each_item() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)

    out = io.StringIO()
    assert [*each(items(), "replay", "file {}".format, stream=out)] == [1, 2]
    assert out.getvalue() == "replay: 1/2 file 1\nreplay: 2/2 file 2\n"


def test_a_loop_over_nothing_shows_nothing() -> None:
    out = io.StringIO()
    assert [*each((), "replay", stream=out)] == []
    assert out.getvalue() == ""
