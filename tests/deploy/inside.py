"""`python -m tests.deploy.inside FOLDER`: checks of the service under a real systemd (see `live`)."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.deploy.traffic import Traffic, Upstream
from tests.real.processes import ROOT
from tests.support.scripted import PATIENCE, WRITE_FILE, chat

PORT = 8003
NAME = "vllm-tool-proxy"
CURRENT = Path("/opt") / NAME / "current"
KEY = Path(f"/etc/{NAME}/upstream-key")
DROP_IN = Path(f"/etc/systemd/system/{NAME}.service.d/open-to-network.conf")
ELSEWHERE = "10.9.9.9"


def main(folder: Path) -> None:
    """Run all steps in order, and write their results to `folder`."""
    results = list[str]()
    with Upstream() as upstream:
        variables = {"UPSTREAM": upstream.url, "DETAILED_LOGGING": "true"}
        lines = "".join(f"TOOL_PROXY_{name}={value}\n" for name, value in variables.items())
        Path(f"/etc/default/{NAME}").write_text(lines)
        hide_a_key()

        for step in (starts, audits, reloads, refuses, goes_back, is_closed, is_opened, keeps_its_socket, stops):
            try:
                results.append(step(upstream))
            except BaseException:
                said = run("journalctl", "-o", "cat", "-n", "60", check=False)
                print(step.__name__, run("systemctl", "status", NAME, check=False), said, sep="\n")
                raise
    (folder / "live.json").write_text(json.dumps(results))


def hide_a_key() -> None:
    """Put a key into a file that only root can read, as a credential of the unit."""
    KEY.parent.mkdir(exist_ok=True)
    KEY.write_text("of-root-alone\n")
    KEY.chmod(0o600)
    drop_in = DROP_IN.with_name("key.conf")
    drop_in.parent.mkdir(exist_ok=True)
    drop_in.write_text(f"[Service]\nLoadCredential=upstream-key:{KEY}\n")
    run("systemctl", "daemon-reload")


def run(*command: str, check: bool = True) -> str:
    """Return the output of a command; raise if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def show(key: str) -> str:
    return run("systemctl", "show", "--value", "-p", key, NAME).strip()


def ask(path: str, body: object = None, host: str = "127.0.0.1") -> dict[str, Any]:
    with closing(http.client.HTTPConnection(host, PORT, timeout=PATIENCE)) as client:
        data = json.dumps(body) if body else None
        client.request("POST" if body else "GET", path, data, {"Content-Type": "application/json"})
        told: dict[str, Any] = json.loads(client.getresponse().read())
        return told


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.1)


def starts(upstream: Upstream) -> str:
    """Start the service with its whole sandbox."""
    run("systemctl", "start", NAME)
    health = ask("/health")
    status = Path(f"/proc/{health['worker']}/status").read_text()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status and "CapBnd:\t0000000000000000" in status
    assert "Uid:\t0" not in status, status
    limits = Path(f"/proc/{health['worker']}/limits").read_text()
    # Fewer if this machine's limit is lower. Without the unit's setting it would be 1,024.
    found = re.search(r"Max open files +(\d+)", limits)
    assert found and int(found[1]) > 4096, limits
    told = ask("/v1/chat/completions", chat(stream=False))
    assert told["choices"][0]["message"]["content"] == "short"
    assert upstream.authorization == "Bearer of-root-alone"
    return "it starts in its sandbox, reports when it is ready, answers, and has the key that only root can read"


def audits(upstream: Upstream) -> str:
    """Write the audit file in the service's state folder."""
    told = ask("/v1/chat/completions", chat("Write.", stream=False, tools=[WRITE_FILE]))
    assert told["choices"][0]["message"]["tool_calls"], told
    (audit,) = Path(f"/var/lib/{NAME}").glob("*.jsonl")
    until(lambda: "text_call" in audit.read_text())
    assert audit.stat().st_mode & 0o777 == 0o600
    return f"the audit file is {audit.resolve()}"


def reloads(upstream: Upstream) -> str:
    """Reload during a stream and requests."""
    pid, worker = show("MainPID"), ask("/health")["worker"]
    with Traffic(PORT, upstream) as traffic:
        run("systemctl", "reload", NAME)
        until(lambda: bool(ask("/health")["worker"] != worker))
        time.sleep(1)
    assert traffic.failures == [] and traffic.streamed and show("MainPID") == pid, traffic.failures
    return f"a reload: {traffic.answered} requests, none refused; the stream continued"


def refuses(upstream: Upstream) -> str:
    """Refuse a reload with code that cannot be loaded."""
    worker = ask("/health")["worker"]
    (app,) = CURRENT.glob("venv/lib/python*/site-packages/proxy/app.py")
    text = app.read_text()
    app.write_text("import no_such_module\n")
    said = run("systemctl", "reload", NAME, check=False)
    app.write_text(text)
    assert "failed" in said and ask("/health")["worker"] == worker and show("ActiveState") == "active"
    return "a reload with code that cannot be loaded is refused, and the service keeps running"


def goes_back(upstream: Upstream) -> str:
    """Run release.sh with the real systemctl."""
    there = {path.name for path in (CURRENT.parent / "releases").iterdir() if path.suffix != ".failed"}
    (other,) = there - {Path(os.readlink(CURRENT)).name}
    pid = show("MainPID")
    said = run("bash", str(ROOT / "systemd" / "release.sh"), "rollback", other)
    assert os.readlink(CURRENT) == f"releases/{other}" and show("MainPID") == pid and "is in force" in said
    return f"release.sh switches to another release: {other}"


def is_closed(upstream: Upstream) -> str:
    """Listen on all addresses; only loopback can reach the service."""
    run("ip", "address", "add", f"{ELSEWHERE}/32", "dev", "lo")
    with Path(f"/etc/default/{NAME}").open("a") as file:
        file.write("TOOL_PROXY_HOST=0.0.0.0\n")
    run("systemctl", "restart", NAME)
    assert ask("/health")["status"] == "healthy"
    try:
        ask("/health", host=ELSEWHERE)
    except OSError:
        return "when it listens on all addresses, it still answers this machine only"
    raise AssertionError("the service answers another address")


def is_opened(upstream: Upstream) -> str:
    """Open the service to another address with the drop-in."""
    lines = Path(f"/etc/default/{NAME}").read_text()
    Path(f"/etc/default/{NAME}").write_text(lines.replace("TOOL_PROXY_HOST=0.0.0.0\n", ""))
    DROP_IN.write_text((ROOT / "systemd" / "open-to-network.conf").read_text())
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", NAME)
    assert ask("/health", host=ELSEWHERE)["status"] == "healthy"
    DROP_IN.unlink()
    run("systemctl", "daemon-reload")
    return "open-to-network.conf opens it to another address"


def keeps_its_socket(upstream: Upstream) -> str:
    """Restart under the socket unit without refusing a request."""
    run("systemctl", "stop", NAME)
    run("systemctl", "start", f"{NAME}.socket")
    assert ask("/health")["status"] == "healthy"  # this request starts it
    pid = show("MainPID")
    with Traffic(PORT, upstream, streams=False) as traffic:
        run("systemctl", "restart", NAME)
        time.sleep(1)
    assert traffic.failures == [] and show("MainPID") != pid, traffic.failures
    return f"a restart with the socket unit: {traffic.answered} requests, none refused"


def stops(upstream: Upstream) -> str:
    """Stop the service; it exits in time without being killed."""
    run("systemctl", "stop", f"{NAME}.socket", NAME)
    assert (show("Result"), show("NRestarts")) == ("success", "0")
    return "it stops on SIGTERM"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
