"""The OpenAI Agents SDK and the proxy: an agent with a function tool, in both APIs, streamed and whole.

The model writes its call as text. The SDK must receive a structured call, run the function, send its output, and return
the final text as the result.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner, function_tool

from tests.conftest import Front, Proxy
from tests.integration.test_sdk import SCRIPTS
from tests.support.messages_client import HERMES, INPUT, MODELS, cards, reply

pytestmark = pytest.mark.once

APIS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}
WAYS = pytest.mark.parametrize(
    ("api", "streamed"), [(api, streamed) for api in APIS for streamed in (False, True)], ids=str
)
QUIET = RunConfig(tracing_disabled=True)


@dataclass
class Ran:
    """Result of a run: the final output, the function calls, and the types of the SDK's items."""

    said: object = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    items: list[str] = field(default_factory=list)


def run(proxy: Proxy, api: str, streamed: bool, *, model: str = "tiny", task: str = "Write a.txt") -> Ran:
    ran = Ran()

    def write_file(path: str, content: str) -> str:
        """Write a file."""
        ran.calls.append({"path": path, "content": content})
        return "written"

    async def work() -> None:
        async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
            agent = Agent(name="writer", tools=[function_tool(write_file)], model=APIS[api](model, client))
            if streamed:
                result: Any = Runner.run_streamed(agent, task, run_config=QUIET)
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(agent, task, run_config=QUIET)
            ran.said = result.final_output
            ran.items = [item.type for item in result.new_items]

    asyncio.run(work())
    return ran


@pytest.mark.slow
@WAYS
def test_the_output_of_a_function_tool_is_sent_back(front: Front, api: str, streamed: bool) -> None:
    """The second request starts with the first one's messages, followed by the call and its output."""
    front.upstream.play(reply(streamed, HERMES), reply(streamed, "All done."))
    front.upstream.paths[MODELS] = cards("tiny")
    ran = run(front.proxy, api, streamed)
    assert (ran.said, ran.calls) == ("All done.", [INPUT])
    assert ran.items == ["tool_call_item", "tool_call_output_item", "message_output_item"]
    first, second = (each.json["messages"] for each in front.upstream.seen)
    assert second[: len(first)] == first
    called, told = second[len(first) :]
    assert (called["role"], called["tool_calls"][0]["function"]["name"]) == ("assistant", "write_file")
    assert (told["role"], told["content"], told["tool_call_id"]) == ("tool", "written", called["tool_calls"][0]["id"])


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("script", ["toolstag", "two"])
def test_function_tools_run_with_a_real_server(llama_front: Proxy, script: str, api: str, streamed: bool) -> None:
    """llama.cpp leaves one call in the text and parses two calls itself."""
    calls, _ = SCRIPTS[script]
    ran = run(llama_front, api, streamed, model="parrot", task=f"Write a.txt [[script:{script}]]")
    # The SDK runs the calls of one reply concurrently.
    made = sorted(ran.calls, key=lambda given: str(given["path"]))
    assert (ran.said, made) == ("Done.", [given for _, given in calls])
    assert ran.items.count("tool_call_item") == ran.items.count("tool_call_output_item") == len(calls)
