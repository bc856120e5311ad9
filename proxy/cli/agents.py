"""The agents that `setup` and `launch` configure. To add one, write its two functions and add it to AGENTS.

Claude Code speaks Messages, Codex speaks Responses, the others speak Chat Completions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from proxy.cli.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.cli.merging import NotMergeableError, dotted, expected, other_models, read
from proxy.codec.json_text import JsonObject

# Claude Code. Each of these variables overrides its base URL.
_CLAUDE_CLOUDS = ("BEDROCK", "VERTEX", "FOUNDRY", "ANTHROPIC_AWS", "MANTLE")
_CLAUDE_RIVALS = ("ANTHROPIC_API_KEY", *(f"CLAUDE_CODE_USE_{cloud}" for cloud in _CLAUDE_CLOUDS))
_CLAUDE_TOKEN = "ANTHROPIC_AUTH_TOKEN"
# For an unknown model, 2.1.197 sends 5,900 characters of instructions and short tool descriptions. With "0" it sends
# all 26,600 characters and the full descriptions, as it does for claude-sonnet-4-5.
_CLAUDE_PROMPT = "CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT"
# The full instructions and descriptions take about 27,000 tokens. Below this context they leave little room.
_CLAUDE_SMALL = 49152
_CLAUDE_NOTE = (
    "Its instructions and tools take about 27,000 tokens. For a shorter version, about 17,500 tokens, set "
    f"{_CLAUDE_PROMPT}=1 in your environment."
)


def _claude(values: Values) -> Configuration:
    variables, helper, rivals, common = _claude_parts(values)
    path = values.place("CLAUDE_CONFIG_DIR", ".claude", "settings.json")
    variables[_CLAUDE_PROMPT] = common.environment[_CLAUDE_PROMPT]
    settings: JsonObject = {"env": {**variables}, **helper}
    file = File(path, Format.JSON, settings, optional=True, without=tuple(("env", name) for name in rivals))
    return replace(common, command=("claude",), files=(file,))


def _launch_claude(values: Values) -> Configuration:
    """Settings on the command line override every file of the user and the project; files override the environment."""
    variables, helper, rivals, common = _claude_parts(values)
    # An empty variable counts as not set.
    settings = {"env": {**dict.fromkeys(rivals, ""), **variables}, **helper}
    return replace(common, command=("claude", "--settings", json.dumps(settings)))


def _claude_parts(values: Values) -> tuple[dict[str, str], dict[str, str], tuple[str, ...], Configuration]:
    """Return the variables for its settings, the command that prints the key, the variables that would override
    either, and what `setup` and `launch` have in common.
    """
    variables = {
        "ANTHROPIC_BASE_URL": values.url,
        "ANTHROPIC_MODEL": values.model,
        # Background requests, and the models of its own list.
        "ANTHROPIC_SMALL_FAST_MODEL": values.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": values.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": values.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": values.model,
        "API_TIMEOUT_MS": str(PATIENCE * 1000),
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": str(PATIENCE * 1000),
        # Its list of models then shows the proxy's aliases that begin with `claude`.
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }
    if values.context is not None:
        # It assumes 200,000 tokens for an unknown model. The first is read unless the model's name begins with
        # `claude-`; the second caps where it compacts, at 100,000 or more.
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(values.context)
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(values.context)
    prompt = values.environment.get(_CLAUDE_PROMPT) or "0"
    is_small = values.context is not None and values.context < _CLAUDE_SMALL
    common = Configuration(
        environment={_CLAUDE_TOKEN: values.key, **variables, _CLAUDE_PROMPT: prompt},
        unset=_CLAUDE_RIVALS,
        notes=(_CLAUDE_NOTE,) if is_small and prompt == "0" else (),
    )
    if values.key_name:
        # A token would override the command.
        helper = {"apiKeyHelper": f'printf %s "${values.key_name}"'}
        return variables, helper, (*_CLAUDE_RIVALS, _CLAUDE_TOKEN), common
    return {**variables, _CLAUDE_TOKEN: NO_KEY}, {}, _CLAUDE_RIVALS, common


# Codex. Without a catalog entry for the model it assumes a context window, and never offers `apply_patch` as free text.
# An entry brings the model's instructions: Codex's own for unknown models are then not used.
_CODEX_CATALOG = f"{PROVIDER}-models.json"
_CODEX_INSTRUCTIONS = """\
You are a coding agent that works in the user's terminal, in the folder of a project.

# How you work
- Keep going until what the user asked for is done, and only then end your turn. Do not guess: read the files and run
  the commands that tell you.
- Look before you change: search with `rg` or `grep`, and read what is around the place that you want to change.
- Make the smallest change that solves the problem at its root. Keep the style of the code around it. Leave alone what
  is not part of the task, and mention it instead.
- Change files with the tool `apply_patch`; use the shell for all else. Do not write a file with a shell command where
  a patch does it.
- Run the tests, the linter or the program that show that it works, if there are any. Say so where you could not.
- Never commit, push, or throw away changes that you did not make, unless the user asked for it.
- Files named AGENTS.md hold instructions for the folder that they are in, and for all below it. What the user says
  wins over them.

# How you answer
- Before a group of commands say in one sentence what you are about to do.
- At the end say in a few sentences what you changed, where, and what is left to do. Name files by their paths.
"""
_EFFORTS = {
    "none": "No reasoning",
    "low": "Short reasoning",
    "medium": "The model's usual reasoning",
    "high": "Long reasoning, for hard problems",
    "xhigh": "As much reasoning as possible",
}


def _codex(values: Values) -> Configuration:
    catalog = values.place("CODEX_HOME", ".codex", _CODEX_CATALOG)
    config = values.place("CODEX_HOME", ".codex", "config.toml")
    return Configuration(
        command=("codex",),
        files=(
            # Up to 0.133 the profile that it names overrides the rest; later versions do not start with it.
            File(config, Format.TOML, _codex_settings(values, catalog), without=(("profile",),)),
            File(catalog, Format.JSON, {"models": [_codex_model(values)]}, own=True),
        ),
    )


def _launch_codex(values: Values) -> Configuration:
    """Options override every file; only the catalog must be a file."""
    settings = _codex_settings(values, f"{values.folder}/{_CODEX_CATALOG}")
    return Configuration(
        command=("codex", *_codex_options(settings)),
        private={_CODEX_CATALOG: json.dumps({"models": [_codex_model(values)]})},
    )


def _codex_settings(values: Values, catalog: str) -> JsonObject:
    provider: JsonObject = {
        "name": PROVIDER,
        "base_url": values.v1,
        "wire_api": "responses",
        "stream_idle_timeout_ms": PATIENCE * 1000,
    }
    if values.key_name:
        provider["env_key"] = values.key_name
    return {
        "model": values.model,
        "model_provider": PROVIDER,
        "model_catalog_json": catalog,
        "model_providers": {PROVIDER: provider},
    }


def _codex_options(settings: JsonObject, path: str = "") -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _codex_options(value, f"{path}{key}.")
        else:
            yield from ("-c", f"{path}{key}={json.dumps(value, ensure_ascii=False)}")


def _codex_model(values: Values) -> JsonObject:
    return {
        "slug": values.model,
        "display_name": values.model,
        "description": None,
        "base_instructions": _CODEX_INSTRUCTIONS,
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "context_window": values.context,
        "max_context_window": values.context,
        "effective_context_window_percent": 95,
        "input_modalities": values.inputs,
        # None is the default, so no effort is sent unless the user chooses one.
        "supported_reasoning_levels": [{"effort": word, "description": _EFFORTS[word]} for word in values.efforts],
        "supports_reasoning_summaries": False,
        "default_reasoning_summary": "none",
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": 10000},
        "supports_parallel_tool_calls": True,
        "experimental_supported_tools": [],
        "additional_speed_tiers": [],
        "supports_search_tool": False,
        "supports_image_detail_original": False,
        "availability_nux": None,
        "upgrade": None,
    }


# OpenClaw. An agent's own model, as it is written since 2026.9, and before.
_OPENCLAW_RIVALS = (("agents", "entries", "*", "model"), ("agents", "list", "*", "model"))
_OPENCLAW_ROOTS = "OPENCLAW_INCLUDE_ROOTS"


def _openclaw(values: Values) -> Configuration:
    path = values.place("OPENCLAW_STATE_DIR", ".openclaw", "openclaw.json")
    file = File(path, Format.JSON, _openclaw_settings(values), rivals=_OPENCLAW_RIVALS)
    return Configuration(command=("openclaw",), files=(file,))


def _launch_openclaw(values: Values) -> Configuration:
    """A private configuration includes the user's own and overrides it. OpenClaw writes no included file of another
    folder, and keeps its state, logins included, where it is.
    """
    usual = values.place("OPENCLAW_STATE_DIR", ".openclaw", "openclaw.json")
    own = str(Path(values.environment.get("OPENCLAW_CONFIG_PATH") or usual).expanduser().absolute())
    settings, roots, left = _openclaw_settings(values), values.environment.get(_OPENCLAW_ROOTS, ""), list[str]()
    text = values.read(own)
    if text:
        # OpenClaw only includes files of these folders; the user's may be a link.
        folders = dict.fromkeys([str(Path(own).parent), str(Path(own).resolve().parent)])
        roots = ":".join(filter(None, [roots, *folders]))
        try:
            rivals = other_models(text, File(own, Format.JSON, settings, rivals=_OPENCLAW_RIVALS))
        except NotMergeableError:  # JSON5, which OpenClaw reads
            rivals = []
        model: JsonObject = {"model": _openclaw_model(values)}
        entries: JsonObject = {name: model for _, kind, name, _ in rivals if kind == "entries"}
        settings = expected({"$include": own, **settings}, {"agents": {"entries": entries}} if entries else {})
        left = [dotted(path) for path in rivals if path[1] == "list"]
    path = f"{values.folder}/openclaw.json"
    return Configuration(
        command=("openclaw",),
        environment={"OPENCLAW_CONFIG_PATH": path, **({_OPENCLAW_ROOTS: roots} if roots else {})},
        private={"openclaw.json": json.dumps(settings)},
        notes=(f"{own}: these models bypass the proxy in this run: {', '.join(left)}",) if left else (),
    )


def _openclaw_model(values: Values) -> JsonObject:
    return {"primary": f"{PROVIDER}/{values.model}"}


def _openclaw_settings(values: Values) -> JsonObject:
    provider: JsonObject = {
        "baseUrl": values.v1,
        "apiKey": f"${{{values.key_name}}}" if values.key_name else NO_KEY,
        "api": "openai-completions",
        "timeoutSeconds": PATIENCE,
        "models": [values.pi_model],
    }
    return {"agents": {"defaults": {"model": _openclaw_model(values)}}, "models": {"providers": {PROVIDER: provider}}}


# OpenCode. Its built-in agents: the user's file or the project's may name another model for each.
_OPENCODE_AGENTS = ("build", "plan", "general", "explore")
_OPENCODE_CONTENT = "OPENCODE_CONFIG_CONTENT"


def _opencode(values: Values) -> Configuration:
    model: JsonObject = {
        "name": values.model,
        "tool_call": True,
        "modalities": {"input": values.inputs, "output": ["text"]},
        "reasoning": True,
        # The field in which its provider sends earlier reasoning back.
        "interleaved": {"field": "reasoning_content"},
        "limit": {"context": values.window, "output": values.output},
    }
    options: JsonObject = {
        "baseURL": values.v1,
        "apiKey": f"{{env:{values.key_name}}}" if values.key_name else NO_KEY,
        "timeout": PATIENCE * 1000,
    }
    provider: JsonObject = {
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": options,
        "models": {values.model: model},
    }
    models: JsonObject = {"model": f"{PROVIDER}/{values.model}", "small_model": f"{PROVIDER}/{values.model}"}
    settings: JsonObject = {"$schema": "https://opencode.ai/config.json", **models, "provider": {PROVIDER: provider}}
    path = values.place("XDG_CONFIG_HOME", ".config", "opencode/opencode.json")
    file = File(path, Format.JSON, settings, rivals=(("agent", "*", "model"),))
    return Configuration(command=("opencode",), files=(file,))


def _launch_opencode(values: Values) -> Configuration:
    """The variable is merged with the files and overrides those of the user and of the project. All other providers
    are disabled: their models would bypass the proxy.
    """
    (file,) = _opencode(values).files
    try:
        own = {path[1] for name in (file.path, f"{file.path}c") for path in other_models(values.read(name), file)}
    except NotMergeableError:  # OpenCode itself reports it
        own = set()
    agents: JsonObject = {
        name: {"model": file.content["model"]} for name in (*_OPENCODE_AGENTS, *sorted(own - {*_OPENCODE_AGENTS}))
    }
    settings: JsonObject = {**file.content, "enabled_providers": [PROVIDER], "agent": agents}
    with suppress(NotMergeableError):  # OpenCode rejects it
        settings = expected(read(values.environment.get(_OPENCODE_CONTENT, ""), Format.JSON), settings)
    return Configuration(command=("opencode",), environment={_OPENCODE_CONTENT: json.dumps(settings)})


# Qwen Code. Settings for all users of a machine override those of the user and of the project.
_QWEN_SYSTEM = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
_QWEN_DEFAULTS = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"


def _qwen(values: Values) -> Configuration:
    variables = _qwen_variables(values)
    # Its settings expand variables.
    key = f"${{{values.key_name}}}" if values.key_name else NO_KEY
    settings: JsonObject = {**_qwen_settings(values), "env": {**variables, "OPENAI_API_KEY": key}}
    path = values.place("", ".qwen", "settings.json")
    return Configuration(command=("qwen",), environment=variables, files=(File(path, Format.JSON, settings),))


def _launch_qwen(values: Values) -> Configuration:
    """Private settings replace the machine's, which are merged into them. Raises NotMergeableError."""
    system = values.environment.get(_QWEN_SYSTEM) or "/etc/qwen-code/settings.json"
    # A model of this name in the user's list would bring its own URL.
    winning: JsonObject = {**_qwen_settings(values), "modelProviders": {"openai": []}}
    settings = expected(read(values.read(system), Format.JSON), winning)
    # They are read from the folder of the machine's settings.
    defaults = values.environment.get(_QWEN_DEFAULTS) or f"{system.rpartition('/')[0]}/system-defaults.json"
    paths = {_QWEN_SYSTEM: f"{values.folder}/settings.json", _QWEN_DEFAULTS: defaults}
    return Configuration(
        command=("qwen",),
        environment={**_qwen_variables(values), **paths},
        private={"settings.json": json.dumps(settings)},
    )


def _qwen_variables(values: Values) -> dict[str, str]:
    return {"OPENAI_BASE_URL": values.v1, "OPENAI_MODEL": values.model, "OPENAI_API_KEY": values.key}


def _qwen_settings(values: Values) -> JsonObject:
    generation: JsonObject = {"timeout": PATIENCE * 1000}
    if values.context is not None:
        generation["contextWindowSize"] = values.context
    return {
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": values.model, "generationConfig": generation},
    }


def _pi(values: Values) -> Configuration:
    settings: JsonObject = {
        "defaultProvider": PROVIDER,
        "defaultModel": values.model,
        "retry": {"provider": {"timeoutMs": PATIENCE * 1000}},
    }
    contents: dict[str, JsonObject] = {
        "models.json": {"providers": {PROVIDER: _pi_provider(values)}},
        "settings.json": settings,
    }
    return Configuration(
        command=("pi",),
        files=tuple(
            File(values.place("PI_CODING_AGENT_DIR", ".pi/agent", name), Format.JSON, content)
            for name, content in contents.items()
        ),
    )


def _launch_pi(values: Values) -> Configuration:
    """An extension defines the provider and overrides one of the same name in the user's files.

    The timeout has no option. It ends with the head of a response, which the proxy's first heartbeat sends.
    """
    # pi keeps a compiled copy of a ".js", but not of a ".mjs".
    extension = "provider.mjs"
    provider = f"{json.dumps(PROVIDER)}, {json.dumps(_pi_provider(values))}"
    options = ("--extension", f"{values.folder}/{extension}", "--provider", PROVIDER, "--model", values.model)
    return Configuration(
        command=("pi", *options),
        private={extension: f"export default function (pi) {{\n  pi.registerProvider({provider});\n}}\n"},
    )


def _pi_provider(values: Values) -> JsonObject:
    return {
        "baseUrl": values.v1,
        "api": "openai-completions",
        # The name of a variable is read as the variable.
        "apiKey": values.key_name or NO_KEY,
        "models": [values.pi_model],
    }


_CLINE_PROVIDER = "openai-compatible"


def _cline(values: Values) -> Configuration:
    auth = ("cline", "auth", "-p", _CLINE_PROVIDER, "-k", values.key, "-m", values.model, "-b", values.v1)
    return Configuration(
        command=("cline", "-P", _CLINE_PROVIDER, "-m", values.model),
        first=auth,
        written=values.place("CLINE_DATA_DIR", ".cline/data", "settings/providers.json"),
        notes=("The proxy's heartbeats reset its own timeout (300 s without a byte), which cannot be changed.",),
    )


def _launch_cline(values: Values) -> Configuration:
    """Private providers replace the user's; the user's other settings apply.

    A session runs in its own process: the daemon that Cline shares between sessions would keep these providers for the
    user's later sessions.
    """
    settings: JsonObject = {
        "provider": _CLINE_PROVIDER,
        "apiKey": values.key,
        "model": values.model,
        "baseUrl": values.v1,
    }
    provider: JsonObject = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers: JsonObject = {_CLINE_PROVIDER: provider}
    content: JsonObject = {"version": 1, "lastUsedProvider": _CLINE_PROVIDER, "modes": {}, "providers": providers}
    path = f"{values.folder}/providers.json"
    return Configuration(
        command=("cline", "-P", _CLINE_PROVIDER, "-m", values.model),
        environment={"CLINE_PROVIDER_SETTINGS_PATH": path, "CLINE_SESSION_BACKEND_MODE": "local"},
        private={"providers.json": json.dumps(content)},
    )


def _sdk(values: Values) -> Configuration:
    return Configuration(
        environment={
            "OPENAI_BASE_URL": values.v1,
            "OPENAI_API_KEY": values.key,
            "ANTHROPIC_BASE_URL": values.url,
            "ANTHROPIC_AUTH_TOKEN": values.key,
        },
        notes=(
            f"Name the model in each request: {values.model}.",
            f"The SDKs wait for 600 s by default. To wait longer than the proxy does, pass timeout={PATIENCE}.",
        ),
    )


def _launch_sdk(values: Values) -> Configuration:
    return replace(_sdk(values), notes=())


_DATE = "2026-11-22"
_AGENTS = (
    Agent(
        name="claude",
        title="Claude Code",
        configure=_claude,
        launch=_launch_claude,
        source="https://code.claude.com/docs/en/env-vars",
        date=_DATE,
        version="2.1.197",
        package="@anthropic-ai/claude-code",
    ),
    Agent(
        name="codex",
        title="Codex CLI",
        configure=_codex,
        launch=_launch_codex,
        source="https://developers.openai.com/codex/config-reference",
        date=_DATE,
        version="0.169.0",
        package="@openai/codex",
    ),
    Agent(
        name="openclaw",
        title="OpenClaw",
        configure=_openclaw,
        launch=_launch_openclaw,
        source="https://docs.openclaw.ai/gateway/configuration",
        date=_DATE,
        version="2026.9.6",
        package="openclaw",
    ),
    Agent(
        name="opencode",
        title="OpenCode",
        configure=_opencode,
        launch=_launch_opencode,
        source="https://opencode.ai/docs/providers",
        date=_DATE,
        version="1.18.33",
        package="opencode-ai",
    ),
    Agent(
        name="qwen",
        title="Qwen Code",
        configure=_qwen,
        launch=_launch_qwen,
        source="https://qwenlm.github.io/qwen-code-docs",
        date=_DATE,
        version="0.15.10",
        package="@qwen-code/qwen-code",
    ),
    Agent(
        name="pi",
        title="pi",
        configure=_pi,
        launch=_launch_pi,
        source="the docs of the package: models.md, settings.md",
        date=_DATE,
        version="0.73.1",
        package="@mariozechner/pi-coding-agent",
    ),
    Agent(
        name="cline",
        title="Cline",
        configure=_cline,
        launch=_launch_cline,
        source="the README of the package",
        date=_DATE,
        version="3.0.65",
        package="cline",
    ),
    Agent(
        name="sdk",
        title="the SDKs of OpenAI and Anthropic",
        configure=_sdk,
        launch=_launch_sdk,
        source="https://github.com/openai/openai-python and https://github.com/anthropics/anthropic-sdk-python",
        date="2026-11-26",
    ),
)
AGENTS = {agent.name: agent for agent in _AGENTS}
