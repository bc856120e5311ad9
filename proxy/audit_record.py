"""The audit record of one repair (contract C6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repair:
    """An audit record (contract C6): which fix, what it was before, what after, why, and to which tool's call.

    A `text_call` has the text that the model wrote, the call that the client gets as JSON, and the `notation`. Records
    of a translated request have no line in the log, because they are the same at every turn, unless they are `logged`.
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
    """A kind of audit records: the `id` that they have, what they tell, and an example of what is before and after."""

    id: str
    words: str
    before: str = ""
    after: str = ""


# Every id that is in no other table: the forms of arguments, the schema's fixes and healings have their own
# (`repair/arguments.py`, `repair/schema_fixes.py`, `healing/healings.json`), and a rule's is `rule:` and its name.
KINDS = (
    Kind(
        "text_call",
        "the model wrote the call as text; the reply's finish becomes `tool_calls`",
        '<tool_call>{"name": "exec", …}</tool_call>',
        '{"name": "exec", …}',
    ),
    Kind("name", "the only offered tool that the name can mean", "functions.exec:0", "exec"),
    Kind("inferred_name", "of the offered tools the arguments tell this one", "", "grep"),
    Kind("id", "the server gave no id, or another call's", "", "call_…"),
    Kind("form", "the server said the call in another way than clients understand", '"id": 7', '"id": "call_…"'),
    Kind("one_call", "the client wants one call at a time", "two calls", "the first"),
    Kind("no_call", "a call without a name, or whose arguments cannot be read, is text", '{"a": ', '{"a": '),
    Kind("echo", "the content only repeats a call, or a call what was in the content", '{"a": 1}'),
    Kind("finish", "the finish says what left the proxy", "function_call", "tool_calls"),
    Kind("cut", "the model did not stop by itself: nothing is completed", "repetition", "repetition"),
    Kind("empty_calls", "a list of no calls says nothing", "[]"),
    Kind("end_of_turn", "the model's own end-of-turn token is no text", "<|im_end|>"),
    Kind("leftover", "a closer or a token directly behind a call is no text", "</tool_call>"),
    Kind("cut_call", "a further call that is cut off at the end of a reply is no text", '<tool_call>{"name": "ba'),
    Kind("lone_opener", "an opener alone at the end of a reply is no text", "<tool_call>"),
    Kind("made_up_turn", "what the model makes up behind its call is no answer", "<tool_response>ok</tool_response>"),
    Kind("leaked_token", "a token at the very beginning of a reply is no text", "<|im_start|>assistant"),
    Kind("unopened_thought", "the text before the end of a thought has been one", "So…</think>Done.", "Done."),
    Kind("unclosed_thought", "a reply that ends in a thought is its own answer", "<think>Done.", "Done."),
    Kind("second_try", "the reply said nothing, or broke off in a call; the request went up once more"),
    Kind(
        "thinking",
        "thinking is switched in the model's own words",
        '"reasoning_effort": "none"',
        '"enable_thinking": false',
    ),
    Kind("thought_beside_text", "the text beside a thought and a call stands before them, as the template needs it"),
    Kind("dropped_field", "chat completions cannot carry the field; its kind and number are told", "thinking: 1"),
    Kind("rule_tools", "the rules offer the model fewer tools, or others"),
    Kind("rule_sampling", "the rules say how the model samples"),
    Kind("heal_repeated_calls", "the model is told which call it repeats"),
)
