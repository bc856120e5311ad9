"""Generated conversations with the faults that agents and models produce."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]

_TEXTS = st.sampled_from(["", "one", "two", "a\nb"])
_PARTS = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "one"},
            {"type": "input_text", "text": "two"},
            {"text": "three"},
            {"type": "image_url", "image_url": {"url": "data:,"}},
            "four",
        ]
    ),
    max_size=3,
)
CONTENTS = st.one_of(_TEXTS, _PARTS, st.sampled_from([None, {"a": 1}, 7]))
# Few ids, so that collisions are likely: repeated, changed by a client, from another turn, missing.
_IDS = st.sampled_from(["call_1", "call1", "call_2", "abcdefgh1", "functions.read:0", "", 3, None])
_ARGUMENTS = st.sampled_from(["{}", '{"path": "a"}', "{'path': 'a'}", '{"path": "a', "[1]", "word", "", None, {"a": 1}])
_NAMES = st.sampled_from(["read", "functions.read:0", "Read", "other", "n" * 70])


def _without_nothing(message: Message) -> Message:
    return {key: value for key, value in message.items() if value is not None or key == "content"}


_CALL = st.builds(
    lambda call_id, name, arguments, kind: _without_nothing(
        {"id": call_id, "type": kind, "function": _without_nothing({"name": name, "arguments": arguments})}
    ),
    _IDS,
    _NAMES,
    _ARGUMENTS,
    st.sampled_from(["function", None]),
)
_CALLING = st.builds(
    lambda content, calls: {"role": "assistant", "content": content, "tool_calls": calls},
    CONTENTS,
    st.lists(_CALL, max_size=3),
)
_RESULT = st.builds(
    lambda call_id, content: _without_nothing({"role": "tool", "tool_call_id": call_id, "content": content}),
    _IDS,
    CONTENTS,
)
_SAID = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "developer", "user", "user", "assistant"]),
    CONTENTS,
)
_OLD = st.sampled_from(
    [
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}},
        {"role": "function", "name": "read", "content": "found"},
        {"role": "assistant"},
    ]
)
CONVERSATIONS = st.lists(st.one_of(_SAID, _CALLING, _RESULT, _RESULT, _OLD), max_size=9)
