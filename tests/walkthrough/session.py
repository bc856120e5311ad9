"""A new user's session, printed as a transcript: `python -m tests.walkthrough.session`.

In a fresh clone with an empty home: the quick start of the README with the real Claude Code, then `launch codex` and
`launch opencode`, in front of a real llama.cpp server with scripted tokens. Codex and OpenCode already have a
configuration of their own, which asks that server directly; each runs on its own before and after its `launch`. The
session ends with the files of the user's that changed. It needs Linux, npm, git, `unshare` and the extra `real`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.agents import namespace
from tests.agents.agent import PROOF
from tests.agents.inside import loopback_up
from tests.agents.install import installed
from tests.agents.known import AGENTS
from tests.real import llama
from tests.real.processes import ROOT
from tests.walkthrough.commands import walks

LAUNCHED = ("claude", "codex", "opencode")
# A command that takes longer hangs; `timeout` then exits with that status.
SECONDS = 300
TIMED_OUT = 124
# Lines of a command's output that are printed.
SHOWN = 16
PORT = 8000  # the quick start's
CODEX = """\
model = "{model}"
model_provider = "mine"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.mine]
name = "My own"
base_url = "{url}/v1"
wire_api = "responses"

[analytics]
enabled = false
"""
# Files of the user's that hold settings and credentials.
OWN = (".codex/config.toml", ".codex/auth.json", ".config/opencode/opencode.json", ".claude/settings.json")


class Session:
    """A user with a home, a clone and a shell; what they type and what comes of it is printed."""

    def __init__(self, folder: Path) -> None:
        self.home, self.clone, self.project = folder / "home", folder / "vllm-tool-proxy", folder / "project"
        programs = [AGENTS[name].path(installed(AGENTS[name])) for name in LAUNCHED]
        self._variables = {"HOME": str(self.home), "LANG": "C.UTF-8", "PATH": ":".join([*programs, os.environ["PATH"]])}
        for name in LAUNCHED:
            self._variables |= AGENTS[name].variables()

    def types(self, command: str, folder: Path) -> None:
        """Run a command in a shell, with the virtual environment active, and print it with the end of its output."""
        print(f"\n{folder.name}$ {command}", flush=True)
        active = f". {self.clone}/venv/bin/activate 2>/dev/null\n"
        began = time.monotonic()
        done = subprocess.run(
            ["timeout", str(SECONDS), "bash", "-c", active + command],
            cwd=folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        lines = done.stdout.splitlines()
        print("\n".join(["...", *lines[-SHOWN:]] if len(lines) > SHOWN else lines))
        ended = f"exit {done.returncode}" if done.returncode != TIMED_OUT else f"DID NOT END within {SECONDS} s"
        print(f"[{ended}, {time.monotonic() - began:.1f} s]", flush=True)

    def asks(self, command: str, agent: str) -> None:
        """Give an agent the task of creating a file; print what it wrote."""
        proof = self.project / PROOF
        proof.unlink(missing_ok=True)
        prompt = f"Create the file {PROOF} [[script:{AGENTS[agent].script('hermes')}]]"
        arguments = {"claude": "-p '{}' --dangerously-skip-permissions", "codex": "exec '{}'", "opencode": "run '{}'"}
        self.types(f"{command} {arguments[agent].format(prompt)}", self.project)
        print(f"{PROOF}: {proof.read_text() if proof.exists() else 'was not created'}", flush=True)

    def settle(self, url: str, model: str) -> None:
        """Write the configuration that Codex and OpenCode already have, and credentials beside it."""
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "My own",
            "options": {"baseURL": f"{url}/v1", "apiKey": "mine"},
            "models": {model: {"name": model, "tool_call": True, "limit": {"context": 32768, "output": 4096}}},
        }
        opencode = {
            "$schema": "https://opencode.ai/config.json",  # OpenCode adds it to a file without it
            "model": f"mine/{model}",
            "small_model": f"mine/{model}",
            "autoupdate": False,
            "share": "disabled",
            "provider": {"mine": provider},
            "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"},
        }
        texts = (CODEX.format(url=url, model=model), '{"OPENAI_API_KEY": "sk-of-the-user"}\n', json.dumps(opencode))
        for name, text in zip(OWN, (*texts, '{"theme": "dark"}\n'), strict=True):
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def digests(self) -> dict[str, str]:
        """Return the digest of each of the user's own files."""
        return {name: hashlib.sha256((self.home / name).read_bytes()).hexdigest()[:16] for name in OWN}


def install(folder: Path) -> None:
    """The part that needs the network: clone and install, by the README's first command."""
    session = Session(folder)
    for path in (session.home, session.project):
        path.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(session.clone)], check=True)
    subprocess.run(["git", "init", "-q", str(session.project)], check=True)
    session.types(walks(session.clone / "README.md")["commands"][0], session.clone)


def use(folder: Path) -> int:
    """The rest, without a network but the loopback device; return 1 if a file of the user's changed."""
    loopback_up()
    session = Session(folder)
    with llama.LlamaServer(cache=ROOT / ".cache", context=131072) as server:
        with urllib.request.urlopen(f"{server.url}/v1/models") as answer:
            model = json.load(answer)["data"][0]["id"]
        session.settle(server.url, model)
        before = session.digests()
        _, doctor, launch = walks(session.clone / "README.md")["commands"]
        session.types(doctor.replace(f"http://127.0.0.1:{PORT}", server.url), session.clone)
        for name in LAUNCHED:
            alone = f"{launch} --".replace("claude", name).replace(f"http://127.0.0.1:{PORT}", server.url)
            if name == "claude":
                session.asks(alone, name)
                print("\nClaude Code on its own asks Anthropic again, whose server is out of reach here:")
                session.types("timeout 20 claude -p 'Say hi' --dangerously-skip-permissions", session.project)
                continue
            session.asks(name, name)
            session.asks(alone, name)
            session.asks(name, name)
    after = session.digests()
    for name, digest in before.items():
        print(f"{name}: {'unchanged' if after[name] == digest else 'CHANGED'} ({digest})")
    return int(after != before)


def main() -> int:
    """Print the transcript; return 1 if a file of the user's changed."""
    if len(sys.argv) > 1:
        return use(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="session-") as temporary:
        folder = Path(temporary)
        install(folder)
        inner = [sys.executable, "-m", "tests.walkthrough.session", str(folder)]
        inside = namespace.command(inner, folder / "home", os.geteuid() == 0, PYTHONPATH=str(ROOT))
        return subprocess.run(inside, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
