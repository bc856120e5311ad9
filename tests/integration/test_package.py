"""The package: `make package` builds a complete package that PyPI would accept and that runs on its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest

from proxy import __version__
from tests.package.build import Built, build, check, install
from tests.real.processes import ROOT, free_port, running
from tests.support.helpers import function
from tests.support.scripted import PATIENCE, Upstream, answer, chat, whole_reply

pytestmark = pytest.mark.once

NAME = "vllm-tool-proxy"
READ = function("read", {"path": {"type": "string"}}, "path")
MODELS = {"object": "list", "data": [{"id": "coder", "object": "model", "owned_by": "vllm", "max_model_len": 32768}]}


@pytest.fixture(name="built", scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("work"))


@pytest.fixture(name="commands", scope="module")
def _commands(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of commands of an environment with only the wheel and its dependencies."""
    return install(built.wheel, tmp_path_factory.mktemp("empty") / "venv")


def bare(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def run_command(commands: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(commands / NAME), *words],
        cwd=home,
        env=bare(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def package_files() -> set[str]:
    files = (path for path in (ROOT / "proxy").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in files}


@pytest.mark.slow
def test_the_wheel_contains_exactly_the_files_of_the_package(built: Built) -> None:
    """They include data: rules, assets of pages, texts for agents."""
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert names == package_files()


@pytest.mark.slow
def test_an_index_would_accept_both_distributions(built: Built, tmp_path: Path) -> None:
    told = check(built, tmp_path)
    assert told.count("PASSED") == 2


@pytest.mark.slow
def test_the_installed_command_prints_its_version(commands: Path, tmp_path: Path) -> None:
    assert run_command(commands, tmp_path, "--version").stdout == f"{NAME} {__version__}\n"


@pytest.mark.slow
def test_the_installed_proxy_serves_repairs_and_sets_up_an_agent(commands: Path, tmp_path: Path) -> None:
    """It uses the rules in the wheel, because there is no other file."""
    call = '<tool_call>{"name": "Read", "arguments": {"path": "a.py"}}</tool_call>'
    with Upstream() as upstream:
        upstream.play(whole_reply(call))
        upstream.paths["/v1/models"] = [answer(MODELS)]
        upstream.paths["/health"] = [answer({})]
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        serve = [str(commands / NAME), "serve", "--upstream", upstream.url, "--port", str(port)]
        # `env -i` is needed because `running` would add a variable that names the source folder.
        clean = ["env", "-i", f"--chdir={tmp_path}", *(f"{name}={word}" for name, word in bare(tmp_path).items())]
        with running([*clean, *serve], f"{url}/_ready", timeout=PATIENCE):
            health = fetch(f"{url}/health")
            answered = fetch(f"{url}/v1/chat/completions", chat("Read a.py", model="coder", tools=[READ], stream=False))
            setup = run_command(commands, tmp_path, "setup", "opencode", "--url", url)
    assert health["version"] == __version__
    assert health["rules_file"] == "built-in"
    assert health["rules_sha256"] == hashlib.sha256((ROOT / "proxy" / "rules.yaml").read_bytes()).hexdigest()
    (choice,) = answered["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert [each["function"] for each in choice["message"]["tool_calls"]] == [
        {"name": "read", "arguments": '{"path": "a.py"}'}
    ]
    assert setup.returncode == 0 and f'"baseURL": "{url}/v1"' in setup.stdout


def fetch(url: str, body: object = None) -> dict[str, Any]:
    """Return the JSON answer to a GET, or to a POST if there is a body."""
    data = None if body is None else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with opener.open(request, timeout=PATIENCE) as response:
        said: dict[str, Any] = json.load(response)
    return said
