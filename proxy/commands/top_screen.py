"""The screen of `top` on a terminal, by `rich`. No text is read as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.codec.json_access import as_list, as_object, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.commands.top_view import (
    SHOWN,
    Shown,
    clock,
    count_lines,
    doctor_lines,
    refusal_line,
    repair_line,
    rule_lines,
    title,
    word,
)

_BARS = " ▁▂▃▄▅▆▇█"
# Lines of what was counted.
_MOST_COUNTS = 8


@contextmanager
def screen(url: str, stream: TextIO) -> Iterator[Callable[[Shown], None]]:
    """Draws what is shown, on the whole terminal, until the block ends."""
    console = Console(file=stream)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda shown: live.update(picture(url, shown), refresh=True)


def picture(url: str, shown: Shown) -> Group:
    """All of it, one under the other."""
    return Group(
        Text(title(url, shown), style="bold"),
        *_servers(shown),
        *_heads(shown),
        _table("Under way", ("Client", "Model", "Phase", "Seconds", "Tokens/s"), map(_live_row, shown.live[:SHOWN])),
        _counts(shown),
        _lines("Latest repairs", [repair_line(*one) for one in shown.repairs[:SHOWN]]),
        _lines("No calls", [refusal_line(shown, *one) for one in shown.refusals[: SHOWN // 2]]),
        _table(
            "Latest requests",
            ("Time", "Status", "Model", "Client", "Seconds", "Calls", "Repairs", "Error"),
            map(_request_row, shown.requests[:SHOWN]),
        ),
        _lines("Rules in force", rule_lines(shown)[1:]),
        _lines("The last report of doctor", doctor_lines(shown)[1:]),
    )


def _servers(shown: Shown) -> Iterator[Text]:
    for server in objects_in(shown.status.get("servers")):
        style, status = ("green", "answers") if server.get("ready") else ("red", "does not answer")
        yield Text(f"{word(server.get('url'))}: ").append(status, style=style)


def _heads(shown: Shown) -> Iterator[Text]:
    """The headings of rules and doctor's report, which stand above all that may have no room on the terminal."""
    is_behind = bool(as_object(shown.status.get("rules")).get("error"))
    yield from (Text(line, style="red" if is_behind else "") for line in rule_lines(shown)[:1])
    yield from map(Text, doctor_lines(shown)[:1])


def _table(name: str, heads: Sequence[str], rows: Iterator[Sequence[str]]) -> Table:
    table = Table(title=Text(name), title_justify="left", expand=True)
    for head in heads:
        table.add_column(head, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _live_row(row: JsonObject) -> Sequence[str]:
    client = word(row["client"]) or "none in particular"
    return client, *(word(row[key]) for key in ("model", "phase", "seconds", "tokens_per_second"))


def _request_row(one: JsonObject) -> Sequence[str]:
    repairs = str(len(as_list(one["repairs"])))
    columns = [word(one[key]) for key in ("status", "model", "client", "seconds", "calls")]
    return clock(one), *columns, repairs, word(one["error"])


def _lines(name: str, listed: Sequence[str]) -> Group:
    return Group(Text(name, style="italic"), *(Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in listed))


def _counts(shown: Shown) -> Group:
    """A bar for each minute of the last hour, and the sums."""
    drawn = [
        f"{bars(numbers)} {word(group)}: {word(name)}"
        for group, names in shown.counts.items()
        for name, numbers in as_object(names).items()
    ]
    return Group(_lines("The last hour", drawn[:_MOST_COUNTS]), *(Text(f"  {line}") for line in count_lines(shown)))


def bars(numbers: Json) -> str:
    """Numbers as bars, each one sign high at most."""
    heights = [number for number in as_list(numbers) if isinstance(number, int)]
    most = max(1, *heights, 1)
    return "".join(_BARS[-(-number * (len(_BARS) - 1) // most)] for number in heights)
