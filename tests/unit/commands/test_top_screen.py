"""What `top` draws: the picture for a terminal of what the live page is told."""

from __future__ import annotations

import io
from typing import Any, Literal

import pytest
from rich.console import Console

from proxy.codec.json_text import Json
from proxy.commands.top_screen import bars, picture, screen
from proxy.commands.top_view import SHOWN, Shown
from tests.unit.commands.test_terminal import Terminal

REQUEST: dict[str, Any] = {
    **{"at": 0, "status": 200, "model": "m", "client": "codex", "seconds": 1.5, "calls": 1},
    **{"repairs": [], "refusals": {}, "error": ""},
}
LIVE: dict[str, Any] = {"model": "m", "client": "", "phase": "waits", "seconds": 2, "tokens_per_second": 0}


def shown(**news: Any) -> Shown:
    found = Shown()
    found.take({"ring": "r", **news})
    return found


def drawn(what: Shown, width: int = 120, *, colours: bool = False) -> str:
    """The picture as it stands on a terminal."""
    out = io.StringIO()
    system: Literal["standard"] | None = "standard" if colours else None
    Console(file=out, width=width, force_terminal=colours, color_system=system).print(picture("http://h", what))
    return out.getvalue()


def row(text: str, word: str) -> list[str]:
    """The cells of the first line that has this word."""
    line = next(line for line in text.splitlines() if word in line)
    return [cell.strip() for cell in line.strip("│┃ ").split("│")]


@pytest.mark.parametrize(
    ("numbers", "seen"),
    [
        *(([], ""), ([0, 0], "  "), ([1, 0, 2], "▄ █"), ([1, 100], "▁█"), ([8, 1, 4], "█▁▄")),
        *(([1, None, "2"], "█"), (None, "")),
    ],
    ids=["none", "zeros", "up to 2", "far apart", "up to 8", "no numbers among them", "nothing"],
)
def test_bars_are_as_high_as_their_numbers(numbers: Json, seen: str) -> None:
    assert bars(numbers) == seen


def test_a_request_that_is_under_way_is_a_row() -> None:
    text = drawn(shown(live=[LIVE, {**LIVE, "client": "codex", "phase": "thinks"}]))
    assert row(text, "waits") == ["none in particular", "m", "waits", "2", "0"]
    assert row(text, "thinks") == ["codex", "m", "thinks", "2", "0"]


def test_one_that_has_ended_is_a_row_with_its_error() -> None:
    text = drawn(shown(requests=[{**REQUEST, "status": 503, "error": "upstream: loading"}]))
    assert row(text, "503")[1:] == ["503", "m", "codex", "1.5", "1", "0", "upstream: loading"]


def test_no_more_rows_are_drawn_than_there_is_room_for_and_the_newest_are() -> None:
    text = drawn(shown(requests=[{**REQUEST, "model": f"model-{number}-"} for number in range(SHOWN + 3)]))
    assert text.count("model-") == SHOWN
    assert f"model-{SHOWN + 2}-" in text and "model-2-" not in text


def test_no_text_is_read_as_markup_or_by_the_terminal() -> None:
    evil = "[bold]evil[/bold]\x1b[31m"
    repair = {"fix": evil, "tool": evil, "why": evil, "before": evil, "after": evil}
    text = drawn(
        shown(
            live=[{**LIVE, "model": evil, "client": evil, "phase": evil}],
            requests=[{**REQUEST, "model": evil, "error": evil, "repairs": [repair], "refusals": {evil: 1}}],
            counts={evil: {evil: [1]}},
            status={"version": evil, "servers": [{"url": evil}], "rules": {"source": evil, "error": evil}},
        ),
        width=400,
    )
    assert "\x1b" not in text and text.count("evil") == text.count("[bold]evil[/bold]") >= 10


def test_a_server_that_does_not_answer_and_rules_that_are_behind_are_red() -> None:
    servers = [{"url": "http://a", "ready": True}, {"url": "http://b", "ready": False}]
    behind = drawn(shown(status={"servers": servers, "rules": {"source": "r", "error": "line 3"}}), colours=True)
    assert "\x1b[32manswers" in behind and "\x1b[31mdoes not answer" in behind
    assert "\x1b[31mrules r: 0 in force, newer ones are not: line 3" in behind
    well = drawn(shown(status={"servers": servers[:1], "rules": {"source": "r"}}), colours=True)
    assert "\x1b[31m" not in well


def test_what_was_counted_has_a_bar_a_minute_and_a_sum() -> None:
    text = drawn(shown(counts={"repairs": {"closers": [0, 2, 1]}, "odd": None}))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines.index("  repairs: closers 3") > lines.index("   █▄ repairs: closers") > lines.index("The last hour")


def test_each_part_is_named_where_it_is_empty_too() -> None:
    text = drawn(Shown())
    names = ("Under way", "The last hour", "Latest repairs", "No calls", "Latest requests", "Rules in force")
    assert [text.index(name) for name in names] == sorted(text.index(name) for name in names)


def test_a_screen_draws_what_it_is_given_and_leaves_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "100"), ("LINES", "40")):
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    with screen("http://h", terminal.stream) as draw:
        draw(shown(live=[LIVE]))
        draw(shown(live=[{**LIVE, "phase": "thinks"}]))
    seen = terminal.shown()
    assert 0 < seen.index("waits") < seen.index("thinks")
