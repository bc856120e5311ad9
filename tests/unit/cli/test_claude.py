"""Claude Code: what its environment and its settings say, and which of them wins."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import KEY, NO_KEY, Values
from proxy.codec.json_access import as_object
from tests.support.agent_values import KEYED, VALUES, launched

CLAUDE = AGENTS["claude"]

SHORT_PROMPT = "CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT"


def test_it_compacts_before_the_context_is_full() -> None:
    environment = CLAUDE.configure(VALUES).environment
    assert environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "65536"
    assert environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "65536"
    assert environment["ANTHROPIC_SMALL_FAST_MODEL"] == environment["ANTHROPIC_MODEL"] == VALUES.model


def test_without_a_known_context_it_takes_its_own() -> None:
    names = CLAUDE.configure(replace(VALUES, context=None)).environment
    assert not [name for name in names if "CONTEXT" in name or "COMPACT" in name]


def test_every_model_that_it_asks_for_is_the_one_behind_the_proxy() -> None:
    environment = CLAUDE.configure(VALUES).environment
    models = {name: value for name, value in environment.items() if name.endswith("MODEL")}
    assert len(models) == 5 and {*models.values()} == {VALUES.model}
    assert environment["ANTHROPIC_BASE_URL"] == VALUES.url


def test_a_token_stands_in_the_file_only_where_no_key_is_wanted() -> None:
    free, keyed = CLAUDE.configure(VALUES), CLAUDE.configure(KEYED)
    assert free.environment["ANTHROPIC_AUTH_TOKEN"] == NO_KEY
    assert as_object(free.files[0].content["env"])["ANTHROPIC_AUTH_TOKEN"] == NO_KEY
    assert keyed.environment["ANTHROPIC_AUTH_TOKEN"] == KEY
    assert ("env", "ANTHROPIC_AUTH_TOKEN") in keyed.files[0].without
    assert ("env", "ANTHROPIC_AUTH_TOKEN") not in free.files[0].without


@pytest.mark.parametrize(("context", "small"), [(None, False), (65536, False), (49152, False), (49151, True)])
def test_it_sends_its_full_instructions_and_a_small_context_is_noted(context: int | None, small: bool) -> None:
    for configure in (CLAUDE.configure, CLAUDE.launch):
        assert configure is not None
        configuration = configure(replace(VALUES, context=context))
        assert configuration.environment[SHORT_PROMPT] == "0"
        assert any(SHORT_PROMPT in note for note in configuration.notes) is small


def test_the_user_chooses_how_long_its_instructions_are() -> None:
    """In the environment, or in settings, which win over it: the option that wins over settings leaves it out."""
    own = replace(VALUES, environment={SHORT_PROMPT: "1"})
    assert launched(CLAUDE, own).environment[SHORT_PROMPT] == "1"
    assert CLAUDE.configure(own).environment[SHORT_PROMPT] == "1"
    assert SHORT_PROMPT not in launched(CLAUDE, VALUES).command[-1]


def test_its_settings_say_what_its_environment_says() -> None:
    configuration = CLAUDE.configure(VALUES)
    (file,) = configuration.files
    assert file.optional and file.content == {"env": dict(configuration.environment)}
    assert launched(CLAUDE, VALUES).environment == configuration.environment
    (file,) = CLAUDE.configure(KEYED).files
    assert file.content["apiKeyHelper"] == 'printf %s "$PROXY_KEY"'
    assert "ANTHROPIC_AUTH_TOKEN" not in json.dumps(file.content)


@pytest.mark.parametrize("values", [VALUES, KEYED])
def test_launched_it_has_settings_that_win_over_every_file(values: Values) -> None:
    """What is empty there counts as not set; a token would win over the command that prints the key."""
    configuration = launched(CLAUDE, values)
    (file,) = CLAUDE.configure(values).files
    program, option, text = configuration.command
    said = json.loads(text)
    needed = {name: value for name, value in as_object(file.content["env"]).items() if name != SHORT_PROMPT}
    assert (program, option) == ("claude", "--settings") and said.pop("env").items() >= needed.items()
    assert said == {key: value for key, value in file.content.items() if key != "env"}
    emptied = {name for name, value in json.loads(text)["env"].items() if not value}
    assert emptied == {name for _, name in file.without} >= {*configuration.unset}
    assert ("ANTHROPIC_AUTH_TOKEN" in emptied) == bool(values.key_name)
