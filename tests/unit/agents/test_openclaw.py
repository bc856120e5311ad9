"""OpenClaw: the proxy among its providers, and the model that its agents use."""

from __future__ import annotations

from dataclasses import replace

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER
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
