"""Reloads of a real server with two workers: the rules of each worker, and the requests that continue."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proxy import __file__ as package
from tests.conftest import Proxy, clean_environment, start, until
from tests.real.processes import ROOT, free_port
from tests.support.helpers import received
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Client,
    Script,
    Upstream,
    chat,
    chunked,
    finish,
    text,
    whole_reply,
)

pytestmark = pytest.mark.once

CHAT = "/v1/chat/completions"
WHOLE = json.dumps(chat(stream=False)).encode()
BAD = "settings: {heartbeat: often}\n"
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "hi"}}\n</tool_call>'


@dataclass
class Two:
    """A proxy with two workers and a rules file whose `max_tool_calls` is shown by /health."""

    proxy: Proxy
    rules: Path

    def says(self, number: int, more: str = "", upstream: str = "http://127.0.0.1:1") -> None:
        self.holds(f"settings: {{max_tool_calls: {number}, upstream: '{upstream}'}}\n{more}")

    def holds(self, text: str) -> None:
        """Replace the file atomically, so that no worker reads a partial file."""
        new = self.rules.with_name("next.yaml")
        new.write_text(text)
        new.rename(self.rules)

    def post(self, path: str, body: bytes = b"") -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON of a POST."""
        status, headers, data = self.proxy.ask("POST", path, body)
        return status, headers, json.loads(data)

    def reload(self) -> int:
        return self.post("/_reload")[0]

    def workers(self) -> dict[int, dict[str, Any]]:
        """Return the /health of both workers by process id."""
        return self.proxy.workers()

    def numbers(self) -> set[int]:
        return {health["max_tool_calls"] for health in self.workers().values()}

    def settle(self) -> None:
        """Wait until no worker counts a request or a stream."""
        until(lambda: not any(each["active_requests"] or each["total_buffers"] for each in self.workers().values()))

    def new_workers(self, old: Container[int]) -> dict[int, dict[str, Any]]:
        """Return the /health of both workers once the `old` ones no longer answer."""
        until(lambda: all(self.proxy.health()["worker"] not in old for _ in range(20)))
        return self.workers()


def parent(pid: int) -> int:
    found = re.search(r"(?m)^PPid:\s+(\d+)$", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


Make = Callable[..., Two]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Make]:
    """Function that starts proxies with two workers: `two(upstream_url, *flags)`."""
    with ExitStack() as stack:

        def make(upstream: str, *flags: str, more: str = "") -> Two:
            rules = tmp_path / "rules.yaml"
            made = Two(Proxy(0, rules), rules)
            made.says(1, more, upstream)
            words = ("--workers", "2", "--rules", str(rules), *flags)
            made.proxy = start("", *words, folder=tmp_path / "proxy", stack=stack)
            return made

        yield make


@pytest.fixture
def idle(two: Make) -> Iterator[Two]:
    with Upstream() as server:
        yield two(server.url)


def test_one_request_reloads_all_workers_before_their_next_request(idle: Two) -> None:
    before = idle.workers()
    for number in (2, 3, 4):
        idle.says(number)
        assert idle.post("/_reload")[::2] == (200, {"status": "success", "message": "Configuration reloaded"})
        assert [idle.proxy.health()["max_tool_calls"] for _ in range(40)] == [number] * 40
    after = idle.workers()
    assert after.keys() == before.keys()
    assert len({health["rules_sha256"] for health in after.values()}) == 1


def breaks(rules: Path, how: str) -> None:
    """Replace the rules file with an unusable one."""
    rules.unlink()
    match how:
        case "syntax":
            rules.write_text("settings:\n  max_tool_calls: 2\n - x\n")
        case "folder":
            rules.mkdir()
        case "long":
            rules.write_text("# " + "x" * 300 * 1024)


def test_unusable_rules_are_a_422_and_change_nothing(idle: Two) -> None:
    for number, broken in enumerate(("syntax", "gone", "folder", "long"), start=1):
        breaks(idle.rules, broken)
        status, headers, body = idle.post("/_reload")
        assert (status, headers["content-type"], body["status"]) == (422, "application/json", "error"), broken
        assert sorted(body) == ["errors", "message", "status"] and str(idle.rules) in body["errors"][0], broken
        healths = [(health["max_tool_calls"], health["rules_error"]) for health in idle.workers().values()]
        assert healths == [(number, body["errors"][0])] * 2, broken
        if broken == "folder":
            idle.rules.rmdir()
        idle.says(number + 1)
        assert idle.reload() == 200
        healths = [(health["max_tool_calls"], health["rules_error"]) for health in idle.workers().values()]
        assert healths == [(number + 1, None)] * 2, broken


def test_200_streams_survive_new_rules_and_another_upstream(two: Make) -> None:
    count = 200
    cleaning = "clients: {mine: {clean: {choice: [token_ids]}}}"
    with Upstream() as old, Upstream(*[whole_reply("new")] * 20) as new, ExitStack() as stack:
        gate = old.gate()
        tail = [chunked(text("b")), chunked(finish()), chunked(DONE), LAST]
        script: Script = [SSE, chunked(ROLE), chunked(text("a")), gate, *tail]
        old.play(*[script] * count)
        server = two(old.url, more=cleaning)
        path = f"/for/mine{CHAT}"
        clients = [stack.enter_context(Client.post(server.proxy.port, chat(), path)) for _ in range(count)]
        answers = [stack.enter_context(client.answer()) for client in clients]
        assert sum(health["total_buffers"] for health in server.workers().values()) == count
        for number in (2, 3, 4):
            server.says(number, upstream=new.url)
            assert server.reload() == 200
        assert server.post(path, WHOLE)[0] == 404  # the client is no longer configured
        assert [server.post(CHAT, WHOLE)[2]["choices"][0]["message"]["content"] for _ in range(20)] == ["new"] * 20
        gate.open()
        for response in answers:
            data = response.read()
            got = received(data)
            assert got[0].text == "ab" and got.done and b"token_ids" not in data
        server.settle()


@pytest.mark.slow
def test_no_request_fails_during_many_reloads(two: Make) -> None:
    with Upstream(*[whole_reply("a")] * 2000) as server:
        storm = two(server.url)
        before = storm.workers().keys()
        seen, failures, lock = list[int](), list[BaseException](), threading.Lock()

        def reload(thread: int) -> None:
            try:
                for number in range(25):
                    with lock:
                        if (thread + number) % 5 == 0:
                            storm.holds(BAD)
                        else:
                            storm.says(100 + number, upstream=server.url)
                    seen.append(storm.reload())
                    seen.append(storm.post(CHAT, WHOLE)[0])
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=reload, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == [] and set(seen) == {200, 422} and seen.count(200) > 200
        storm.says(7)
        assert storm.reload() == 200 and storm.numbers() == {7}
        assert storm.workers().keys() == before
        storm.settle()


def test_the_successor_of_a_killed_worker_uses_the_published_rules_not_the_file(idle: Two) -> None:
    idle.says(2)
    assert idle.reload() == 200
    idle.rules.write_text(BAD)
    old = idle.workers().keys()
    for killed in old:
        os.kill(killed, signal.SIGKILL)
    healths = idle.new_workers(old)
    assert {(health["max_tool_calls"], health["rules_error"]) for health in healths.values()} == {(2, None)}


@pytest.mark.slow
def test_a_hang_up_with_a_bad_file_starts_workers_with_the_previous_rules(idle: Two) -> None:
    idle.says(2)
    assert idle.reload() == 200
    idle.rules.write_text(BAD)
    old = idle.workers().keys()
    master = parent(min(old))
    os.kill(master, signal.SIGHUP)
    for health in idle.new_workers(old).values():
        assert health["max_tool_calls"] == 2 and f"{idle.rules}:1: heartbeat" in health["rules_error"]
    assert idle.proxy.logged("the rules that were in force stay so").count("stay so") == 1
    idle.says(3)
    old = idle.workers().keys()
    os.kill(master, signal.SIGHUP)
    healths = idle.new_workers(old)
    assert {(health["max_tool_calls"], health["rules_error"]) for health in healths.values()} == {(3, None)}
    assert {parent(worker) for worker in healths} == {master}


def test_a_first_start_with_bad_rules_fails(tmp_path: Path) -> None:
    """Without the check of `serve`, gunicorn reports the error and exits."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(BAD)
    folder = Path(package).parent
    command = [sys.executable, "-P", "-m", "gunicorn", "-c", str(folder / "gunicorn_conf.py"), "--chdir", str(ROOT)]
    command += ["--bind", f"127.0.0.1:{free_port()}", "--workers", "2", "--threads", "4", "proxy.app:create_app()"]
    env = {**clean_environment(), "TOOL_PROXY_RULES": str(rules)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 and f"{rules}:1: heartbeat" in done.stderr


def test_workers_share_the_audit_file_and_the_counts(two: Make, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with Upstream(*[whole_reply(HERMES)] * 20) as server:
        repairing = two(server.url, "--audit-file", str(audit))
        request = json.dumps(chat("secret", stream=False, tools=[WRITE_FILE])).encode()
        fixes = [repairing.post(CHAT, request)[1]["x-tool-proxy-fixes"] for _ in range(20)]
    assert set(fixes) == {"text_call:1"}
    repairing.settle()  # records are written after the answer has been sent
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    assert len(records) == 20 and audit.stat().st_mode & 0o777 == 0o600
    assert {(record["model"], record["fix"]) for record in records} == {("tiny", "text_call")}
    # Every worker reports the counts of all workers.
    assert [health["fixes"]["text_call"] for health in repairing.workers().values()] == [20] * 2
    log = repairing.proxy.logged(f"to {audit}")
    assert log.count("fix=text_call") == 20 and "write_file\\" not in log and "secret" not in log
