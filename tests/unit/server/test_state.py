"""A worker's state: the current settings and rules, and reloads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from proxy import gunicorn_conf
from proxy.config import load as config
from proxy.config.load import RulesText
from proxy.config.settings import Settings
from proxy.errors import RulesError
from proxy.exchange.plan import PROXY_PARSES
from proxy.server import state as module
from proxy.server.state import Published, WorkerState, start_worker
from tests.support.worker_state import make_state, read_rules


@pytest.fixture(name="rules")
def _rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the rules file, which does not exist yet. Settings of this machine are hidden."""
    monkeypatch.setattr(config, "environment", lambda: {"PWD": str(tmp_path)})
    monkeypatch.setattr(config, "SYSTEM_RULES", tmp_path / "rules.yaml")
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "rules.yaml"


@pytest.fixture(name="master")
def _master(rules: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master with its folder: `start_worker` is a new worker, `gunicorn_conf.on_reload` is a SIGHUP."""
    folder = str(tmp_path_factory.mktemp("run"))
    monkeypatch.setenv("RUNTIME_DIRECTORY", folder)
    monkeypatch.setenv(gunicorn_conf.FOLDER_VARIABLE, "")
    monkeypatch.setenv(gunicorn_conf.METRICS_VARIABLE, "")
    gunicorn_conf.on_starting(None)
    monkeypatch.setenv(gunicorn_conf.SIGNALS_VARIABLE, "")

    def master_environment() -> dict[str, str]:
        signals = os.environ[gunicorn_conf.SIGNALS_VARIABLE]
        folder_of = {gunicorn_conf.FOLDER_VARIABLE: f"{os.getppid()}:{folder}", module.SIGNALS_VARIABLE: signals}
        return {"PWD": str(rules.parent), **folder_of}

    monkeypatch.setattr(config, "environment", master_environment)
    monkeypatch.setattr(module, "environment", master_environment)


def heartbeat(worker: WorkerState) -> float:
    return worker.current().settings.heartbeat


def test_requests_of_many_threads_are_counted_correctly() -> None:
    worker = make_state(Settings(), read_rules(None))

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


def test_a_reload_reads_the_file_and_forgets_facts_about_the_upstream(rules: Path) -> None:
    worker = start_worker()
    before = worker.current()
    assert worker.learn("tiny", (PROXY_PARSES,)) and not worker.learn("evil\nERROR forged", (PROXY_PARSES,))
    rules.write_text("settings: {heartbeat: 3, upstream: http://other:1}\n")
    assert worker.current() is before
    worker.reload()
    after = worker.current()
    assert (after.settings.heartbeat, after.settings.upstream) == (3.0, "http://other:1")
    assert after.servers.keys() != before.servers.keys() and not worker.lessons_of("tiny")
    # Requests that began with the old state continue with it.
    assert before.settings.heartbeat == 10.0


def test_a_reload_without_a_file_uses_the_built_in_rules(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    worker = start_worker()
    rules.unlink()
    worker.reload()
    assert (heartbeat(worker), worker.current().rules.source) == (10.0, "built-in")


@pytest.mark.usefixtures("master")
def test_a_worker_ignores_published_rules_that_it_cannot_read(rules: Path) -> None:
    """A worker of the previous release runs next to those of the next release until it ends."""
    worker = start_worker()
    before = worker.current()
    with worker.in_force.locked():
        worker.in_force.publish(Published(7, RulesText(b"a_new_section: {}\n", "r.yaml")))
    assert worker.current() is before and worker.current() is before
    rules.write_text("settings: {heartbeat: 3}\n")
    worker.reload()
    assert heartbeat(worker) == 3.0


def test_without_a_master_each_worker_has_its_own_folder(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    one = start_worker()
    rules.write_text("settings: {heartbeat: 4}\n")
    other = make_state(Settings(), read_rules(None))
    other.reload()
    assert (heartbeat(one), heartbeat(other)) == (3.0, 4.0)


@pytest.mark.usefixtures("master")
def test_workers_share_lessons_until_the_next_reload(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    one, other = start_worker(), start_worker()
    before = other.current()
    assert one.lessons_of("m") == frozenset()
    assert one.learn("m", ("one_call",)) and other.learn("m", ("pictures",)) and other.learn("n", ("alternate",))
    assert not one.learn("m", ("pictures",)), "it is already known"
    assert other.current() is before and one.current()
    assert other.lessons_of("m") == one.lessons_of("m") == {"one_call", "pictures"}
    assert start_worker().lessons_of("n") == {"alternate"}
    one.reload()
    assert other.current() is not before and other.lessons_of("m") == one.lessons_of("m") == frozenset()


def test_the_number_of_lessons_is_limited(rules: Path) -> None:
    worker = make_state(Settings(), read_rules(None))
    assert not worker.learn("\ud800", ("pictures",)) and not worker.learn("x" * 1000, ("pictures",))
    learnt = [worker.learn(str(number), ("pictures",)) for number in range(260)]
    assert learnt == [True] * 256 + [False] * 4
    assert worker.learn("0", ("one_call",)) and worker.lessons_of("0") == {"one_call", "pictures"}


@pytest.mark.usefixtures("master")
def test_an_unwritable_folder_does_not_affect_workers_and_a_reload_reports_it(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    worker = start_worker()
    gunicorn_conf.on_reload(None)
    rules.write_text("settings: {heartbeat: 4}\n")
    for name in ("rules-in-force.lock", "rules-in-force.new"):
        path = Path(worker.in_force._path).with_name(name)
        path.unlink(missing_ok=True)
        path.mkdir()
        with pytest.raises(RulesError, match="the workers cannot share the rules: Is a directory"):
            worker.reload()
        assert not worker.learn("m", ("pictures",))
        assert heartbeat(start_worker()) == heartbeat(worker) == 3.0
        path.rmdir()


@pytest.mark.usefixtures("master")
def test_rules_that_another_user_may_have_written_are_ignored(rules: Path) -> None:
    rules.write_text("settings: {heartbeat: 3}\n")
    worker = start_worker()
    path = Path(worker.in_force._path)
    other = path.with_name("other")
    path.rename(other)
    path.symlink_to(other)
    assert worker.in_force.read() is None
    path.unlink()
    path.hardlink_to(other)
    assert worker.in_force.read() is None


def test_published_rules_are_private(rules: Path, tmp_path: Path) -> None:
    """They contain the keys."""
    worker = make_state(Settings(), read_rules(None))
    worker.reload()
    (folder,) = {Path(worker.in_force._path).parent}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
