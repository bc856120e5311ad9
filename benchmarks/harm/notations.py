"""Notations of servers and models in addition to `families`, one row each.

The judge cannot read them strictly, so their calls are not broken; only tools, keys, values and surroundings vary.
Comments give the ids of reports from the field.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from benchmarks.harm.families import FAMILIES, Body, Family, Tags, Type
from benchmarks.harm.writing import dump

_OBJECT = '{"name": "{name}", "arguments": '
_IN_TAGS = r"\w[\w.-]*"
_QWEN = FAMILIES["qwen_xml"]
_GEMMA = FAMILIES["gemma4"]
_HARMONY = FAMILIES["harmony"]
_DSML = FAMILIES["dsml"]
_ROW = partial(Family, reader=False)
# Without a wrapper, a call counts only at the end of a reply.
_TAG = partial(Family, reader=False, weak=True, tail=False)
_END = partial(Family, reader=False, weak=True, lead=False, tail=False)


def _round(call: str) -> str:
    """Write a call's outer braces as parentheses."""
    before, _, rest = call.partition("{")
    inside, _, behind = rest.rpartition("}")
    return f"{before}({inside}){behind}"


def _first_key_opened_by_wrapper(call: str) -> str:
    """Write `<tool_call>` in place of the first `<arg_key>`."""
    return call.replace("<arg_key>", "<tool_call>", 1)


def _in_response(call: str) -> str:
    """Write a call as the text of a string member."""
    return json.dumps({"response": call}, ensure_ascii=False)


def _is_markup(text: str) -> bool:
    """Return whether a text as the only content of an element is ambiguous."""
    return text.strip() != text or "</" in text or text[:1] in ("", "{", "[", "<", '"', "`")


def _is_padded(text: str) -> bool:
    return text.strip() != text


NOTATIONS = (
    replace(_GEMMA, name="gemma4_round", reader=False, rewrite=_round),  # g1
    replace(_GEMMA, name="gemma4_colon", reader=False, head=":{name}"),  # g3
    replace(_GEMMA, name="gemma4_name", reader=False, head="{name}"),  # g4; g5 is `odd_keys` of all of them
    replace(
        _HARMONY,
        name="analysis_code",  # o1
        reader=False,
        several=False,
        opener="<|channel|>analysis to=functions.",
        head="{name} code<|message|>\n",
    ),
    replace(
        _HARMONY,
        name="analysis",  # o2
        reader=False,
        several=False,
        opener="<|channel|>analysis to=functions.",
        head="{name}<|message|>",
        closer="",
    ),
    replace(_QWEN, name="qwen_name_tag", reader=False, head="<{name}>\n"),  # q1
    _ROW(
        "glm_wrapper_key",  # z1
        Body.TAGS,
        between="\n",
        opener="<tool_call>",
        closer="</tool_call>",
        tags=Tags("<arg_key>{key}</arg_key><arg_value>", "</arg_value>"),
        rewrite=_first_key_opened_by_wrapper,
        keys=r"[^<>]+",
    ),
    _END("llama_list", section=("; ", ""), between="; ", head='{"name": "{name}", "parameters": ', foot="}"),  # l1
    _TAG("name_tag_json", between="\n", head="<{name}>", foot="</{name}>"),  # x1
    _TAG(
        "name_tag_elements",  # x3
        Body.TAGS,
        between="\n",
        head="<{name}>\n",
        foot="</{name}>",
        tags=Tags("<{key}>", "</{key}>", "", "\n"),
        keys=_IN_TAGS,
        cannot=_is_padded,
    ),
    _TAG(
        "name_tag_text",  # x4
        Body.TAGS,
        head="<{name}>",
        foot="</{name}>",
        several=False,
        single=True,
        cannot=_is_markup,
    ),
    _ROW(
        "solar2",  # s1
        Body.TAGS,
        between="\n",
        opener="<|tool_call:start|>",
        head="{name}\n",
        closer="<|tool_call:end|>",
        tags=Tags("<|tool_arg:start|>{key}<|tool_arg:value|>", "<|tool_arg:end|>", "", "\n"),
        keys=r"[^<>|]+",
    ),
    replace(
        _HARMONY,
        name="llm_jp",  # j1
        reader=False,
        between="<|start|> assistant",
        opener="<|channel|> commentary to=functions.",
        head="{name} <|constrain|> json<|message|> ",
    ),
    replace(
        _HARMONY,
        name="llm_jp_role",  # j2
        reader=False,
        between="",
        opener="<|start|> assistant to=functions.",
        head="{name}<|channel|> commentary <|constrain|> json<|message|> ",
    ),
    _ROW("pangu", section=("[unused11][", "][unused12]"), between=", ", head=_OBJECT, foot="}"),  # p1
    _ROW(
        "step_audio2",  # a1
        between="\n",
        opener="<tool_call>function\n",
        head="{name}\n",
        closer="</tool_call>",
    ),
    _TAG(
        "cwm",  # c1
        Body.TAGS,
        head="<tool: {name}>\n",
        foot="\n</tool>",
        several=False,
        single=True,
        cannot=_is_markup,
    ),
    replace(_DSML, name="dsml_escaped", reader=False, tags=replace(_DSML.tags, escapes=True)),  # d1
    _ROW("lm_studio", between="\n", opener="[TOOL_REQUEST]", head=_OBJECT, foot="}", closer="[END_TOOL_REQUEST]"),  # m1
    _ROW(
        "minimax_arrow",  # m2
        Body.TAGS,
        between="\n",
        opener="[TOOL_CALL]\n",
        head='{tool => "{name}", args => {\n',
        foot="}}",
        closer="\n[/TOOL_CALL]",
        tags=Tags("  --{key} ", "", "", "\n", Type.JSON),
        keys=_IN_TAGS,
    ),
    _ROW("tool_call_brackets", between="\n", opener="[TOOL_CALL]\n", head=_OBJECT, foot="}", closer="\n[/TOOL_CALL]"),
    _ROW(
        "name_arguments_tags",  # w1
        between="\n",
        opener="<tool_call>\n",
        head="<name>{name}</name>\n<arguments>\n",
        foot="\n</arguments>",
        closer="\n</tool_call>",
    ),
    _ROW(
        "tool_use",  # w3
        between="\n",
        opener="<tool_use>\n",
        head="<name>{name}</name>\n<arguments>",
        foot="</arguments>",
        closer="\n</tool_use>",
    ),
    _END("function_of_object", several=False, head="{name}(", foot=")"),  # w5
    _END("tool_input", several=False, head='{"tool_name": "{name}", "tool_input": ', foot="}"),  # w6
    _END(
        "message",  # w7
        section=('{"role":"assistant","content":null,"tool_calls":[', "]}"),
        between=",",
        head='{"id":"call_{n}","type":"function","function":{"name":"{name}","arguments":',
        foot="}}",
        encode=dump,
    ),
    _END("response_member", several=False, head=_OBJECT, foot="}", rewrite=_in_response),  # w9
    # Text before it is prose, including a `Thought:` line.
    _TAG(
        "react",  # r1
        section=("", "\n"),
        several=False,
        opener="Action: ",
        head="{name}\nAction Input: ",
    ),
)
