"""The data of the live page as JSON: all requests of the ring or only the new ones, and the story of one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from proxy import __version__
from proxy.dialects.chat.client_view import view_reply
from proxy.errors import RulesError
from proxy.exchange.capture import read_capture
from proxy.json import Json, JsonObject, objects_in
from proxy.repair.policy import Policy
from proxy.repair.text_report import explained, read_text, reasons
from proxy.server.activity import Activity
from proxy.server.ring import TOTALS, Story, verdict
from proxy.server.snapshot import is_ready
from proxy.server.state import WorkerState

_NUMBER = re.compile(r"[0-9]{1,15}")
_CAPTURE = "capture "
_TITLES = {
    "asked": "What the client sent",
    "up": "What was sent upstream",
    "capture": "What the model server answered",
    "sent": "What the client got",
}
# The fields of a row that the page shows, searches or counts.
_ROW = ("at", "model", "client", "tools", "result", "tokens", "seconds", "status", "error", "id", "refusals")


def number_in(text: str) -> int:
    """Return the number of a request, or 0 if the text is not one."""
    return int(text) if _NUMBER.fullmatch(text) else 0


def state_json(activity: Activity, after: str) -> JsonObject:
    """Return the totals, the running requests, and the requests that ended after the `place` of an earlier state.

    A broken file may be replaced while pages are open, and numbers start again. So a place in another ring is ignored.
    """
    now, ring = time.time(), activity.ring
    ring.look(now)
    # In this order: a request that stops running has queued its record.
    activity.show_live()
    activity.flush()
    name, (known, _, number) = ring.name(), after.rpartition("-")
    last = number_in(number) if known == name else 0
    newest = ring.newest(last)
    models = ring.totals()
    totals = {field: sum(each[field] for each in models.values()) for field in TOTALS}
    return {
        "place": f"{name}-{newest[-1][0] if newest else last}",
        "ring": name,
        "live": [*ring.live(now)],
        "requests": [{"number": each, **{field: one.get(field) for field in _ROW}} for each, one in newest],
        "verdict": verdict(totals),
        "totals": {**totals},
        "models": [{"model": model, **counts} for model, counts in models.items()],
    }


def status_json(worker: WorkerState) -> JsonObject:
    """Return the settings and rules in force, and whether each model server answers."""
    snapshot = worker.current()
    return {
        "version": __version__,
        "values": snapshot.settings.audit_values,
        "lost": worker.metrics.numbers()["activity_lost"].get("", 0),
        "reasons": {**reasons()},
        "servers": [{"url": url, "ready": is_ready(server)} for url, server in snapshot.servers.items()],
        "rules": {"source": snapshot.rules.source, "error": worker.published.error},
    }


def without_values(story: Story) -> Story:
    """Return the story without values, for when they were recorded before a reload that forbids showing them."""
    repairs: list[Json] = [
        {name: value for name, value in repair.items() if name not in ("before", "after")}
        for repair in objects_in(story.summary.get("repairs"))
    ]
    return Story({**story.summary, "repairs": repairs, "values": False}, {})


def last_capture(story: Story) -> bytes | None:
    """Return the capture of the request's last try, or None."""
    names = sorted(name for name in story.parts if name.startswith(_CAPTURE))
    return story.parts[names[-1]] if names else None


def story_json(number: int, story: Story) -> JsonObject:
    """Return the story in steps: what the client sent, each try with its answer, and what the client got."""
    return {**story.summary, "number": number, "steps": [*_steps(story)], "reading": [*_reading(story)]}


def _steps(story: Story) -> Iterator[JsonObject]:
    def order(name: str) -> tuple[int, str, int]:
        kind, _, number = name.partition(" ")
        return {"asked": 0, "sent": 2}.get(kind, 1), number, kind == "capture"

    for name in sorted(story.parts, key=order):
        kind, _, number = name.partition(" ")
        title = f"{_TITLES[kind]}, try {number}" if number else _TITLES[kind]
        data = story.parts[name]
        if kind == "capture":
            data = data.partition(b"\n")[2]  # the first line describes the request
        yield {"title": title, "text": data.decode("utf-8", "replace")}


def _reading(story: Story) -> Iterator[str]:
    """Yield lines about the text of the last answer: its calls, and why the rest is not a call."""
    data = last_capture(story)
    if data is None:
        return
    try:
        captured = read_capture(data, "this request")
    except RulesError:
        return
    if captured.status != 200:
        return
    if captured.chat.tools is None:
        yield "the request offers no tools, so its text is not read"
        return
    for choice in view_reply(captured.body, streamed=captured.streamed).choices.values():
        report = read_text(choice.text, captured.chat.tools, Policy(), stopped=captured.complete)
        for line in explained(report):
            if line in ("content:", "no content"):
                break
            yield line
