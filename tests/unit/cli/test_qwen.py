"""Qwen Code: its environment, its settings, and the options that win over both."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import KEY, NO_KEY
from proxy.cli.merging import NotMergeableError
from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject
from tests.support.agent_values import FOLDER, KEYED, VALUES, launched

QWEN = AGENTS["qwen"]


def generation(content: JsonObject) -> JsonObject:
    """How it asks the model."""
    return as_object(as_object(content["model"])["generationConfig"])


def test_settings_and_environment_say_the_same_but_for_the_key() -> None:
    configuration = QWEN.configure(KEYED)
    (file,) = configuration.files
    env = as_object(file.content["env"])
    assert env.pop("OPENAI_API_KEY") == "${PROXY_KEY}"
    assert configuration.environment == {**env, "OPENAI_API_KEY": KEY}
    assert as_object(file.content["model"])["name"] == env["OPENAI_MODEL"] == VALUES.model


def test_where_no_key_is_wanted_something_stands_for_it_in_both() -> None:
    configuration = QWEN.configure(VALUES)
    env = as_object(configuration.files[0].content["env"])
    assert env["OPENAI_API_KEY"] == configuration.environment["OPENAI_API_KEY"] == NO_KEY


def test_a_window_is_said_only_where_it_is_known() -> None:
    contents = [QWEN.configure(values).files[0].content for values in (VALUES, replace(VALUES, context=None))]
    assert [generation(content).get("contextWindowSize") for content in contents] == [65536, None]


def test_launched_its_settings_are_those_of_the_machine_which_win() -> None:
    """A list of models of the user's own would bring other URLs along."""
    configuration = launched(QWEN, KEYED)
    ((name, text),) = configuration.private.items()
    (file,) = QWEN.configure(KEYED).files
    chosen = {key: value for key, value in file.content.items() if key != "env"}
    assert json.loads(text) == {**chosen, "modelProviders": {"openai": []}}
    assert configuration.environment == {
        **QWEN.configure(KEYED).environment,
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{FOLDER}/{name}",
        "QWEN_CODE_SYSTEM_DEFAULTS_PATH": "/etc/qwen-code/system-defaults.json",
    }


@pytest.mark.parametrize(
    ("environment", "path"),
    [({}, "/etc/qwen-code/settings.json"), ({"QWEN_CODE_SYSTEM_SETTINGS_PATH": "/s/x.json"}, "/s/x.json")],
)
def test_the_settings_of_the_machine_stay_in_force(environment: dict[str, str], path: str) -> None:
    texts = {path: '{"tools": {"exclude": ["x"]}, "model": {"name": "other", "maxSessionTurns": 3}}'}
    configuration = launched(QWEN, replace(VALUES, environment=environment), texts)
    (text,) = configuration.private.values()
    said = json.loads(text)
    assert said["tools"] == {"exclude": ["x"]}
    assert (said["model"]["name"], said["model"]["maxSessionTurns"]) == (VALUES.model, 3)
    defaults = configuration.environment["QWEN_CODE_SYSTEM_DEFAULTS_PATH"]
    assert defaults == f"{path.rpartition('/')[0]}/system-defaults.json"


def test_settings_of_the_machine_that_cannot_be_read_are_not_dropped() -> None:
    with pytest.raises(NotMergeableError):
        launched(QWEN, VALUES, {"/etc/qwen-code/settings.json": "{"})
