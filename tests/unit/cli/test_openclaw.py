"""OpenClaw: the proxy among its providers, and the model that its agents use."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import NO_KEY, PATIENCE, PROVIDER
from proxy.cli.merging import merged, other_models, read
from proxy.codec.json_access import as_object, objects_in
from proxy.codec.json_text import JsonObject
from tests.support.agent_values import FOLDER, KEYED, VALUES, launched

OPENCLAW = AGENTS["openclaw"]


def at(content: JsonObject, *keys: str) -> JsonObject:
    """What stands there."""
    for key in keys:
        content = as_object(content[key])
    return content


def test_its_agents_use_a_model_of_the_provider() -> None:
    (file,) = OPENCLAW.configure(VALUES).files
    provider = at(file.content, "models", "providers", PROVIDER)
    names = [f"{PROVIDER}/{model['id']}" for model in objects_in(provider["models"])]
    assert at(file.content, "agents", "defaults", "model")["primary"] in names
    assert (provider["baseUrl"], provider["timeoutSeconds"]) == (VALUES.v1, PATIENCE)


def test_a_key_is_read_from_its_variable() -> None:
    contents = [OPENCLAW.configure(values).files[0].content for values in (VALUES, KEYED)]
    keys = [at(content, "models", "providers", PROVIDER)["apiKey"] for content in contents]
    assert keys == [NO_KEY, "${PROXY_KEY}"]


def test_its_file_is_in_the_folder_of_its_state() -> None:
    moved = replace(VALUES, environment={"OPENCLAW_STATE_DIR": "/s"})
    assert OPENCLAW.configure(moved).files[0].path == "/s/openclaw.json"


def test_launched_it_reads_a_private_configuration_and_its_state_stays_where_it_is() -> None:
    configuration = launched(OPENCLAW, VALUES)
    ((name, text),) = configuration.private.items()
    assert json.loads(text) == OPENCLAW.configure(VALUES).files[0].content
    assert configuration.environment == {"OPENCLAW_CONFIG_PATH": f"{FOLDER}/{name}"}


@pytest.mark.parametrize(
    ("environment", "path"),
    [({}, "/home/u/.openclaw/openclaw.json"), ({"OPENCLAW_CONFIG_PATH": "/c/o.json"}, "/c/o.json")],
)
def test_launched_it_includes_the_user_s_configuration_and_wins_over_it(environment: dict[str, str], path: str) -> None:
    agents = {"entries": {"w": {"model": "x/y"}, "v": {}}, "list": [{"id": "a", "model": "x/y"}]}
    text = json.dumps({"agents": agents, "models": {"providers": {"mine": {"apiKey": "sk-secret"}}}})
    configuration = launched(OPENCLAW, replace(VALUES, environment=environment), {path: text})
    (private,) = configuration.private.values()
    said = json.loads(private)
    assert said["$include"] == path and "sk-secret" not in private
    ours = {"primary": f"{PROVIDER}/{VALUES.model}"}
    assert said["agents"] == {"defaults": {"model": ours}, "entries": {"w": {"model": ours}}}
    assert configuration.environment["OPENCLAW_INCLUDE_ROOTS"] == path.rpartition("/")[0]
    (note,) = configuration.notes
    assert "agents.list.0.model" in note


def test_launched_it_includes_a_configuration_that_is_a_link(tmp_path: Path) -> None:
    """OpenClaw refuses what a link leads to, unless that folder is one of the roots, too."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/openclaw.json").write_text("{}")
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw/openclaw.json").symlink_to(tmp_path / "dotfiles/openclaw.json")
    path = f"{tmp_path}/.openclaw/openclaw.json"
    configuration = launched(OPENCLAW, replace(VALUES, home=str(tmp_path)), {path: "{}"})
    assert configuration.environment["OPENCLAW_INCLUDE_ROOTS"] == f"{tmp_path}/.openclaw:{tmp_path}/dotfiles"


def test_launched_it_keeps_the_user_s_roots_and_reads_json5_no_further() -> None:
    values = replace(VALUES, environment={"OPENCLAW_INCLUDE_ROOTS": "/r"})
    configuration = launched(OPENCLAW, values, {"/home/u/.openclaw/openclaw.json": "{agents: {}}"})
    assert configuration.environment["OPENCLAW_INCLUDE_ROOTS"] == "/r:/home/u/.openclaw"
    assert configuration.notes == ()


def test_an_agent_s_own_model_is_found_unless_it_is_the_proxy_s() -> None:
    (file,) = OPENCLAW.configure(VALUES).files
    own = [{"id": "a", "model": "x/y"}, {"id": "b"}, {"id": "c", "model": {"primary": f"{PROVIDER}/m"}}, 7]
    entries = {"w": {"model": {"primary": "x/y"}}, "v": {"model": ""}}
    said = json.dumps({"agents": {"list": own, "entries": entries, "defaults": {"model": "x/y"}}})
    assert other_models(said, file) == [("agents", "entries", "w", "model"), ("agents", "list", "0", "model")]
    assert other_models("", file) == other_models('{"agents": [1]}', file) == []
    assert read(merged(said, file), file.format)["agents"]["list"] == own  # type: ignore[index, call-overload]
