"""The SDKs of OpenAI and Anthropic, and any program that uses them: variables alone."""

from __future__ import annotations

from dataclasses import replace

from proxy.agents.configuration import PATIENCE, Agent, Configuration, Values


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


# The tests run those for Python.
SDK = Agent(
    "sdk",
    "the SDKs of OpenAI and Anthropic",
    _sdk,
    _launch_sdk,
    "https://github.com/openai/openai-python and https://github.com/anthropics/anthropic-sdk-python",
    "2026-11-26",
)
