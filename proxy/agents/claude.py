"""Claude Code: it speaks Messages, and reads all that it must know from its environment or its settings."""

from __future__ import annotations

import json

from proxy.agents.configuration import NO_KEY, PATIENCE, Agent, Configuration, File, Format, Values
from proxy.codec.json_text import JsonObject

_TOKEN = "ANTHROPIC_AUTH_TOKEN"
# Each of them wins over its base URL.
_CLOUDS = ("BEDROCK", "VERTEX", "FOUNDRY", "ANTHROPIC_AWS", "MANTLE")
_RIVALS = ("ANTHROPIC_API_KEY", *(f"CLAUDE_CODE_USE_{cloud}" for cloud in _CLOUDS))
# For a model that it does not know, 2.1.197 sends 5,900 characters of instructions and short descriptions of its tools.
# With "0" it sends all 26,600 characters and the full descriptions, as it does for claude-sonnet-4-5.
_SHORT_PROMPT = "CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT"
# Tokens of context below which the full instructions and descriptions, about 27,000 tokens, leave little room.
_SMALL = 49152
_SMALL_NOTE = (
    "Its instructions and tools take about 27,000 tokens. For a shorter version, about 17,500 tokens, set "
    f"{_SHORT_PROMPT}=1 in your environment."
)


def _configure(values: Values) -> Configuration:
    variables, helper, rivals = _in_settings(values)
    variables |= _prompt(values)
    path = values.place("CLAUDE_CONFIG_DIR", ".claude", "settings.json")
    settings: JsonObject = {"env": {**variables}, **helper}
    return Configuration(
        command=("claude",),
        environment=_environment(values),
        unset=_RIVALS,
        files=(File(path, Format.JSON, settings, optional=True, without=tuple(("env", name) for name in rivals)),),
        notes=_notes(values),
    )


def _launch(values: Values) -> Configuration:
    """Settings on the command line win over every file of the user and the project, and files over the environment."""
    variables, helper, rivals = _in_settings(values)
    # An empty variable counts as not set.
    winning = {"env": {**dict.fromkeys(rivals, ""), **variables}, **helper}
    return Configuration(
        command=("claude", "--settings", json.dumps(winning)),
        environment=_environment(values),
        unset=_RIVALS,
        notes=_notes(values),
    )


def _environment(values: Values) -> dict[str, str]:
    return {_TOKEN: values.key, **_variables(values), **_prompt(values)}


def _in_settings(values: Values) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    """Return the variables for its settings, the command that prints the key, and the variables that would win."""
    if values.key_name:
        # A token would win over the command.
        return _variables(values), {"apiKeyHelper": f'printf %s "${values.key_name}"'}, (*_RIVALS, _TOKEN)
    return {**_variables(values), _TOKEN: NO_KEY}, {}, _RIVALS


def _prompt(values: Values) -> dict[str, str]:
    """Return the variable that asks for the full instructions, or the value that the user has set."""
    return {_SHORT_PROMPT: values.environment.get(_SHORT_PROMPT) or "0"}


def _notes(values: Values) -> tuple[str, ...]:
    is_small = values.context is not None and values.context < _SMALL
    return (_SMALL_NOTE,) if is_small and _prompt(values)[_SHORT_PROMPT] == "0" else ()


def _variables(values: Values) -> dict[str, str]:
    """Return the variables, except the token and those that the user may choose."""
    variables = {
        "ANTHROPIC_BASE_URL": values.url,
        "ANTHROPIC_MODEL": values.model,
        # The background requests, and the names that stand for a model in its own lists.
        "ANTHROPIC_SMALL_FAST_MODEL": values.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": values.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": values.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": values.model,
        "API_TIMEOUT_MS": str(PATIENCE * 1000),
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": str(PATIENCE * 1000),
        # So its list of models shows the names beginning with `claude` that the proxy lists for aliases of the rules.
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }
    if values.context is not None:
        # It takes 200,000 tokens for any model that it does not know; the first is read unless the name of the model
        # begins with `claude-`, the second caps where it compacts, at 100,000 or more.
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(values.context)
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(values.context)
    return variables


CLAUDE = Agent(
    name="claude",
    title="Claude Code",
    configure=_configure,
    launch=_launch,
    source="https://code.claude.com/docs/en/env-vars",
    date="2026-11-22",
    version="2.1.197",
    package="@anthropic-ai/claude-code",
)
