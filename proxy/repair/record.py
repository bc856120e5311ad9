"""Audit records of repairs (contract C6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repair:
    """An audit record (contract C6): the fix, the values before and after, the reason, and the tool of the call.

    In a `text_call`, `before` is the model's text, `after` the client's call as JSON, and `notation` its notation.
    Records of translated requests are logged only if `logged` is true, because they are the same in every turn.
    """

    id: str
    before: str
    after: str
    why: str
    tool: str = ""
    logged: bool = False
    notation: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of audit record: its id, its reason in words, and an example of its values."""

    id: str
    words: str
    before: str = ""
    after: str = ""


# Records without a table of their own. Forms of arguments, schema fixes and healings have one
# (`repair/arguments.py`, `repair/schema_fixes.py`, `healing/healings.json`). A rule's id is `rule:` and its name.
KINDS = (
    Kind(
        "text_call",
        "the model wrote the call as text; the reply's finish becomes `tool_calls`",
        '<tool_call>{"name": "exec", …}</tool_call>',
        '{"name": "exec", …}',
    ),
    Kind("name", "the name matches only one offered tool", "functions.exec:0", "exec"),
    Kind("inferred_name", "the arguments fit only one offered tool", "", "grep"),
    Kind("id", "the call had no id, or the id of another call", "", "call_…"),
    Kind("form", "clients do not understand the server's form of the call", '"id": 7', '"id": "call_…"'),
    Kind("one_call", "the client wants one call at a time", "two calls", "the first"),
    Kind("no_call", "a call without a usable name or arguments is sent as text", '{"a": ', '{"a": '),
    Kind("echo", "the content only repeats a call, or a call only repeats the content", '{"a": 1}'),
    Kind("finish", "the finish reason matches the calls that were sent", "stop", "tool_calls"),
    Kind("cut", "the reply was cut off, so nothing is completed", "repetition", "repetition"),
    Kind("empty_calls", "an empty list of calls is removed", "[]"),
    Kind("end_of_turn", "the end-of-turn token is removed", "<|im_end|>"),
    Kind("leftover", "closers and tokens directly after a call are removed", "</tool_call>"),
    Kind("cut_call", "a further call that is cut off at the end of a reply is removed", '<tool_call>{"name": "ba'),
    Kind("lone_opener", "an opener alone at the end of a reply is removed", "<tool_call>"),
    Kind("made_up_turn", "a turn that the model invents after a call is removed", "<tool_response>ok</tool_response>"),
    Kind("leaked_token", "a token at the very beginning of a reply is removed", "<|im_start|>assistant"),
    Kind("unopened_thought", "the text before a closing mark was reasoning", "So…</think>Done.", "Done."),
    Kind("unclosed_thought", "reasoning that is never closed is sent as the answer", "<think>Done.", "Done."),
    Kind("second_try", "the reply said nothing, or ended in a broken call, and the request was retried"),
    Kind(
        "thinking",
        "the client's reasoning switch is translated to the model's",
        '"reasoning_effort": "none"',
        '"enable_thinking": false',
    ),
    Kind("thought_beside_text", "the template requires text next to reasoning and a call in a message before them"),
    Kind("dropped_field", "chat completions have no such field; the record has its kind and count", "thinking: 1"),
    Kind("rule_tools", "a rule changed the offered tools"),
    Kind("rule_sampling", "a rule changed the sampling parameters"),
    Kind("heal_repeated_calls", "the model is told which call it repeats"),
)
