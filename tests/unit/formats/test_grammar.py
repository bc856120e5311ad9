"""The grammars: which formats count in which mode of a reply, and calls in every form that come back (contract C3)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.formats.grammar import LEFTOVER, TEXT, Format, Grammar, end_of_turn, grammars, with_forced
from proxy.formats.markers import END_OF_TURN, MARKERS, WRAPPER_TAGS
from proxy.parsing.buffer import MAX_MATCH
from tests.support.helpers import call_json, function, new_scanner, offered, outcome, scan

LS = call_json("bash", command="ls")
SETTINGS = [(json_reply, raw_text) for json_reply in (False, True) for raw_text in (False, True)]


def formats(grammar: Grammar) -> set[Format]:
    """All that counts in one mode."""
    return {item for items in grammar.by_prefix.values() for item in items}


@pytest.mark.parametrize("token", END_OF_TURN)
def test_end_of_turn_tokens_at_the_end_are_neither_text_nor_call(token: str) -> None:
    """F18."""
    for text in (token, f"{token}\n{token}\n", f"{token} {END_OF_TURN[0]}"):
        found = outcome(end_of_turn, text, cuts=10)
        assert (found.given, found.rest) == ((), "")
    assert outcome(end_of_turn, f"{token} more", cuts=10).given is None
    for cut in ([f"Hi.{token}"], [*f"Hi.{token}"]):
        assert scan(cut, new_scanner(raw_text=True)).text == "Hi."


@pytest.mark.parametrize("json_reply", [False, True])
@pytest.mark.parametrize("raw_text", [False, True])
@pytest.mark.parametrize("behind", ["", "\n", "<|eot_id|>"])
def test_a_leaked_token_is_dropped_in_every_kind_of_reply(json_reply: bool, raw_text: bool, behind: str) -> None:
    """F18: JSON that was asked for, too."""
    for text in ("Hi.", "It is {x", '{"a": 1}', "[1, 2]", "\n{"):
        for cut in ([f"{text}<|im_end|>{behind}"], [*f"{text}<|im_end|>{behind}"]):
            found = scan(cut, new_scanner(json_reply=json_reply, raw_text=raw_text))
            assert (found.calls, found.text) == ((), text)


def test_a_reply_in_json_has_no_weak_formats() -> None:
    """C3: never weak evidence when `response_format` asks for JSON."""
    strong = {*(opener for opener in WRAPPER_TAGS), "<|tool_call_begin|>", "harmony"}
    weak = {"list", "fence", "<function=", "<invoke"}
    for json_reply, raw_text in SETTINGS:
        names = {item.name for item in formats(grammars(json_reply=json_reply, raw_text=raw_text)[TEXT])}
        assert strong <= names
        assert names & weak == (set() if json_reply else weak)
        assert "end_of_turn" in names


def test_each_wrapper_of_the_tables_counts() -> None:
    every = {item.opener for item in formats(grammars(json_reply=False, raw_text=False)[TEXT])}
    assert {opener.encode() for opener in (*WRAPPER_TAGS, *(marker.opener for marker in MARKERS))} <= every


@pytest.mark.parametrize(("json_reply", "raw_text"), SETTINGS)
def test_the_patterns_find_each_opener_of_each_mode_and_what_is_no_opener_is_passed_over(
    json_reply: bool, raw_text: bool
) -> None:
    for grammar in grammars(json_reply=json_reply, raw_text=raw_text).values():
        for item in formats(grammar):
            assert grammar.begin.match(item.opener)
            assert item in grammar.beginning(item.opener[:2])
            found = grammar.openers.match(item.opener)
            assert found is not None and len(found.group()) <= MAX_MATCH
            assert all(item.opener[:length] in grammar.prefixes for length in range(len(item.opener)))
        firsts = {item.opener[:1] for item in formats(grammar)}
        for byte in range(256):
            # The last byte that has come may be the first of an opener.
            assert bool(grammar.begin.match(bytes([byte]))) is (bytes([byte]) in firsts)
        assert not grammar.begin.search("Plain text: 1 + 1 = 2, 50 % & more.\nÜ\n".encode())


@pytest.mark.parametrize(("json_reply", "raw_text"), SETTINGS)
def test_the_longest_openers_are_tried_first(json_reply: bool, raw_text: bool) -> None:
    for grammar in grammars(json_reply=json_reply, raw_text=raw_text).values():
        for items in grammar.by_prefix.values():
            lengths = [len(item.opener) for item in items]
            assert lengths == sorted(lengths, reverse=True)


def test_bare_json_lists_and_fences_must_begin_a_line() -> None:
    """F88."""
    for json_reply in (False, True):
        for item in formats(grammars(json_reply=json_reply, raw_text=False)[TEXT]):
            if item.name in ("json", "list", "fence", "Action:"):
                assert item.line_start


def test_what_leaves_as_plain_text_holds_no_beginning_of_a_format() -> None:
    """What has left by the lane is told to the scanner afterwards, which must find nothing in it: `An` ends in no half
    of `Action:`.
    """
    rng, passed = random.Random(0), 0
    for grammar in {id(each): each for each in grammars(json_reply=False, raw_text=True).values()}.values():
        openers = [item.opener.decode() for item in {item for found in grammar.standing.values() for item in found}]
        letters = sorted({*"".join(openers), *" abxyzAN\n"})
        for _ in range(300):
            opener = rng.choice(openers)
            half = opener[: rng.randint(1, len(opener))]
            text = f"{half}{''.join(rng.choices([*opener, *letters], k=rng.randint(0, 3)))}"
            if grammar.plain.fullmatch(json.dumps(text, ensure_ascii=False)[1:-1].encode()):
                assert grammar.begin.search(text.encode()) is None, text
                passed += 1
    assert passed > 500


def test_grammars_are_made_once() -> None:
    assert grammars(json_reply=False, raw_text=True) is grammars(json_reply=False, raw_text=True)


@pytest.mark.parametrize(("text", "rest"), [("</tool_call>x", "x"), ("<|im_end|>", ""), ("<|tool_call_end|>\n", "\n")])
def test_one_closer_or_token_behind_a_call_is_left_over(text: str, rest: str) -> None:
    """F3, F18."""
    found = outcome(LEFTOVER.parse, text)
    assert (found.given, found.rest) == ((), rest)
    assert outcome(LEFTOVER.parse, f"x{text}").given is None


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
        assert found.text == lead


def test_a_forced_call_changes_the_grammar_of_the_text_alone() -> None:
    usual = grammars(json_reply=False, raw_text=False)
    forced = with_forced(usual, "read")
    assert [*forced] == [*usual]
    assert [mode for mode in forced if forced[mode] is not usual[mode]] == [TEXT]


@pytest.mark.parametrize("forced", ["", "read"])
@pytest.mark.parametrize("json_reply", [False, True])
def test_what_begins_with_no_call_is_asked_of_no_parser(json_reply: bool, forced: str) -> None:
    """The first two bytes of a reply tell it, or the one that has come."""
    found = grammars(json_reply=json_reply, raw_text=False)
    if forced:
        found = with_forced(found, forced)
    grammar, tools = found[TEXT], offered(function("read", {"path": {}}), function("über", {}))

    def is_passed(here: bytes) -> bool:
        return grammar.next_first(0, here, tools) == len(grammar.first)

    assert all(map(is_passed, (b"So", b"xx", b"0x", b"rx", b"\xc3\xb6")))
    assert not any(map(is_passed, (b" ", b"\n\n", b"<t")))
    names = (b"{", b"r", b"re", b"\xc3", b"\xc3\xbc", b"fu")
    assert [*map(is_passed, names)] == [json_reply and not forced] * len(names)
