"""The command: its checks, its output, and the gunicorn process that it becomes."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

import pytest

import proxy
from proxy import __version__
from proxy.cli.main import main
from tests.conftest import Proxy
from tests.conftest import until as until_holds
from tests.real.processes import ROOT, free_port
from tests.support.bare import make_bare
from tests.support.scripted import PATIENCE

PACKAGE = Path(proxy.__file__).parent
INIT = """
import os, sys
__version__ = {version!r}
with open({log!r}, "a") as log:
    print(os.getpid(), "gunicorn" if "gunicorn" in sys.modules else "command", file=log)
"""
APP = """
import json, os
from . import __version__
from .config.load import load

def create_app():
    settings, rules = load()
    told = {"version": __version__, "pid": os.getpid(), "master": os.getppid(), "source": rules.source,
            "upstream": settings.upstream, "max_streams": settings.max_streams, "heartbeat": settings.heartbeat,
            "upstream_ca": settings.upstream_ca, "sha256": rules.sha256}
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(told).encode()]
    return app
"""


def release(folder: Path, version: str = "1.0") -> Path:
    """Create a release whose application returns its configuration and logs its imports in import.log."""
    shutil.copytree(PACKAGE, folder / "proxy", ignore=shutil.ignore_patterns("__pycache__"))
    log = folder.parent / "import.log"
    (folder / "proxy" / "__init__.py").write_text(INIT.format(version=version, log=str(log)))
    (folder / "proxy" / "app.py").write_text(APP)
    return folder


def environ(**more: str) -> dict[str, str]:
    """Return an environment without this machine's settings."""
    return {"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error", **more}


def command(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "proxy", *words]
    return subprocess.run(argv, cwd=cwd, env=environ(**env), capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def fetch(port: int) -> Mapping[str, object]:
    answer: Mapping[str, object] = json.loads(Proxy(port, Path(os.devnull)).get("/")[2])
    return answer


def until(port: int, version: str) -> Mapping[str, object]:
    def answered() -> bool:
        with suppress(OSError, http.client.HTTPException):
            return fetch(port)["version"] == version
        return False

    until_holds(answered)
    return fetch(port)


@contextmanager
def serving(words: Sequence[str], cwd: Path, log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as stderr:
        argv = [sys.executable, "-m", "proxy", *words]
        process = subprocess.Popen(argv, cwd=cwd, env=environ(**env), stderr=stderr)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(90)  # gunicorn kills workers after its graceful timeout, 60 s


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    return release(tmp_path / "release")


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this machine's settings and rules files."""
    make_bare(tmp_path, monkeypatch)


# Handle Ctrl-C even if the tests run in the background of a shell.
INTERRUPTIBLE = """
import signal, sys, warnings
warnings.simplefilter("ignore", ResourceWarning)  # it may come just when a socket was made, which the end closes
signal.signal(signal.SIGINT, signal.default_int_handler)
from proxy.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("doctor", "--upstream"), ("setup", "pi", "--url"), ("launch", "pi", "--url")], ids=lambda words: words[0]
)
def test_ctrl_c_during_a_request_prints_one_line_and_exits_with_130(words: tuple[str, ...], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = [sys.executable, "-c", INTERRUPTIBLE, *words, f"http://127.0.0.1:{server.getsockname()[1]}"]
        process = subprocess.Popen(
            argv, cwd=tmp_path, env=environ(PYTHONPATH=str(ROOT)), stderr=subprocess.PIPE, text=True
        )
        server.settimeout(PATIENCE)
        with process, server.accept()[0] as taken:
            taken.settimeout(PATIENCE)
            taken.recv(1)  # the request has arrived, and the command waits
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE)
    lines = [line for line in err.splitlines() if not line.startswith("doctor: 1/")]
    assert (process.returncode, lines) == (130, ["vllm-tool-proxy: interrupted: the command did not finish"])


@pytest.mark.parametrize(
    "words", ["", "--help", "check", "doctor --help", "setup sdk --url {url}", "parse - --tools {tools}"]
)
def test_a_closed_pipe_ends_a_command_without_a_traceback(words: str, tmp_path: Path) -> None:
    """`check | head`."""
    (tmp_path / "tools.json").write_text('[{"type": "function", "function": {"name": "ls"}}]')
    values = {"url": f"http://127.0.0.1:{free_port()}", "tools": str(tmp_path / "tools.json")}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        argv = [sys.executable, "-m", "proxy", *words.format(**values).split()]
        env = environ(HOME=str(tmp_path))
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert done.returncode == {"setup": 3, "parse": 1}.get(words.partition(" ")[0], 0), done.stderr


def test_a_closed_standard_input_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"type": "function", "function": {"name": "ls"}}]')
    words = f"{sys.executable} -m proxy parse - --tools {tmp_path}/tools.json <&-"
    done = subprocess.run(["/bin/sh", "-c", words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split("\n")[0], done.stderr) == (1, "no call", "")


def test_a_port_in_use_is_reported_before_gunicorn_starts(folder: Path) -> None:
    with listening() as port, listening() as upstream:
        done = command("--port", str(port), "--upstream", f"http://127.0.0.1:{upstream}", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"vllm-tool-proxy: error: cannot listen on 127.0.0.1:{port} (Address already in use); choose another"
    )
    assert done.stderr.count("\n") == 1  # gunicorn would retry for 5 s and print more


def test_check_ignores_a_port_in_use(folder: Path) -> None:
    with listening() as port, listening() as upstream:
        done = command("check", "--port", str(port), "--upstream", f"http://127.0.0.1:{upstream}/v1", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        f"ok: vllm-tool-proxy 1.0, upstream http://127.0.0.1:{upstream}, listening on 127.0.0.1:{port}, rules built-in"
    )
    assert '\ntools grep: {"fixes": [{"parameter": "output_mode", "condition": "invalid_enum", ' in done.stdout
    assert done.stdout.endswith("\nclients codex: {}\n")


# The arguments that each command needs in an empty folder without a server.
COMMANDS = {
    "check": (),
    "parse": ("reply.txt", "--tools", "tools.json"),
    "doctor": ("--upstream", "http://127.0.0.1:9"),
    "setup": ("claude",),
    "launch": ("claude",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_reads_the_rules_of_the_working_directory(tmp_path: Path, name: str) -> None:
    """A cloned repository must not choose the server that receives prompts and keys, or rewrite tool calls."""
    (tmp_path / "reply.txt").write_text("hi")
    (tmp_path / "tools.json").write_text('[{"name": "ls", "input_schema": {"type": "object"}}]')
    (tmp_path / "rules.yaml").write_text("settings: {prot: 1}\n")
    ran = command(name, *COMMANDS[name], cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert "prot" not in ran.stdout + ran.stderr
    assert ran.stderr.count("rules.yaml is not read; pass --rules rules.yaml to use it\n") == 1
    named = command(name, *COMMANDS[name], "--rules", "rules.yaml", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert (named.returncode, "is not read" in named.stderr) == (2, False)
    assert f"{tmp_path}/rules.yaml:1: there is no setting 'prot'" in named.stderr
    (tmp_path / "rules.yaml").write_text("groups:\n  - name: alerts\n    rules: []\n")
    assert "rules.yaml" not in command(name, *COMMANDS[name], cwd=tmp_path, PYTHONPATH=str(ROOT)).stderr


@pytest.mark.slow
def test_serve_ignores_the_rules_of_the_working_directory(tmp_path: Path) -> None:
    folder, start = release(tmp_path / "release"), tmp_path / "start"
    start.mkdir()
    (start / "rules.yaml").write_text("settings: {heartbeat: 3}\n")
    own = tmp_path / "config" / "vllm-tool-proxy" / "rules.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("settings: {heartbeat: 5}\n")
    for env, source, heartbeat in (({}, "built-in", 10.0), ({"XDG_CONFIG_HOME": str(own.parents[1])}, str(own), 5.0)):
        port, log = free_port(), tmp_path / "log"
        variables = {**env, "PYTHONPATH": str(folder)}
        with serving(["serve", "--port", str(port)], start, log, **variables):
            answered = until(port, "1.0")
        assert (answered["source"], answered["heartbeat"]) == (source, heartbeat)
        assert f"{start}/rules.yaml is not read" in log.read_text()


def test_without_a_command_it_serves_and_accepts_the_old_flags(folder: Path, tmp_path: Path) -> None:
    port, upstream = free_port(), f"http://127.0.0.1:{free_port()}"
    words = ["--port", str(port), "--vllm-url", f"{upstream}/v1", "--no-ui", "--max-streams", "4"]
    log = tmp_path / "log"
    with serving(words, folder, log, GUNICORN_CMD_ARGS="--bind 127.0.0.1:1", TOOL_PROXY_MAX_STREAMS="5"):
        told = until(port, "1.0")
    assert (told["upstream"], told["max_streams"]) == (upstream, 4)
    warnings = [line for line in log.read_text().splitlines() if line.startswith("vllm-tool-proxy: ")]
    refused = f"connection refused at {upstream}; start the model server, or pass its URL with --upstream"
    assert warnings == [f"vllm-tool-proxy: warning: {refused}"]


@pytest.mark.slow
def test_a_hang_up_loads_all_code_and_rules_of_a_new_release(tmp_path: Path) -> None:
    old, new = release(tmp_path / "one", "1.0"), release(tmp_path / "two", "2.0")
    (old / "rules.yaml").write_text("settings: {heartbeat: 1}\n")
    (new / "rules.yaml").write_text("settings: {heartbeat: 2, max_streams: 99}\n")
    current, port = tmp_path / "current", free_port()
    current.symlink_to("one")
    words = ["serve", "--port", str(port), "--max-streams", "4", "--rules", "rules.yaml"]
    with serving(words, current, tmp_path / "log", PWD=str(current)) as main:
        first = until(port, "1.0")
        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").rename(current)
        main.send_signal(signal.SIGHUP)
        second = until(port, "2.0")
    for told, heartbeat in ((first, 1.0), (second, 2.0)):
        assert (told["master"], told["heartbeat"], told["max_streams"]) == (main.pid, heartbeat, 4)
        assert told["source"] == str(current / "rules.yaml")
    imported = [line.split() for line in (tmp_path / "import.log").read_text().splitlines()]
    assert [str(main.pid), "command"] in imported  # before it became gunicorn
    assert [str(main.pid), "gunicorn"] not in imported
    assert {str(first["pid"]), str(second["pid"])} == {pid for pid, kind in imported if kind == "gunicorn"}


def test_a_reload_finds_rules_created_after_the_start(tmp_path: Path) -> None:
    folder, start, port = release(tmp_path / "release"), tmp_path / "start", free_port()
    start.mkdir()
    # Modules in the working directory are not imported.
    (start / "proxy").mkdir()
    (start / "proxy" / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    (start / "json.py").write_text("raise SystemExit('the wrong module')\n")
    argv = [sys.executable, "-P", "-m", "proxy", "--port", str(port), "--max-streams", "4"]
    with (tmp_path / "log").open("wb") as stderr:
        variables = environ(PYTHONPATH=str(folder), HOME=str(tmp_path))
        process = subprocess.Popen(argv, cwd=start, env=variables, stderr=stderr)
    try:
        assert until(port, "1.0")["source"] == "built-in"
        rules = tmp_path / ".config" / "vllm-tool-proxy" / "rules.yaml"
        rules.parent.mkdir(parents=True)
        rules.write_text("settings: {heartbeat: 3}\n")
        process.send_signal(signal.SIGHUP)
        until_holds(lambda: fetch(port)["heartbeat"] == 3.0)
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(90)  # gunicorn kills workers after its graceful timeout, 60 s


class Became(Exception):
    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        super().__init__()
        self.argv = argv
        self.env = env


@pytest.fixture(name="serve")
def _serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def became(path: str, argv: list[str], env: dict[str, str]) -> None:
        assert path == sys.executable
        raise Became(argv, env)

    monkeypatch.setattr(os, "execve", became)
    with listening() as upstream:
        monkeypatch.setenv("VLLM_URL", f"http://127.0.0.1:{upstream}")
        yield


def served(*words: str) -> Became:
    with pytest.raises(Became) as caught:
        main(["serve", "--port", str(free_port()), *words])
    return caught.value


@pytest.mark.usefixtures("serve")
def test_a_relative_path_of_a_flag_is_made_absolute(tmp_path: Path) -> None:
    import trustme  # noqa: PLC0415

    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    env = served("--upstream-ca", "ca.pem", "--audit-file", "a.jsonl", "--capture", "new/folder").env
    assert env["TOOL_PROXY_UPSTREAM_CA"] == f"{tmp_path}/ca.pem"
    assert env["TOOL_PROXY_AUDIT_FILE"] == f"{tmp_path}/a.jsonl"
    assert env["TOOL_PROXY_CAPTURE"] == f"{tmp_path}/new/folder"


@pytest.mark.usefixtures("serve")
def test_the_port_is_not_checked_under_socket_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    with listening() as port:
        env = served("--port", str(port)).env
        assert env["LISTEN_FDS"] == "1"
        monkeypatch.setenv("LISTEN_PID", "1")
        assert main(["serve", "--port", str(port)]) == 2


def warned(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines on standard error, without startup messages."""
    return [line for line in capsys.readouterr().err.splitlines() if not line.startswith("INFO ")]


@pytest.mark.usefixtures("serve")
def test_an_address_open_to_the_network_causes_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    served("--host", "0.0.0.0")
    (told,) = warned(capsys)
    assert told.startswith("vllm-tool-proxy: warning: 0.0.0.0:")
    for host in ("localhost", "127.0.0.2", "::1"):
        served("--host", host)
        assert warned(capsys) == []


@pytest.mark.usefixtures("serve")
def test_a_start_without_mistakes_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {name: f"a-{name}-key-that-nobody-may-see" for name in ("client", "upstream", "admin")}
    digest = hashlib.sha256(keys["client"].encode()).hexdigest()
    (tmp_path / "keys.yaml").write_text(f"- {{name: alice, sha256: {digest}}}\n")
    (tmp_path / "admin").write_text(keys["admin"])
    monkeypatch.setenv("TOOL_PROXY_UPSTREAM_KEY", keys["upstream"])
    served("--client-keys", "keys.yaml", "--admin-key-file", "admin", "--capture", "c")
    assert capsys.readouterr().err == ""


def test_an_unusable_key_is_an_error_that_hides_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys.yaml").write_text("- {name: alice, sha256: the-key-itself}\n")
    (tmp_path / "up").write_text("the key itself")
    told = {"--client-keys": "keys.yaml", "--upstream-key-file": "up", "--admin-key-file": "up"}
    for flag, name in told.items():
        for word in ("check", "serve"):
            assert main([word, "--port", str(free_port()), flag, str(tmp_path / name)]) == 2
            error = capsys.readouterr().err
            assert error.count("\n") == 1 and name in error and "itself" not in error


@pytest.mark.usefixtures("serve")
def test_a_missing_gunicorn_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def failed(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "execve", failed)
    assert main(["--port", str(free_port())]) == 2
    assert "gunicorn cannot be started" in capsys.readouterr().err


@pytest.mark.usefixtures("serve")
def test_check_prints_ok_or_why_loading_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "proxy.app", ModuleType("proxy.app"))
    assert main(["check"]) == 0
    assert capsys.readouterr().out.startswith(f"ok: vllm-tool-proxy {__version__}, ")
    monkeypatch.setitem(sys.modules, "proxy.app", None)
    assert main(["check"]) == 2
    assert "the code cannot be loaded (ModuleNotFoundError: " in capsys.readouterr().err
