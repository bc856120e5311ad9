"""The view of `top`: the events of a proxy's live page, put together and as plain lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proxy.codec.display import cut
from proxy.codec.json_access import as_list, as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.commands.terminal import plain

# The newest requests that are kept, and how many lines of each kind are shown.
MOST = 200
SHOWN = 10
MOST_RULES = 20
_CUT = 60
# Levels of doctor's findings that ask for something.
_TOLD_LEVELS = ("harm", "note")


@dataclass(slots=True)
class Shown:
    """All that was told: `requests` are the newest first."""

    ring: str = ""
    live: list[JsonObject] = field(default_factory=list)
    requests: list[JsonObject] = field(default_factory=list)
    counts: JsonObject = field(default_factory=dict)
    status: JsonObject = field(default_factory=dict)

    def take(self, news: JsonObject) -> None:
        """Take what is new."""
        ring = as_text(news.get("ring"))
        if ring != self.ring:
            self.ring, self.requests = ring, []
        self.live = [*objects_in(news.get("live"))]
        more = [*objects_in(news.get("requests"))]
        self.requests = [*reversed(more), *self.requests][:MOST]
        self.counts = as_object(news.get("counts", self.counts))
        self.status = as_object(news.get("status", self.status))

    @property
    def repairs(self) -> list[tuple[JsonObject, JsonObject]]:
        """The latest repairs, each behind its request."""
        return [(one, repair) for one in self.requests for repair in objects_in(one.get("repairs"))]

    @property
    def refusals(self) -> list[tuple[JsonObject, str, Json]]:
        """The latest texts that were no calls: the request, the reason, the count."""
        return [(one, reason, count) for one in self.requests for reason, count in as_object(one["refusals"]).items()]


def lines(url: str, shown: Shown) -> Iterator[str]:
    """All of it as lines that are safe for a terminal."""
    yield title(url, shown)
    for server in objects_in(shown.status.get("servers")):
        yield f"model server {word(server.get('url'))}: {'answers' if server.get('ready') else 'does not answer'}"
    yield from _named(rule_lines(shown))
    yield from _named(doctor_lines(shown))
    yield from _block("under way", map(live_line, shown.live))
    yield from _block("in the last hour", count_lines(shown))
    yield from _block("latest repairs", (repair_line(*one) for one in shown.repairs[:SHOWN]))
    yield from _block("no calls", (refusal_line(shown, *one) for one in shown.refusals[:SHOWN]))
    yield from _block("latest requests", map(request_line, shown.requests[:SHOWN]))


def title(url: str, shown: Shown) -> str:
    """The first line: the release and the URL."""
    line = f"vllm-tool-proxy {word(shown.status.get('version'))} at {plain(url)}"
    if shown.status.get("observe"):
        line += ", observing: nothing is changed"
    lost = shown.status.get("lost")
    if lost:
        line += f", {word(lost)} requests are not shown"
    return line


def rule_lines(shown: Shown) -> list[str]:
    """Which rules are in force, each with its place, and why newer ones are not."""
    rules = as_object(shown.status.get("rules"))
    entries = objects_in(rules.get("entries"))
    heading = f"rules {word(rules.get('source'))}: {len(entries)} in force"
    if rules.get("error"):
        heading += f", newer ones are not: {_long(rules['error'])}"
    listed = [_rule_line(entry) for entry in entries[:MOST_RULES]]
    if len(entries) > MOST_RULES:
        listed.append(f"and {len(entries) - MOST_RULES} more")
    return [heading, *listed]


def _rule_line(entry: JsonObject) -> str:
    place = word(entry.get("place"))
    return f"{_long(entry.get('text'))} ({place})" if place else _long(entry.get("text"))


def doctor_lines(shown: Shown) -> list[str]:
    """The findings of `doctor` as lines, the harm first; none without a report."""
    report = shown.status.get("doctor")
    if report is None:
        return []
    about = as_object(report)
    findings = sorted(objects_in(about.get("findings")), key=_order)
    examined = " ".join(word(about.get(name)) for name in ("at", "url", "model") if about.get(name))
    listed = [_finding_line(finding) for finding in findings if finding.get("level") in _TOLD_LEVELS]
    return [f"doctor {examined}".rstrip() + f": {len(listed)} of {len(findings)} findings to look at", *listed[:SHOWN]]


def _order(finding: JsonObject) -> bool:
    return finding.get("level") != "harm"


def _finding_line(finding: JsonObject) -> str:
    remedy = f"; mended by {_long(finding['remedy'])}" if finding.get("remedy") else ""
    return f"{word(finding.get('level'))}: {_long(finding.get('what'))}{remedy}"


def _named(listed: Sequence[str]) -> Iterator[str]:
    """A line, and what belongs to it."""
    yield from listed[:1]
    yield from (f"  {line}" for line in listed[1:])


def _block(name: str, block_lines: Iterator[str]) -> Iterator[str]:
    listed = [*block_lines]
    yield f"{name}: {'' if listed else 'nothing'}".rstrip()
    yield from (f"  {line}" for line in listed)


def live_line(row: JsonObject) -> str:
    """A request that is under way."""
    return (
        f"{word(row['model'])} for {word(row['client']) or 'none in particular'}: {word(row['phase'])}, "
        f"{word(row['seconds'])} s, {word(row['tokens_per_second'])} tokens/s"
    )


def request_line(one: JsonObject) -> str:
    """A request that has ended."""
    line = f"{clock(one)} {word(one['status'])} {word(one['model'])} in {word(one['seconds'])} s"
    line += f", {word(one['calls'])} calls, {len(as_list(one['repairs']))} repairs"
    if one["error"]:
        line += f": {word(one['error'])}"
    return line


def repair_line(one: JsonObject, repair: JsonObject) -> str:
    """A repair, or what was healed in a request."""
    kind = "healed in the request, " if repair.get("side") == "request" else ""
    line = f"{clock(one)} {kind}{word(repair['fix'])} {word(repair['tool'])}".rstrip() + f": {word(repair['why'])}"
    if "before" in repair:
        line += f": {word(repair['before'])} -> {word(repair['after'])}"
    return line


def refusal_line(shown: Shown, one: JsonObject, reason: str, count: Json) -> str:
    """The line of a text that was no call, with the reason."""
    words = as_object(shown.status.get("reasons")).get(reason, "it was none")
    return f"{clock(one)} {word(one['model'])}: {plain(reason)}, {word(words)} ({word(count)})"


def count_lines(shown: Shown) -> Iterator[str]:
    """The sums of the last hour."""
    for group, names in shown.counts.items():
        sums = (f"{plain(name)} {total(numbers)}" for name, numbers in as_object(names).items())
        yield f"{plain(group)}: {', '.join(sums)}"


def total(numbers: Json) -> int:
    """The sum of numbers."""
    return sum(number for number in as_list(numbers) if isinstance(number, int))


def clock(one: JsonObject) -> str:
    """When a request ended."""
    at = one.get("at")
    return time.strftime("%H:%M:%S", time.localtime(at if isinstance(at, int | float) else 0))


def word(value: Json) -> str:
    """A value on one line, short, and without what a terminal would act on."""
    return cut(plain("" if value is None else str(value)), _CUT)


def _long(value: Json) -> str:
    """A sentence of somebody else's, on one line."""
    return cut(plain("" if value is None else str(value)), 3 * _CUT)
