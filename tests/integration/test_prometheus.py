"""The files in deploy/ for Prometheus: promtool accepts the alerts, and every panel of the dashboard has data."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Proxy, Start, until
from tests.integration.test_kept_captures import CALL, STRANGE
from tests.real.processes import ROOT, free_port, running
from tests.support.helpers import RECORDINGS
from tests.support.messages_client import MODELS, cards
from tests.support.recorded_answers import served
from tests.support.scripted import (
    DONE,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Client,
    Script,
    Upstream,
    answer,
    arguments,
    chat,
    chunked,
    finish,
    opened,
    stream,
    text,
    text_reply,
)

pytestmark = pytest.mark.once

FOLDER = ROOT / "deploy" / "prometheus"
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "vllm-tool-proxy.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES: dict[str, str] = {
    f"{panel['title']}, {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}
METRIC = re.compile(r"tool_proxy_[a-z_]+")
RECORDED = RECORDINGS / "vllm-0.32.0-hermes" / "hermes-chat-stream-200.txt"


def program(name: str) -> str:
    """Return the path of a program. Skip the test if it is missing, except in CI."""
    found = shutil.which(name)
    if found is None:
        assert "CI" not in os.environ, f"{name} is missing: apt-get install prometheus"
        pytest.skip(f"{name} is not installed (apt-get install prometheus)")
    return found


def promtool(*words: str) -> tuple[int, str]:
    done = subprocess.run([program("promtool"), *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def test_promtool_accepts_the_alerts_and_their_tests() -> None:
    code, said = promtool("check", "rules", "--lint-fatal", "alerts.yaml")
    assert code == 0 and f"{len(alerts())} rules found" in said
    assert promtool("test", "rules", "alerts_test.yaml")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [rule["alert"] for rule in alerts()])
def test_the_alert_tests_detect_an_alert_that_never_or_always_fires(name: str, tmp_path: Path) -> None:
    """An alert that never fires, and one that always fires, each fail promtool's tests of the alerts."""
    for expression in ("vector(1) > 2", "label_replace(vector(1), 'instance', 'z', '', '')"):
        spoilt = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
        for rule in spoilt["groups"][0]["rules"]:
            if rule["alert"] == name:
                rule["expr"] = expression
        (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(spoilt))
        shutil.copy(FOLDER / "alerts_test.yaml", tmp_path)
        code, said = promtool("test", "rules", str(tmp_path / "alerts_test.yaml"))
        assert code != 0 and name in said


def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (tmp_path / "key").write_text("key")
    config["scrape_configs"][0]["authorization"]["credentials_file"] = str(tmp_path / "key")
    config["rule_files"] = [str(FOLDER / name) for name in config["rule_files"]]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    code, said = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert code == 0, said
    (job,) = config["scrape_configs"]
    assert [rule["expr"] for rule in alerts() if rule["alert"] == "ToolProxyDown"] == [
        f'up{{job="{job["job_name"]}"}} == 0'
    ]


def test_one_panel_shows_all_records_that_can_be_lost() -> None:
    (panel,) = [panel for panel in PANELS if panel["title"] == "Records that were lost"]
    shown = {re.search(r"tool_proxy_\w+", target["expr"])[0] for target in panel["targets"]}  # type: ignore[index]
    documented = {*re.findall(r"tool_proxy_\w+_lost_total", (ROOT / "docs" / "operations.md").read_text())}
    assert shown == documented != set()


def exposed(proxy: Proxy) -> set[str]:
    families = text_string_to_metric_families(proxy.get("/metrics")[2].decode())
    return {sample.name for family in families for sample in family.samples}


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str, **parameters: str) -> Any:
        with self._opener.open(f"{self._url}/{path}?{urllib.parse.urlencode(parameters)}", timeout=PATIENCE) as found:
            return json.loads(found.read())["data"]

    def values(self, query: str) -> list[float]:
        """Return the finite values of a query."""
        found = [float(sample["value"][1]) for sample in self.get("query", query=query)["result"]]
        return [value for value in found if math.isfinite(value)]

    def wait(self, query: str) -> None:
        until(lambda: self.values(query))


@pytest.fixture
def served_by_all_kinds(proxy: Start, tmp_path: Path) -> Iterator[tuple[Proxy, Upstream]]:
    with Upstream() as server:
        yield proxy(server.url, "--capture", str(tmp_path / "captures")), server


SLOW: Script = [SSE, chunked(ROLE), *(part for n in range(20) for part in (0.005, chunked(text(f" word {n}")))), LAST]
HELD: Script = stream(ROLE, text(CALL[:20]), 0.1, text(CALL[20:]), finish())


USAGE = b'data: {"id": "a", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\n'


CALLED = opened(0, "call_1", "write_file")


def requests_of_all_kinds(proxy: Proxy, server: Upstream) -> None:
    """Send one request of each kind: plain, repaired, refused, empty, failed, abandoned, denied."""
    scripts: list[Script] = [
        served(RECORDED)[0],
        [*SLOW[:-1], chunked(finish()), chunked(DONE), LAST],
        [*HELD[:-1], chunked(DONE), LAST],
        text_reply(STRANGE),
        stream(ROLE, CALLED, arguments(0, '{"path": "a"}'), finish("tool_calls"), USAGE, DONE),
        stream(ROLE, CALLED, arguments(0, '{"path": "a", "cont'), finish("length"), DONE),
        text_reply(),
        text_reply("Hi"),
        [answer({"error": {"message": "no", "type": "x"}}, 503)],
        stream(ROLE, text("Hi"), Act.EXPECT_CLOSE, ended=False),
    ]
    server.play(*scripts)
    server.paths[MODELS] = cards("tiny")
    for _ in scripts[1:-1]:
        with Client.post(proxy.port, chat(tools=[WRITE_FILE])) as client, client.answer() as response:
            response.read()
    with Client.post(proxy.port, chat(tools=[WRITE_FILE])) as client, client.answer() as response:
        assert response.read1(65536)
        client.vanish(reset=True)
    assert proxy.ask("GET", "/v1/models", Origin="https://evil.example")[0] == 403
    assert proxy.idle()


@pytest.mark.slow
def test_each_panel_has_data_in_a_real_prometheus(served_by_all_kinds: tuple[Proxy, Upstream], tmp_path: Path) -> None:
    proxy, server = served_by_all_kinds
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(FOLDER / name) for name in config["rule_files"]]
    del config["scrape_configs"][0]["authorization"]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{proxy.port}"]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        program("prometheus"),
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    requests_of_all_kinds(proxy, server)
    named = {name for query in QUERIES.values() for name in METRIC.findall(query)}
    assert named <= exposed(proxy), named - exposed(proxy)
    with running(command, f"http://127.0.0.1:{port}/-/ready", timeout=PATIENCE):
        prometheus = Prometheus(port)
        for name in sorted(named):
            prometheus.wait(f"count({name})")
        # A rate needs an earlier sample of its counter.
        requests_of_all_kinds(proxy, server)
        for query in QUERIES.values():
            prometheus.wait(query.replace("$__rate_interval", "10m").replace("$instance", ".+"))
        (group,) = prometheus.get("rules")["groups"]
        assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in alerts()]
        assert prometheus.values("up") == [1.0]
        until(lambda: {rule["health"] for rule in prometheus.get("rules")["groups"][0]["rules"]} == {"ok"})
