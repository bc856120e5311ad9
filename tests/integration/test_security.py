"""Security of a real server with two workers: keys, admin paths, metrics, upstream requests, and logs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Proxy, start, until
from tests.support.messages_ask import ask
from tests.support.rows import rows
from tests.support.scripted import (
    PATIENCE,
    ROLE,
    Client,
    Script,
    Upstream,
    answer,
    chat,
    stream,
    text,
    text_reply,
    whole_reply,
)

pytestmark = pytest.mark.once

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
FINE = text_reply("a")
MODELS = [answer({"object": "list", "data": [{"id": "tiny", "owned_by": "vllm"}]})]
ALICE, ADMIN, UP = "key-of-alice-7f3a", "key-of-the-admin-91c2", "key-for-upstream-5d04"


@dataclass
class Two:
    """A proxy with two workers in front of a scripted upstream, and its files."""

    proxy: Proxy
    upstream: Upstream
    folder: Path

    def raw(self, *lines: str) -> bytes:
        """Return the answer to a request with these lines."""
        with socket.create_connection(("127.0.0.1", self.proxy.port), PATIENCE) as client:
            client.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1"))
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while part := client.recv(65536):
                    found += part
            return found

    def samples(self) -> dict[str, float]:
        """Return the samples of a scrape, which also requests the model list."""
        self.upstream.paths.setdefault("/v1/models", MODELS)
        status, _, found = self.proxy.ask("GET", "/metrics", Authorization=f"Bearer {ADMIN}")
        assert status == 200, found
        lines = [line for line in found.decode().splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def entry(name: str, key: str, **more: int) -> str:
    limits = "".join(f", {what}: {number}" for what, number in more.items())
    return f"- {{name: {name}, sha256: {hashlib.sha256(key.encode()).hexdigest()}{limits}}}\n"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Two]:
    """Run a proxy with all keys, an audit file and captures."""
    bob = entry("bob", "key-of-bob", requests_per_minute=3, streams=2)
    (folder / "keys.yaml").write_text(entry("alice", ALICE) + bob)
    (folder / "admin").write_text(f"sha256:{hashlib.sha256(ADMIN.encode()).hexdigest()}\n")
    (folder / "up").write_text(UP + "\n")
    files = {"client-keys": "keys.yaml", "admin-key-file": "admin", "upstream-key-file": "up"}
    flags = [word for flag, name in files.items() for word in (f"--{flag}", str(folder / name))]
    flags += ["--audit-file", str(folder / "audit.jsonl"), "--capture", str(folder / "captures")]
    with ExitStack() as stack, Upstream() as upstream:
        upstream.paths = {"/v1/models": MODELS}
        yield Two(start(upstream.url, "--workers", "2", *flags, folder=folder, stack=stack), upstream, folder)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with running(tmp_path) as two:
        yield two


@pytest.fixture(scope="module")
def _one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with running(tmp_path_factory.mktemp("shared")) as two:
        yield two


@pytest.fixture
def shared(_one: Two) -> Two:
    """Return a shared proxy whose upstream has no scripts yet."""
    _one.upstream.play()
    return _one


def test_workers_share_the_limits_of_a_key(two: Two) -> None:
    bob = {"Authorization": "Bearer key-of-bob"}
    two.upstream.play(*[whole_reply("a")] * 3)
    statuses = [two.proxy.ask("POST", CHAT, chat(stream=False), **bob)[0] for _ in range(8)]
    assert statuses == [200] * 3 + [429] * 5
    status, headers, _ = two.proxy.ask("POST", MESSAGES, ask(), **bob)
    assert status == 429 and 1 <= int(headers["retry-after"]) <= 61
    assert len(two.upstream.seen) == 3
    until(lambda: two.samples()['tool_proxy_denied_total{reason="rate"}'] == 6)


def test_concurrent_streams_are_limited_across_workers_even_if_one_dies(two: Two) -> None:
    keys = two.folder / "keys.yaml"
    keys.write_text(entry("bob", "key-of-bob", streams=2))
    assert two.proxy.ask("POST", "/_reload", Authorization=f"Bearer {ADMIN}")[0] == 200
    gate = two.upstream.gate()
    script: Script = text_reply("a", gate)
    two.upstream.play(script, script, FINE)
    body = json.dumps(chat()).encode()
    top = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nx-api-key: key-of-bob\r\nContent-Length: {len(body)}\r\n\r\n"
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(two.proxy.port, top.encode() + body)) for _ in range(2)]
        answers = [stack.enter_context(client.answer()) for client in clients]
        assert [each.status for each in answers] == [200, 200]
        assert two.samples()["tool_proxy_active_streams"] == 2
        for _ in range(4):
            assert two.proxy.ask("POST", CHAT, chat(), x_api_key="key-of-bob")[0] == 429
        for pid in two.proxy.workers():
            os.kill(pid, signal.SIGKILL)
        until(lambda: two.samples()["tool_proxy_active_streams"] == 0)
        assert two.proxy.ask("POST", CHAT, chat(), x_api_key="key-of-bob")[0] == 200


def test_counters_never_go_backwards_when_workers_are_replaced(two: Two) -> None:
    two.upstream.play(*[FINE] * 12)
    two.upstream.paths["/v1/models"] = MODELS
    name = 'tool_proxy_requests_total{dialect="chat",model="tiny",status="200"}'

    def four_more(total: int) -> None:
        for _ in range(4):
            assert two.proxy.ask("POST", CHAT, chat(), x_api_key=ALICE)[0] == 200
        until(lambda: two.samples()[name] == total)

    four_more(4)
    before = two.proxy.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    two.proxy.workers(but=before)
    four_more(8)
    before = two.proxy.workers()
    master = int(Path(f"/proc/{next(iter(before))}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(master, signal.SIGHUP)
    two.proxy.workers(but=before)
    four_more(12)
    assert two.samples()["tool_proxy_rules_in_force"] == 1


def test_reloaded_rules_update_the_keys_but_a_bad_file_changes_nothing(two: Two) -> None:
    two.upstream.play(*[FINE] * 9)
    admin = {"Authorization": f"Bearer {ADMIN}"}
    keys = two.folder / "keys.yaml"
    keys.write_text(entry("carol", "key-of-carol"))
    assert two.proxy.ask("POST", CHAT, chat(), x_api_key="key-of-carol")[0] == 401
    assert two.proxy.ask("POST", "/_reload", **admin)[0] == 200
    for _ in range(4):
        assert two.proxy.ask("POST", CHAT, chat(), x_api_key="key-of-carol")[0] == 200
        assert two.proxy.ask("POST", CHAT, chat(), x_api_key=ALICE)[0] == 401
    keys.write_text("- {name: dave, sha256: key-of-dave}\n")
    status, _, told = two.proxy.ask("POST", "/_reload", **admin)
    assert status == 422 and b"keys.yaml:1: sha256 of" in told and b"key-of-dave" not in told
    assert two.proxy.ask("POST", CHAT, chat(), x_api_key="key-of-carol")[0] == 200
    assert two.samples()["tool_proxy_rules_in_force"] == 0
    # A replacement worker uses the keys in force, not those of the file.
    before = two.proxy.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    two.proxy.workers(but=before)
    assert two.proxy.ask("POST", CHAT, chat(), x_api_key="key-of-carol")[0] == 200


EVIL = "x\r\nINFO id=forged status=200 \x1b[31m\u2028\u2029\x85 "


def test_no_log_line_can_be_forged(shared: Two) -> None:
    said = {"error": {"message": EVIL, "type": EVIL}}
    shared.upstream.play(whole_reply("a"), [answer(said, 400)], FINE)
    for _ in range(3):
        shared.proxy.ask("POST", CHAT, chat(model=EVIL), x_api_key=ALICE)
    shared.proxy.ask("GET", "/v1/models/x%0d%0aINFO%20id=forged%1b%5b31m%e2%80%a8", x_api_key=ALICE)
    shared.proxy.ask("GET", "/for/x%0aINFO%20id=forged/v1/models", x_api_key=ALICE)
    shared.proxy.ask("GET", "/x%0aINFO id=forged".replace(" ", "%20"), X_Request_Id="x INFO id=forged")
    shared.raw("GET /\x1b[31mINFO HTTP/1.1\x0bINFO id=forged")
    shared.raw("GET / HTTP/1.1", "Host: x", "X-Request-Id: a\x1b[31m")
    log = shared.proxy.logged("/for/")
    assert not [line for line in log.split("\n") if line.startswith("INFO id=forged")]
    assert all(line.isprintable() for line in log.split("\n")) and "\x1b" not in log


@rows(__file__, "path")
def test_no_path_reaches_another_path_of_the_model_server(shared: Two, path: str) -> None:
    status, _, _ = shared.proxy.ask("GET", path, x_api_key=ALICE)
    assert status in ((401,) if path == "//metrics" else (400, 404, 599))  # 401: another spelling of our own path
    assert [seen.path for seen in shared.upstream.seen] in ([], ["/v1/models/@evil:80"])


def test_a_header_with_an_underscore_is_dropped(shared: Two) -> None:
    """`header_map = drop`: a header hidden from a front end cannot act as a key or hide that a request is forwarded."""
    for name in ("X_Api_Key", "x-api_key", "HTTP_X_API_KEY"):
        assert b" 401 " in shared.raw("GET /v1/models HTTP/1.1", "Host: x", f"{name}: {ALICE}")
    assert b" 404 " in shared.raw("GET /x/health HTTP/1.1", "Host: x", "SCRIPT_NAME: /x", "PATH_INFO: /health")


def test_the_log_can_be_json(tmp_path: Path) -> None:
    with ExitStack() as stack, Upstream(FINE, [answer({"error": {"message": "x"}}, 503)]) as upstream:
        proxy = start(upstream.url, "--log-format", "json", folder=tmp_path, stack=stack)
        two = Two(proxy, upstream, tmp_path)
        two.proxy.ask("POST", CHAT, chat(model=EVIL), X_Request_Id="r1")
        two.proxy.ask("POST", CHAT, chat(), X_Request_Id="r2")
        two.raw("GET / HTTP/1.1 x")
        log = proxy.logged('"id": "r1"') and proxy.logged('"id": "r2"')
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    about = {line["id"]: line for line in lines if line["event"] == "request" and line["path"] == CHAT}
    first, second = about["r1"], about["r2"]
    assert (first["model"], first["status"], first["dialect"], first["route"]) == (EVIL, 200, "chat", CHAT)
    assert first["stream"] is True and first["ms"] >= first["ttfb_ms"] > 0 and first["bytes"] > 0
    assert (first["upstream"], second["upstream"], second["status"]) == ("ok", "refused", 503)


def test_a_client_that_leaves_is_logged_and_counted(two: Two) -> None:
    gate = two.upstream.gate()
    two.upstream.play([gate], stream(ROLE, text("a"), gate, ended=False))
    body = json.dumps(chat()).encode()
    top = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nx-api-key: {ALICE}\r\nContent-Length: {len(body)}\r\n\r\n"
    for number, when in ((1, "waiting"), (2, "answering")):
        with Client(two.proxy.port, top.encode() + body) as client:
            two.upstream.wait(number)
            if when == "answering":
                with client.answer() as found:
                    assert found.status == 200 and found.read(1)
        assert f"gone={when}" in two.proxy.logged(f"gone={when}")
        until(lambda when=when: two.samples().get(f'tool_proxy_disconnects_total{{when="{when}"}}') == 1)  # type: ignore[misc]
