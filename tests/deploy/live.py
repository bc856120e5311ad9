"""The unit under a real systemd: booted in namespaces of its own, on an overlay of this machine's files.

Nothing outlives the block, and the only network is a loopback of its own. If this is not possible, as in a container
without the rights, that is printed and is not a failure.
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
# Instead of what this machine starts.
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
# The filter of addresses is a program of the kernel's in a tree of control groups of one kind.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
exec systemd-nspawn --quiet --directory="$0/root" --register=no --keep-unit --private-network --machine=live \\
    --capability=CAP_BPF,CAP_PERFMON,CAP_NET_ADMIN --system-call-filter=bpf \\
    --bind="$1:/live" --bind-ro="$2" --bind-ro="$3" --console=pipe --boot systemd.unit=live.target
"""


def check(folder: Path, tell: Callable[[str], None]) -> None:
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
            reason = (done.stderr.strip().splitlines() or ["it ended before it began"])[-1]
    if reason:
        tell(f"NOT RUN under a live systemd, which cannot be booted here: {reason}")
        return
    told = folder / "live.json"
    assert told.exists(), (folder / "live.log").read_text()[-6000:]
    for line in json.loads(told.read_text()):
        tell(f"live systemd: {line}")


def _prepare(folder: Path) -> str:
    """Prepare the boot; return why it is impossible, or ""."""
    if not shutil.which("systemd-nspawn"):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "systemd-container", "iproute2"]
        if subprocess.run(command, env=env, capture_output=True, check=False).returncode:
            return "there is no systemd-nspawn"
    if not Path("/lib/systemd/systemd").exists():
        return "there is no systemd"
    (folder / "live.target").write_text(TARGET)
    (folder / "live.service").write_text(SERVICE.format(root=ROOT, python=sys.executable))
    units = folder / "units"
    for name in ("vllm-tool-proxy.service", "vllm-tool-proxy.socket"):
        shutil.copy(ROOT / "systemd" / name, units / name)
    return ""
