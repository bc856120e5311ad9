"""`vllm-tool-proxy launch --upstream`: a private proxy that runs as long as the agent."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from proxy.cli.main import main
from tests.conftest import start, until
from tests.real.processes import ROOT, answers, free_port, stop
from tests.support.messages_client import MODELS, cards
from tests.support.page_traffic import TOOLS, USUAL
from tests.support.scripted import PATIENCE, Act, Upstream, answer, chat

pytestmark = pytest.mark.once

# Sends a request to its proxy, prints the response, and exits with its own status.
ASKS = f"""#!{sys.executable}
import os, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
print(opener.open(os.environ["OPENAI_BASE_URL"] + "/models").status, sys.argv[1:])
sys.exit(7)
"""
# Sends requests.
AGENT = """#!{python}
import http.client, json, os, urllib.parse
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
for _ in range({times}):
    connection = http.client.HTTPConnection(url.netloc)
    connection.request("POST", url.path + "/chat/completions", json.dumps({body!r}))
    connection.getresponse().read()
"""
# Prints that it runs, and waits to be stopped.
WAITS = """#!/bin/sh
echo there
exec sleep 600
"""
# Prints its process id and its proxy, and exits when its standard input is closed.
STAYS = """#!/bin/sh
echo $$ $OPENAI_BASE_URL
exec cat
"""
# Gives a command its own terminal: standard input becomes the controlling terminal.
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture(name="server")
def _server() -> Iterator[Upstream]:
    with Upstream() as server:
        server.paths = {"/health": [answer({})], MODELS: cards("coder", max_model_len=65536)}
        yield server


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    """An empty home with three programs."""
    home = tmp_path / "home"
    home.mkdir()
    for name, text in (("asks", ASKS), ("waits", WAITS), ("stays", STAYS)):
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    return home


def log_of(home: Path, url: str) -> Path:
    return home / f".local/state/vllm-tool-proxy/serve-{url.rpartition(':')[2]}.log"


def environ(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)}


def started(home: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "proxy", "launch", *words],
        cwd=home,
        env=environ(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(home: Path, *words: str) -> tuple[int, str, str]:
    with started(home, *words) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


@pytest.mark.slow
def test_a_proxy_runs_as_long_as_the_agent(server: Upstream, home: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    words = ("sdk", "--url", url, "--upstream", server.url, "--", str(home / "asks"), "a b")
    log = log_of(home, url)
    told = f"started a proxy for {server.url}; it stops when the agent exits; its log is {log}\n"
    assert run(home, *words) == (7, "200 ['a b']\n", told)
    assert not answers(url)
    assert "/v1/models" in log.read_text()


def test_its_proxy_listens_only_on_this_machine_whatever_the_rules_say(server: Upstream, home: Path) -> None:
    """The port comes from a rules file that was written for another machine."""
    port = free_port()
    (home / "rules.yaml").write_text(f"settings: {{host: 192.0.2.5, port: {port}}}\n")
    words = ("sdk", "--rules", "rules.yaml", "--upstream", server.url, "--", str(home / "asks"))
    status, out, err = run(home, *words)
    assert (status, out) == (7, "200 []\n"), err
    assert log_of(home, f"http://127.0.0.1:{port}").exists()


@pytest.mark.slow
def test_the_verdict_is_printed_when_the_agent_exits(server: Upstream, home: Path) -> None:
    paths = server.paths
    server.play(*USUAL)
    server.paths = paths
    url = f"http://127.0.0.1:{free_port()}"
    body = chat(tools=TOOLS, stream=True)
    (home / "agent").write_text(AGENT.format(python=sys.executable, times=len(USUAL), body=body))
    (home / "agent").chmod(0o755)
    status, _, err = run(home, "sdk", "--url", url, "--upstream", server.url, "--", str(home / "agent"))
    assert status == 0, err
    assert err.splitlines()[1:] == ["vllm-tool-proxy: 5 requests, 2 rescued, 1 rejected, 1 failed"]


@pytest.mark.slow
def test_a_failed_proxy_start_is_reported_in_one_line(server: Upstream, home: Path) -> None:
    """The error is the same if another program listens at the URL."""
    wrong = home / "wrong.yaml"
    wrong.write_text("models: 7\n")
    for url in (f"http://127.0.0.1:{free_port()}", server.url):
        words = ("sdk", "--url", url, "--upstream", server.url, "--rules", str(wrong), "--", str(home / "asks"))
        status, out, err = run(home, *words)
        assert (status, out) == (3, "")
        assert err.startswith("vllm-tool-proxy: error: the proxy did not start: ") and err.count("\n") == 1


def test_an_unusable_url_is_reported_as_by_serve(home: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    status, out, err = run(home, "sdk", "--url", url, "--upstream", "nonsense", "--", str(home / "asks"))
    assert (status, out) == (2, "")
    assert err.startswith("vllm-tool-proxy: error: --upstream: 'nonsense' cannot be used; ") and err.count("\n") == 1


def test_an_unwritable_log_is_reported_in_one_line(server: Upstream, home: Path) -> None:
    (home / ".local").write_text("")
    url = f"http://127.0.0.1:{free_port()}"
    told = f"{log_of(home, url)} cannot be written (Not a directory)"
    words = ("sdk", "--url", url, "--upstream", server.url, "--", str(home / "asks"))
    assert run(home, *words) == (1, "", f"vllm-tool-proxy: error: {told}\n")


def test_a_system_that_cannot_tie_the_proxy_to_its_parent_is_one_line(
    server: Upstream, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """macOS has no prctl(2)."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["launch", "sdk", "--url", url, "--upstream", server.url, "--", str(home / "asks")]) == 2
    assert capsys.readouterr().err.startswith("vllm-tool-proxy: error: the proxy needs Linux; ")


@pytest.mark.slow
def test_a_missing_model_server_is_reported_in_one_line(home: Path) -> None:
    """The proxy that was started for it is stopped."""
    url, closed = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    status, out, err = run(home, "sdk", "--url", url, "--upstream", closed, "--", str(home / "asks"))
    assert (status, out) == (3, "")
    assert err.splitlines()[-1].startswith(f"vllm-tool-proxy: error: connection refused at {closed}; ")
    assert not answers(f"{url}/health")


@pytest.mark.slow
@pytest.mark.parametrize("url", ["http://10.0.0.1:8003", "https://127.0.0.1:8003", "http://127.0.0.1:8003/for/a"])
def test_no_proxy_is_started_on_another_machine(home: Path, url: str) -> None:
    status, out, err = run(home, "sdk", "--url", url, "--upstream", "http://127.0.0.1:1", "--", str(home / "asks"))
    assert (status, out) == (2, "")
    assert err == (
        f"vllm-tool-proxy: error: --upstream starts a proxy on this machine, but {url} is on another one; leave out "
        "either\n"
    )


@pytest.mark.slow
def test_a_signal_ends_the_agent_and_the_proxy(server: Upstream, home: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    process = started(home, "sdk", "--url", url, "--upstream", server.url, "--", str(home / "waits"))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        assert answers(f"{url}/health")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    finally:
        stop(process)
    assert process.returncode == 128 + signal.SIGTERM
    assert not answers(f"{url}/health")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_before_the_agent_runs_stops_the_proxy(home: Path, number: signal.Signals) -> None:
    """The proxy waits for its silent model server, so the agent is not started yet."""
    url = f"http://127.0.0.1:{free_port()}"
    with Upstream([Act.EXPECT_CLOSE] * 20) as server:
        process = started(home, "sdk", "--url", url, "--upstream", server.url, "--", str(home / "waits"))
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("started a proxy for ")
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            stop(process)
    assert (process.returncode, out, err) == (128 + number, "", "")
    assert not answers(f"{url}/health")


@pytest.mark.slow
def test_a_killed_launch_leaves_no_proxy(server: Upstream, home: Path) -> None:
    """`launch` cannot clean up. The agent is not killed and continues."""
    url = f"http://127.0.0.1:{free_port()}"
    words = ("sdk", "--url", url, "--upstream", server.url, "--", str(home / "stays"))
    with started(home, *words) as process:
        assert process.stdout is not None
        agent = process.stdout.readline().split()[0]
        assert answers(f"{url}/health")
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE) == -signal.SIGKILL
        until(lambda: not answers(f"{url}/health"))
        assert "cat" in Path(f"/proc/{agent}/cmdline").read_text()


def test_a_launch_killed_before_its_proxy_listens_leaves_no_proxy(home: Path) -> None:
    """`launch` is killed once the process that becomes the proxy exists."""
    url = f"http://127.0.0.1:{free_port()}"
    with Upstream([Act.EXPECT_CLOSE] * 20) as server:
        process = started(home, "sdk", "--url", url, "--upstream", server.url, "--", str(home / "stays"))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(children.read_text)
        child = children.read_text().split()[0]
        process.kill()
        process.communicate(timeout=PATIENCE)
        until(lambda: not Path(f"/proc/{child}").exists())
    assert not answers(url)


@pytest.mark.slow
def test_a_closed_terminal_leaves_neither_agent_nor_proxy(server: Upstream, home: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ours, theirs = os.openpty()
    words = ("-m", "proxy", "launch", "sdk", "--url", url, "--upstream", server.url, "--", str(home / "stays"))
    with (home / "out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, sys.executable, *words],
            cwd=home,
            env=environ(home),
            stdin=theirs,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    os.close(theirs)
    out_file = home / "out"
    until(lambda: ".log\n" in out_file.read_text() and out_file.read_text().partition(".log\n")[2].endswith("\n"))
    said = out_file.read_text().partition(".log\n")[2]
    assert answers(f"{url}/health")
    os.close(ours)
    # The agent reads its terminal and may notice the close before the signal arrives.
    assert process.wait(PATIENCE) in (128 + signal.SIGHUP, 1)
    assert not answers(f"{url}/health")
    assert not Path(f"/proc/{said.split()[0]}").exists()


@pytest.mark.slow
@pytest.mark.parametrize("is_same", [True, False], ids=["for the same server", "for another server"])
def test_a_running_proxy_is_not_used(server: Upstream, home: Path, tmp_path: Path, is_same: bool) -> None:
    """Another proxy is started at the next free port. The running one stays."""
    with ExitStack() as stack:
        other = stack.enter_context(Upstream())
        other.paths = {"/health": [answer({})], MODELS: cards("other", max_model_len=65536)}
        proxy = start(server.url if is_same else other.url, folder=tmp_path, stack=stack)
        words = ("sdk", "--url", proxy.url, "--upstream", server.url, "--", str(home / "asks"))
        status, out, err = run(home, *words)
        assert (status, out) == (7, "200 []\n")
        url = err.partition(" at ")[2].partition(",")[0]
        assert int(url.rpartition(":")[2]) > int(proxy.url.rpartition(":")[2])
        told = f"at {url}, because something else listens at {proxy.url}; it stops when the agent exits; its log is"
        assert err == f"started a proxy for {server.url} {told} {log_of(home, url)}\n"
        assert "/v1/models" in log_of(home, url).read_text()
        assert answers(f"{proxy.url}/health") and not answers(f"{url}/health")
        assert "/v1/models" not in other.asked


@pytest.mark.slow
def test_the_proxy_of_another_launch_is_not_shared(server: Upstream, home: Path) -> None:
    """That proxy stops with the other agent."""
    url = f"http://127.0.0.1:{free_port()}"
    words = ("sdk", "--url", url, "--upstream", server.url, "--", str(home / "stays"))
    with started(home, *words) as first, start_after(first, home, *words) as second:
        assert second.stdout is not None and second.stderr is not None
        theirs = second.stdout.readline().split()[1].removesuffix("/v1")
        assert f" at {theirs}, because something else listens at {url}; " in second.stderr.readline()
        first.communicate(timeout=PATIENCE)
        assert not answers(f"{url}/health") and answers(f"{theirs}/health")
        second.communicate(timeout=PATIENCE)
        assert not answers(f"{theirs}/health")
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_port_that_another_launch_is_about_to_use_is_left_alone(server: Upstream, home: Path) -> None:
    """Two agents that start at once would otherwise share one proxy, and one of them the other's model server."""
    url = f"http://127.0.0.1:{free_port()}"
    theirs = log_of(home, url)
    theirs.parent.mkdir(parents=True)
    with theirs.open("w") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.write("theirs")
        log.flush()
        status, _, err = run(home, "sdk", "--url", url, "--upstream", server.url, "--", str(home / "asks"))
    assert status == 7 and f", because something else listens at {url}; " in err
    assert theirs.read_text() == "theirs"


def test_ports_that_cannot_be_used_are_reported_in_one_line(server: Upstream, home: Path) -> None:
    """The last port has no next one."""
    with socket.socket() as taken:
        with suppress(OSError):  # another program may have it
            taken.bind(("127.0.0.1", 65535))
        words = ("sdk", "--url", "http://127.0.0.1:65535", "--upstream", server.url, "--", str(home / "asks"))
        status, out, err = run(home, *words)
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert "no port of 127.0.0.1 from 65535 on can be used (Address already in use); give the URL of a free" in err


def start_after(first: subprocess.Popen[str], home: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command once the first command's agent runs."""
    assert first.stdout is not None
    assert first.stdout.readline()
    return started(home, *words)
