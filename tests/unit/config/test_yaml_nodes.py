"""Reading YAML without its traps: what each node may be, and where it stands if it is not."""

from __future__ import annotations

import pytest
from yaml.nodes import Node

from proxy.codec.json_text import Json
from proxy.config.yaml_nodes import (
    MAX_NODES,
    MAX_VALUE,
    choice,
    compose,
    mapping,
    nearest,
    node_error,
    scalar,
    sequence,
    shown,
    text_of,
    value,
)
from proxy.errors import RulesError


def node(text: str) -> Node:
    found = compose(text.encode(), "f")
    assert found is not None
    return found


def refused(text: str) -> str:
    """The line with which the text is refused as a JSON value."""
    with pytest.raises(RulesError) as caught:
        value(node(text), "it")
    assert "\n" not in caught.value.message
    return caught.value.message


def test_an_empty_file_has_no_root() -> None:
    assert compose(b"", "f") is None and compose(b"# nothing\n", "f") is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("'true'", "true"),
        ("null", None),
        ("Null", None),
        ("~", None),
        ("''", ""),
        ('"yes"', "yes"),
        ("'2026-01-01'", "2026-01-01"),
        ("0", 0),
        ("-7", -7),
        ("'7'", "7"),
        ("1.5", 1.5),
        ("-2e3", -2000.0),
        ("a b", "a b"),
        ("yesterday", "yesterday"),
        ("y", "y"),
        ("'a\n\n  b'", "a\nb"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("[1, [a], {b: null, '7': false}]", [1, ["a"], {"b": None, "7": False}]),
        ("[]", []),
        ("{}", {}),
    ],
)
def test_a_value_is_what_it_says(text: str, meant: Json) -> None:
    found = value(node(text), "it")
    assert found == meant and repr(found) == repr(meant)


@pytest.mark.parametrize("word", ["yes", "Yes", "NO", "on", "Off"])
def test_a_plain_yes_or_no_is_refused_where_a_value_stands(word: str) -> None:
    remedy = f"write true or false, or {word!r} in quotes"
    assert refused(word) == f"f:1: it cannot be {word!r} as it stands; {remedy}"
    assert refused(f"[1,\n  {{a: {word}}}]").startswith("f:2: 'a' of an item of it cannot be")


@pytest.mark.parametrize(
    "word",
    ["010", "-007", "0x10", "1_000", "1:30", "2026-01-01", ".inf", "-.INF", ".nan", "1e999", "9" * 30, "=", "<<"],
)
def test_a_plain_word_that_other_readers_take_otherwise_is_refused(word: str) -> None:
    assert "write a plain number, or put it in quotes" in refused(word)
    assert value(node(f"'{word}'"), "it") == word


def test_a_long_value_is_refused() -> None:
    assert value(node(f"'{'a' * (MAX_VALUE - 2)}'"), "it") == "a" * (MAX_VALUE - 2)
    assert "it is over 16384 characters long; shorten it" in refused(f"'{'a' * MAX_VALUE}'")
    assert "over 16384" in refused(f"[{'1, ' * MAX_VALUE}]")


@pytest.mark.once
def test_a_file_of_very_many_nodes_is_refused() -> None:
    assert node(f"[{'0,' * (MAX_NODES - 1)}]") is not None
    with pytest.raises(RulesError, match="f:1: there are over 30000 words, lists and mappings; shorten the file"):
        node(f"[{'0,' * MAX_NODES}]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a:\n- "\\U00110000"\n', "f:2: an escape of no character; write the character"),
        ('a:\n- "\\Uffffffff"\n', "f:2: an escape of no character; write the character"),
        ('a:\n- "\\ud800"\n', "f:2: half a character, as an escape; write the character itself"),
        ('"\\udfff": 1', "f:1: half a character, as an escape; write the character itself"),
    ],
)
def test_an_escape_of_no_character_is_refused(text: str, message: str) -> None:
    with pytest.raises(RulesError) as caught:
        compose(text.encode(), "f")
    assert caught.value.message == message


def test_a_key_twice_in_a_value_is_refused() -> None:
    assert "'a' is twice in it (first in line 1); keep one" in refused("{a: 1, a: 2}")


def test_a_scalar_is_a_truth_a_number_or_text() -> None:
    scalars = sequence(node("[TRUE, false, 7, 1.5, no, '7', '']"), "it", lambda item, _: scalar(item))  # type: ignore[arg-type]
    assert scalars == (True, False, 7, 1.5, "no", "7", "")


def test_null_is_an_empty_mapping_and_an_empty_list_and_no_text() -> None:
    assert mapping(node("null"), "it") == {} and sequence(node("~"), "it", text_of) == ()
    with pytest.raises(RulesError, match="it must be a text of 1 to 200 characters; write one"):
        text_of(node("null"), "it")


def test_a_text_has_its_lengths() -> None:
    assert text_of(node("''"), "it", empty=True) == ""
    assert text_of(node("a" * 300), "it", longest=300) == "a" * 300
    for text in ("''", "a" * 201, "[a]", "{a: b}"):
        with pytest.raises(RulesError, match="it must be a text of 1 to 200"):
            text_of(node(text), "it")


def test_a_choice_is_one_of_its_words() -> None:
    assert choice(node("b"), "it", ("a", "b")) == "b"
    with pytest.raises(RulesError, match="f:1: it cannot be 'c'; use a, b"):
        choice(node("c"), "it", ("a", "b"))


def test_an_error_tells_the_line_of_its_node() -> None:
    keys = mapping(node("a: 1\nb: 2\n"), "it")
    assert node_error(keys["b"], "wrong; right").message == "f:2: wrong; right"


def test_the_nearest_words_are_told_or_all() -> None:
    assert nearest("pasre", ("parse", "match")) == "parse"
    assert nearest("zzz", ("parse", "match")) == "parse, match"
    assert shown("a\nb") == r"'a\nb'" and len(shown("a" * 500)) == 80
