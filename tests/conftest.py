"""Shared fixtures: the real proxy as a child process, the application without gunicorn, and a real model server."""

from __future__ import annotations

import gc
import http.client
import json
import logging
import os
import ssl
import time
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import trustme
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from proxy.config.api_keys import Keys
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.server.shared_file import FILE_NAME, SharedFile
from proxy.web.app import make_app
from tests.real.llama import LlamaServer
from tests.real.processes import ROOT, answers, free_port
from tests.support import fork_server
from tests.support.scripted import PATIENCE, Upstream
from tests.support.worker_state import make_state, read_rules

# A busy machine must not fail a test, so examples and their generation have no time limit.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")

# These files take longest. At the end, nothing would run in parallel with them.
FIRST = (Path(__file__).parent / "walkthrough", Path(__file__).parent / "unit" / "test_harm.py")

_SETTINGS_OF_THE_MACHINE = (
    *("TOOL_PROXY_", "VLLM_URL", "PROXY_PORT", "MAX_TOOL_CALLS", "GUNICORN", "PYTHONDONTWRITEBYTECODE"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, then the others in collection order."""
    items.sort(key=lambda item: not any(map(item.path.is_relative_to, FIRST)))


def pytest_collection_finish() -> None:
    """Collect garbage less often, which makes the engine's tests 12% faster."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


def clean_environment() -> dict[str, str]:
    """Return the environment without proxy settings. Resource leaks are reported, and modules are compiled once."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS_OF_THE_MACHINE)}
    return {**kept, "PYTHONWARNINGS": "default"}


@dataclass
class Proxy:
    """A running proxy. `log` is the file that receives its stderr."""

    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers (with lower-case names) and body. A body that is not bytes is sent as JSON.

        Underscores in header names become hyphens.
        """
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as client:
            client.request(method, path, data, named)
            response = client.getresponse()
            given = {name.lower(): value for name, value in response.getheaders()}
            return response.status, given, response.read()

    def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of a GET."""
        return self.ask("GET", path)

    def health(self) -> dict[str, Any]:
        """Return the answer of /health."""
        health: dict[str, Any] = json.loads(self.get("/health")[2])
        return health

    def workers(self, but: Container[int] = (), count: int = 2) -> dict[int, dict[str, Any]]:
        """Return the /health of `count` workers by process id, once that many workers not in `but` have answered."""
        seen: dict[int, dict[str, Any]] = {}

        def all_seen() -> bool:
            with suppress(OSError):
                health = self.health()
                seen.update({} if health["worker"] in but else {health["worker"]: health})
            return len(seen) >= count

        until(all_seen)
        return seen

    def idle(self) -> bool:
        """Return whether /health counts no request other than its own."""
        until(lambda: self.health()["active_requests"] <= 0)
        return True

    def logged(self, word: str) -> str:
        """Wait until the log contains `word`, and return the log."""
        until(lambda: word in self.log.read_text())
        return self.log.read_text()


def until(holds: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(0.02)


def start(upstream: str, *flags: str, folder: Path, stack: ExitStack) -> Proxy:
    """Start a real proxy. The stack stops it and asserts that its log shows no defect.

    If `upstream` is "", the rules name the upstream. `TOOL_PROXY_X=1` passes a setting as a variable, which earlier
    releases without that setting ignore. `THREADS=8` replaces a constant.
    """
    limits = {name: float(value) if "." in value else int(value) for name, value in filter(None, map(_limit, flags))}
    flags = tuple(flag for flag in flags if not _limit(flag))
    variables = dict(flag.split("=", 1) for flag in flags if flag.startswith("TOOL_PROXY_"))
    flags = tuple(flag for flag in flags if not flag.startswith("TOOL_PROXY_"))
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    proxy = Proxy(port, folder / "proxy.log")
    flags = (*(("--upstream", upstream) if upstream else ()), *flags)
    environment = {**clean_environment(), **variables}
    process = fork_server.serve(["--port", str(port), *flags], ROOT, environment, proxy.log, limits)
    stack.callback(_end, process, proxy)
    deadline = time.monotonic() + PATIENCE
    while not answers(f"{proxy.url}/health"):
        assert process.is_alive() and time.monotonic() < deadline, proxy.log.read_text()
        time.sleep(0.02)
    return proxy


def _limit(flag: str) -> tuple[str, str] | None:
    """Return the name and value of a constant, or None for other arguments."""
    name, given, value = flag.partition("=")
    return (name, value) if given and name.isupper() and not name.startswith("TOOL_PROXY_") else None


def _end(process: ForkServerProcess, proxy: Proxy) -> None:
    fork_server.end(process)
    log = proxy.log.read_text()
    assert "Traceback" not in log and "ResourceWarning" not in log, log


Start = Callable[..., Proxy]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Start]:
    """Function that starts proxies: `proxy(upstream_url, *flags)`."""
    with ExitStack() as stack:
        count = iter(range(100))
        yield lambda url, *flags: start(url, *flags, folder=tmp_path / f"proxy-{next(count)}", stack=stack)


@dataclass
class Front:
    """A proxy in front of a scripted upstream."""

    upstream: Upstream
    proxy: Proxy


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A private certificate authority."""
    return trustme.CA()


@pytest.fixture(scope="session")
def _fronts(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[Callable[[str], Front]]:
    made: dict[str, Front] = {}
    with ExitStack() as stack:

        def front(scheme: str) -> Front:
            if scheme not in made:
                folder = tmp_path_factory.mktemp(scheme)
                ca = folder / "ca.pem"
                authority.cert_pem.write_to_path(str(ca))
                flags = ("--upstream-ca", str(ca)) if scheme == "https" else ()
                context = tls_context(authority) if scheme == "https" else None
                upstream = stack.enter_context(Upstream(tls=context))
                made[scheme] = Front(upstream, start(upstream.url, *flags, folder=folder, stack=stack))
            return made[scheme]

        yield front


def tls_context(authority: trustme.CA) -> ssl.SSLContext:
    """Return the TLS context of a server named localhost, with a certificate that the authority signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def front(_fronts: Callable[[str], Front]) -> Front:
    """A proxy with default settings, shared by all tests, in front of an upstream without scripts."""
    shared = _fronts("http")
    shared.upstream.play()
    return shared


@pytest.fixture(params=["http", "https"])
def either_front(request: pytest.FixtureRequest, _fronts: Callable[[str], Front]) -> Front:
    """The same proxy, once with an http upstream and once with an https upstream."""
    shared = _fronts(request.param)
    shared.upstream.play()
    return shared


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    """The records that the proxy logs."""
    monkeypatch.setattr(logging.getLogger("proxy"), "propagate", True)
    with caplog.at_level(logging.INFO, "proxy"):
        yield caplog


class BufferedClient(FlaskClient):
    """A test client that reads and closes each response, unless `buffered` is False."""

    def open(self, *args: Any, buffered: bool = True, **more: Any) -> TestResponse:
        return super().open(*args, buffered=buffered, **more)


class Inside:
    """Factory of the application without gunicorn: `inside(upstream_url, rules, setting=value)` returns a test client.

    If `runtime` is a directory, responses are stored in it.
    """

    def __call__(
        self, upstream: str, rules: str = "", keys: Keys | None = None, *, runtime: Path | None = None, **settings: Any
    ) -> FlaskClient:
        builtin = read_rules(None)
        read = parse_rules(rules.encode(), "rules.yaml", builtin) if rules else builtin
        service = make_state(Settings(upstream=upstream, **settings), read, keys=keys)
        if runtime is not None:
            service.shared, service.keeps = SharedFile(str(runtime / FILE_NAME)), True
        app = make_app(service)
        app.test_client_class = BufferedClient
        return app.test_client()


@pytest.fixture
def inside() -> Inside:
    """The application without gunicorn."""
    return Inside()


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real llama.cpp server."""
    with LlamaServer(cache=tmp_path_factory.mktemp("llama")) as server:
        yield server.url


@pytest.fixture(scope="session")
def llama_front(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy in front of the real llama.cpp server."""
    with ExitStack() as stack:
        yield start(llama, folder=tmp_path_factory.mktemp("llama_front"), stack=stack)
