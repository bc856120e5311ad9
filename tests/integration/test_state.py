"""A worker's state: what it counts, what /health says, and how its settings and rules change while it serves."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from proxy import gunicorn_conf
from proxy.config import load as config
from proxy.config.load import MEMORY_VARIABLE, load
from proxy.config.settings import Settings
from proxy.errors import RulesError, Unavailable
from proxy.worker import state as module
from proxy.worker.shared_memory import Memory
from proxy.worker.snapshot import make_snapshot
from proxy.worker.state import WorkerState, announce, start_worker
from tests.support.scripted import PATIENCE, Upstream
from tests.support.worker_state import make_state, read_rules

BAD = "settings: {heartbeat: often}\n"
ROOT = Path(__file__).parents[2]
# Of each worker in a storm, and how often each of them reloads.
THREADS, RELOADS = 4, 15


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The rules file in force, not there yet; no setting of this machine counts."""
    monkeypatch.setattr(config, "environment", lambda: {"PWD": str(tmp_path)})
    monkeypatch.setattr(config, "SYSTEM_RULES", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "rules.yaml"


@pytest.fixture
def master(rules: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A master that has made its memory: `start_service` is a new worker, `gunicorn_conf.on_reload` a SIGHUP."""
    monkeypatch.setenv(MEMORY_VARIABLE, "")
    gunicorn_conf.on_starting(None)
    fd = os.environ[MEMORY_VARIABLE].partition(":")[2]
    told = {"PWD": str(rules.parent), MEMORY_VARIABLE: f"{os.getppid()}:{fd}"}
    monkeypatch.setattr(config, "environment", lambda: told)
    monkeypatch.setattr(module, "environment", lambda: told)
    yield
    os.close(int(fd))


def service(url: str, **settings: Any) -> WorkerState:
    return make_state(Settings(upstream=url, **settings), read_rules(None))


def heartbeat(worker: WorkerState) -> float:
    return worker.current().settings.heartbeat


def error(worker: WorkerState) -> Any:
    return worker.health()["rules_error"]


def test_requests_are_counted_by_many_threads_at_once() -> None:
    worker = service("http://127.0.0.1:1")

    def visit() -> None:
        for _ in range(2000):
            worker.enter()
            worker.take_stream()
            worker.leave()
            worker.return_stream()

    threads = [threading.Thread(target=visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker.enter()
    worker.enter()
    worker.take_stream()
    assert (worker.health()["active_requests"], worker.health()["total_buffers"]) == (1, 1)


def test_there_are_no_more_streams_than_there_may_be() -> None:
    worker = make_state(Settings(upstream="http://127.0.0.1:1", max_streams=2), read_rules(None))
    worker.take_stream()
    worker.take_stream()
    with pytest.raises(Unavailable, match="2 streams already \\(max_streams\\)"):
        worker.take_stream()
    worker.return_stream()
    worker.take_stream()
    assert worker.health()["total_buffers"] == 2


def test_health_has_the_keys_that_users_read_and_asks_nobody() -> None:
    with Upstream() as server:
        worker = service(server.url, max_tool_calls=7)
        health = worker.health()
        assert server.seen == []
    assert health["status"] == "healthy" and health["config_loaded"] is True
    assert health["vllm_url"] == health["target_host"] == server.url
    assert (health["max_tool_calls"], health["active_requests"], health["total_buffers"]) == (7, 0, 0)
    assert health["rules_file"] == "built-in" and health["rules_sha256"] == worker.snapshot.rules.sha256
    assert (health["worker"], health["rules_error"]) == (os.getpid(), None)
    assert (health["fixes"], health["refusals"], health["calls_with_empty_arguments"]) == ({}, {}, 0)
    assert {"version", "uptime"} <= health.keys()


def test_a_reload_takes_the_file_and_forgets_what_was_learnt_of_the_upstream(rules: Path) -> None:
    worker = start_worker()
    before = worker.current()
    before.remember("tiny")
    rules.write_text("settings: {heartbeat: 3, upstream: http://other:1}\n")
    assert worker.current() is before
    worker.reload()
    after = worker.current()
    assert (after.settings.heartbeat, after.settings.upstream) == (3.0, "http://other:1")
    assert after.upstream is not before.upstream and not after.parses("tiny")
    # What works on the old one goes on with it.
    assert before.settings.heartbeat == 10.0 and before.parses("tiny")


@pytest.mark.parametrize("broken", ["text", "gone", "folder", "long", "latin-1", "client", "no value", "no ca"])
def test_a_reload_of_what_cannot_be_used_changes_nothing_and_health_says_why(
    rules: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "environment", lambda: {"TOOL_PROXY_RULES": str(rules)})
    rules.write_text("settings: {heartbeat: 3}\n")
    worker = start_worker()
    before = worker.current()
    rules.unlink()
    match broken:
        case "text":
            rules.write_text("settings: {heartbeat\n")
        case "folder":
            rules.mkdir()
        case "long":
            rules.write_text("#" * 300 * 1024)
        case "latin-1":
            rules.write_bytes(b"# \xe9\n")
        case "client":
            rules.write_text("settings: {client: nobody}\n")
        case "no ca":
            rules.write_text(f"settings: {{upstream_ca: {rules}}}\n")
        case "no value":
            rules.write_text(BAD)
    with pytest.raises(RulesError) as caught:
        worker.reload()
    assert worker.current() is before
    assert error(worker) == caught.value.message and str(rules) in caught.value.message
    if rules.is_dir():
        rules.rmdir()
    rules.write_text("settings: {heartbeat: 4}\n")
    worker.reload()
    assert (heartbeat(worker), error(worker)) == (4.0, None)


def test_a_reload_after_which_there_is_no_file_takes_the_built_in_rules(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    worker = start_worker()
    rules.unlink()
    worker.reload()
    assert (heartbeat(worker), worker.current().rules.source) == (10.0, "built-in")


def test_a_reload_changes_how_much_is_logged(rules: Path) -> None:
    logger = logging.getLogger("proxy")
    level = logger.level
    try:
        worker = start_worker()
        for verbose, expected in (("true", logging.DEBUG), ("false", logging.INFO)):
            rules.write_text(f"settings: {{verbose: {verbose}}}\n")
            worker.reload()
            assert logger.level == expected
    finally:
        logger.setLevel(level)


@pytest.mark.usefixtures("master")
def test_every_worker_takes_what_one_has_read_and_not_what_the_file_says_by_then(rules: Path) -> None:
    workers = [start_worker() for _ in range(3)]
    rules.write_text("settings: {heartbeat: 3}\n")
    workers[0].reload()
    rules.write_text(BAD)
    assert [heartbeat(worker) for worker in workers] == [3.0] * 3
    assert len({worker.current().rules.sha256 for worker in workers}) == 1
    with pytest.raises(RulesError):
        workers[1].reload()
    assert all("heartbeat" in error(worker) for worker in workers)
    assert [heartbeat(worker) for worker in workers] == [3.0] * 3


@pytest.mark.usefixtures("master")
def test_a_worker_is_not_disturbed_by_published_rules_that_it_does_not_know(rules: Path) -> None:
    """One of the release before, which ends soon, beside those of the next."""
    worker = start_worker()
    before = worker.current()
    with worker.memory.locked():
        worker.memory.publish(b"a_new_section: {}\n", str(rules))
    assert worker.current() is before and worker.current() is before
    rules.write_text("settings: {heartbeat: 3}\n")
    worker.reload()
    assert heartbeat(worker) == 3.0


@pytest.mark.usefixtures("master")
def test_a_worker_that_replaces_another_does_not_look_at_the_file(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    assert heartbeat(start_worker()) == 3.0
    for text in (BAD, "settings: {heartbeat: 4}\n"):
        rules.write_text(text)
        worker = start_worker()
        assert (heartbeat(worker), error(worker)) == (3.0, None)


@pytest.mark.usefixtures("master")
def test_after_a_hang_up_the_first_new_worker_reads_the_file_for_all(rules: Path) -> None:
    old = start_worker()
    gunicorn_conf.on_reload(None)
    rules.write_text("settings: {heartbeat: 3}\n")
    first = start_worker()
    rules.write_text("settings: {heartbeat: 4}\n")
    second = start_worker()
    assert [heartbeat(worker) for worker in (old, first, second)] == [3.0] * 3


@pytest.mark.usefixtures("master")
def test_after_a_hang_up_with_a_bad_file_the_last_good_text_stays_and_all_say_why(
    rules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    old = start_worker()
    rules.write_text(BAD)
    gunicorn_conf.on_reload(None)
    workers = [old, start_worker(), start_worker()]
    assert [heartbeat(worker) for worker in workers] == [3.0] * 3
    assert all("heartbeat" in error(worker) for worker in workers)
    assert [message for message in caplog.messages if "heartbeat" in message] == [
        f"the rules that were in force stay so: {error(old)}"
    ]
    rules.write_text("settings: {heartbeat: 5}\n")
    workers[1].reload()
    assert [(heartbeat(worker), error(worker)) for worker in workers] == [(5.0, None)] * 3


@pytest.mark.usefixtures("master")
def test_only_a_first_start_with_a_bad_file_fails(rules: Path) -> None:
    rules.write_text(BAD)
    for _ in range(2):
        with pytest.raises(RulesError, match="heartbeat"):
            start_worker()
    rules.write_text("settings: {heartbeat: 3}\n")
    worker = start_worker()
    assert (heartbeat(worker), error(worker)) == (3.0, None)


@pytest.mark.usefixtures("master")
def test_a_storm_of_reloads_ends_with_all_workers_at_what_the_file_said_last(rules: Path) -> None:
    """Each worker is a process, as under gunicorn: the lock that makes them take turns is one between processes."""
    still = start_worker()
    memory = os.environ[MEMORY_VARIABLE].partition(":")[2]
    command = [sys.executable, "-m", "tests.support.reload_storm", str(rules), str(THREADS), str(RELOADS)]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TOOL_PROXY_")},
        **{"PWD": str(rules.parent), "PYTHONPATH": str(ROOT), MEMORY_VARIABLE: f"{os.getpid()}:{memory}"},
    }
    with ExitStack() as stack:
        storms = [
            stack.enter_context(
                subprocess.Popen(
                    command,
                    cwd=rules.parent,
                    env=environment,
                    pass_fds=[int(memory)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(2)
        ]
        for storm in storms:
            assert storm.stdout is not None and storm.stdout.readline() == "calm\n"
        told = [storm.communicate("now\n", PATIENCE)[0] for storm in storms]
    last = float(rules.read_text().removeprefix("settings: {heartbeat: ").removesuffix("}\n"))
    assert told == [f"{last}\n"] * 2
    assert heartbeat(still) == last
    assert still.memory.generation() == 1 + 2 * THREADS * RELOADS


def test_many_requests_that_come_after_a_reload_read_the_text_once(
    rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start_worker()
    loads = list[float]()

    def slow(**given: Any) -> Any:
        loads.append(time.monotonic())
        time.sleep(0.05)
        return load(**given)

    with worker.memory.locked():
        worker.memory.publish(b"settings: {heartbeat: 3}\n", str(rules))
    monkeypatch.setattr(module, "load", slow)
    seen = list[float]()
    threads = [threading.Thread(target=lambda: seen.append(heartbeat(worker))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [3.0] * 8 and len(loads) == 1


def test_without_a_master_a_worker_has_a_memory_of_its_own(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    one = start_worker()
    rules.write_text("settings: {heartbeat: 4}\n")
    other = make_state(Settings(), read_rules(None), Memory())
    other.reload()
    assert (heartbeat(one), heartbeat(other)) == (3.0, 4.0)


def test_where_the_audit_file_is_is_told_and_so_is_one_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "proxy")
    for path in ("", str(tmp_path / "a.jsonl"), str(tmp_path)):
        announce(make_snapshot(Settings(audit_file=path), read_rules(None)))
    told, refused = caplog.messages
    assert told == f"repairs are written, with their values, to {tmp_path}/a.jsonl"
    assert refused.startswith(f"the audit file {tmp_path} cannot be written")
