"""A stand-in for systemctl: does what the installed unit file says, with a process of its own and no sandbox.

It is copied into a folder of the PATH as `systemctl`; STAND_IN names the folder with its state. Only what deploy.sh
asks for is here, and what it knows of unit files is what the one of this project uses.
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
# What gunicorn lets streams take, and some time for its end.
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
    raise SystemExit(f"systemctl: there is no {command} here")


def values(key: str) -> list[str]:
    """The values of the lines `key=value` of the unit, in order; lines that go on are joined."""
    return re.findall(rf"(?m)^{key}=(.*)$", UNIT.read_text().replace("\\\n", " "))


def environment() -> dict[str, str]:
    """What the service gets: the unit's variables, then those of its file."""
    lines = values("Environment")
    for path in values("EnvironmentFile"):
        with contextlib.suppress(FileNotFoundError):
            lines += Path(path.removeprefix("-")).read_text().splitlines()
    pairs = [shlex.split(line)[0].partition("=") for line in lines if line and not line.startswith("#")]
    return {"PATH": os.defpath + ":/usr/sbin", "LANG": "C.UTF-8", **{name: value for name, _, value in pairs}}


def spawn(command: str, pid: int = 0, **more: str) -> subprocess.Popen[bytes]:
    """Start one command of the unit as the user that owns nothing."""
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
    """The main process, 0 if there is none."""
    try:
        pid = int((STATE / "pid").read_text())
        return 0 if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text() else pid
    except FileNotFoundError:
        return 0


def start() -> int:
    """Type=notify: it is up when it says so, and when ExecStartPost is done."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as told:
        told.bind(f"\0stand-in-{os.getpid()}")
        told.settimeout(PATIENCE)
        process = spawn(values("ExecStart")[0], NOTIFY_SOCKET=f"@stand-in-{os.getpid()}")
        (STATE / "pid").write_text(str(process.pid))
        with contextlib.suppress(TimeoutError):
            if b"READY=1" in told.recv(4096) and all(spawn(each).wait() == 0 for each in values("ExecStartPost")):
                return 0
    stop()
    return 1


def reload() -> int:
    """Each command of ExecReload, as long as they succeed."""
    pid = alive()
    return 0 if pid and all(spawn(each, pid).wait() == 0 for each in values("ExecReload")) else 1


def stop() -> int:
    """SIGTERM, and SIGKILL to the whole session if that does not do."""
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
