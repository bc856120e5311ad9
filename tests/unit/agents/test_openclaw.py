"""OpenClaw: the proxy among its providers, and the model that its agents use."""

from __future__ import annotations

import json
from dataclasses import replace

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER
from proxy.agents.merging import merged, other_models, read
from proxy.agents.openclaw import OPENCLAW
from proxy.codec.json_access import as_object, objects_in
from proxy.codec.json_text import JsonObject
from tests.support.agent_values import KEYED, VALUES


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


def test_an_agent_s_own_model_is_found_unless_it_is_the_proxy_s() -> None:
    (file,) = OPENCLAW.configure(VALUES).files
    own = [{"id": "a", "model": "x/y"}, {"id": "b"}, {"id": "c", "model": {"primary": f"{PROVIDER}/m"}}, 7]
    entries = {"w": {"model": {"primary": "x/y"}}, "v": {"model": ""}}
    said = json.dumps({"agents": {"list": own, "entries": entries, "defaults": {"model": "x/y"}}})
    assert other_models(said, file) == [("agents", "entries", "w", "model"), ("agents", "list", "0", "model")]
    assert other_models("", file) == other_models('{"agents": [1]}', file) == []
    assert read(merged(said, file), file.format)["agents"]["list"] == own  # type: ignore[index, call-overload]
