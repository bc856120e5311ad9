"""The tokens that models put around and between calls. Most formats are a line in one of these tables.

A wrapper is the strong evidence of contract C3; what stands inside is told by its first characters
(`formats/wrappers.py`), because most wrappers are shared by several families.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.formats.xml_tags import SEPARATOR
from proxy.parsing.cursor import Literals


@dataclass(frozen=True, slots=True)
class Marker:
    """A wrapper that is no tag: its opener, and what closes it; nothing if it ends with the call behind it."""

    opener: str
    closers: tuple[str, ...] = ()


# Wrappers that are tags, by the word in them; namespaces, suffixes and end tags are told by `formats/xml_tags.py`.
WRAPPER_TAGS = (
    "<tool_call>",  # Hermes, Qwen2.5, Qwen3, Qwen3-Coder, GLM, Granite 4 and many more (F2)
    "<tool_calls>",  # MiniMax M1, Hunyuan, Jamba, Apriel, DSML without its token
    "<tools>",  # Qwen2.5 AWQ (F1)
    "<function_call>",  # Granite 20B, Qwen2.5-Coder
    "<function_calls>",  # Claude's, OLMo 3 (F13)
    "<function_invocation>",  # what drifts after many turns (F5)
    "<tool_code>",  # Gemma's older prompts (F6)
    "<TOOLCALL>",  # Nemotron Nano 2
    "<longcat_tool_call>",
    "<iquest_tool_call>",
    "<dots_function_call>",
    "<seed:tool_call>",
    "<minimax:tool_call>",  # MiniMax M2 (F12)
    "<minimax:tool_calls>",
    "<atem:function_calls>",  # Muse
    "<antml:function_calls>",
    "<tool_calls:",  # Hunyuan 3 and 4 write a suffix into every tag
    "<tool_call:",
    "<ifm|tool_calls>",  # K2 Horizon
    "<ifm|tool_call>",
    "<Call>",
    f"{SEPARATOR}<tool_call>",  # MiniMax M3 (F12)
    *(f"<{bars}{word}" for word in ("DSML", "GCML") for bars in ("｜", "｜｜", "|", "||", "‖", " | ", "| ")),  # F10
)
# The kinds of tags that open and close wrappers.
WRAPPER_KINDS = frozenset(
    (
        "tool_call",
        "tool_calls",
        "tools",
        "function_call",
        "function_calls",
        "function_invocation",
        "tool_code",
        "TOOLCALL",
        "longcat_tool_call",
        "iquest_tool_call",
        "dots_function_call",
        "Call",
    )
)
_PLAMO = "<|plamo:{}_tool_{}:plamo|>"
MARKERS = (
    Marker("[TOOL_CALLS]"),  # Mistral (F14)
    Marker("<|python_tag|>"),  # Llama 3
    Marker("<|python_start|>", ("<|python_end|>",)),  # Llama 4
    Marker("<|tool_call|>"),  # Granite 3.0
    Marker("<|tool_call>", ("<tool_call|>",)),  # Gemma 4 (F15)
    Marker("<start_function_call>", ("<end_function_call>",)),  # FunctionGemma
    Marker("<|tool_call_start|>", ("<|tool_call_end|>",)),  # LFM2, MiniCPM3 (F15)
    Marker("<|tools_prefix|>", ("<|tools_suffix|>",)),  # Apertus
    Marker("<|START_ACTION|>", ("<|END_ACTION|>",)),  # Cohere
    Marker("<|action_start|>", ("<|action_end|>",)),  # InternLM 2, Intern-S1
    Marker("<|function_call|>", ("<|message_sep|>",)),  # GigaChat 3.1
    Marker("<|message_sep|>\n\nfunction call<|role_sep|>", ("<|message_sep|>",)),  # GigaChat 3
    Marker("<|content_invoke_tool_json|>", ("<|end_message|>",)),  # Inkling
    Marker("<|tool_calls_section_begin|>", ("<|tool_calls_section_end|>",)),  # Kimi K2 (F8)
    Marker("<|tool_call_section_begin|>", ("<|tool_call_section_end|>",)),
    Marker("<|tool_call_begin|>", ("<|tool_call_end|>",)),
    Marker("<｜tool▁calls▁begin｜>", ("<｜tool▁calls▁end｜>",)),  # DeepSeek V3, V3.1, R1 (F9)
    Marker("<｜tool▁call▁begin｜>", ("<｜tool▁call▁end｜>",)),
    Marker("<｜tool_calls_begin｜>", ("<｜tool_calls_end｜>",)),  # R1's distillations, Step 3
    Marker("<｜tool_call_begin｜>", ("<｜tool_call_end｜>",)),
    Marker("<｜tool calls begin｜>", ("<｜tool calls end｜>",)),
    Marker("<｜tool call begin｜>", ("<｜tool call end｜>",)),
    Marker("<｜tool\\_calls\\_begin｜>", ("<｜tool\\_calls\\_end｜>",)),
    Marker("<｜tool\\_call\\_begin｜>", ("<｜tool\\_call\\_end｜>",)),
    Marker("<|tool_calls|>", ("<|calls|>",)),  # Solar Open
    Marker("<|tool_call:begin|>", ("<|tool_call:end|>",)),
    Marker(_PLAMO.format("begin", "requests"), (_PLAMO.format("end", "requests"),)),  # PLaMo 3
    Marker(_PLAMO.format("begin", "request"), (_PLAMO.format("end", "request"),)),
    Marker("<|open|>tools<|sep|>", ("<|close|>tools<|sep|>",)),  # Kimi K3, also as some detokenisers space it
    Marker("<|open|> tools <|sep|>", ("<|close|> tools <|sep|>",)),
    Marker("[Tool call:", ("]",)),  # a bridge's rendering of the history that models imitate (F16)
)
# Markers that stand in prose too: weak evidence.
WEAK_MARKERS = ("[Tool call:",)
# What may stand around a name or its arguments and says nothing.
FILLERS = (
    "<|plugin|>",
    "<|constrain|>json",
    _PLAMO.format("begin", "name"),
    _PLAMO.format("end", "arguments"),
)
# What stands between a name and its arguments.
SEPARATORS = (
    "[ARGS]",
    "<|tool_call_argument_begin|>",
    "<|tool_call:args|>",
    _PLAMO.format("end", "name"),
    _PLAMO.format("begin", "arguments"),
    "<|plamo:constrain|>json",
    "<|plamo:msg|>",
    "<|message|>",
)
# The name follows; what stood before was the call's kind or id.
NAME_FOLLOWS = ("<｜tool▁sep｜>", "<｜tool_sep｜>", "<｜tool sep｜>", "<｜tool\\_sep｜>", "<|tool_call:name|>")
ID_FOLLOWS = "[CALL_ID]"
# What models write when their turn, or a message of it, is over; servers that keep special tokens let it through (F18).
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
)
# What only a template writes: behind a call it is no text either.
AFTER_CALL = (
    "<｜Assistant｜>",
    "<|assistant|>",
    "</assistant>",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
    "<|START_THINKING|><|END_THINKING|>",
    "<|message_sep|>",
    "<|close|>message<|sep|>",
    "<|close|> message <|sep|>",
)
# What leaks at the very beginning of a reply (F18).
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


def encoded(*texts: str) -> tuple[bytes, ...]:
    """The texts in UTF-8."""
    return tuple(text.encode("utf-8", "surrogatepass") for text in texts)


MARKER_BY_OPENER = {marker.opener.encode(): marker for marker in MARKERS}
MARKER_OPENERS = Literals(encoded(*(marker.opener for marker in MARKERS)))
MARKER_CLOSERS = encoded(*dict.fromkeys(closer for marker in MARKERS for closer in marker.closers if len(closer) > 1))
OPENERS = (*WRAPPER_TAGS, *(marker.opener for marker in MARKERS))
# Openers of which a server or a template cut off the beginning: what is left of them at the start of a reply.
MIN_REST = 2
_DSML = ("<｜DSML｜tool_calls>", "<｜DSML｜function_calls>")
_WHOLE = (*(opener for opener in OPENERS if opener.endswith((">", "]"))), *_DSML)
CUT_OPENERS = tuple(dict.fromkeys(opener[at:] for opener in _WHOLE for at in range(1, len(opener) - MIN_REST + 1)))
