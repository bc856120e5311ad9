"""`python -m tests.agents.traces`: real agents leave no trace of the proxy when `vllm-tool-proxy launch` starts them.

Each agent runs in a home with a user's own configuration, which points at another model server and has settings that
would win over the proxy's, and with a user's credentials. It is started without the proxy, and by `launch`: to its end,
until Ctrl-C, and until SIGKILL while the model server is silent. What must hold:

- `launch` leads every request to the proxy, in spite of the user's and the project's files, and Claude Code's requests
  have all its instructions;
- files that the agent does not write when it is started without the proxy are the same before and after, to the byte;
- the configuration keys that `setup` would set are the same before and after, in every file, or what the agent itself
  writes there when it is started without the proxy;
- the private folder of the run is gone;
- started without the proxy after all that, the agent does its task at the user's own model server.

AGENTS=claude,pi in the environment chooses as --agent does. Exit status 0 means that all of it holds.
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
SECONDS_TO_END = 30  # for an agent that was told to end
# Claude Code's short instructions have fewer characters than this, and all of them have more.
INSTRUCTIONS = 20_000
LIMIT = 30 * 60  # for all runs of an agent

# What a user has, and a project, by the name of the agent.
_FILES = yaml.safe_load(Path(__file__).with_name("homes.yaml").read_text(encoding="utf-8"))
HOMES: Mapping[str, Mapping[str, object]] = _FILES["homes"]
PROJECTS: Mapping[str, Mapping[str, object]] = _FILES["projects"]
Tree = Mapping[str, tuple[int, bytes]]


def put(folder: Path, files: Mapping[str, object], own: str) -> None:
    """Write files, JSON where they are not text."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{own}", own), encoding="utf-8")
        path.chmod(0o600)


def tree(folder: Path) -> Tree:
    """Return the mode and the bytes of every file; what vanishes meanwhile is left out."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                found[str(path.relative_to(folder))] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    return found


@dataclass
class Written:
    """What an agent writes when it is started without the proxy: the user's files, files and folders of its own."""

    changed: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def learn(self, before: Tree, after: Tree) -> None:
        """Take in what a run has changed."""
        there = {str(folder) for name in before for folder in Path(name).parents}
        self.changed |= {name for name in before if after.get(name) != before[name]}
        self.made |= {_kind(name) for name in after.keys() - before.keys()}
        self.folders |= {_kind(str(folder)) for name in after for folder in Path(name).parents} - {*map(_kind, there)}

    def faults(self, before: Tree, after: Tree) -> Iterator[str]:
        """Say which files another run has changed or made."""
        for name, content in before.items():
            if after.get(name) != content and name not in self.changed and not self._is_its_own(name):
                yield f"{name} is {'changed' if name in after else 'gone'}"
        for name in after.keys() - before.keys():
            if not self._is_its_own(name):
                yield f"{name} is new"

    def _is_its_own(self, name: str) -> bool:
        """Say whether a file is one of those that the agent made without the proxy, or in a folder that it made."""
        folders = {_kind(str(folder)) for folder in Path(name).parents}
        return _kind(name) in self.made or bool(folders & self.folders)


def _kind(name: str) -> str:
    """Return the name of a file without what differs from run to run: numbers, times, ids."""
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", name)


def keys(agent: Agent, home: Path, url: str) -> dict[str, Json]:
    """Return what the user's files say where `setup` would say something of the proxy."""
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
    """An agent, the servers of its runs, and the folder of all that it may write."""

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
        """Run the agent, through the proxy or by itself, and say what is wrong with what it did."""
        asked = self.front if through else self.own
        for tap, url in (self.talks if how == ENDINGS[0] else self.silent).items():
            tap.turn(url)
        before = {tap: len(tap.bodies()) for tap in (self.own, self.front)}
        output = self._do(place, how, asked, before[asked], through=through)
        proof = place / "project" / PROOF
        text = proof.read_text(encoding="utf-8") if proof.exists() else ""
        proof.unlink(missing_ok=True)
        if how == ENDINGS[0] and (text != WROTE or FINAL not in output):
            yield f"the task is not done: {' '.join(output[-600:].split())}"
        if len(asked.bodies()) == before[asked]:
            yield "nothing was asked where it should be"
        other = self.own if through else self.front
        if len(other.bodies()) > before[other]:
            yield f"{len(other.bodies()) - before[other]} requests went past it"
        if through and self.agent.dialect == "messages":
            sizes = {len(json.dumps(body.get("system", ""))) for body in self.front.bodies() if body.get("tools")}
            yield from (f"{size} characters of instructions are not all" for size in sizes if size < INSTRUCTIONS)

    def _do(self, place: Path, how: str, asked: Tap, before: int, *, through: bool) -> str:
        """Start the agent, end it, and return what it printed."""
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
    """Return the words without options for the proxy's provider, which the user does not have."""
    kept = [*words]
    while ours := [at for at, word in enumerate(kept) if word.startswith("model_providers.")]:
        del kept[ours[0] - 1 : ours[0] + 1]
    return kept


def _end(process: subprocess.Popen[bytes], how: str) -> None:
    """End the agent; what it leaves in its process group is killed in the end."""
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
    """Run the user's model server, and the proxy in front of another one; each can be silent, too."""
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
    """Do all runs of an agent, and say what does not hold."""
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
                    found.append(f"{place} said {first[place]!r}, and now {value!r}")
            found += [f"{path} is left" for path in (user / "temporary").glob("vllm-tool-proxy-*")]
            yield from (f"launched, until {how}: {each}" for each in found)
        yield from (f"alone again: {each}" for each in runs.run(user, ENDINGS[0], through=False))


def do(agent: Agent, keep: Path | None) -> list[str]:
    """Do all runs of an agent in namespaces of their own; return what does not hold."""
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
            return [f"the runs did not come to their end: {done.stderr[-2000:]}"]
        found: list[str] = json.loads(result.read_text(encoding="utf-8"))
        return found


def main() -> int:
    """Run the agents and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.agents.traces", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", choices=AGENTS, action="append", help="only this one; may be given again")
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
