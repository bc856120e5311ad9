"""Tables of notations: openers and closers of calls, markup of keys and values. A new notation is a new line here."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import regex


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern of alternative literals, longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) or r"\b\B"


SEP = "]<]minimax[>["
# Words of wrappers that are tags. Any namespace, suffix or DSML bars may surround them.
WRAPPER_WORDS = (
    "tool_call",
    "tool_calls",
    "toolcall",
    "toolcalls",
    "tools",
    "function_call",
    "function_calls",
    "function_invocation",
    "tool_code",
    "TOOLCALL",
    "longcat_tool_call",
    "iquest_tool_call",
    "dots_function_call",
    "tool_use",
    "Call",
)
# Words of tags that contain the name of a call or a key: `<function=read>`, `<parameter name="path">`.
CALL_WORDS = ("function", "invoke")
PARAMETER_WORDS = ("parameter", "param", "argument", "arg")
# Wrappers that are tokens: the opener and its closers. `signs.py` finds only openers like `<x`, `<|` and `[X`.
PLAMO = "<|plamo:{}_tool_{}:plamo|>"
TOKENS = {
    "[TOOL_CALLS]": ("[/TOOL_CALLS]",),
    "<|message_model|>": ("<|end_message|>",),
    "<|message_model|><|content_invoke_tool_json|>": ("<|end_message|>",),
    "<|python_tag|>": (),
    "<|tool_call|>": (),
    "<|python_start|>": ("<|python_end|>",),
    "<|tool_call>": ("<tool_call|>",),
    "<start_function_call>": ("<end_function_call>",),
    "<|tool_call_start|>": ("<|tool_call_end|>",),
    "<|tools_prefix|>": ("<|tools_suffix|>",),
    "<|START_ACTION|>": ("<|END_ACTION|>",),
    "<|action_start|>": ("<|action_end|>",),
    "<|function_call|>": ("<|message_sep|>",),
    "<|message_sep|>\n\nfunction call<|role_sep|>": ("<|message_sep|>",),
    "<|content_invoke_tool_json|>": ("<|end_message|>",),
    "<|tool_calls_section_begin|>": ("<|tool_calls_section_end|>",),
    "<|tool_call_section_begin|>": ("<|tool_call_section_end|>",),
    "<|tool_call_begin|>": ("<|tool_call_end|>",),
    **{
        f"<｜tool{a}{w}{a}begin｜>": (f"<｜tool{a}{w}{a}end｜>",)
        for a in ("▁", "_", " ", "\\_")
        for w in ("calls", "call")
    },
    "<|tool_calls|>": ("<|calls|>",),
    "<|tool_call:begin|>": ("<|tool_call:end|>",),
    "<|tool_call:start|>": ("<|tool_call:end|>",),
    PLAMO.format("begin", "requests"): (PLAMO.format("end", "requests"),),
    PLAMO.format("begin", "request"): (PLAMO.format("end", "request"),),
    "<|open|>tools<|sep|>": ("<|close|>tools<|sep|>",),
    "<|open|> tools <|sep|>": ("<|close|> tools <|sep|>",),
    "[Tool call:": ("]",),
    "[Calling tool:": ("]",),
    "[unused11]": ("[unused12]",),
    "[TOOL_REQUEST]": ("[END_TOOL_REQUEST]",),
    "[TOOL_CALL]": ("[/TOOL_CALL]",),
}
# Closers that are longer than a bracket.
CLOSING_TOKENS = {closer for closers in TOKENS.values() for closer in closers if len(closer) > 1}
# Openers that need no closer after a complete call.
NO_CLOSER = frozenset(("[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>"))
# Meaningless tokens between a wrapper, a name and its arguments.
FILLERS = (
    "<|plugin|>",
    "<|constrain|>json",
    "<|constrain|> json",
    PLAMO.format("begin", "name"),
    PLAMO.format("end", "arguments"),
    "[ARGS]",
    "<|tool_call_argument_begin|>",
    "<|tool_call:args|>",
    PLAMO.format("end", "name"),
    PLAMO.format("begin", "arguments"),
    "<|plamo:constrain|>json",
    "<|plamo:msg|>",
    "<|message|>",
    "<tool_sep>",
    "<｜role_sep｜>",
)
NAME_FOLLOWS = ("<｜tool▁sep｜>", "<｜tool_sep｜>", "<｜tool sep｜>", "<｜tool\\_sep｜>", "<|tool_call:name|>")
END_OF_TURN = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eom|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|eot|>",
    "<|observation|>",
    "<|assistant_end|>",
    "<|plamo:tag|>",
    "</longcat_s>",
    "<eos>",
    "<EOS>",
    "</s>",
    "<end_of_sentence>",
    "<seed:eos>",
    "[e~[",
    "<SPECIAL_12>",
    "<|END_OF_TURN_TOKEN|>",
    "<|role_end|>",
    "<|eos|>",
    "<|end_of_msg|>",
    "<|tool_response>",
    "<turn|>",
    "<｜hy_eos｜>",
    "<｜hy_eos:opensource｜>",
    "<｜end▁of▁sentence｜>",
    "[unused10]",
    "<|message_sep|>",
    "<|assistant|>",
    "<｜Assistant｜>",
    "</assistant>",
    "<|CHATBOT_TOKEN|>",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|START_THINKING|><|END_THINKING|>",
    "[/TOOL_CALLS]",
    "[/INST]",
    "<|close|>message<|sep|>",
    "<|close|> message <|sep|>",
    "<|close|>response<|sep|>",
    "<|end_message|>",
)
BEFORE_TEXT = (
    "</think>",
    "/think>",
    "</mm:think>",
    "<|END_THINKING|>",
    "<|im_start|>assistant\n",
    "<|im_start|>assistant",
    "<|im_start|>",
    "<|close|>think<|sep|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<｜Assistant｜>",
    "[BEGIN FINAL RESPONSE]",
)
# Tags.
_NS = r"(?:[｜|‖\s]*(?:DSML|GCML)[｜|‖\s]*|[A-Za-z][\w.-]*[:|])"
NAME = regex.compile(
    r"(?:(?:default_api|google|mcp|functions):)*([^\s<>{}\[\]()\"'`,;=|:]{1,160})(?::(?:\d{1,6}|\1)\b)?"
)
# JSON keys for the parts of a call.
NAME_WORDS = ("name", "tool_name", "tool", "function", "function_name", "action", "tool_call", "recipient_name")
ARGUMENT_WORDS = (
    *("arguments", "parameters", "args", "params", "input", "action_input", "tool_input", "kwargs", "parsed_arguments"),
)
LIST_WORDS = ("tool_calls", "tool_uses", "calls", "function_calls")
BESIDE_WORDS = frozenset(("id", "type", "tool_call_id", "index", "call_id"))

# Styles of keys with raw values: the patterns of opener and closer, which begin with `<`. `K` is the key, `T` the
# declared type. Keys that no tag opens (`path: a.py⏎`) cannot be a row: `Marks` in marks.py searches for `<`.
_C, _P = alternatives(CALL_WORDS), alternatives(PARAMETER_WORDS)
_S = r"(?:\]<\]minimax\[>\[)?"
_W = rf"{_NS}?(?:{alternatives(WRAPPER_WORDS)})(?::\w+)?"
_DSML = r"[｜|‖\s]*(?:DSML|GCML)[｜|‖\s]*"
WRAPPER_OPEN = rf"{_S}<\s?(?:{_W}(?:\s+name=[^<>\n]{{1,99}})?|{_DSML}(?!invoke|parameter)\w+)\s*>"
WRAPPER_CLOSE = rf"{_S}</\s?(?:{_W}|{_DSML}(?!invoke|parameter)\w+)\s*>"
CALL_OPEN = (
    rf"{_S}<{_NS}?(?:{_C})(?:name)?\s*(?:=|name\s*=|\s+name\s*=)[^<>\n]{{1,200}}>"
    r"|<\|open\|>\s*call [^<>\n]{1,200}<\|sep\|>|<\|tool_call:start\|>"
)
CALL_CLOSE = rf"{_S}</{_NS}?(?:{_C})(?:name)?\s*>|<\|close\|>\s*call\s*<\|sep\|>|<\|tool_call:end\|>"
STYLES = {
    "parameter": (
        rf"{_S}<{_NS}?(?P<kind>{_P})(?:name)?\s*(?:=|\s+name\s*=|name\s*=)\s*[\"']?(?P<K>[^<>\"'\n]{{1,200}}?)[\"']?\s*(?:(?<=[\"'])\s*string=[\"']?(?P<T>true|false)[\"']?\s*)?>",
        rf"{_S}</{_NS}?(?P<ckind>{_P})(?:name)?\s*>",
    ),
    "pair": (
        rf"(?:(?:<{_NS}?(?:arg_key|tool_call)(?::\w+)?>)?\s*(?P<K2>{{keys}})\s*(?:</{_NS}?arg_key(?::\w+)?>\s*)+(?!<{_NS}?arg_type)(?:<{_NS}?(?:arg_value)(?::\w+)?>)?)|(?:<{_NS}?(?:arg_key|tool_call(?=>\s*[\w-]+\s*</{_NS}?arg_key))(?::\w+)?>\s*+){{1,2}}(?P<K>[^<>\s](?:[^<>\n]{{0,198}}[^<>\s])?)\s*+(?:</{_NS}?arg_key(?::\w+)?>\s*+)?(?:<{_NS}?arg_type(?::\w+)?>(?P<T>\w+)</{_NS}?arg_type(?::\w+)?>\s*+)?<{_NS}?(?P<kind>arg_value)(?::\w+)?>",
        rf"</{_NS}?(?P<ckind>arg_value)(?::\w+)?>",
    ),
    "k3": (
        r"<\|open\|>\s*(?P<kind>argument) key=\"(?P<K>[^\"\n]{1,200})\"(?:\s+type=\"(?P<T>\w*)\")?\s*<\|sep\|>",
        r"<\|close\|>\s*(?P<ckind>argument)\s*<\|sep\|>",
    ),
    "solar": (
        r"<\|(?P<kind>tool_arg):start\|>(?P<K>[^<>\n]{1,200})<\|tool_arg:value\|>(?P<T>\b\B)?",
        r"<\|(?P<ckind>tool_arg):end\|>",
    ),
    # MiniMax M3 writes some keys as parameters, after the same token.
    "element": (
        rf"{_S}<{{ns}}(?P<kind>(?P<K>{{spelled}}))(?P<T>\b\B)?>"
        rf"|{re.escape(SEP)}<(?:{_P})\s+name=[\"']?(?P<K2>[\w.-]{{{{1,80}}}})[\"']?\s*>",
        rf"{_S}</{{ns}}(?P<ckind>{{spelled}})\s*>|{re.escape(SEP)}</(?:{_P})\s*>",
    ),
}


# Styles with the declared keys in their patterns.
KEYED_STYLES = frozenset(("element", "pair"))
# After MiniMax M3's token, the name of any element except a wrapper may be a key.
KEY_ELEMENT = regex.compile(rf"{re.escape(SEP)}<(?!(?:{_W})\s*>)(?P<K>[A-Za-z_$][\w.-]*)>")


@functools.lru_cache(maxsize=256)
def style_opener(style: str, keys: tuple[str, ...]) -> regex.Pattern[str]:
    """Return the pattern of a value's opener in one style."""
    opens, _ = _with_keys(style, keys)
    return regex.compile(opens)


def _with_keys(style: str, keys: tuple[str, ...]) -> tuple[str, str]:
    opens, closes = STYLES[style]
    if style not in KEYED_STYLES:
        return opens, closes
    # Keys in any case and with any separators.
    spelled = "|".join("[_.-]?".join(re.sub(r"[\W_]", "", key)) for key in keys)
    exact = alternatives(keys)
    words = {"{ns}": f"{_NS}?", "{keys}": exact, "{spelled}": f"{exact}|(?i:{spelled or exact})", "{{": "{", "}}": "}"}
    for word, pattern in words.items():
        opens, closes = opens.replace(word, pattern), closes.replace(word, pattern)
    return opens, closes


@functools.lru_cache(maxsize=256)
def family(style: str, keys: tuple[str, ...], elements: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of all tags in a call of one style. `elements` hold calls; the first of them is open."""
    opens, closes = _with_keys(style, keys)
    begins, ends = (f"<(?:{alternatives(elements)})>|", f"</{re.escape(elements[0])}>|") if elements else ("", "")
    return re.compile(
        rf"(?P<vo>{opens})|(?P<vc>{closes})|(?P<co>{begins}{CALL_OPEN})|(?P<cc>{ends}{CALL_CLOSE})|(?P<wo>{WRAPPER_OPEN})|(?P<wc>{WRAPPER_CLOSE})"
    )


# Openers of calls that count anywhere in a reply.
STRONG = regex.compile(
    rf"{alternatives(TOKENS)}|{WRAPPER_OPEN}|(?:<\|start\|>\s?assistant\s*(?:to=|<\|channel\|>\s*\w+\s+to=)"
    r"|<\|channel\|>\s*\w+ to=|<\|start\|>\s?assistant<\|channel\|>\s*(?:commentary|final)\b"
    r"| ?to=[\w.]+(?:<\|channel\|>|<\|message\|>|<atem))"
)
