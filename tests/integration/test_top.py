"""`top`: what the live page is told, in plain lines and drawn, from a proxy that answers so."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from proxy.commands import main as cli
from proxy.commands.top import top_command
from proxy.commands.top_screen import picture
from proxy.commands.top_view import Shown
from proxy.errors import RulesError
from tests.support.scripted import HELD, Script, Upstream, answer, chunked, head

EVIL = "\x1b[31m[bold]evil\x07"
NOW = 1_795_000_000.0
REQUEST: dict[str, Any] = {
    **{"id": "a", "number": 1, "at": NOW, "model": EVIL, "client": "codex", "status": 200, "seconds": 1.5, "calls": 1},
    "repairs": [
        {"fix": "text_call", "tool": "bash", "why": "in text", "side": "reply", "before": "x", "after": "y"},
        {"fix": "heal_roles", "tool": "", "why": "two systems", "side": "request"},
    ],
    **{"refusals": {"quoted": 2}, "error": ""},
}
RULES = [{"text": "models tiny: parse proxy", "place": "/etc/rules.yaml:2"}, {"text": "tools bash: once", "place": ""}]
FINDINGS = [{"level": "harm", "what": "calls are lost"}]
STATUS: dict[str, Any] = {
    **{"version": "1.0", "observe": False, "lost": 3, "reasons": {"quoted": "it is quoted"}},
    "servers": [{"url": "http://a:1", "ready": True}, {"url": "http://b:1", "ready": False}],
    "rules": {"source": "/etc/rules.yaml", "entries": RULES, "error": "line 3 is wrong"},
    "doctor": {"url": "http://a:1", "harm": True, "findings": FINDINGS},
}
LIVE = [{"model": "tiny", "client": "", "phase": "waiting", "seconds": 2.0, "tokens_per_second": 0.0, "id": "b"}]
FIRST = {
    "ring": "r",
    "live": [],
    "requests": [REQUEST],
    "counts": {"repairs": {"text_call": [0, 2, 1]}},
    "status": STATUS,
}
NEXT = {"ring": "r", "live": LIVE}
FAILED = {**REQUEST, "number": 2, "status": 503, "error": "upstream: loading", "repairs": [], "refusals": {}}


def sent(*news: dict[str, Any]) -> Script:
    """What a proxy answers at /_ui/events; it says no more, and stays."""
    opened = head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
    events = [chunked(b"id: r-1\ndata: " + json.dumps(each).encode() + b"\n\n") for each in news]
    return [opened, *events, HELD]


@pytest.fixture
def server() -> Iterator[Upstream]:
    with Upstream() as one:
        yield one


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def told(*words: str, stream: io.StringIO | None = None) -> str:
    """What `top` prints."""
    out = io.StringIO() if stream is None else stream
    assert top_command("vllm-tool-proxy", words, out) == 0
    return out.getvalue()


def at(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def test_without_a_terminal_it_prints_lines_once(server: Upstream) -> None:
    server.paths["/_ui/events"] = sent(FIRST, NEXT, {**NEXT, "requests": [FAILED]})
    safe = " [31m[bold]evil "
    assert told("--url", server.url).splitlines() == [
        f"vllm-tool-proxy 1.0 at {server.url}, 3 requests are not shown",
        "model server http://a:1: answers",
        "model server http://b:1: does not answer",
        "rules /etc/rules.yaml: 2 in force, newer ones are not: line 3 is wrong",
        "  models tiny: parse proxy (/etc/rules.yaml:2)",
        "  tools bash: once",
        "doctor http://a:1: 1 of 1 findings to look at",
        "  harm: calls are lost",
        "under way:",
        "  tiny for none in particular: waiting, 2.0 s, 0.0 tokens/s",
        "in the last hour:",
        "  repairs: text_call 3",
        "latest repairs:",
        f"  {at(NOW)} text_call bash: in text: x -> y",
        f"  {at(NOW)} healed in the request, heal_roles: two systems",
        "no calls:",
        f"  {at(NOW)} {safe}: quoted, it is quoted (2)",
        "latest requests:",
        f"  {at(NOW)} 503 {safe} in 1.5 s, 1 calls, 0 repairs: upstream: loading",
        f"  {at(NOW)} 200 {safe} in 1.5 s, 1 calls, 2 repairs",
    ]


def test_on_a_terminal_it_is_drawn_until_the_user_has_seen_enough(server: Upstream) -> None:
    shown = Shown()
    told_of: list[dict[str, Any]] = [FIRST, NEXT, {**NEXT, "requests": [FAILED]}]
    for news in told_of:
        shown.take(news)
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(picture("http://a", shown))
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    for said in ("Under way", "waiting", "repairs: text_call", "quoted", "503", "does not answer", "[bold]evil"):
        assert said in drawn
    for said in ("newer ones are not: line 3 is wrong", "parse proxy (/etc/rules.yaml:2)", "harm: calls are lost"):
        assert said in drawn
    assert "\x1b" not in drawn and "\x07" not in drawn


def test_a_screen_goes_on_until_ctrl_c(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    server.paths["/_ui/events"] = sent(FIRST, NEXT)
    seen: list[int] = []

    class Stopped(Shown):
        def take(self, news: dict[str, Any]) -> None:
            super().take(news)
            seen.append(len(self.live))
            if self.live:
                raise KeyboardInterrupt

    monkeypatch.setattr("proxy.commands.top.Shown", Stopped)
    drawn = told("--url", server.url, stream=Terminal())
    assert seen == [0, 1]
    assert "Latest requests" in drawn


def test_without_rich_there_are_lines_on_a_terminal_too(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.commands.top.has_rich", lambda: False)
    server.paths["/_ui/events"] = sent(FIRST, NEXT, NEXT)
    assert "latest requests:" in told("--url", server.url, stream=Terminal())


def test_the_key_goes_with_it(server: Upstream, tmp_path: Path) -> None:
    server.play(sent(FIRST, NEXT, NEXT))
    (tmp_path / "key").write_text("secret\n")
    told("--url", server.url, "--key-file", str(tmp_path / "key"))
    assert server.wait().headers["Authorization"] == "Bearer secret"


def test_without_words_it_goes_to_the_proxy_of_these_settings(
    server: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(sent(FIRST, NEXT, NEXT))
    (tmp_path / "key").write_text("secret")
    for name, value in (("HOST", "0.0.0.0"), ("PORT", str(server.port)), ("ADMIN_KEY_FILE", str(tmp_path / "key"))):
        monkeypatch.setenv(f"TOOL_PROXY_{name}", value)
    assert told().startswith(f"vllm-tool-proxy 1.0 at {server.url}")
    assert server.wait().headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, {"error": {"message": "sign in"}}, "answered 401: sign in"),
        (404, b"<html>", "answered 404: no such page"),
    ],
)
def test_what_is_refused_is_told(
    server: Upstream, status: int, body: object, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.paths["/_ui/events"] = [answer(body, status)]
    assert cli.main(["top", "--url", server.url]) == 2
    assert why in capsys.readouterr().err


def test_where_no_proxy_is_that_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["top", "--url", "http://127.0.0.1:1"]) == 2
    said = capsys.readouterr().err
    assert "does not answer (ConnectionError); give --url" in said and said.count("\n") == 1


NOT_ONE: dict[str, tuple[Script, str]] = {
    "a model server": ([answer({})], "has no live page; --url names the proxy, not the model server"),
    "noise": ([head(200, {"Content-Type": "text/event-stream"}), b"data: {no\n\n"], "is no event of a live page"),
    "nothing": ([head(200, {"Content-Type": "text/event-stream", "Content-Length": "0"})], "before it said anything"),
    "a long error": ([head(500), b"x" * 200_000, HELD], "answered 500: no such page"),
}


@pytest.mark.parametrize("kind", NOT_ONE)
def test_what_is_no_live_page_is_told_and_not_asked_again(kind: str, server: Upstream) -> None:
    script, words = NOT_ONE[kind]
    server.paths["/_ui/events"] = script
    with pytest.raises(RulesError, match=words):
        top_command("vllm-tool-proxy", ("--url", server.url), io.StringIO())
    assert server.asked.count("/_ui/events") == 1
