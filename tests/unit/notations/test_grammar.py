"""The grammars: which formats count in which mode of a reply, and calls in every form that come back (contract C3)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.helpers import call_json, function, new_scanner, offered, scan

LS = call_json("bash", command="ls")
SETTINGS = [(json_reply, raw_text) for json_reply in (False, True) for raw_text in (False, True)]


@pytest.mark.parametrize("json_reply", [False, True])
@pytest.mark.parametrize("raw_text", [False, True])
@pytest.mark.parametrize("behind", ["", "\n", "<|eot_id|>"])
def test_a_leaked_token_is_dropped_in_every_kind_of_reply(json_reply: bool, raw_text: bool, behind: str) -> None:
    """F18: JSON that was asked for, too."""
    for text in ("Hi.", "It is {x", '{"a": 1}', "[1, 2]", "\n{"):
        for cut in ([f"{text}<|im_end|>{behind}"], [*f"{text}<|im_end|>{behind}"]):
            found = scan(cut, new_scanner(json_reply=json_reply, raw_text=raw_text))
            assert (found.calls, found.text) == ((), text)


LEADS: dict[str, tuple[str, bool]] = {
    "functionary": ('>>>bash\n{"command": "ls"}', True),
    "functionary's text": (">>>all\nHello.", False),
    "Mistral's word": ('TOOL_CALLSbash{"command": "ls"}', True),
    "Mistral's word in a word": ('MY_TOOL_CALLSbash{"command": "ls"}', False),
    "Cohere's": (f"Action: ```json\n[{LS}]\n```", True),
    "an action in a line": (f"The next Action: [{LS}]", False),
    "Inkling's": (f"<|message_model|>bash<|content_invoke_tool_json|>{LS}<|end_message|>", True),
    "a comment": (f"<!-- <tool_call>{LS}</tool_call> -->", False),
    "JSON in a line": (f"So {LS}", False),
}


@pytest.mark.parametrize("name", LEADS)
def test_what_leads_to_a_call_counts_where_it_may_stand(name: str) -> None:
    text, is_call = LEADS[name]
    for lead in ("", "I will.\n"):
        for cut in ([lead + text], [*(lead + text)]):
            found = scan(cut)
            assert [call for call, _ in found.calls] == (["bash"] if is_call else [])
            assert found.text == (lead if is_call else lead + text)


TYPES: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, st.text(max_size=30)),
    ({"type": "integer"}, st.integers(-(2**53), 2**53)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "array"}, st.lists(st.text(max_size=5) | st.integers(0, 9), max_size=3)),
    ({"type": "object"}, st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.none(), max_size=3)),
    ({"type": ["integer", "null"]}, st.none() | st.integers(0, 9)),
]


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """A tool with a random schema, and calls of it."""
    name = draw(st.from_regex(r"\A[a-z][a-z_]{0,12}\Z"))
    keys = draw(st.lists(st.from_regex(r"\A[a-zA-Z][a-zA-Z_0-9]{0,8}\Z"), unique=True, max_size=4))
    kinds = [draw(st.sampled_from(TYPES)) for _ in keys]
    schema = {key: kind for key, (kind, _) in zip(keys, kinds, strict=True)}
    required = [key for key in keys if draw(st.booleans())]
    calls = []
    for _ in range(draw(st.integers(1, 3))):
        values = {
            key: draw(how) for key, (_, how) in zip(keys, kinds, strict=True) if key in required or draw(st.booleans())
        }
        calls.append((name, values))
    return function(name, schema, *required), calls


def as_tags(name: str, values: dict[str, Any]) -> str:
    rendered = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    inside = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in rendered.items())
    return f"<function={name}>\n{inside}</function>"


def rendered(form: str, calls: list[tuple[str, dict[str, Any]]], indent: int | None) -> str:
    objects = [json.dumps({"name": name, "arguments": values}, indent=indent) for name, values in calls]
    match form:
        case "hermes":
            return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in objects)
        case "tools":
            return "<tools>\n" + "\n".join(objects) + "\n</tools>"
        case "array":
            return f"<tools>[{', '.join(objects)}]</tools>"
        case "tags":
            return "\n".join(f"<tool_call>\n{as_tags(*call)}\n</tool_call>" for call in calls)
        case "bare tags":
            return "\n".join(as_tags(*call) for call in calls) + "\n</tool_call>"
        case "fence":
            return "\n".join(f"```json\n{text}\n```" for text in objects)
        case _:
            return "\n".join(objects)


@pytest.mark.slow
@settings(max_examples=150, derandomize=True)
@given(
    requests(),
    st.sampled_from(["hermes", "tools", "array", "tags", "bare tags", "fence", "bare"]),
    st.sampled_from([None, 2]),
    st.sampled_from(["", "I will do it.\n", "naïve `code` 🙂\n\n"]),
    st.randoms(use_true_random=False),
)
def test_random_calls_of_random_tools_come_back_in_every_form(
    request_: tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]],
    form: str,
    indent: int | None,
    lead: str,
    rng: random.Random,
) -> None:
    tool, calls = request_
    if "tags" in form and any("</parameter>" in str(values) for _, values in calls):
        return
    text = lead + rendered(form, calls, indent)
    at = sorted(rng.choices(range(len(text) + 1), k=6))
    cut = [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]
    for way in ([text], list(text), cut):
        found = scan(way, new_scanner(offered(tool)))
        assert found.parsed == calls
        assert found.text.strip() == lead.strip()
