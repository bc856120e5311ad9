"""`python -m tests.deploy`: deploy.sh and the unit, end to end, on this machine.

The host is a real sshd on loopback with a stand-in for systemctl that follows the installed unit file. This checkout is
deployed, and copies of it that are newer, broken or unhealthy. Everything else is real: ssh, scp, pip, the wheels, the
virtual environments, gunicorn. Each printed line reports a check that passed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from proxy import __version__
from tests.deploy import live
from tests.deploy.host import Host, checkout
from tests.deploy.traffic import Traffic, Upstream
from tests.real.processes import ROOT

NEEDED = {
    **{"sshd": "openssh-server", "ssh": "openssh-client", "curl": "curl", "runuser": "util-linux"},
    **{"shellcheck": "shellcheck", "ip": "iproute2"},
}
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
LOCKED = ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "requirements.lock")]
SICK = ("def health(self) -> JsonObject:\n", "def health(self) -> JsonObject:\n        raise RuntimeError('sick')\n")


def main() -> int:
    """Run all steps in order; each builds on the previous ones."""
    if os.geteuid():
        os.execvp("sudo", ["sudo", "-E", sys.executable, "-m", "tests.deploy"])
    install_packages()
    os.umask(0o022)
    folder = Path(tempfile.mkdtemp(prefix="deploy-"))
    folder.chmod(0o755)  # the service runs as another user
    start = time.monotonic()
    try:
        subprocess.run(["shellcheck", *(ROOT / "systemd").glob("*.sh")], check=True)
        report("shellcheck reports no problems")
        check_wheels()
        with Upstream() as upstream, Host(folder, upstream.url) as host:
            for step in STEPS:
                step(host, upstream)
        live.check(folder, report)
    except BaseException:
        print(f"FAILED; the output is in {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder)
    print(f"completed in {time.monotonic() - start:.0f} s")
    return 0


def install_packages() -> None:
    """Install the missing programs on Debian or Ubuntu."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = sorted({package for program, package in NEEDED.items() if not shutil.which(program, path=path)})
    if missing:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=env, check=True)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)


def report(line: str) -> None:
    print(f"  {line}", flush=True)


def check_wheels() -> None:
    """Check that pip finds the locked wheels, here and for each Python and machine."""
    # An empty folder, so that packages installed here are not used.
    pip(["install", "--dry-run", "--ignore-installed", *LOCKED])
    report("pip install --require-hashes -r requirements.lock")
    for python in PYTHONS:
        for machine in MACHINES:
            target = ["--implementation", "cp", "--python-version", python]
            target += ["--platform", f"manylinux2014_{machine}", "--platform", f"manylinux_2_28_{machine}"]
            pip(["install", "--dry-run", "--ignore-installed", "--target", "none", *target, *LOCKED])
    report(f"wheels for {', '.join(PYTHONS)} on {' and '.join(MACHINES)}, by their digests")


def pip(words: list[str]) -> None:
    """Run pip. Raise an error with its output if it fails."""
    done = subprocess.run([*PIP, words[0], "-q", *words[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def first(host: Host, upstream: Upstream) -> None:
    done = host.deploy()
    assert done.returncode == 0, done.stderr
    health = host.health()
    assert (health["version"], health["max_tool_calls"]) == (__version__, 41), health
    assert health["rules_file"] == str(host.rules) and host.current.startswith(f"{__version__}-")
    assert host.systemctl_commands() == ["daemon-reload", "enable", "restart"]
    unit = (host.units / "vllm-tool-proxy.service").read_text()
    assert f"ExecStart={host.root}/current/venv/bin/python" in unit and (host.units / "vllm-tool-proxy.socket").exists()
    assert host.releases == {host.current} and "wheels" not in os.listdir(host.root / "current")
    assert not [name for name in os.listdir("/tmp") if name.startswith("vllm-tool-proxy.")], "upload not removed"
    script = host.root / "current" / "venv" / "bin" / "vllm-tool-proxy"
    assert subprocess.run([script, "--version"], capture_output=True, check=True, text=True).stdout.split()[1]
    report("first deployment: unit installed, release in force, the host's own rules and options")


def second(host: Host, upstream: Upstream) -> None:
    """Deploy a newer version during a stream and requests."""
    old, pid = host.current, (host.folder / "pid").read_text()
    stale = [f"0.0.{number}-2020010{number}T000000Z" for number in range(1, 7)]
    for name in stale:
        (host.root / "releases" / name).mkdir()
    with Traffic(host.port, upstream) as traffic:
        done = host.deploy(checkout=checkout(host.folder / "newer", "9.0.0"))
    assert done.returncode == 0, done.stderr
    assert traffic.failures == [] and traffic.answered > 100, traffic.failures[:3]
    assert traffic.streamed.count("a") > 30
    maps = Path(f"/proc/{host.health()['worker']}/maps").read_text()
    assert f"{host.current}/venv" in maps and old not in maps, "the worker has libraries of another release"
    assert host.health()["version"] == "9.0.0" and host.current.startswith("9.0.0-")
    assert host.systemctl_commands() == ["reload"] and (host.folder / "pid").read_text() == pid
    assert host.releases == {old, host.current, *stale[-3:]}, "the last five releases must be kept"
    for name in stale[-3:]:
        (host.root / "releases" / name).rmdir()
    report(
        f"second deployment: {traffic.answered} requests, none refused, the slowest {traffic.slowest * 1000:.0f} ms; "
        "the running stream completed; five releases are kept"
    )


def refused(host: Host, message: str, **how: Path) -> None:
    """Check that a deployment is refused and changes nothing."""
    before = (host.current, host.releases, host.health()["worker"])
    done = host.deploy(**how)
    assert done.returncode == 1 and message in done.stderr, done.stderr
    assert (host.current, host.releases, host.health()["worker"]) == before
    assert host.systemctl_commands() == []


def broken(host: Host, upstream: Upstream) -> None:
    """Refuse code that cannot be loaded, unusable rules, and a second deployment at the same time."""
    import_error = {"proxy/app.py": ("from __future__ import annotations\n", "import no_such_module\n")}
    refused(host, "No module named 'no_such_module'", checkout=checkout(host.folder / "broken", "9.0.1", import_error))
    report("a release that cannot be loaded: refused, nothing changed")
    host.rules.write_text("settings: {max_tool_cals: 1}\n")
    refused(host, "max_tool_cals")
    host.rules.write_text("settings: {max_tool_calls: 42}\n")
    report("a host whose rules the release cannot use: refused, nothing changed")
    with (host.root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(host, "another deployment is under way")
    report("two deployments at the same time: the second is refused")


def sick(host: Host, upstream: Upstream) -> None:
    """Deploy a release that starts but fails /health."""
    old = host.current
    done = host.deploy(checkout=checkout(host.folder / "sick", "9.0.2", {"proxy/server/state.py": SICK}))
    assert done.returncode == 1 and f"{old} is in force again" in done.stderr, done.stderr
    assert (host.current, host.health()["version"]) == (old, "9.0.0")
    assert host.systemctl_commands() == ["reload", "reload"]
    assert [name for name in host.releases if name.startswith("9.0.2-")] == [
        name for name in host.releases if name.endswith(".failed")
    ]
    report("a release that starts but is unhealthy: rolled back automatically")


def back(host: Host, upstream: Upstream) -> None:
    """Roll back one release, no further, and return by name."""
    new = host.current
    assert (done := host.deploy("--rollback")).returncode == 0, done.stderr
    assert host.health()["version"] == __version__ and host.systemctl_commands() == ["reload"]
    done = host.deploy("--rollback")
    assert done.returncode == 1 and "there is no release before" in done.stderr, done.stderr
    assert (done := host.deploy(f"--rollback={new}")).returncode == 0, done.stderr
    assert (host.current, host.health()["version"], host.systemctl_commands()) == (new, "9.0.0", ["reload"])
    report("rollback: to the previous release, never past the oldest, and forward again by name")


def restarted(host: Host, upstream: Upstream) -> None:
    """Restart if the other release has a different gunicorn."""
    (metadata,) = (host.root / "releases").glob(f"{__version__}-*/venv/lib/python*/site-packages/gunicorn-*/METADATA")
    text = metadata.read_text()
    metadata.write_text(re.sub(r"(?m)^Version: .*$", "Version: 27.0.0", text))
    done = host.deploy("--rollback")
    assert done.returncode == 0 and "gunicorn 27.0.0" in done.stderr, done.stderr
    assert host.systemctl_commands() == ["restart"] and host.health()["version"] == __version__
    metadata.write_text(text)
    report("different gunicorn: an announced restart instead of a reload")


STEPS: list[Callable[[Host, Upstream], None]] = [first, second, broken, sick, back, restarted]

if __name__ == "__main__":
    sys.exit(main())
