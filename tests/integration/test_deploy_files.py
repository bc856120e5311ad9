"""The files in deploy/: HAProxy and Kubernetes take them, and they fit the proxy that is here."""

from __future__ import annotations

import copy
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

import kubernetes_validate
import pytest
import yaml
from flask import Flask

from proxy import __version__, gunicorn_conf
from proxy.config.load import AUDIT_NAME, RULES_VARIABLE, RulesText, key_files, load
from proxy.config.rules import Rules
from proxy.config.settings import SPECS, Settings
from proxy.server.client_socket import GRACE
from proxy.web.app import make_app
from tests.cluster.boxes import CONFIG, Ports, haproxy_program, rendered
from tests.real.processes import ROOT
from tests.support.worker_state import make_state, read_rules

FOLDER = ROOT / "deploy" / "kubernetes"
LOGROTATE = ROOT / "deploy" / "logrotate" / "vllm-tool-proxy"
UNIT = ROOT / "systemd" / "vllm-tool-proxy.service"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
# The oldest and the newest that must take them.
VERSIONS = ("1.30", ".".join(kubernetes_validate.latest_version().split(".")[:2]))
BACKENDS = ("proxies", "alive")
# The names of the manifests: of the proxies, and of HAProxy before the model servers.
PROXY, MODEL_SERVERS = "vllm-tool-proxy", "model-servers"
LINES = [line.strip() for line in CONFIG.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]


def values(*words: str) -> list[str]:
    """What follows these words, in all lines of haproxy.cfg that begin with them."""
    start = " ".join(words) + " "
    return [line.removeprefix(start) for line in LINES if line.startswith(start)]


def value(*words: str) -> str:
    """The same of the only such line."""
    (only,) = values(*words)
    return only


def seconds(text: str) -> float:
    """HAProxy's way to write a time."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()  # type: ignore[union-attr]
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def section(name: str) -> list[str]:
    """The lines of a section of haproxy.cfg."""
    start = LINES.index(name) + 1
    heads = ("global", "defaults", "frontend ", "backend ")
    end = next((at for at in range(start, len(LINES)) if LINES[at].startswith(heads)), len(LINES))
    return LINES[start:end]


def haproxy_programs() -> list[str]:
    """HAProxy, if it is here; in CI it must be. `make cluster-test` installs it, and always runs the file."""
    return [program] if (program := haproxy_program()) else ["haproxy"] if "CI" in os.environ else []


def test_haproxy_takes_the_file_without_a_warning(tmp_path: Path) -> None:
    files = {"as it is": CONFIG, "rendered": tmp_path / "haproxy.cfg"}
    files["rendered"].write_text(rendered(Ports(18003, 18000, (18004, 18005, 18006), (18007, 18008)), tmp_path))
    for program in haproxy_programs():
        for name, path in files.items():
            # -dW: a warning is an error.
            done = subprocess.run([program, "-c", "-dW", "-f", path], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (name, done.stdout, done.stderr)


def test_only_what_no_proxy_has_seen_is_tried_again() -> None:
    assert values("retry-on") == ["conn-failure"]
    assert value("option", "redispatch") == "1"
    # On a connection that is kept, a request may meet its end behind the last byte.
    assert "option http-server-close" in section("defaults")
    assert not any("http-reuse" in line or "l7-retry" in line for line in LINES)


def test_a_proxy_that_is_marked_down_keeps_its_streams() -> None:
    assert not any(word in line for line in LINES for word in ("on-marked-down", "shutdown-sessions"))


def test_a_client_that_leaves_is_told_to_the_proxy_and_events_are_not_gathered() -> None:
    assert {"option abortonclose", "option http-no-delay"} <= {*section("defaults")}
    assert not any(line.startswith(("compression", "filter")) for line in LINES)


def test_a_body_that_does_not_come_waits_in_front_of_the_proxies() -> None:
    """Without the option the time is that of the head alone. At the proxy's least rate a buffer is full in time."""
    assert "option http-buffer-request" in section("defaults")
    settings, buffer = Settings(), 16 * 1024
    assert GRACE + buffer / settings.body_rate <= seconds(value("timeout http-request"))
    assert seconds(value("timeout http-request")) < settings.body_timeout < seconds(value("timeout client"))


def test_the_idle_times_are_longer_than_anything_the_proxy_waits_for() -> None:
    longest = max(Settings().header_timeout, Settings().idle_timeout)
    for side in ("client", "server", "tunnel"):
        assert seconds(value("timeout", side)) > 2 * longest > 10 * Settings().heartbeat
    assert seconds(value("timeout", "http-keep-alive")) >= gunicorn_conf.keepalive


def test_the_checks_ask_who_can_serve_and_who_lives() -> None:
    paths = {
        name: [line for line in section(f"backend {name}") if line.startswith("http-check send")] for name in BACKENDS
    }
    assert ["uri /_ready" in paths["proxies"][0], "uri /health" in paths["alive"][0]] == [True, True]
    for name in BACKENDS:
        (default,) = [line.split() for line in section(f"backend {name}") if line.startswith("default-server")]
        assert "check" in default
        # A request that asks for more than the proxy's threads would have the check wait too; and all may be streams.
        most = int(default[default.index("maxconn") + 1])
        assert most <= min(Settings().threads - Settings().reserved_threads, Settings().max_streams)


def test_both_lists_of_servers_are_the_same() -> None:
    proxies, alive = ([line for line in section(f"backend {name}") if line.startswith("server ")] for name in BACKENDS)
    assert proxies == alive and len(proxies) == 3


def test_the_balance_is_the_same_in_both() -> None:
    proxies, alive = (
        [line for line in section(f"backend {name}") if line.startswith(("balance", "hash-type"))] for name in BACKENDS
    )
    assert proxies == alive == ["balance hash var(txn.conversation)", "hash-type consistent sdbm avalanche"]


def test_it_listens_on_loopback_until_it_is_opened() -> None:
    assert values("bind") == ["127.0.0.1:8003", "127.0.0.1:8000"]


def test_its_own_errors_can_be_read_by_both_kinds_of_clients() -> None:
    told = [line for line in values("http-error") + values("http-request", "return") if "string" in line]
    bodies = [yaml.safe_load(re.findall(r"string '([^']*)'", line)[0]) for line in told]
    errors = [body for body in bodies if "status" not in body]
    assert len(errors) == 9
    for body in errors:
        assert body["type"] == "error" and body["error"]["type"].endswith("_error") and body["error"]["message"]


def test_a_conversation_stays_at_one_model_server_by_the_header_that_the_proxies_send() -> None:
    lines = section("backend models")
    assert lines[:2] == [f"balance hdr({Settings().conversation_header})", "hash-type consistent sdbm avalanche"]
    assert any(line.startswith("http-check send") and "uri /health" in line for line in lines)
    (default,) = [line.split() for line in lines if line.startswith("default-server")]
    assert "check" in default and "observe" not in default  # what a server answers is its answer
    assert len([line for line in lines if line.startswith("server ")]) == 2


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def manifest(kind: str, name: str = PROXY) -> dict[str, Any]:
    """The only manifest of a kind, of the proxies or of what else has this name."""
    found = [each for _, each in documents() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    (only,) = found
    return only


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = manifest("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (only,) = pod()["containers"]
    return dict(only)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", [document for _, document in documents()], ids=[name for name, _ in documents()])
def test_kubernetes_takes_the_manifest(document: dict[str, Any], version: str) -> None:
    assert kubernetes_validate.validate(document, version, strict=True) == version


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pod: pod.update(terminationGracePeriodSeconds="90"),
        lambda pod: pod.update(enableServiceLink=False),
        lambda pod: pod["containers"][0]["securityContext"]["capabilities"].update(drop="ALL"),
        lambda pod: pod["containers"][0].pop("name"),
    ],
)
def test_the_check_of_a_manifest_finds_what_is_wrong(spoil: Callable[[dict[str, Any]], object]) -> None:
    spoilt = copy.deepcopy(manifest("Deployment"))
    spoil(spoilt["spec"]["template"]["spec"])
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(spoilt, VERSIONS[-1], strict=True)


def test_everything_that_there_should_be_is_there() -> None:
    kinds = {"ConfigMap", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"}
    assert {document["kind"] for name, document in documents() if name != "model-servers.yaml"} == kinds
    front = {"ConfigMap", "Deployment", "Service", "NetworkPolicy"}
    assert {document["kind"] for name, document in documents() if name == "model-servers.yaml"} == front


def test_all_of_them_mean_the_same_pods() -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert manifest("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    assert pod()["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == labels
    target = manifest("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", manifest("Deployment")["metadata"]["name"])


def test_the_ports_are_one() -> None:
    (port,) = container()["ports"]
    assert manifest("Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert manifest("NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"] == port["name"]
    assert port["containerPort"] == settings_of_the_map().port


def settings_of_the_map() -> Settings:
    text = manifest("ConfigMap")["data"]["rules.yaml"]
    return load({}, {}, RulesText(text.encode(), "/etc/vllm-tool-proxy/rules.yaml"))[0]


def test_the_rules_of_the_map_can_be_used_and_open_the_pod() -> None:
    settings = settings_of_the_map()
    assert (settings.host, settings.upstream) == ("0.0.0.0", f"http://{MODEL_SERVERS}:8000")
    (egress,) = [
        rule for rule in manifest("NetworkPolicy")["spec"]["egress"] if "namespaceSelector" not in rule["to"][0]
    ]
    assert settings.upstream.endswith(f":{egress['ports'][0]['port']}")


def test_its_variables_are_the_proxys() -> None:
    names = {each["name"] for each in container()["env"]}
    assert RULES_VARIABLE in names
    assert names - {"CREDENTIALS_DIRECTORY"} <= {RULES_VARIABLE, *(spec.variables[0] for spec in SPECS)}


def test_the_rules_and_the_keys_are_where_the_variables_say() -> None:
    mounts = {mount["name"]: mount for mount in container()["volumeMounts"]}
    said = {each["name"]: each["value"] for each in container()["env"]}
    assert Path(said[RULES_VARIABLE]).parent == Path(mounts["rules"]["mountPath"])
    assert said["CREDENTIALS_DIRECTORY"] == mounts["keys"]["mountPath"]
    assert all(mounts[name]["readOnly"] for name in ("rules", "keys"))
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    assert volumes["rules"]["configMap"]["name"] == manifest("ConfigMap")["metadata"]["name"]
    assert volumes["keys"]["secret"]["optional"] is True
    assert mounts.keys() == volumes.keys()


def test_the_keys_have_the_names_by_which_the_proxy_looks_for_them(tmp_path: Path) -> None:
    text = (FOLDER / "deployment.yaml").read_text()
    for name in re.findall(r"--from-file=([a-z-]+)", text):
        (tmp_path / name).write_text("secret")
    files = key_files(Settings(), Rules(), {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert all((files.clients, files.upstream, files.admin))


def app() -> Flask:
    return make_app(make_state(Settings(upstream="http://127.0.0.1:9"), read_rules(None)))


def test_the_probes_ask_what_they_should() -> None:
    asked = {probe: container()[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert asked == {"startup": "/health", "liveness": "/health", "readiness": "/_ready"}
    with app().test_client() as client:
        # Nothing listens at its upstream: it lives, and cannot serve.
        assert {path: client.get(path).status_code for path in asked.values()} == {"/health": 200, "/_ready": 503}


def test_streams_get_their_time_to_end_before_the_pod_is_killed() -> None:
    (word, pause) = container()["lifecycle"]["preStop"]["exec"]["command"]
    probe = container()["readinessProbe"]
    assert word == "sleep"
    assert int(pause) >= probe["periodSeconds"] * probe["failureThreshold"]
    assert pod()["terminationGracePeriodSeconds"] >= int(pause) + gunicorn_conf.graceful_timeout + 10


def test_the_pod_may_do_nothing_that_it_need_not() -> None:
    mine, whole = container()["securityContext"], pod()["securityContext"]
    assert mine == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert whole["runAsNonRoot"] is True and whole["runAsUser"] > 0 and whole["runAsGroup"] > 0
    assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod()["automountServiceAccountToken"] is False
    # Else a Service could set what are settings here: TOOL_PROXY_PORT=tcp://10.0.0.1:8003.
    assert pod()["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod().keys()


def test_the_autoscaler_counts_streams() -> None:
    (metric,) = manifest("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "tool_proxy_active_streams"
    assert 0 < int(metric["pods"]["target"]["averageValue"]) < Settings().max_streams


def test_the_image_is_this_release_and_runs_as_the_pod_says() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert container()["image"] == f"vllm-tool-proxy:{__version__}"
    assert f"-t vllm-tool-proxy:{__version__} " in dockerfile
    context = pod()["securityContext"]
    assert f"\nUSER {context['runAsUser']}:{context['runAsGroup']}\n" in dockerfile
    assert re.search(r"(?m)^FROM python:3\.\d+-slim-\w+$", dockerfile)


def test_the_image_is_made_of_what_is_here_and_nothing_else() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"(?m)^COPY (.+)$", dockerfile) for word in line.split()[:-1]}
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} == {word for word in ignored if word.startswith("!")}
    assert ignored[0] == "*"
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_logrotate_takes_the_audit_file_of_the_unit_and_leaves_it_to_the_proxy_to_make_a_new_one() -> None:
    (pattern, body) = re.findall(r"^(/\S+) \{\n(.*?)^\}", LOGROTATE.read_text(), re.DOTALL | re.MULTILINE)[0]
    folder = re.search(r"^StateDirectory=(\S+)$", UNIT.read_text(), re.MULTILINE)
    assert folder is not None
    assert PurePath("/var/lib", folder[1], AUDIT_NAME).match(pattern)
    words = [line.strip() for line in body.splitlines()]
    assert "nocreate" in words and "missingok" in words and not any(word.startswith("copytruncate") for word in words)


def lines_of(config: str) -> list[str]:
    """The lines of an HAProxy file, without comments."""
    return [line.strip() for line in config.splitlines() if line.strip() and not line.strip().startswith("#")]


def front_config() -> str:
    text: str = manifest("ConfigMap", MODEL_SERVERS)["data"]["haproxy.cfg"]
    return text


def test_kubernetes_has_the_same_haproxy_before_the_model_servers() -> None:
    lines = lines_of(front_config())
    mine, theirs = (lines[lines.index("backend models") + 1 :], section("backend models"))
    own = ("server ", "default-server ")
    assert [line for line in mine if not line.startswith(own)] == [line for line in theirs if not line.startswith(own)]
    (check,) = [line for line in theirs if line.startswith("default-server ")]
    assert f"{check} resolvers cluster init-addr none" in mine
    defaults = lines[lines.index("defaults") + 1 : lines.index("frontend alive")]
    assert {*defaults} <= {*section("defaults")}
    assert {"retry-on conn-failure", "option redispatch 1", "option http-server-close"} <= {*defaults}


def test_haproxy_takes_the_file_of_the_map(tmp_path: Path) -> None:
    path = tmp_path / "haproxy.cfg"
    path.write_text(front_config())
    for program in haproxy_programs():
        done = subprocess.run([program, "-c", "-dW", "-f", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)


def test_the_proxies_reach_the_front_and_the_front_the_model_servers() -> None:
    front = manifest("Deployment", MODEL_SERVERS)["spec"]
    labels = front["template"]["metadata"]["labels"]
    assert front["selector"]["matchLabels"] == labels == manifest("Service", MODEL_SERVERS)["spec"]["selector"]
    policy, proxies = manifest("NetworkPolicy", MODEL_SERVERS)["spec"], manifest("NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == labels == proxies["egress"][0]["to"][0]["podSelector"]["matchLabels"]
    asking = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"] == asking
    (box,) = front["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in box["ports"]}
    (service,) = manifest("Service", MODEL_SERVERS)["spec"]["ports"]
    assert settings_of_the_map().upstream == f"http://{MODEL_SERVERS}:{service['port']}"
    assert f"bind :{ports[service['targetPort']]}" in lines_of(front_config())
    assert all(f"bind :{ports[box[probe]['httpGet']['port']]}" in front_config() for probe in PROBES)


PROBES = ("readinessProbe", "livenessProbe")


def test_the_front_may_do_nothing_that_it_need_not_and_its_streams_get_time_to_end() -> None:
    pod = manifest("Deployment", MODEL_SERVERS)["spec"]["template"]["spec"]
    (box,) = pod["containers"]
    assert box["securityContext"] == container()["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] >= 300 > gunicorn_conf.graceful_timeout
