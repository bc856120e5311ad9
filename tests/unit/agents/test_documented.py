"""Agents that are not run here: what each is told, as its documentation has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from proxy.agents.configuration import KEY, NO_KEY, PATIENCE, PROVIDER, Agent, File, Values
from proxy.agents.documented import CONTINUE, GOOSE, SDK, ZED
from proxy.agents.merging import merged
from tests.support.agent_values import FOLDER, KEYED, VALUES, launched


def file_of(agent: Agent, values: Values = VALUES) -> File:
    """Its only file."""
    (file,) = agent.configure(values).files
    return file


def continues_model(values: Values) -> dict[str, Any]:
    """The model in Continue's list."""
    listed: Any = file_of(CONTINUE, values).content["models"]
    (model,) = listed
    assert isinstance(model, dict)
    return model


def test_continue_is_told_of_the_model_and_what_it_takes() -> None:
    model = continues_model(VALUES)
    assert (model["apiBase"], model["model"], model["provider"]) == (VALUES.v1, VALUES.model, "openai")
    assert model["defaultCompletionOptions"] == {"maxTokens": 8192, "contextLength": 65536}
    assert continues_model(replace(VALUES, context=None))["defaultCompletionOptions"] == {"maxTokens": 8192}
    assert model["requestOptions"] == {"timeout": PATIENCE}, "in seconds"
    pictures = [continues_model(replace(VALUES, images=images))["capabilities"] for images in (False, True)]
    assert pictures == [["tool_use"], ["tool_use", "image_input"]]


def test_continue_reads_a_key_from_its_secrets_and_the_person_is_told_where_they_are() -> None:
    assert continues_model(VALUES)["apiKey"] == NO_KEY and CONTINUE.configure(VALUES).notes == ()
    assert continues_model(KEYED)["apiKey"] == "${{ secrets.PROXY_KEY }}"
    assert CONTINUE.configure(KEYED).notes == ("Put the line PROXY_KEY=KEY into .env beside it.",)


def test_launched_continue_reads_a_private_configuration() -> None:
    configuration = launched(CONTINUE, KEYED)
    ((name, text),) = configuration.private.items()
    assert configuration.command == ("cn", "--config", f"{FOLDER}/{name}")
    said = yaml.safe_load(text)
    assert said == {"name": "Local", "version": "1.0.0", "schema": "v1", "models": [continues_model(KEYED)]}
    assert "MCP" in configuration.notes[0]


def test_zed_reads_files_alone() -> None:
    assert ZED.launch is None


def test_continues_other_models_and_name_stay() -> None:
    mine = "name: Mine\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: other\n    provider: ollama\n"
    text = merged(mine, file_of(CONTINUE))
    assert "name: Mine" in text and "name: Local" not in text and "name: other" in text and PROVIDER in text
    assert merged(text, file_of(CONTINUE)) == text


def test_zed_takes_the_model_of_its_own_provider_and_the_key_from_that_ones_variable() -> None:
    content: Any = file_of(ZED, KEYED).content
    provider = content["language_models"]["openai_compatible"][PROVIDER]
    (model,) = provider["available_models"]
    assert provider["api_url"] == VALUES.v1
    assert content["agent"]["default_model"] == {"provider": PROVIDER, "model": model["name"]}
    assert (model["max_tokens"], model["max_output_tokens"], model["capabilities"]["images"]) == (65536, 8192, False)
    variable = f"{PROVIDER}_API_KEY".upper().replace("-", "_")
    assert ZED.configure(KEYED).environment == {variable: KEY}


def test_goose_is_told_by_its_environment_what_its_file_says() -> None:
    """Its environment wins."""
    configuration = GOOSE.configure(KEYED)
    content = file_of(GOOSE, KEYED).content
    same = {name: value for name, value in configuration.environment.items() if name in content}
    assert same == {
        **{"OPENAI_HOST": VALUES.url, "OPENAI_BASE_PATH": "v1/chat/completions"},
        **{"OPENAI_TIMEOUT": str(PATIENCE), "GOOSE_CONTEXT_LIMIT": "65536"},
    }
    assert same == {name: str(content[name]) for name in same}
    assert launched(GOOSE, KEYED).environment == configuration.environment
    assert (content["OPENAI_TIMEOUT"], content["GOOSE_CONTEXT_LIMIT"]) == (PATIENCE, 65536)
    assert configuration.environment["OPENAI_API_KEY"] == KEY
    assert content["active_provider"] == configuration.environment["GOOSE_PROVIDER"]


@pytest.mark.parametrize(("values", "key"), [(VALUES, NO_KEY), (KEYED, KEY)], ids=["no key", "a key"])
def test_the_sdks_have_a_url_and_a_key_each_and_are_told_the_model_in_words(values: Values, key: str) -> None:
    configuration = SDK.configure(values)
    assert configuration.environment == {
        **{"OPENAI_BASE_URL": f"{VALUES.url}/v1", "OPENAI_API_KEY": key},
        **{"ANTHROPIC_BASE_URL": VALUES.url, "ANTHROPIC_AUTH_TOKEN": key},
    }
    assert not configuration.command and not configuration.files
    assert VALUES.model in configuration.notes[0] and f"timeout={PATIENCE}" in configuration.notes[1]
