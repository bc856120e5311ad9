"""Agents that `make agents` does not run: their configurations as their documentation has them, with its date."""

from __future__ import annotations

import json
from dataclasses import replace

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.codec.json_text import JsonObject

_PRIVATE = "config.yaml"


def _continue(values: Values) -> Configuration:
    usual: JsonObject = {"name": "Local", "version": "1.0.0", "schema": "v1"}
    path = values.place("CONTINUE_GLOBAL_DIR", ".continue", "config.yaml")
    notes = (f"Put the line {values.key_name}=KEY into .env beside it.",) if values.key_name else ()
    file = File(path, Format.YAML, {"models": [_continues_model(values)]}, listed="models", usual=usual)
    return Configuration(command=("cn",), files=(file,), notes=notes)


def _launch_continue(values: Values) -> Configuration:
    """Replace the user's configuration by a private one, in JSON, which YAML includes."""
    content: JsonObject = {"name": "Local", "version": "1.0.0", "schema": "v1", "models": [_continues_model(values)]}
    return Configuration(
        command=("cn", "--config", f"{values.folder}/{_PRIVATE}"),
        private={_PRIVATE: json.dumps(content)},
        notes=(
            "Continue uses a private configuration: your own models, rules and MCP servers are not loaded",
        ),
    )


def _continues_model(values: Values) -> JsonObject:
    options: JsonObject = {"maxTokens": values.output}
    if values.context is not None:
        options["contextLength"] = values.context
    return {
        "name": PROVIDER,
        "provider": "openai",
        "model": values.model,
        "apiBase": values.v1,
        "apiKey": f"${{{{ secrets.{values.key_name} }}}}" if values.key_name else NO_KEY,
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use", "image_input"] if values.images else ["tool_use"],
        "defaultCompletionOptions": options,
        # Seconds: it makes milliseconds of them itself.
        "requestOptions": {"timeout": PATIENCE},
    }


def _zed(values: Values) -> Configuration:
    model: JsonObject = {
        "name": values.model,
        "display_name": values.model,
        "max_tokens": values.window,
        "max_output_tokens": values.output,
        "capabilities": {
            "tools": True,
            "images": values.images,
            "parallel_tool_calls": False,
            "prompt_cache_key": False,
            "chat_completions": True,
            "interleaved_reasoning": True,
        },
    }
    provider: JsonObject = {"api_url": values.v1, "available_models": [model]}
    content: JsonObject = {
        "language_models": {"openai_compatible": {PROVIDER: provider}},
        "agent": {"default_model": {"provider": PROVIDER, "model": values.model}},
    }
    path = values.place("XDG_CONFIG_HOME", ".config", "zed/settings.json")
    # It makes the variable's name of the provider's.
    return Configuration(
        command=("zed", "--foreground"),
        environment={"VLLM_TOOL_PROXY_API_KEY": values.key},
        files=(File(path, Format.JSON, content),),
    )


def _goose(values: Values) -> Configuration:
    where = {"OPENAI_HOST": values.url, "OPENAI_BASE_PATH": "v1/chat/completions"}
    limits = {"OPENAI_TIMEOUT": PATIENCE, "GOOSE_CONTEXT_LIMIT": values.window}
    content: JsonObject = {
        "active_provider": "openai",
        "providers": {"openai": {"enabled": True, "model": values.model, "configured": True}},
        **where,
        **limits,
    }
    path = values.place("XDG_CONFIG_HOME", ".config", "goose/config.yaml")
    return Configuration(
        command=("goose", "session"),
        # Its environment wins over its file.
        environment={
            **where,
            **{name: str(number) for name, number in limits.items()},
            "OPENAI_API_KEY": values.key,
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": values.model,
        },
        files=(File(path, Format.YAML, content),),
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
            f"The model is named in each request: {values.model}.",
            f"The SDKs wait for 600 s; as long as the proxy's own patience and more is timeout={PATIENCE}.",
        ),
    )


def _launch_sdk(values: Values) -> Configuration:
    return replace(_sdk(values), notes=())


CONTINUE = Agent(
    "continue", "Continue", _continue, _launch_continue, "https://docs.continue.dev/reference", "2026-11-22"
)
ZED = Agent("zed", "Zed", _zed, None, "https://zed.dev/docs/ai/use-api-access", "2026-11-22")
GOOSE = Agent("goose", "goose", _goose, _goose, "https://goose-docs.ai/docs/guides/config-files", "2026-11-22")
# Those for Python are run in the tests.
SDK = Agent(
    "sdk",
    "the SDKs of OpenAI and Anthropic",
    _sdk,
    _launch_sdk,
    "https://github.com/openai/openai-python and https://github.com/anthropics/anthropic-sdk-python",
    "2026-11-26",
    tested=True,
)
