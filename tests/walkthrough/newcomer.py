"""A new user with an empty home folder, who types the documentation's commands into a shell."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.real.processes import ROOT, answers, stop
from tests.support.scripted import PATIENCE

AGENTS = ("claude", "codex", "openclaw", "opencode", "qwen", "pi")
_SECONDS = 300
_UPSTREAM = re.compile(r"(--upstream )http://127\.0\.0\.1:\d+")
_ASKING = re.compile(r"\b((?:launch|setup) [a-z]+)")
_PROXY = "http://127.0.0.1:8003"


class Typed(NamedTuple):
    """The result of a command."""

    status: int
    out: str
    err: str


class Newcomer:
    """A user's home folder, sources, and URLs of the model server and the proxy.

    These URLs replace the documentation's; the rest of a command is unchanged. `stand_in.py` replaces the agents, which
    are npm packages.
    """

    def __init__(self, folder: Path, upstream: str, port: int) -> None:
        self.home = folder / "home"
        self.sources = folder / "sources"
        self._upstream = upstream
        self._url = f"http://127.0.0.1:{port}"
        programs = self.home / "bin"
        programs.mkdir(parents=True)
        for name in AGENTS:
            stand_in = ROOT / "tests" / "walkthrough" / "stand_in.py"
            (programs / name).write_text(f"#!{sys.executable}\n{stand_in.read_text('utf-8')}")
            (programs / name).chmod(0o755)
        # `python3` is the Python of these tests without the installed packages.
        (programs / "python3").symlink_to(os.path.realpath(sys.executable))
        self._variables = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home)}
        pip = {name: word for name, word in os.environ.items() if name.startswith(("PIP_", "SSL_CERT", "https_proxy"))}
        # Modules are compiled when they are imported, which is less work.
        self._variables |= {**pip, "PIP_NO_COMPILE": "1"}

    def types(self, command: str) -> Typed:
        done = subprocess.run(
            self._shell(command),
            cwd=self.sources,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return Typed(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def lets_run(self, command: str) -> Iterator[None]:
        """Run a server command during the block."""
        with (self.home / "serve.log").open("wb") as log:
            process = subprocess.Popen(
                self._shell(f"exec {command}"),
                cwd=self.sources,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(f"{self._url}/_ready"):
                assert process.poll() is None and time.monotonic() < deadline, (self.home / "serve.log").read_text()
            yield
        finally:
            stop(process, PATIENCE)

    def _shell(self, command: str) -> list[str]:
        """Return the command line of a shell that activates the installed environment and runs the command."""
        active = "[ ! -e venv/bin/activate ] || . venv/bin/activate\n"
        return ["bash", "-c", active + self._here(command)]

    def _here(self, command: str) -> str:
        """Return the command with the URLs of this test."""
        port = shlex.quote(self._url.rpartition(":")[2])
        text = _UPSTREAM.sub(rf"\g<1>{self._upstream}", command)
        text = text.replace("--port 8003", f"--port {port}").replace(_PROXY, self._url)
        return _ASKING.sub(rf"\1 --url {self._url}", text)
