"""The files in deploy/: HAProxy accepts its configuration, and all files match this proxy."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path, PurePath

import yaml

from proxy import __version__, gunicorn_conf
from proxy.config.load import AUDIT_NAME
from proxy.config.settings import Settings
from tests.cluster.boxes import CONFIG, haproxy_program, rendered
from tests.real.processes import ROOT

FOLDER = ROOT / "deploy"
LOGROTATE = ROOT / "deploy" / "logrotate" / "vllm-tool-proxy"
UNIT = ROOT / "systemd" / "vllm-tool-proxy.service"
LINES = [line.strip() for line in CONFIG.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]


def values(*words: str) -> list[str]:
    """Return the remainder of every line of haproxy.cfg that starts with these words."""
    start = " ".join(words) + " "
    return [line.removeprefix(start) for line in LINES if line.startswith(start)]


def value(*words: str) -> str:
    (only,) = values(*words)
    return only


def seconds(text: str) -> float:
    """Parse a time in HAProxy's notation."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()  # type: ignore[union-attr]
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def section(name: str) -> list[str]:
    start = LINES.index(name) + 1
    heads = ("global", "defaults", "frontend ", "backend ")
    end = next((at for at in range(start, len(LINES)) if LINES[at].startswith(heads)), len(LINES))
    return LINES[start:end]


def haproxy_programs() -> list[str]:
    """Return the HAProxy program, or an empty list if it is not installed. CI requires it."""
    return [program] if (program := haproxy_program()) else ["haproxy"] if "CI" in os.environ else []


def test_haproxy_accepts_the_file_without_a_warning(tmp_path: Path) -> None:
    files = {"unchanged": CONFIG, "rendered": tmp_path / "haproxy.cfg"}
    files["rendered"].write_text(rendered(18003, 18000, (18004, 18005, 18006), (18007, 18008), tmp_path))
    for program in haproxy_programs():
        for name, path in files.items():
            # -dW turns warnings into errors.
            done = subprocess.run([program, "-c", "-dW", "-f", path], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (name, done.stdout, done.stderr)


def test_haproxys_idle_timeouts_exceed_the_proxys() -> None:
    for side in ("client", "server", "tunnel"):
        assert seconds(value("timeout", side)) > 2 * Settings().idle_timeout > 10 * Settings().heartbeat
    assert seconds(value("timeout", "http-keep-alive")) >= gunicorn_conf.keepalive


def test_haproxys_own_errors_are_readable_by_both_kinds_of_clients() -> None:
    told = [line for line in values("http-error") + values("http-request", "return") if "string" in line]
    bodies = [yaml.safe_load(re.findall(r"string '([^']*)'", line)[0]) for line in told]
    errors = [body for body in bodies if "status" not in body]
    assert len(errors) == 9
    for body in errors:
        assert body["type"] == "error" and body["error"]["type"].endswith("_error") and body["error"]["message"]


def test_the_image_contains_the_wheel_and_does_not_run_as_root() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert "pip wheel " in dockerfile and "/tmp/wheels/*.whl" in dockerfile and __version__ not in dockerfile
    assert re.search(r"(?m)^USER [1-9]\d*:[1-9]\d*$", dockerfile)
    assert re.search(r"(?m)^FROM python:3\.\d+-slim-\w+$", dockerfile)


def test_the_image_is_built_only_from_the_listed_files() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", dockerfile) for word in line.split()[:-1]}
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} == {word for word in ignored if word.startswith("!")}
    assert ignored[0] == "*"
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_compose_serves_the_proxy_only_on_this_machine() -> None:
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    proxy = services["proxy"]
    assert proxy["environment"]["TOOL_PROXY_UPSTREAM"] == "http://vllm:8000" and "vllm" in services
    assert proxy["ports"] == [f"127.0.0.1:{Settings().port}:{Settings().port}"]
    assert int(proxy["stop_grace_period"].removesuffix("s")) > Settings().graceful_timeout


def test_logrotate_rotates_the_units_audit_file_and_lets_the_proxy_create_the_next() -> None:
    (pattern, body) = re.findall(r"^(/\S+) \{\n(.*?)^\}", LOGROTATE.read_text(), re.DOTALL | re.MULTILINE)[0]
    folder = re.search(r"^StateDirectory=(\S+)$", UNIT.read_text(), re.MULTILINE)
    assert folder is not None
    assert PurePath("/var/lib", folder[1], AUDIT_NAME).match(pattern)
    words = [line.strip() for line in body.splitlines()]
    assert "nocreate" in words and "missingok" in words and not any(word.startswith("copytruncate") for word in words)
