"""gunicorn's settings, and the modules that the master must not load."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from proxy import gunicorn_conf
from proxy.server import metrics, state
from proxy.server.pump_worker import PumpWorker

pytestmark = pytest.mark.once

CONF = Path(gunicorn_conf.__file__)


def test_every_setting_exists_in_gunicorn_and_has_a_valid_value() -> None:
    config = Config()
    names = {name for name, value in vars(gunicorn_conf).items() if name.islower() and not name.startswith("_")}
    names -= {"annotations", *sys.stdlib_module_names}
    assert names <= set(config.settings), names - set(config.settings)
    for name in names:
        config.set(name, getattr(gunicorn_conf, name))
    assert config.worker_class is gunicorn_conf._worker.PumpWorker
    assert (config.max_requests, config.preload_app, config.control_socket_disable) == (0, False, True)
    assert (config.forwarded_allow_ips, config.header_map) == (["127.0.0.1"], "drop")
    assert (config.timeout, config.graceful_timeout, config.keepalive) == (60, 60, 120)


def test_the_master_loads_its_own_copy_of_modules() -> None:
    """After a reload the master would pass old modules to new workers."""
    assert gunicorn_conf._load("pump_worker").PumpWorker is not PumpWorker


def test_a_forked_worker_resets_import_paths_and_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("importlib.invalidate_caches", lambda: seen.append(True))
    signals: dict[int, object] = {}
    (tmp_path / "new").mkdir()
    (tmp_path / "current").symlink_to("new")
    monkeypatch.setattr("sys.path", [str(tmp_path / "current")])
    monkeypatch.setattr("signal.signal", signals.__setitem__)
    gunicorn_conf.post_fork(None, None)
    assert seen == [True]
    assert sys.path == [str(tmp_path / "new")]
    # A worker that receives a signal before its setup must exit.
    assert signals == dict.fromkeys((signal.SIGTERM, signal.SIGQUIT, signal.SIGINT), signal.SIG_DFL)


def test_the_master_empties_the_shared_folder_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload empties nothing, and other files of a runtime directory stay."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    monkeypatch.setenv(gunicorn_conf.SIGNALS_VARIABLE, "")
    monkeypatch.setenv(gunicorn_conf.FOLDER_VARIABLE, "")
    monkeypatch.setenv(gunicorn_conf.METRICS_VARIABLE, "")
    assert gunicorn_conf.FOLDER_VARIABLE == state.FOLDER_VARIABLE
    (tmp_path / "metrics").mkdir()
    old = [tmp_path / name for name in ("metrics/counter_1.db", state.RULES_FILE, "kept")]
    for path in old:
        path.touch()
    gunicorn_conf.on_starting(None)
    assert [path.exists() for path in old] == [False, False, True]
    for path in old:
        path.touch()
    gauges = tmp_path / "metrics" / "gauge_livesum_7.db"
    gauges.touch()
    gunicorn_conf.on_reload(None)
    gunicorn_conf.child_exit(None, SimpleNamespace(place=7, pid=1))
    gunicorn_conf.on_exit(None)
    assert all(path.exists() for path in old) and not gauges.exists()
    assert os.environ[state.SIGNALS_VARIABLE] == "1"


def test_without_a_runtime_directory_the_folder_is_temporary_and_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/nowhere")
    monkeypatch.setenv(gunicorn_conf.FOLDER_VARIABLE, "1:/of/another/master")
    monkeypatch.setenv(gunicorn_conf.METRICS_VARIABLE, "")
    gunicorn_conf.on_starting(None)
    folder = Path(os.environ[gunicorn_conf.FOLDER_VARIABLE].partition(":")[2])
    assert os.environ[gunicorn_conf.METRICS_VARIABLE] == str(folder / "metrics")
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / "metrics").is_dir()
    shutil.rmtree(folder)
    monkeypatch.setenv(gunicorn_conf.PLACE_VARIABLE, "")
    first, third = (SimpleNamespace(place=f"{os.getpid()}-{number}") for number in (0, 2))
    gunicorn_conf.pre_fork(SimpleNamespace(WORKERS={7: first, 8: third, 9: None}), worker := SimpleNamespace())
    assert worker.place == os.environ[metrics.PLACE_VARIABLE] == f"{os.getpid()}-1"
    again = Path(os.environ[gunicorn_conf.FOLDER_VARIABLE].partition(":")[2])
    assert (again / "metrics").is_dir()
    gunicorn_conf.on_exit(None)
    assert not again.exists()
