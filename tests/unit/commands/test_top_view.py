"""What `top` shows of what the live page is told."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.commands.top_view import MOST, MOST_RULES, Shown, clock, lines, total, word

ENTRIES = [
    {"section": "models", "text": "models tiny: parse proxy", "place": "/r.yaml:2"},
    {"section": "tools", "text": "tools bash: once", "place": ""},
]
FINDINGS: list[dict[str, Any]] = [
    {"id": "a", "level": "good", "what": "streams are well"},
    {"id": "b", "level": "note", "what": "it counts no tokens"},
    {"id": "c", "level": "harm", "what": "calls are lost\x1b", "remedy": "--tool-call-parser hermes"},
]
STATUS: dict[str, Any] = {
    "version": "1.2",
    "observe": True,
    "lost": 3,
    "servers": [{"url": "http://h", "ready": True}, {"url": "http://i", "ready": False}],
    "rules": {"source": "/r.yaml", "entries": ENTRIES, "error": "line 3"},
    "reasons": {"half": "it was half"},
    "doctor": {"at": "2026-11-23", "url": "http://h", "model": "m", "findings": FINDINGS},
}


def ended(**more: Any) -> dict[str, Any]:
    usual = {
        "at": 0,
        "status": 200,
        "model": "m",
        "seconds": 1.5,
        "calls": 1,
        "repairs": [],
        "error": "",
        "refusals": {},
    }
    return {**usual, **more}


def test_all_that_was_told_is_shown() -> None:
    shown = Shown()
    repair = {"fix": "closers", "tool": "read", "why": "it was open", "before": "{", "after": "{}"}
    heal = {"side": "request", "fix": "heal_developer", "tool": "", "why": "no such role"}
    live = {"model": "m", "client": "", "phase": "waits", "seconds": 2, "tokens_per_second": 0}
    ring: dict[str, Any] = {
        "ring": "r",
        "status": STATUS,
        "live": [live],
        "counts": {"repairs": {"closers": [1, None, 2]}},
    }
    shown.take({**ring, "requests": [ended(repairs=[repair, heal], refusals={"half": 2}), ended(error="gone\x1b[2J")]})
    at = clock({"at": 0})
    assert [*lines("http://p", shown)] == [
        "vllm-tool-proxy 1.2 at http://p, observing: nothing is changed, 3 requests are not shown",
        "model server http://h: answers",
        "model server http://i: does not answer",
        "rules /r.yaml: 2 in force, newer ones are not: line 3",
        "  models tiny: parse proxy (/r.yaml:2)",
        "  tools bash: once",
        "doctor 2026-11-23 http://h m: 2 of 3 findings to look at",
        "  harm: calls are lost ; mended by --tool-call-parser hermes",
        "  note: it counts no tokens",
        "under way:",
        "  m for none in particular: waits, 2 s, 0 tokens/s",
        "in the last hour:",
        "  repairs: closers 3",
        "latest repairs:",
        f"  {at} closers read: it was open: {{ -> {{}}",
        f"  {at} healed in the request, heal_developer: no such role",
        "no calls:",
        f"  {at} m: half, it was half (2)",
        "latest requests:",
        f"  {at} 200 m in 1.5 s, 1 calls, 0 repairs: gone [2J",
        f"  {at} 200 m in 1.5 s, 1 calls, 2 repairs",
    ]


def test_where_nothing_is_that_is_said() -> None:
    assert [line for line in lines("u", Shown()) if line.endswith("nothing")] == [
        f"{name}: nothing"
        for name in ("under way", "in the last hour", "latest repairs", "no calls", "latest requests")
    ]


def test_the_newest_are_kept_and_another_ring_begins_anew() -> None:
    shown = Shown()
    for number in range(MOST + 5):
        shown.take({"ring": "r", "requests": [ended(status=number)]})
    assert len(shown.requests) == MOST and shown.requests[0]["status"] == MOST + 4
    shown.take({"ring": "r"})
    assert len(shown.requests) == MOST and shown.live == []
    shown.take({"ring": "s", "requests": [ended()]})
    assert shown.requests == [ended()]


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), (1.5, "1.5"), ("x" * 61, "x" * 57 + "..."), ("a\nb\x1b", "a b ")]
)
def test_a_value_is_short_and_safe_for_a_terminal(value: Any, shown: str) -> None:
    assert word(value) == shown


def test_only_numbers_count() -> None:
    assert total([1, 2, None, "3"]) == 3 and total(None) == 0


def test_many_rules_are_cut_and_a_report_without_findings_says_so() -> None:
    shown = Shown()
    entries: list[dict[str, Any]] = [{"text": f"rule {number}", "place": ""} for number in range(MOST_RULES + 3)]
    status: dict[str, Any] = {"rules": {"source": "r", "entries": entries}, "doctor": {"other": 1}}
    shown.take({"ring": "r", "status": status})
    told = [*lines("u", shown)]
    assert told[1] == "rules r: 23 in force" and told[MOST_RULES + 1 : MOST_RULES + 4] == [
        *("  rule 19", "  and 3 more", "doctor: 0 of 0 findings to look at"),
    ]


def test_what_is_told_later_comes_on_top_and_another_ring_begins_anew() -> None:
    shown = Shown()
    shown.take({"ring": "r", "requests": [{"number": 1}, {"number": 2}]})
    shown.take({"ring": "r", "requests": [{"number": 3}]})
    assert [one["number"] for one in shown.requests] == [3, 2, 1]
    shown.take({"ring": "other", "requests": [{"number": 1}]})
    assert [one["number"] for one in shown.requests] == [1]
