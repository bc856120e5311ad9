"""`vllm-tool-proxy launch` changes no file of the user and leaves none of its own, however it ends.

The agents are programs that record how they were started. `python -m tests.agents.traces` runs the real ones.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import Format, Values
from tests.conftest import Proxy, start, until
from tests.real.processes import ROOT, free_port
from tests.support.messages_client import MODELS, cards
from tests.support.scripted import PATIENCE, Upstream, answer

pytestmark = pytest.mark.once

MODEL = "Qwen/Qwen3-Coder"
KEY = "the-key-of-the-proxy"
SECRET = "sk-a-secret-of-the-user"
LAUNCHED = [*AGENTS]
OWN = {Format.JSON: '{"mine": {"key": "%s"}}\n', Format.TOML: 'mine = "%s"\n'}
# Records its arguments and its private folder, then exits when its standard input is closed.
RECORDS = f"""#!{sys.executable}
import json, os, stat, sys
from pathlib import Path
temporary = Path(os.environ["TMPDIR"])
paths = [temporary, *temporary.rglob("*")]
told = {{
    "words": sys.argv,
    "variables": dict(os.environ),
    "modes": {{str(path): stat.S_IMODE(path.stat().st_mode) for path in paths[1:]}},
    "texts": {{str(path): path.read_text() for path in paths if path.is_file()}},
}}
Path(os.environ["RECORD"]).write_text(json.dumps(told))
print("there", flush=True)
sys.stdin.read()
sys.exit(7)
"""


class Place(NamedTuple):
    """The folders of a run: home, temporary files, and programs."""

    home: Path
    temporary: Path
    programs: Path

    @property
    def record(self) -> Path:
        return self.programs / "record.json"

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.record.read_text())
        return told


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Place:
    place = Place(*(tmp_path / name for name in ("home", "temporary", "programs")))
    for folder in place:
        folder.mkdir()
    return place


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[Upstream]:
    with Upstream() as server:
        server.paths = {"/health": [answer({})], MODELS: cards(MODEL, max_model_len=65536)}
        yield server


@pytest.fixture(name="real", scope="module")
def _real(server: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with ExitStack() as stack:
        yield start(server.url, folder=tmp_path_factory.mktemp("proxy"), stack=stack)


def settle(name: str, place: Place) -> str:
    """Put the agent's program on PATH and the user's files into the home. Return the program's name."""
    configuration = AGENTS[name].configure(Values("http://h", "m", home=str(place.home)))
    for file in configuration.files:
        path = Path(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(OWN[file.format] % SECRET)
        path.with_name("auth.json").write_text(SECRET)
    program = configuration.command[0] if configuration.command else "any-program"
    (place.programs / program).write_text(RECORDS)
    (place.programs / program).chmod(0o755)
    return program


def launch(name: str, place: Place, *words: str) -> subprocess.Popen[str]:
    """Start the command in its own process group, and wait until the agent runs."""
    variables = {
        **{"HOME": str(place.home), "TMPDIR": str(place.temporary), "RECORD": str(place.record)},
        **{"PATH": f"{place.programs}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PROXY_KEY": KEY},
    }
    given = ["--", "any-program"] if name == "sdk" else []
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy", "launch", name, *words, *given],
        cwd=place.programs,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "there\n":
        raise AssertionError(process.communicate(timeout=PATIENCE))
    return process


def end(process: subprocess.Popen[str], how: str) -> None:
    match how:
        case "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        case "SIGKILL":
            process.kill()
            process.wait(PATIENCE)
    process.communicate(timeout=PATIENCE)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", ["its end", "Ctrl-C", "SIGKILL"])
@pytest.mark.parametrize("name", LAUNCHED)
def test_no_file_is_changed_or_left_behind(name: str, how: str, place: Place, real: Proxy) -> None:
    settle(name, place)
    before = tree(place.home)
    end(launch(name, place, "--url", real.url), how)
    assert tree(place.home) == before
    until(lambda: not [*place.temporary.iterdir()])


@pytest.mark.slow
@pytest.mark.parametrize("key", [(), ("--key-env", "PROXY_KEY")], ids=["no key", "a key"])
@pytest.mark.parametrize("name", LAUNCHED)
def test_the_agent_uses_the_proxy_for_this_run(name: str, key: tuple[str, ...], place: Place, real: Proxy) -> None:
    """Its arguments, variables and files are private to this user and contain none of the user's secrets."""
    settle(name, place)
    end(launch(name, place, "--url", real.url, *key), "its end")
    told = place.told()
    own = {each: value for each, value in told["variables"].items() if each != "PROXY_KEY"}
    given = json.dumps([told["words"], own, told["texts"]])
    assert real.url in given and (MODEL in given or name == "sdk")
    assert SECRET not in given
    assert KEY not in "".join(told["words"])
    assert (KEY in given or "PROXY_KEY" in given) == bool(key)
    assert {*told["modes"].values()} <= {0o700, 0o600}
    # Cline cannot read its key from a variable, so its private file contains the key.
    assert (KEY in "".join(told["texts"].values())) == (name == "cline" and bool(key))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["its end", "Ctrl-C", "SIGKILL"])
def test_no_file_is_changed_if_launch_starts_its_own_proxy(how: str, place: Place, server: Upstream) -> None:
    """The only new file is the log of that proxy."""
    settle("codex", place)
    before = tree(place.home)
    url = f"http://127.0.0.1:{free_port()}"
    end(launch("codex", place, "--url", url, "--upstream", server.url), how)
    until(lambda: not [*place.temporary.iterdir()])
    after = tree(place.home)
    assert {name: after[name] for name in before} == before
    log = f".local/state/vllm-tool-proxy/serve-{url.rpartition(':')[2]}.log"
    assert {name for name in after.keys() - before.keys() if (place.home / name).is_file()} == {log}


@pytest.mark.slow
def test_an_agent_that_outlives_launch_keeps_its_folder(place: Place, server: Upstream) -> None:
    settle("codex", place)
    words = ("--url", f"http://127.0.0.1:{free_port()}", "--upstream", server.url)
    process = launch("codex", place, *words)
    process.kill()
    process.wait(PATIENCE)
    catalogs = [Path(path) for path in place.told()["texts"]]
    assert catalogs and all(path.is_file() for path in catalogs)
    process.communicate(timeout=PATIENCE)  # closes the agent's standard input
    until(lambda: not [*place.temporary.iterdir()])


@pytest.mark.slow
def test_an_agent_that_cannot_be_started_leaves_nothing(place: Place, real: Proxy) -> None:
    program = settle("pi", place)
    (place.programs / program).write_text("#!/no/such/interpreter\n")
    before = tree(place.home)
    with pytest.raises(AssertionError, match="cannot be started"):
        launch("pi", place, "--url", real.url)
    assert tree(place.home) == before
    until(lambda: not [*place.temporary.iterdir()])


@pytest.mark.slow
def test_a_permanent_configuration_is_unchanged(place: Place, real: Proxy) -> None:
    """After `launch`, the configuration that `setup --write` wrote can still be undone."""
    settle("pi", place)
    before = tree(place.home)
    setup = [sys.executable, "-m", "proxy", "setup", "pi"]
    variables = {"HOME": str(place.home), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    subprocess.run([*setup, "--write", "--url", real.url], env=variables, check=True, timeout=PATIENCE)
    written = tree(place.home)
    end(launch("pi", place, "--url", real.url), "its end")
    assert tree(place.home) == written
    subprocess.run([*setup, "--undo"], env=variables, check=True, timeout=PATIENCE)
    after = tree(place.home)
    assert {name: after[name] for name in before} == before
