"""Templates of real models accept healed requests without loss (F79 to F84). `python -m tests.healing` has a table."""

from __future__ import annotations

import json
import os

import pytest

from tests.conftest import Inside
from tests.healing.__main__ import LEAST, share
from tests.healing.ask import Ask, direct, of_unknown_family, over_http, through
from tests.healing.measure import Try, judged, tries
from tests.healing.server import rendering
from tests.healing.shapes import MARKER, bodies
from tests.support.chat_templates import FOLDER, compiled, templates

# Needs a variable that no server sets.
HOPELESS = {"fireworks-ai-llama-3-firefunction-v2"}
NESTED = "CohereForAI-c4ai-command-r-plus-tool_use"


@pytest.fixture(autouse=True)
def _there() -> None:
    if templates():
        return
    if os.environ.get("CI"):
        pytest.fail(f"no templates in {FOLDER}")
    pytest.skip(f"no templates in {FOLDER}")


@pytest.mark.slow
def test_nearly_every_try_is_accepted_without_loss() -> None:
    found = [*tries(through)]
    assert share(found) >= LEAST
    failed = {(each.template, each.shape) for each in found if each.wrong and each.template not in HOPELESS}
    assert failed == {(NESTED, "tool: nested")}


@pytest.mark.slow
def test_healing_keeps_accepted_requests_accepted() -> None:
    """Every sixth template: a request that it accepts without healing is accepted with healing."""
    for template in templates()[::6]:
        for shape, body in bodies():
            if not judged(direct, template, body):
                assert Try(template.name, shape, judged(through, template, body)) == Try(template.name, shape)


GEMMA_3 = """\
{%- if messages[0]['role'] == 'system' -%}
    {%- set prefix, rest = messages[0]['content'] + '\\n\\n', messages[1:] -%}
{%- else -%}
    {%- set prefix, rest = '', messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif -%}
    {{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}
    {{- prefix if loop.first else '' }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- else -%}
        {{ raise_exception('Invalid content type') }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}"""


def test_template_without_calls_accepts_calls_and_results_as_text() -> None:
    """Gemma 3 refuses null content and roles that do not alternate. For an unknown name, the proxy learns that."""
    template = compiled("google-gemma-3-4b-it", GEMMA_3)
    assert {shape for shape, body in bodies() if judged(through, template, body)} == set()
    # A system text without a following message is lost silently.
    assert {shape for shape, body in bodies() if judged(of_unknown_family, template, body)} == {"only system"}


# As vLLM's own template for the model: it fails without a list of tools, and drops the text of a message with calls.
FUNCTION_GEMMA = """\
{%- set offers = tools | length > 0 -%}
{%- for message in messages -%}
    {{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}
    {%- if message['role'] == 'system' and offers -%}
        {{ message['content'] + '<start_function_declaration>' + tools | tojson + '<end_function_declaration>' }}
    {%- elif message.tool_calls is defined -%}
        {%- for call in message['tool_calls'] -%}
            {{ '<start_function_call>call:' + call['function']['name'] + '{' }}
            {%- for key, value in call['function']['arguments'].items() -%}
                {{ key }}:<escape>{{ value }}<escape>
            {%- endfor -%}
            {{ '}<end_function_call>' }}
        {%- endfor -%}
    {%- else -%}
        {{ message['content'] }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}"""


@pytest.mark.parametrize("ask", [through, of_unknown_family])
def test_template_that_needs_tools_accepts_a_conversation_without_tools(ask: Ask) -> None:
    template = compiled("functiongemma-270m-it", FUNCTION_GEMMA)
    without = {shape for shape, body in bodies() if judged(direct, template, body) and "tools" not in body}
    assert len(without) == 3
    assert {shape for shape in without if judged(ask, template, dict(bodies())[shape])} == set()
    if ask is through:
        assert {shape for shape, body in bodies() if judged(ask, template, body)} == set()


# One per kind: roles must alternate, one call per turn, dropped text, dropped system messages.
ASKED_OVER_HTTP = (
    "mistralai-Mistral-Nemo-Instruct-2407",
    "meta-llama-Llama-3.1-8B-Instruct",
    "openai-gpt-oss-120b",
    "MiniMax-M2",
    "Qwen3-Coder",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED_OVER_HTTP)
def test_chat_requests_through_the_proxy_are_accepted_without_loss(name: str) -> None:
    """The proxy remembers a refusal for later requests."""
    template = next(each for each in templates() if each.name == name)
    with over_http() as ask:
        found = {shape: judged(ask, template, body) for shape, body in bodies()}
    assert {shape: wrong for shape, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("name", ASKED_OVER_HTTP)
def test_messages_requests_through_the_proxy_are_accepted_without_loss(name: str, inside: Inside) -> None:
    """The request has two calls, text next to them, a picture and a system prompt, which templates refuse or lose."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    conversation = [
        {"role": "user", "content": [{"type": "text", "text": "mku1"}, picture]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "mka1"},
                *(
                    {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"path": f"mkp{number}"}}
                    for number in (1, 2)
                ),
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "mkr1"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "mkr2"},
                {"type": "text", "text": "mku2"},
            ],
        },
    ]
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Where."}}}
    tools = [{"name": "read", "description": "Reads.", "input_schema": schema}]
    asked = {"model": name, "max_tokens": 9, "system": "mks1", "messages": conversation, "tools": tools}
    with rendering() as url:
        response = inside(url).post("/v1/messages", json=asked)
    assert response.status_code == 200, response.text
    prompt = bytes.fromhex(response.get_json()["content"][0]["text"]).decode()
    assert [mark for mark in MARKER.findall(json.dumps(asked)) if mark not in prompt] == []
