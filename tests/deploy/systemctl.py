"""A stand-in for systemctl that runs the installed unit's commands as its own processes, without a sandbox.

It is copied into a folder of the PATH as `systemctl`; STAND_IN names the folder with its state. It supports only the
commands that deploy.sh runs, and the settings that this project's unit file uses.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

STATE = Path(os.environ["STAND_IN"])
UNIT = STATE / "units" / "vllm-tool-proxy.service"
NOBODY = 65534
# gunicorn's timeout for streams, and some time to exit.
PATIENCE = 75.0


def main(words: list[str]) -> int:
    """Run one command; return systemctl's exit status."""
    with (STATE / "systemctl.log").open("a") as log:
        print(*words, file=log)
    command, *rest = words
    match command:
        case "daemon-reload":
            return 0
        case "enable":
            (STATE / "enabled").write_text(rest[0])
            return 0
        case "is-active":
            return 0 if alive() else 3
        case "start" | "restart":
            return stop() or start()
        case "reload":
            return reload()
        case "stop":
            return stop()
    raise SystemExit(f"systemctl: the stand-in does not support {command}")


def values(key: str) -> list[str]:
    """Return the values of the unit's `key=value` lines in order; continued lines are joined."""
    return re.findall(rf"(?m)^{key}=(.*)$", UNIT.read_text().replace("\\\n", " "))


def environment() -> dict[str, str]:
    """Return the service's variables: the unit's, then those of its environment file."""
    lines = values("Environment")
    for path in values("EnvironmentFile"):
        with contextlib.suppress(FileNotFoundError):
            lines += Path(path.removeprefix("-")).read_text().splitlines()
    pairs = [shlex.split(line)[0].partition("=") for line in lines if line and not line.startswith("#")]
    return {"PATH": os.defpath + ":/usr/sbin", "LANG": "C.UTF-8", **{name: value for name, _, value in pairs}}


def spawn(command: str, pid: int = 0, **more: str) -> subprocess.Popen[bytes]:
    """Start one command of the unit as a user that owns nothing."""
    env = {**environment(), **more, **({"MAINPID": str(pid)} if pid else {})}
    expanded = command.replace("$$", "\0").replace("$MAINPID", str(pid)).replace("\0", "$")
    with (STATE / "journal").open("ab") as journal:
        return subprocess.Popen(
            shlex.split(expanded),
            cwd=values("WorkingDirectory")[0],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            start_new_session=True,
        )


def alive() -> int:
    """Return the main process's id, or 0 if it is not running."""
    try:
        pid = int((STATE / "pid").read_text())
        return 0 if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text() else pid
    except FileNotFoundError:
        return 0


def start() -> int:
    """Start the service. It is up (Type=notify) once it notifies and ExecStartPost has succeeded."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as notified:
        notified.bind(f"\0stand-in-{os.getpid()}")
        notified.settimeout(PATIENCE)
        process = spawn(values("ExecStart")[0], NOTIFY_SOCKET=f"@stand-in-{os.getpid()}")
        (STATE / "pid").write_text(str(process.pid))
        with contextlib.suppress(TimeoutError):
            if b"READY=1" in notified.recv(4096) and all(spawn(each).wait() == 0 for each in values("ExecStartPost")):
                return 0
    stop()
    return 1


def reload() -> int:
    """Run the commands of ExecReload until one fails."""
    pid = alive()
    return 0 if pid and all(spawn(each, pid).wait() == 0 for each in values("ExecReload")) else 1


def stop() -> int:
    """Send SIGTERM, and after a timeout SIGKILL to the whole session."""
    pid = alive()
    if not pid:
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while alive():
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if not word.startswith("-")]))
