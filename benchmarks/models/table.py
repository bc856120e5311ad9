"""Results of one model in each setup, as a table and as JSON."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.models.check import Verdict, judge
from benchmarks.models.questions import CATEGORIES, Json, Question
from benchmarks.models.replies import Reply

HEADS = ("", "questions", "calls found", "right", "wrong", "unwanted", "time added")
WIDTHS = (34, 9, 11, 9, 5, 8, 10)


@dataclass(frozen=True)
class Row:
    """One model in one setup: the number of replies by verdict, and the time (ms) added by the proxy.

    `wanted` is the number of questions that ask for calls, `unwanted` the number of other questions that got one.
    """

    model: str
    setup: str
    questions: int
    wanted: int
    found: int
    right: int
    wrong: int
    unwanted: int
    added: float | None
    right_by_category: dict[str, list[int]]


def tally(
    model: str,
    setup: str,
    questions: Sequence[Question],
    replies: Mapping[str, Reply],
    direct: Mapping[str, Reply] | None = None,
) -> Row:
    """Return the row of a setup. `direct` are the replies without the proxy, to compute the added time."""
    verdicts = {question.id: judge(question, replies[question.id].calls) for question in questions}
    counts = Counter(verdicts.values())
    right = {}
    for category in CATEGORIES:
        of_it = [verdicts[question.id] for question in questions if question.category == category]
        right[category] = [sum(one in (Verdict.RIGHT, Verdict.NONE) for one in of_it), len(of_it)]
    added = None
    if direct is not None:
        added = 1000 * statistics.median(replies[one].seconds - direct[one].seconds for one in verdicts)
    return Row(
        model=model,
        setup=setup,
        questions=len(questions),
        wanted=sum(bool(question.calls) for question in questions),
        found=counts[Verdict.RIGHT] + counts[Verdict.WRONG],
        right=counts[Verdict.RIGHT],
        wrong=counts[Verdict.WRONG],
        unwanted=counts[Verdict.UNWANTED],
        added=added,
        right_by_category=right,
    )


def render(rows: Sequence[Row]) -> str:
    """Return the table as text, the rows of each model below its name."""
    lines, model = [_line(HEADS), "  ".join("-" * width for width in WIDTHS)], ""
    for row in rows:
        if row.model != model:
            model = row.model
            lines.append(model)
        none = row.questions - row.wanted
        cells = (
            f"  {row.setup}",
            str(row.questions),
            f"{row.found}/{row.wanted}",
            f"{row.right}/{row.wanted}",
            str(row.wrong),
            f"{row.unwanted}/{none}",
            "" if row.added is None else f"{row.added:.1f} ms",
        )
        lines.append(_line(cells))
    return "\n".join(lines)


def markdown(rows: Sequence[Row]) -> str:
    """Return the table as Markdown."""
    lines = [
        "| model | setup | questions | calls found | right | wrong | unwanted | time added |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        added = "" if row.added is None else f"{row.added:.1f} ms"
        lines.append(
            f"| {row.model} | {row.setup} | {row.questions} | {row.found} of {row.wanted} | {row.right} | {row.wrong} "
            f"| {row.unwanted} of {row.questions - row.wanted} | {added} |"
        )
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    first, *others = (
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )
    return "  ".join([first, *others]).rstrip()


def missed(questions: Sequence[Question], raw: Mapping[str, Reply], received: Mapping[str, Reply]) -> list[Json]:
    """Return the replies that name offered tools more often than the client received calls.

    They are candidates for calls that a reply contains and the proxy does not return.
    """
    found = []
    for question in questions:
        text, calls = raw[question.id].text, received[question.id].calls
        names = [tool["function"]["name"] for tool in question.tools]
        mentions = sum(text.count(f'"{name}"') for name in names)
        if question.calls and mentions > len(calls):
            found.append({"id": question.id, "finish": raw[question.id].finish, "text": text, "calls": calls})
    return found
