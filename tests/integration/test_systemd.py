"""The unit files: their programs and settings exist, their sandbox is tight, and a passed socket is used."""

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


def test_a_reload_checks_code_and_rules_before_the_workers_load_them() -> None:
    check, hang_up = values("ExecReload")
    assert arguments(check) == ["check"]
    assert hang_up == "/bin/kill -HUP $MAINPID"


@pytest.mark.parametrize("unit", [UNIT, OPEN, SOCKET], ids=lambda path: path.name)
def test_all_named_variables_exist(unit: Path) -> None:
    named = set(re.findall(r"\bTOOL_PROXY_[A-Z_]+", unit.read_text())) - {"TOOL_PROXY_"}
    assert named and named <= {RULES_VARIABLE, *(spec.variables[0] for spec in SPECS)}


def test_the_documented_values_are_the_defaults() -> None:
    shown = dict(re.findall(r"(?m)^#Environment=(TOOL_PROXY_\w+)=(.+)$", UNIT.read_text()))
    for spec in SPECS:
        assert shown.get(spec.variables[0], str(spec.default)) == str(spec.default)


def test_the_exposure_level_is_at_most_1_5() -> None:
    """systemd rates units from 0 (locked down) to 10. Without a sandbox the unit would have 9.6."""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"Overall exposure level for vllm-tool-proxy.service: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= 1.5, done.stdout


def test_systemd_knows_every_key(tmp_path: Path) -> None:
    for unit in (UNIT, SOCKET):
        # systemd checks that the programs exist.
        (tmp_path / unit.name).write_text(unit.read_text().replace(PYTHON, sys.executable))
    (tmp_path / f"{UNIT.name}.d").mkdir()
    shutil.copy(OPEN, tmp_path / f"{UNIT.name}.d")
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name), str(tmp_path / SOCKET.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert [line for line in done.stderr.splitlines() if "vllm-tool-proxy" in line or str(tmp_path) in line] == []


def test_only_this_machine_has_access_unless_a_drop_in_changes_that() -> None:
    for unit in (UNIT, SOCKET):
        assert (values("IPAddressDeny", unit), values("IPAddressAllow", unit)) == (["any"], ["localhost"])
    assert values("Environment", OPEN) == ["TOOL_PROXY_HOST=0.0.0.0"] and values("IPAddressAllow", OPEN)
    assert values("ListenStream", SOCKET) == ["127.0.0.1:8003"]


@pytest.mark.parametrize(("host", "port"), [("", ""), ("0.0.0.0", ""), ("", "8004"), ("[::1]", "8004")])
def test_the_health_check_uses_the_address_of_the_listener(host: str, port: str, tmp_path: Path) -> None:
    """The check runs as in systemd, with a curl that only records its URL."""
    curl = tmp_path / "curl"
    curl.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$last" > {tmp_path}/asked\n')
    curl.chmod(0o755)
    command = shlex.split(values("ExecStartPost")[0].replace("$$", "$"))
    given = {"TOOL_PROXY_HOST": host, "TOOL_PROXY_PORT": port}
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", **{name: value for name, value in given.items() if value}}
    subprocess.run(command, env=env, check=True)
    assert (tmp_path / "asked").read_text().strip() == f"http://{host or '127.0.0.1'}:{port or '8003'}/health"


@pytest.mark.slow
def test_a_socket_passed_by_systemd_is_used(tmp_path: Path) -> None:
    """systemd's own program starts the service at the first connection."""
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
        # The process that had the socket is now gunicorn's master.
        assert b"gunicorn" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.send_signal(signal.SIGHUP)
        until(lambda: worker(port, process) != first)
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(90)  # gunicorn kills workers after its graceful timeout, 60 s
    assert "Traceback" not in (tmp_path / "log").read_text()


def worker(port: int, process: subprocess.Popen[bytes]) -> int:
    def listens() -> bool:
        assert process.poll() is None
        return answers(f"http://127.0.0.1:{port}/health")

    until(listens)
    return int(Proxy(port, Path(os.devnull)).health()["worker"])
