"""The configuration for the SDKs."""

from __future__ import annotations

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import KEY, NO_KEY, PATIENCE, Values
from tests.support.agent_values import KEYED, VALUES

SDK = AGENTS["sdk"]


@pytest.mark.parametrize(("values", "key"), [(VALUES, NO_KEY), (KEYED, KEY)], ids=["no key", "a key"])
def test_the_sdks_have_a_url_and_a_key_each_and_are_told_the_model_in_words(values: Values, key: str) -> None:
    configuration = SDK.configure(values)
    assert configuration.environment == {
        **{"OPENAI_BASE_URL": f"{VALUES.url}/v1", "OPENAI_API_KEY": key},
        **{"ANTHROPIC_BASE_URL": VALUES.url, "ANTHROPIC_AUTH_TOKEN": key},
    }
    assert not configuration.command and not configuration.files
    assert VALUES.model in configuration.notes[0] and f"timeout={PATIENCE}" in configuration.notes[1]
