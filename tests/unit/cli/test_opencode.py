"""OpenCode: its provider and its model, and what wins over the file of a project."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import NO_KEY, PATIENCE, PROVIDER, Values
from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject
from tests.support.agent_values import KEYED, NO_TEXTS, VALUES, launched

OPENCODE = AGENTS["opencode"]


def provider(values: Values) -> JsonObject:
    """The proxy among the providers."""
    return as_object(as_object(OPENCODE.configure(values).files[0].content["provider"])[PROVIDER])


def test_both_its_models_are_the_one_of_the_provider() -> None:
    content = OPENCODE.configure(VALUES).files[0].content
    assert content["model"] == content["small_model"] == f"{PROVIDER}/{VALUES.model}"
    assert [*as_object(provider(VALUES)["models"])] == [VALUES.model]


def winning(values: Values, texts: Mapping[str, str] = NO_TEXTS) -> Any:
    """What its variable says."""
    configuration = launched(OPENCODE, values, texts)
    assert (configuration.command, configuration.private) == (("opencode",), {})
    return json.loads(configuration.environment["OPENCODE_CONFIG_CONTENT"])


def test_launched_its_variable_says_what_its_file_would_say_and_enables_no_other_provider() -> None:
    (file,) = OPENCODE.configure(KEYED).files
    said = winning(KEYED)
    assert {key: said[key] for key in file.content} == file.content
    assert said["enabled_providers"] == [PROVIDER]
    assert {"build", "plan"} <= {*said["agent"]}
    assert all(agent == {"model": f"{PROVIDER}/{VALUES.model}"} for agent in said["agent"].values())


@pytest.mark.parametrize("name", ["opencode.json", "opencode.jsonc"])
def test_launched_agents_with_a_model_of_their_own_have_the_proxy_s(name: str) -> None:
    text = '{"agent": {"mine": {"model": "x/y"}, "other": {"prompt": "p"}}} // mine'
    agents = winning(VALUES, {f"/home/u/.config/opencode/{name}": text})["agent"]
    assert agents["mine"] == {"model": f"{PROVIDER}/{VALUES.model}"} and "other" not in agents
    assert "build" in winning(VALUES, {f"/home/u/.config/opencode/{name}": "{"})["agent"]


def test_a_key_is_read_from_its_variable_and_it_waits_in_milliseconds() -> None:
    options = [as_object(provider(values)["options"]) for values in (VALUES, KEYED)]
    assert [each["apiKey"] for each in options] == [NO_KEY, "{env:PROXY_KEY}"]
    assert options[0]["timeout"] == PATIENCE * 1000


def test_the_model_has_room_for_the_prompt_and_takes_what_the_server_says() -> None:
    model = as_object(as_object(provider(replace(VALUES, context=4096, images=True))["models"])[VALUES.model])
    assert model["limit"] == {"context": 4096, "output": 1024}
    assert model["modalities"] == {"input": ["text", "image"], "output": ["text"]}


def test_what_the_user_s_own_variable_says_beside_it_stays() -> None:
    own = {"model": "other/m", "mcp": {"x": {}}, "provider": {PROVIDER: {"options": {"k": 1}}, "other": {}}}
    for given, kept in ((json.dumps(own), True), ("{", False), ("[]", False), ("", False)):
        values = replace(VALUES, environment={"OPENCODE_CONFIG_CONTENT": given})
        said = winning(values)
        assert said["model"] == f"{PROVIDER}/{VALUES.model}"
        options = as_object(provider(VALUES)["options"])
        assert said["provider"][PROVIDER]["options"] == {**({"k": 1} if kept else {}), **options}
        assert ("mcp" in said, "other" in said["provider"]) == (kept, kept)
