"""The unit files: they start what there is, with settings that exist, in a sandbox; and a handed-over socket."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.config.load import RULES_VARIABLE
from proxy.config.settings import SPECS
from tests.conftest import Proxy, clean_environment, until
from tests.real.processes import ROOT, answers, free_port

SYSTEMD = ROOT / "systemd"
UNIT = SYSTEMD / "vllm-tool-proxy.service"
SOCKET = SYSTEMD / "vllm-tool-proxy.socket"
OPEN = SYSTEMD / "open-to-network.conf"
PYTHON = "/opt/vllm-tool-proxy/current/venv/bin/python"


def values(key: str, unit: Path = UNIT) -> list[str]:
    """Return the values of all lines `key=value`, in order, with continued lines joined."""
    return re.findall(rf"(?m)^{key}=(.*)$", unit.read_text().replace("\\\n", ""))


def arguments(command: str) -> list[str]:
    """Return the arguments after `python -m proxy` in a command line of the unit."""
    program, arguments = command.removeprefix("/usr/bin/env -u CREDENTIALS_DIRECTORY ").split(" -m proxy ")
    assert program == PYTHON
    return arguments.split()


def test_a_reload_checks_code_and_rules_before_the_workers_get_them() -> None:
    check, hang_up = values("ExecReload")
    assert arguments(check) == ["check"]
    assert hang_up == "/bin/kill -HUP $MAINPID"


@pytest.mark.parametrize("unit", [UNIT, OPEN, SOCKET], ids=lambda path: path.name)
def test_the_variables_that_it_names_exist(unit: Path) -> None:
    named = set(re.findall(r"\bTOOL_PROXY_[A-Z_]+", unit.read_text())) - {"TOOL_PROXY_"}
    assert named and named <= {RULES_VARIABLE, *(spec.variables[0] for spec in SPECS)}


def test_the_shown_values_are_the_defaults() -> None:
    shown = dict(re.findall(r"(?m)^#Environment=(TOOL_PROXY_\w+)=(.+)$", UNIT.read_text()))
    for spec in SPECS:
        assert shown.get(spec.variables[0], str(spec.default)) == str(spec.default)


def test_its_exposure_is_at_most_1_5() -> None:
    """systemd's own judgement, from 0 (locked up) to 10; without a sandbox the unit would have 9.6."""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"Overall exposure level for vllm-tool-proxy.service: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= 1.5, done.stdout


def test_systemd_knows_every_key(tmp_path: Path) -> None:
    for unit in (UNIT, SOCKET):
        # It looks for the programs as well.
        (tmp_path / unit.name).write_text(unit.read_text().replace(PYTHON, sys.executable))
    (tmp_path / f"{UNIT.name}.d").mkdir()
    shutil.copy(OPEN, tmp_path / f"{UNIT.name}.d")
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name), str(tmp_path / SOCKET.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert [line for line in done.stderr.splitlines() if "vllm-tool-proxy" in line or str(tmp_path) in line] == []


def test_only_this_machine_is_let_in_and_a_drop_in_changes_that() -> None:
    for unit in (UNIT, SOCKET):
        assert (values("IPAddressDeny", unit), values("IPAddressAllow", unit)) == (["any"], ["localhost"])
    assert values("Environment", OPEN) == ["TOOL_PROXY_HOST=0.0.0.0"] and values("IPAddressAllow", OPEN)
    assert values("ListenStream", SOCKET) == ["127.0.0.1:8003"]


@pytest.mark.parametrize(("host", "port"), [("", ""), ("0.0.0.0", ""), ("", "8004"), ("[::1]", "8004")])
def test_the_question_whether_it_is_up_goes_where_it_listens(host: str, port: str, tmp_path: Path) -> None:
    """As systemd would ask it; curl itself only writes down what it was asked."""
    curl = tmp_path / "curl"
    curl.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$last" > {tmp_path}/asked\n')
    curl.chmod(0o755)
    command = shlex.split(values("ExecStartPost")[0].replace("$$", "$"))
    given = {"TOOL_PROXY_HOST": host, "TOOL_PROXY_PORT": port}
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", **{name: value for name, value in given.items() if value}}
    subprocess.run(command, env=env, check=True)
    assert (tmp_path / "asked").read_text().strip() == f"http://{host or '127.0.0.1'}:{port or '8003'}/health"


@pytest.mark.slow
def test_a_socket_that_systemd_hands_over_is_the_one_that_is_served(tmp_path: Path) -> None:
    """With systemd's own program for it, which starts the service at the first connection."""
    port, own = free_port(), free_port()
    serve = [sys.executable, "-m", "proxy", "serve", "--port", str(own)]
    command = ["systemd-socket-activate", "--listen", f"127.0.0.1:{port}"]
    command += [f"--setenv={name}={value}" for name, value in clean_environment().items()]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, *serve], cwd=ROOT, stderr=log)
    try:
        first = worker(port, process)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", own))
        # The process that had the socket is gunicorn's master now.
        assert b"gunicorn" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.send_signal(signal.SIGHUP)
        until(lambda: worker(port, process) != first)
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(90)  # gunicorn kills what has not ended after its graceful timeout, 60 s
    assert "Traceback" not in (tmp_path / "log").read_text()


def worker(port: int, process: subprocess.Popen[bytes]) -> int:
    def listens() -> bool:
        assert process.poll() is None
        return answers(f"http://127.0.0.1:{port}/health")

    until(listens)
    return int(Proxy(port, Path(os.devnull)).health()["worker"])
