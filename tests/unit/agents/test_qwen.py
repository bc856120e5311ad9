"""Qwen Code: its environment, its settings, and the options that win over both."""

from __future__ import annotations

from dataclasses import replace

from proxy.agents.configuration import KEY, NO_KEY
from proxy.agents.qwen import QWEN
from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject
from tests.support.agent_values import KEYED, VALUES


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


def test_launched_it_is_told_where_to_ask_and_for_what() -> None:
    words = QWEN.configure(VALUES).launched
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert said == {"--auth-type": "openai", "--model": VALUES.model, "--openai-base-url": VALUES.v1}
