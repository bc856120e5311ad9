"""`python -m tests.agents.traces`: real agents started by `vllm-tool-proxy launch` leave no trace of the proxy.

Each agent runs in a home folder with a user's credentials and configuration. The configuration points at another model
server, and has settings that would override the proxy's. The agent is started without the proxy and by `launch`, each
time until it exits, until Ctrl-C, and until SIGKILL while the model server is silent. The checks:

- With `launch`, every request reaches the proxy in spite of the user's and the project's files, and Claude Code's
  requests have all its instructions.
- Files that the agent does not write without the proxy are unchanged, byte for byte.
- The configuration keys that `setup` would set are unchanged in every file, or have the values that the agent writes
  without the proxy.
- The private folder of the run has been removed.
- Started again without the proxy, the agent completes its task at the user's own model server.

The variable AGENTS=claude,pi is equivalent to --agent. Exit status 0 means that all checks passed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from proxy.cli.configuration import Values
from proxy.cli.merging import read
from proxy.json import Json
from tests.agents import inside, namespace
from tests.agents.__main__ import AT_ONCE, chosen
from tests.agents.agent import CONTEXT, FINAL, MODEL, PROOF, WROTE, Agent
from tests.agents.install import NotInstalledError, installed
from tests.agents.known import AGENTS
from tests.agents.rows import BY_NAME
from tests.agents.scripted_server import CARD, ScriptedServer
from tests.agents.tap import Tap
from tests.real import processes
from tests.support.messages_client import MODELS
from tests.support.scripted import Act, Upstream, answer

ENDINGS = ("its end", "Ctrl-C", "SIGKILL")
SECONDS = 240  # for one run of an agent
SECONDS_TO_END = 30  # for an agent to exit after a signal
# Claude Code's short instructions have fewer characters than this, and the full ones more.
INSTRUCTIONS = 20_000
LIMIT = 30 * 60  # for all runs of an agent

# The files of a user and of a project, by the agent's name.
_FILES = yaml.safe_load(Path(__file__).with_name("homes.yaml").read_text(encoding="utf-8"))
HOMES: Mapping[str, Mapping[str, object]] = _FILES["homes"]
PROJECTS: Mapping[str, Mapping[str, object]] = _FILES["projects"]
Tree = Mapping[str, tuple[int, bytes]]


def put(folder: Path, files: Mapping[str, object], own: str) -> None:
    """Write files. Contents other than text are written as JSON."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{own}", own), encoding="utf-8")
        path.chmod(0o600)


def tree(folder: Path) -> Tree:
    """Return the mode and bytes of every file, except files that disappear meanwhile."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                found[str(path.relative_to(folder))] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    return found


@dataclass
class Written:
    """Files that an agent writes without the proxy: changed files of the user, and new files and folders."""

    changed: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def learn(self, before: Tree, after: Tree) -> None:
        """Add the changes of a run."""
        there = {str(folder) for name in before for folder in Path(name).parents}
        self.changed |= {name for name in before if after.get(name) != before[name]}
        self.made |= {_kind(name) for name in after.keys() - before.keys()}
        self.folders |= {_kind(str(folder)) for name in after for folder in Path(name).parents} - {*map(_kind, there)}

    def faults(self, before: Tree, after: Tree) -> Iterator[str]:
        """Yield the other files that a run has changed or created."""
        for name, content in before.items():
            if after.get(name) != content and name not in self.changed and not self._is_its_own(name):
                yield f"{name} is {'changed' if name in after else 'gone'}"
        for name in after.keys() - before.keys():
            if not self._is_its_own(name):
                yield f"{name} is new"

    def _is_its_own(self, name: str) -> bool:
        """Return whether the agent has created the file or one of its folders without the proxy."""
        folders = {_kind(str(folder)) for folder in Path(name).parents}
        return _kind(name) in self.made or bool(folders & self.folders)


def _kind(name: str) -> str:
    """Return a file's name without the parts that vary by run: numbers, times, ids."""
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", name)


def keys(agent: Agent, home: Path, url: str) -> dict[str, Json]:
    """Return the values in the user's files of the keys that `setup` would set."""
    configuration = agent.setup.configure(Values(url, MODEL, CONTEXT, home=str(home)))
    said: dict[str, Json] = {}
    for file in configuration.files:
        path = Path(file.path)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        content = text if file.own else read(text, file.format)
        for place in [()] if file.own else _places(file.content):
            said["/".join((str(path.relative_to(home)), *place))] = _at(content, place)
    return said


def _places(content: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(content, dict):
        yield path
        return
    for key, value in content.items():
        yield from _places(value, (*path, key))


def _at(content: Json, place: Sequence[str]) -> Json:
    for key in place:
        content = content.get(key) if isinstance(content, dict) else None
    return content


@dataclass
class Bench:
    """An agent, the servers of its runs, and the folder in which it may write."""

    agent: Agent
    package: Path
    folder: Path
    own: Tap
    front: Tap
    talks: Mapping[Tap, str]
    silent: Mapping[Tap, str]

    def settle(self, name: str) -> Path:
        """Return the folder of a new user: a home, a project and a place for temporary files."""
        place = self.folder / name
        for each in ("home", "project", "temporary"):
            (place / each).mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(place / "project")], check=True)
        put(place / "home", HOMES[self.agent.name], self.own.url)
        put(place / "project", PROJECTS.get(self.agent.name, {}), self.own.url)
        return place

    def run(self, place: Path, how: str, *, through: bool) -> Iterator[str]:
        """Run the agent with or without the proxy, and yield the faults."""
        asked = self.front if through else self.own
        for tap, url in (self.talks if how == ENDINGS[0] else self.silent).items():
            tap.turn(url)
        before = {tap: len(tap.bodies()) for tap in (self.own, self.front)}
        output = self._do(place, how, asked, before[asked], through=through)
        proof = place / "project" / PROOF
        text = proof.read_text(encoding="utf-8") if proof.exists() else ""
        proof.unlink(missing_ok=True)
        if how == ENDINGS[0] and (text != WROTE or FINAL not in output):
            yield f"the task was not completed: {' '.join(output[-600:].split())}"
        if len(asked.bodies()) == before[asked]:
            yield "the intended server received no request"
        other = self.own if through else self.front
        if len(other.bodies()) > before[other]:
            yield f"{len(other.bodies()) - before[other]} requests reached the other server"
        if through and self.agent.dialect == "messages":
            sizes = {len(json.dumps(body.get("system", ""))) for body in self.front.bodies() if body.get("tools")}
            yield from (f"the instructions are incomplete: {size} characters" for size in sizes if size < INSTRUCTIONS)

    def _do(self, place: Path, how: str, asked: Tap, before: int, *, through: bool) -> str:
        """Start and end the agent, and return its output."""
        home, project = str(place / "home"), str(place / "project")
        values = {"home": home, "project": project, "prompt": f"Create the file {PROOF}", "patience": "120"}
        environment = {"HOME": home, "LANG": "C.UTF-8", "TMPDIR": str(place / "temporary")}
        environment |= {"PATH": f"{self.agent.path(self.package)}:{os.environ['PATH']}"}
        environment |= {"PYTHONPATH": str(processes.ROOT), **self.agent.variables(**values)}
        program = self.agent.setup.configure(Values("", MODEL)).command
        words = _without_the_proxy(self.agent.words((), **values))
        launch = [*inside.vllm_tool_proxy("launch", self.agent, self.front.url), "--"]
        output = place / "output.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*(launch if through else program[:1]), *words],
                cwd=project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
            deadline = time.monotonic() + SECONDS
            while process.poll() is None and time.monotonic() < deadline:
                if how != ENDINGS[0] and len(asked.bodies()) > before:
                    break
                time.sleep(0.1)
            _end(process, how)
        return output.read_text(errors="replace")


def _without_the_proxy(words: Sequence[str]) -> list[str]:
    """Return the arguments without options for the proxy's provider, which the user lacks."""
    kept = [*words]
    while ours := [at for at, word in enumerate(kept) if word.startswith("model_providers.")]:
        del kept[ours[0] - 1 : ours[0] + 1]
    return kept


def _end(process: subprocess.Popen[bytes], how: str) -> None:
    """End the agent, then kill its process group."""
    if how == "Ctrl-C":
        with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(SECONDS_TO_END)
    process.kill()
    process.wait(SECONDS_TO_END)
    time.sleep(1)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def bench(agent: Agent, package: Path, folder: Path) -> Iterator[Bench]:
    """Run the user's model server, and a proxy in front of another one. Each has a silent variant."""
    with contextlib.ExitStack() as stack:
        mute = stack.enter_context(Upstream(*[[Act.EXPECT_CLOSE]] * 200))
        mute.paths = {"/health": [answer({})], MODELS: [answer({"object": "list", "data": [CARD]})]}
        mine, model = (stack.enter_context(ScriptedServer(BY_NAME["ok"], agent)) for _ in range(2))
        proxies = []
        for upstream, name in ((model.url, "talks"), (mute.url, "silent")):
            (folder / name).mkdir()
            proxies.append(stack.enter_context(inside.proxy(upstream, folder / name)))
        own, front = stack.enter_context(Tap(mine.url)), stack.enter_context(Tap(proxies[0]))
        talks, silent = {own: mine.url, front: proxies[0]}, {own: mute.url, front: proxies[1]}
        yield Bench(agent, package, folder, own, front, talks, silent)


def faults(agent: Agent, package: Path, folder: Path) -> Iterator[str]:
    """Do all runs of an agent, and yield the faults."""
    with bench(agent, package, folder) as runs:
        alone, written = runs.settle("alone"), Written()
        for how in ENDINGS:
            before = tree(alone / "home")
            yield from (f"alone, until {how}: {each}" for each in runs.run(alone, how, through=False))
            written.learn(before, tree(alone / "home"))
        itself = keys(agent, alone / "home", runs.front.url)
        user = runs.settle("user")
        first = keys(agent, user / "home", runs.front.url)
        for how in ENDINGS:
            before = tree(user / "home")
            found = [*runs.run(user, how, through=True), *written.faults(before, tree(user / "home"))]
            for place, value in keys(agent, user / "home", runs.front.url).items():
                if value not in (first[place], itself[place]):
                    found.append(f"{place} was {first[place]!r}, and is now {value!r}")
            found += [f"{path} was not removed" for path in (user / "temporary").glob("vllm-tool-proxy-*")]
            yield from (f"launched, until {how}: {each}" for each in found)
        yield from (f"alone again: {each}" for each in runs.run(user, ENDINGS[0], through=False))


def do(agent: Agent, keep: Path | None) -> list[str]:
    """Do all runs of an agent in separate namespaces, and return the faults."""
    package = installed(agent)
    with tempfile.TemporaryDirectory(prefix="traces-") as temporary:
        folder = (keep or Path(temporary)) / agent.name
        folder.mkdir(parents=True)
        words = [
            sys.executable,
            "-m",
            "tests.agents.traces",
            "--inside",
            str(folder),
            str(package),
            "--agent",
            agent.name,
        ]
        done = subprocess.run(
            namespace.command(words, folder, os.geteuid() == 0),
            cwd=processes.ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        result = folder / "faults.json"
        if not result.exists():
            return [f"the runs did not complete: {done.stderr[-2000:]}"]
        found: list[str] = json.loads(result.read_text(encoding="utf-8"))
        return found


def main() -> int:
    """Run the agents and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.agents.traces", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", choices=AGENTS, action="append", help="only this agent; repeatable")
    parser.add_argument("--keep", type=Path, help="a new folder for the homes and the output of the runs")
    parser.add_argument("--inside", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    agents = [AGENTS[name] for name in given.agent or chosen(parser, "AGENTS", AGENTS) or AGENTS]
    if given.inside:
        folder, package = given.inside
        inside.loopback_up()
        (folder / "faults.json").write_text(json.dumps([*faults(agents[0], package, folder)]), encoding="utf-8")
        return 0
    keep = given.keep.resolve() if given.keep else None
    wrong: dict[str, Any] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for agent, run in [(agent, pool.submit(do, agent, keep)) for agent in agents]:
            try:
                wrong[agent.name] = run.result()
            except (NotInstalledError, subprocess.TimeoutExpired) as error:
                wrong[agent.name] = [str(error)]
            told = "leaves no trace" if not wrong[agent.name] else "\n    ".join(["", *wrong[agent.name]])
            print(f"{agent.setup.title} {agent.version}: {told}", flush=True)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
