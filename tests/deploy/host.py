"""A host to deploy to: a real sshd on loopback, and the stand-in for systemctl."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.real.processes import ROOT, free_port, stop
from tests.support.scripted import PATIENCE
from tests.support.sources import copy_of

SECONDS = 300
SSHD = "/usr/sbin/sshd"
SOURCES = ("proxy", "systemd", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "requirements.lock")


class Host:
    """Context manager: sshd with its own keys in `folder`."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self.folder = folder
        self.root = folder / "opt"
        self.units = folder / "units"
        self.rules = folder / "rules.yaml"
        self.port = free_port()
        self.rules.write_text("settings: {max_tool_calls: 41}\n")
        variables = {"PORT": self.port, "UPSTREAM": upstream, "RULES": self.rules}
        lines = [f"TOOL_PROXY_{name}={value}" for name, value in variables.items()]
        self.environment = folder / "environment"
        self.environment.write_text("\n".join(["# The host's own.", *lines, ""]))
        self.units.mkdir()

    def __enter__(self) -> Host:
        for name in ("host_key", "key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(self.folder / name)], check=True
            )
        (self.folder / "authorized_keys").write_text((self.folder / "key.pub").read_text())
        self._stand_in()
        port = free_port()
        self._configure(port)
        Path("/run/sshd").mkdir(exist_ok=True)
        log = (self.folder / "sshd.log").open("wb")
        with log:
            self._sshd = subprocess.Popen([SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")], stderr=log)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.ssh("systemctl", "stop", "vllm-tool-proxy.service")
        stop(self._sshd)

    def _stand_in(self) -> None:
        programs = self.folder / "bin"
        programs.mkdir()
        text = (Path(__file__).parent / "systemctl.py").read_text()
        (programs / "systemctl").write_text(f"#!{sys.executable}\n{text}")
        (programs / "systemctl").chmod(0o755)
        self.path = f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

    def _configure(self, port: int) -> None:
        server = [
            *(f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {self.folder}/host_key", "PidFile none"),
            *(f"AuthorizedKeysFile {self.folder}/authorized_keys", "StrictModes no", "UsePAM no"),
            *("PasswordAuthentication no", "KbdInteractiveAuthentication no", "Subsystem sftp internal-sftp"),
            f"SetEnv PATH={self.path} STAND_IN={self.folder}",
        ]
        (self.folder / "sshd_config").write_text("\n".join([*server, ""]))
        known = self.folder / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {(self.folder / 'host_key.pub').read_text()}")
        client = [
            *("Host gpu", "HostName 127.0.0.1", f"Port {port}", "User root", f"IdentityFile {self.folder}/key"),
            *("IdentitiesOnly yes", "BatchMode yes", f"UserKnownHostsFile {known}", "LogLevel ERROR"),
        ]
        self.ssh_config = self.folder / "ssh_config"
        self.ssh_config.write_text("\n".join([*client, ""]))

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while (done := self.ssh("true")).returncode:
            assert time.monotonic() < deadline, done.stderr + (self.folder / "sshd.log").read_text()
            time.sleep(0.1)

    def ssh(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["ssh", "-F", str(self.ssh_config), "gpu", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    def deploy(self, *words: str, checkout: Path = ROOT) -> subprocess.CompletedProcess[str]:
        """Run a checkout's deploy.sh for this host, with options that confine it to the folder."""
        options = ["--ssh-config", self.ssh_config, "--root", self.root, "--units", self.units]
        options += ["--environment", self.environment, "--wait", "15", *words]
        command = [str(checkout / "systemd" / "deploy.sh"), "gpu", *map(str, options)]
        env = {**os.environ, "PYTHON": sys.executable}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
        with (self.folder / "deploy.log").open("a") as log:
            print(*command, done.stdout, done.stderr, sep="\n", file=log)
        return done

    def health(self) -> dict[str, Any]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as client:
            client.request("GET", "/health")
            told: dict[str, Any] = json.loads(client.getresponse().read())
            return told

    @property
    def current(self) -> str:
        return os.readlink(self.root / "current").removeprefix("releases/")

    @property
    def releases(self) -> set[str]:
        """The names in the releases folder."""
        return {path.name for path in (self.root / "releases").iterdir()}

    def systemctl_commands(self) -> list[str]:
        """Return the commands that changed something since the last call."""
        path = self.folder / "systemctl.log"
        words = [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []
        path.write_text("")
        return [word for word in words if word != "is-active"]


def checkout(folder: Path, version: str, changes: dict[str, tuple[str, str]] | None = None) -> Path:
    """Return a checkout of another version; `changes` are texts to replace, by file."""
    copy_of(SOURCES, folder)
    init = folder / "proxy" / "__init__.py"
    changed = init.read_text().splitlines()
    init.write_text("\n".join(line if "__version__" not in line else f'__version__ = "{version}"' for line in changed))
    for name, (old, new) in (changes or {}).items():
        text = (folder / name).read_text()
        assert old in text, f"{old!r} is not in {name}"
        (folder / name).write_text(text.replace(old, new, 1))
    return folder
