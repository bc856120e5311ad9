"""OpenCode: its provider and its model, and what wins over the file of a project."""

from __future__ import annotations

import json
from dataclasses import replace

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Values
from proxy.agents.opencode import OPENCODE
from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject
from tests.support.agent_values import KEYED, VALUES


def provider(values: Values) -> JsonObject:
    """The proxy among the providers."""
    return as_object(as_object(OPENCODE.configure(values).files[0].content["provider"])[PROVIDER])


def test_both_its_models_are_the_one_of_the_provider() -> None:
    content = OPENCODE.configure(VALUES).files[0].content
    assert content["model"] == content["small_model"] == f"{PROVIDER}/{VALUES.model}"
    assert [*as_object(provider(VALUES)["models"])] == [VALUES.model]


def test_what_wins_says_what_the_file_says() -> None:
    configuration = OPENCODE.configure(KEYED)
    winning = json.loads(configuration.launched_with["OPENCODE_CONFIG_CONTENT"])
    options = winning["provider"][PROVIDER]["options"]
    assert options == {"baseURL": VALUES.v1} and options.items() <= as_object(provider(KEYED)["options"]).items()
    assert {key: configuration.files[0].content[key] for key in ("model", "small_model")} == {
        key: winning[key] for key in winning if key != "provider"
    }


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
        said = json.loads(OPENCODE.configure(values).launched_with["OPENCODE_CONFIG_CONTENT"])
        assert said["model"] == f"{PROVIDER}/{VALUES.model}"
        assert said["provider"][PROVIDER]["options"] == {**({"k": 1} if kept else {}), "baseURL": VALUES.v1}
        assert ("mcp" in said, "other" in said["provider"]) == (kept, kept)
