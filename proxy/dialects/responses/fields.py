"""The treatment of each field of a Responses request: the rows of docs/responses.md, and what the translation drops.

A row that begins with `dropped: ` names a field that the request goes on without, and why; one that begins with
`refused: ` a field that ends it. All others are carried, and read where they are. Source: OpenAI's API reference,
"Create a model response", and the types of its SDK; items and fields that only Codex sends are from its requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

Rows: TypeAlias = Mapping[str, str]

DROPPED = "dropped: "
_ID = f"{DROPPED}items of a chat have no ids; a call and its output are paired by `call_id`"
_STATUS = f"{DROPPED}an item of the history is as whole as it is"
_NOTE = f"{DROPPED}a note of the client's own"
_CALLER = f"{DROPPED}nothing but the model itself calls a tool"
_ASYNC = f"{DROPPED}a call's output is waited for"
_PHASE = f"{DROPPED}a chat has no phases"
_BREAKPOINT = f"{DROPPED}the model server keeps its own prefix cache"
_CACHE = f"{DROPPED}the model server keeps its own prefix cache"
_HERE = f"{DROPPED}there is one model server, your own"
_NO_MODERATION = f"{DROPPED}nothing is moderated here"
_HOSTED = "by `server_tools`: dropped, or refused"
_CLIENTS = "refused: only OpenAI's models know its schema; offer a function or a custom tool for it"
_NO_FILES = "refused: there is no Files API here"
_NO_SUMMARY = "refused: only the server that wrote it can read it; send the conversation itself"
NO_COMPACTION = (
    "refused: this server writes no compactions; let the client compact by an ordinary request "
    "(Codex: give its provider another name than OpenAI)"
)
_NO_STATE = (
    "refused: nothing is kept here; send the whole conversation as `input`; where responses are kept, the request goes "
    "on from that one"
)

# The body and its smaller parts.
BODY_ROWS: Rows = MappingProxyType(
    {
        "model": "the name under which the server knows the model, by the aliases of rules.yaml",
        "input": "`messages`: a string is one message of the user's, else see the items",
        "instructions": "the first message, of the role `system`, before the leading `developer` and `system` ones",
        "stream": "`stream`, and with it `stream_options: {include_usage: true}`",
        "max_output_tokens": "`max_tokens`",
        "temperature": "`temperature`",
        "top_p": "`top_p`",
        "tools": "`tools`; see the tools",
        "tool_choice": "`tool_choice`; without tools both go",
        "parallel_tool_calls": "`parallel_tool_calls`, beside tools",
        "reasoning": "see its fields",
        "text": "see its fields",
        "user": "`user`",
        "metadata": "comes back in the response",
        "prompt_cache_key": "part of what keeps a conversation at one server; comes back in the response",
        "store": "all but false are kept; where nothing is kept, true is dropped and the response says `store: false`",
        "truncation": "`disabled` is what happens; `auto` is dropped: the client is told by an error to compact",
        "background": "refused if true: nothing runs in the background; send the request with `stream: true`",
        "previous_response_id": _NO_STATE,
        "conversation": "refused: no conversations are kept here; send the whole conversation as `input`",
        "prompt": "refused: no prompts are kept here; send `instructions` and `input`",
        "include": f"{DROPPED}reasoning comes in clear, as `content` of its item; nothing else of it is there",
        "safety_identifier": f"{DROPPED}the model server knows no such field",
        "service_tier": _HERE,
        "access_programs": _HERE,
        "background_options": f"{DROPPED}nothing runs in the background",
        "context_management": f"{DROPPED}a chat server edits no context; the client is told by an error to compact",
        "image": f"{DROPPED}the model server scales pictures by its own rules",
        "max_tool_calls": f"{DROPPED}it counts calls of OpenAI's own tools, which are not there",
        "moderation": _NO_MODERATION,
        "prompt_cache_options": _CACHE,
        "prompt_cache_retention": _CACHE,
        "stream_options": f"{DROPPED}nothing is obfuscated here",
        "top_logprobs": f"{DROPPED}log probabilities do not come back",
        "client_metadata": _NOTE,
    }
)
REASONING_ROWS: Rows = MappingProxyType(
    {
        "effort": "the switch that the model's entry in rules.yaml names (`thinking`); dropped if it names none",
        "summary": f"{DROPPED}reasoning comes as the model wrote it",
        "generate_summary": f"{DROPPED}reasoning comes as the model wrote it",
        "context": f"{DROPPED}the model's family says what goes back",
        "mode": _HERE,
    }
)
# Messages, and what is in them and in outputs.
MESSAGE_ROWS: Rows = MappingProxyType(
    {
        "type": "`message`, or nothing",
        "role": "`user` and `assistant` as they are; `system` and `developer` at the beginning are the first message, "
        "later ones text of the user's in their place, as `<system-reminder>…</system-reminder>`",
        "content": "a string is one text",
        "id": _ID,
        "status": _STATUS,
        "phase": _PHASE,
        "internal_chat_message_metadata_passthrough": _NOTE,
    }
)
PART_ROWS: Mapping[str, Rows] = MappingProxyType(
    {
        "input_text": {"type": "text", "text": "the text", "prompt_cache_breakpoint": _BREAKPOINT},
        "output_text": {
            "type": "text",
            "text": "the text",
            "annotations": f"{DROPPED}a chat server cites nothing",
            "logprobs": f"{DROPPED}log probabilities do not go back",
        },
        "refusal": {"type": "text", "refusal": "the text"},
        "input_image": {
            "type": "an `image_url` part",
            "image_url": "its URL: `data:`, `http://` or `https://`",
            "detail": "its `detail`, if it is `low`, `high` or `auto`; else dropped",
            "file_id": _NO_FILES,
            "prompt_cache_breakpoint": _BREAKPOINT,
        },
        "input_file": {
            "type": "a `file` part; whether the model server reads it is its own matter",
            "file_data": "its `file_data`",
            "filename": "its `filename`, else `file`",
            "file_url": "refused: no chat server reads a file from a URL",
            "file_id": _NO_FILES,
            "detail": f"{DROPPED}chat completions has no such field",
            "prompt_cache_breakpoint": _BREAKPOINT,
        },
    }
)
_CALL = {"type": "a call", "call_id": "the call's id", "id": _ID, "status": _STATUS, "caller": _CALLER}
_OUTPUT = {
    "type": "a message of the role `tool`",
    "call_id": "the id of the first such call without an output, in the newest turn that has one",
    "output": "one text, with a blank line between its parts; pictures and files go into the user's message behind it",
    "id": _ID,
    "status": _STATUS,
    "caller": _CALLER,
}
_NAMESPACE = "part of the function's name"
_ACTION = "the function's `arguments`"
ITEM_ROWS: Mapping[str, Rows] = MappingProxyType(
    {
        "reasoning": {
            "type": "the assistant's reasoning, in the field that the model's family names; dropped if it names none",
            "content": "its text",
            "summary": "its text, if there is no `content`",
            "encrypted_content": f"{DROPPED}only OpenAI's own servers can read it",
            "id": _ID,
            "status": _STATUS,
        },
        "function_call": {
            **_CALL,
            "name": "the function's name",
            "namespace": _NAMESPACE,
            "arguments": "the function's `arguments`; what is no JSON object is wrapped into one",
            "async": _ASYNC,
        },
        "function_call_output": {
            **_OUTPUT,
            "name": "without a `call_id`: the first call of this name without an output, in the newest turn that has "
            "one",
            "namespace": "as `name`",
        },
        "custom_tool_call": {
            "type": "a call",
            "call_id": "the call's id",
            "name": "the function's name",
            "namespace": _NAMESPACE,
            "input": "the string `input` of the function's `arguments`",
            "id": _ID,
            "caller": _CALLER,
            "async": _ASYNC,
        },
        "custom_tool_call_output": {key: row for key, row in _OUTPUT.items() if key != "status"},
        "tool_search_call": {
            "type": "a call of the function `tool_search`",
            "call_id": "the call's id",
            "arguments": _ACTION,
            "id": _ID,
            "status": _STATUS,
            "execution": f"{DROPPED}the item's call and output stand for themselves",
        },
        "tool_search_output": {
            "type": "a message of the role `tool` that names the tools",
            "call_id": "the id of the first such call without an output, in the newest turn that has one",
            "tools": "offered like those of `tools`, behind them",
            "id": _ID,
            "status": _STATUS,
            "execution": f"{DROPPED}the item's call and output stand for themselves",
        },
        "additional_tools": {
            "type": "no message",
            "tools": "offered like those of `tools`, behind them",
            "role": f"{DROPPED}tools have no role",
            "id": _ID,
        },
        "local_shell_call": {
            "type": "a call of the function `local_shell`",
            "call_id": "the call's id",
            "action": _ACTION,
            "id": "the call's id, if there is no `call_id`",
            "status": _STATUS,
        },
        "local_shell_call_output": {
            "type": "a message of the role `tool`",
            "id": "the id of the call",
            "output": "its text",
            "status": _STATUS,
        },
        "shell_call": {
            **_CALL,
            "type": "a call of the function `shell`",
            "action": _ACTION,
            "environment": f"{DROPPED}where it ran is the client's matter",
        },
        "shell_call_output": {
            **_OUTPUT,
            "output": "its JSON as text",
            "max_output_length": f"{DROPPED}the output stands for itself",
        },
        "apply_patch_call": {**_CALL, "type": "a call of the function `apply_patch`", "operation": _ACTION},
        "apply_patch_call_output": {**_OUTPUT, "output": "the text", "status": "before the text"},
        "agent_message": {
            "type": "text of the user's",
            "author": "before the text",
            "recipient": "before the text",
            "content": "the text; encrypted parts are dropped",
            "id": _ID,
        },
    }
)
# Items of which nothing can be carried.
OTHER_ITEM_ROWS: Rows = MappingProxyType(
    {
        "item_reference": "refused: nothing is kept here; send the item itself; where responses are kept, it is the "
        "item of that id",
        **dict.fromkeys(("compaction", "compaction_summary", "context_compaction"), _NO_SUMMARY),
        "compaction_trigger": NO_COMPACTION,
        "configuration_update": f"{DROPPED}the request's own fields say it",
        "web_search_call": f"{DROPPED}what the search found is not in it",
        **dict.fromkeys(
            (
                *("file_search_call", "computer_call", "computer_call_output", "code_interpreter_call"),
                *("image_generation_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"),
                *("mcp_call", "program", "program_output"),
            ),
            _HOSTED,
        ),
    }
)
_TOOL = {
    "name": "`function.name`",
    "description": "`function.description`",
    "async": _ASYNC,
    "allowed_callers": _CALLER,
    "defer_loading": f"{DROPPED}chat completions offers every tool from the start",
}
TOOL_ROWS: Mapping[str, Rows] = MappingProxyType(
    {
        "function": {
            **_TOOL,
            "type": "a function",
            "parameters": "`function.parameters`, as they are; none are an object without properties",
            "strict": "`function.strict`, if given",
            "output_schema": f"{DROPPED}chat completions has no such field",
        },
        "custom": {
            **_TOOL,
            "type": "a function with one string, `input`",
            "format": "a grammar goes into the description; the model server does not enforce it",
        },
        "namespace": {
            "type": "its functions, each under the joined name `NAMESPACE__NAME`",
            "name": "part of the names",
            "description": "behind each function's description",
            "tools": "functions and custom tools",
        },
        "tool_search": {
            "type": "the function `tool_search`, if the client executes it",
            "execution": "`client`; else it is OpenAI's own: by `server_tools`, dropped or refused",
            "description": "`function.description`",
            "parameters": "`function.parameters`",
        },
    }
)
# Tools that the client runs, by a schema that only OpenAI's models know; all further ones are OpenAI's own.
CLIENT_TOOLS = frozenset(("apply_patch", "computer", "computer_use_preview", "local_shell", "shell"))
OTHER_TOOL_ROWS: Rows = MappingProxyType(
    {
        **dict.fromkeys(sorted(CLIENT_TOOLS), _CLIENTS),
        **dict.fromkeys(
            (
                *("code_interpreter", "file_search", "image_generation", "mcp", "programmatic_tool_calling"),
                *("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"),
            ),
            _HOSTED,
        ),
    }
)


def losses_of(rows: Rows) -> dict[str, str]:
    """For `DroppedFields.leave`: "" for a field that is read, the reason for one that goes."""
    return {name: row.removeprefix(DROPPED) if row.startswith(DROPPED) else "" for name, row in rows.items()}


BODY_FIELDS = losses_of(BODY_ROWS)
REASONING_FIELDS = losses_of(REASONING_ROWS)
MESSAGE_FIELDS = losses_of(MESSAGE_ROWS)
PART_FIELDS = {kind: losses_of(rows) for kind, rows in PART_ROWS.items()}
ITEM_FIELDS = {
    kind: losses_of({**rows, "internal_chat_message_metadata_passthrough": _NOTE}) for kind, rows in ITEM_ROWS.items()
}
TOOL_FIELDS = {kind: losses_of(rows) for kind, rows in TOOL_ROWS.items()}
REFUSED_ITEMS = {
    kind: row.removeprefix("refused: ") for kind, row in OTHER_ITEM_ROWS.items() if row.startswith("refused: ")
}
DROPPED_ITEMS = {kind: row.removeprefix(DROPPED) for kind, row in OTHER_ITEM_ROWS.items() if row.startswith(DROPPED)}
HOSTED_ITEMS = frozenset(kind for kind, row in OTHER_ITEM_ROWS.items() if row == _HOSTED)
