"""The fields of a response that repeat the request's: strict clients want all of them (Open Responses)."""

from __future__ import annotations

from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject

_TEXT: JsonObject = {"format": {"type": "text"}}
# What a response says where the request says nothing.
_DEFAULTS: JsonObject = {
    "model": "",
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "top_p": 1.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "prompt_cache_key": None,
    "safety_identifier": None,
    "user": None,
}
# What is so whatever the request says.
_FIXED: JsonObject = {
    "previous_response_id": None,
    "store": False,
    "background": False,
    "truncation": "disabled",
    "service_tier": "default",
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
}


def echo(body: JsonObject) -> JsonObject:
    """These fields for a request that was translated, in the response's words."""
    echoed: JsonObject = {name: body[name] for name in _DEFAULTS if body.get(name) is not None}
    effort = as_object(body.get("reasoning")).get("effort")
    return {
        **_DEFAULTS,
        **echoed,
        **_FIXED,
        "text": {**_TEXT, **{key: value for key, value in as_object(body.get("text")).items() if value is not None}},
        "reasoning": {"effort": effort, "summary": None},
    }
