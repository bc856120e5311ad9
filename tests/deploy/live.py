"""The unit under a real systemd, booted in separate namespaces on an overlay of this machine's files.

Nothing remains after the check, and the only network is the namespace's loopback. If booting is impossible, as in a
container without privileges, the reason is printed, which is not a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.real.processes import ROOT

SECONDS = 240
# Replaces this machine's default target.
TARGET = """[Unit]
Requires=basic.target live.service
After=basic.target
"""
SERVICE = """[Unit]
After=basic.target systemd-journald.service
SuccessAction=exit-force
FailureAction=exit-force

[Service]
Type=oneshot
WorkingDirectory={root}
ExecStart={python} -m tests.deploy.inside /live
StandardOutput=append:/live/live.log
StandardError=append:/live/live.log
"""
BOOT = """
set -euo pipefail
mount --make-rprivate /
mount -t tmpfs tmpfs "$0"
mkdir "$0"/{up,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/up,workdir=$0/work" "$0/root"
: > "$0/root/etc/machine-id"
cp "$1"/live.{service,target} "$0/root/etc/systemd/system/"
cp "$1"/units/vllm-tool-proxy.{service,socket} "$0/root/etc/systemd/system/"
rm -rf "$0/root/opt/vllm-tool-proxy"
cp -a "$1/opt" "$0/root/opt/vllm-tool-proxy"
# The address filter is a BPF program, which needs the unified cgroup hierarchy.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
exec systemd-nspawn --quiet --directory="$0/root" --register=no --keep-unit --private-network --machine=live \\
    --capability=CAP_BPF,CAP_PERFMON,CAP_NET_ADMIN --system-call-filter=bpf \\
    --bind="$1:/live" --bind-ro="$2" --bind-ro="$3" --console=pipe --boot systemd.unit=live.target
"""


def check(folder: Path, report: Callable[[str], None]) -> None:
    """Boot, run `inside` with the releases in `folder`/opt, and print its results."""
    reason = _prepare(folder)
    done = None
    if not reason:
        mounts = folder / "mounts"
        mounts.mkdir()
        command = ["unshare", "--mount", "bash", "-c", BOOT, *map(str, (mounts, folder, ROOT, sys.prefix))]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if not (folder / "live.log").exists():
            reason = (done.stderr.strip().splitlines() or ["it exited without output"])[-1]
    if reason:
        report(f"NOT RUN under a live systemd: it cannot be booted here: {reason}")
        return
    told = folder / "live.json"
    assert told.exists(), (folder / "live.log").read_text()[-6000:]
    for line in json.loads(told.read_text()):
        report(f"live systemd: {line}")


def _prepare(folder: Path) -> str:
    """Prepare the boot; return why it is impossible, or ""."""
    if not shutil.which("systemd-nspawn"):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "systemd-container", "iproute2"]
        if subprocess.run(command, env=env, capture_output=True, check=False).returncode:
            return "systemd-nspawn is not installed"
    if not Path("/lib/systemd/systemd").exists():
        return "systemd is not installed"
    (folder / "live.target").write_text(TARGET)
    (folder / "live.service").write_text(SERVICE.format(root=ROOT, python=sys.executable))
    units = folder / "units"
    for name in ("vllm-tool-proxy.service", "vllm-tool-proxy.socket"):
        shutil.copy(ROOT / "systemd" / name, units / name)
    return ""
