"""What every part of a Messages request is read with: places, checks, and the account of what is lost (C6, C7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.validation import (
    BODY,
    MAX_KINDS,
    DroppedFields,
    flag,
    listing,
    mapping,
    nonempty_string,
    number,
    optional,
    shown,
    string,
    whole_number,
)
from proxy.errors import BadRequest

PLACE = BODY.field("messages").at(2).field("content").at(0)


def test_a_place_as_errors_and_as_records_name_it() -> None:
    assert PLACE.where == "messages.2.content.0"
    assert PLACE.kind == "messages[].content[]"
    assert PLACE.field("source").bad("is odd").message == "messages.2.content.0.source: is odd"
    assert (BODY.where, BODY.kind, BODY.bad("is odd").message) == ("", "", "is odd")


@pytest.mark.parametrize(
    ("read", "right", "wrong", "words"),
    [
        (string, ["", "a"], [1, True, [], {}], "must be a string"),
        (nonempty_string, ["a"], [1, [], {}], "must be a string"),
        (mapping, [{}, {"a": 1}], ["a", 1, []], "must be an object"),
        (listing, [[], [1]], ["a", 1, {}], "must be a list"),
        (number, [0, 1.5, -1], ["1", True, []], "must be a number"),
        (whole_number, [0, 7, 10**30], ["1", 1.0, True, []], "must be a whole number"),
    ],
)
def test_each_check_takes_its_kind_alone(
    read: Callable[..., Any], right: list[Any], wrong: list[Any], words: str
) -> None:
    for value in right:
        assert read({"field": value}, "field", PLACE) == value
    for value in wrong:
        with pytest.raises(BadRequest, match=rf"^messages\.2\.content\.0\.field: {words}$"):
            read({"field": value}, "field", PLACE)
    for missing in ({}, {"field": None}):
        with pytest.raises(BadRequest, match=r"^messages\.2\.content\.0\.field: Field required$"):
            read(missing, "field", PLACE)


def test_what_need_not_be_there() -> None:
    nothing: tuple[JsonObject, ...] = ({}, {"field": None})
    for missing in nothing:
        assert optional(missing, "field", PLACE) == ""
        assert flag(missing, "field", PLACE) is False
        assert mapping(missing, "field", PLACE, needed=False) == {}
        assert listing(missing, "field", PLACE, needed=False) == []
    assert flag({"field": True}, "field", PLACE) is True
    wrong: tuple[Json, ...] = (0, 1, "true", "false", [])
    for value in wrong:
        with pytest.raises(BadRequest, match="must be true or false"):
            flag({"field": value}, "field", PLACE)
    for read in (mapping, listing):
        with pytest.raises(BadRequest, match="field: must be"):
            read({"field": "a"}, "field", PLACE, needed=False)
    with pytest.raises(BadRequest, match="must be a string"):
        optional({"field": 1}, "field", PLACE)


def test_an_empty_word_is_none() -> None:
    with pytest.raises(BadRequest, match="field: may not be empty"):
        nonempty_string({"field": ""}, "field", PLACE)


def test_errors_show_little_of_what_the_client_wrote() -> None:
    assert shown("short") == "'short'"
    assert len(shown("a" * 10_000)) < 60
    assert shown("a\nü") == r"'a\n\xfc'"


def test_one_record_for_a_kind_with_their_number() -> None:
    losses = DroppedFields("refuse")
    for index in range(3):
        losses.leave({"a": "secret", "known": 1, "nothing": None}, {"known": ""}, BODY.field("messages").at(index))
    losses.leave({"b": 1}, {"b": "there is no b"}, BODY)
    records = losses.records()
    assert [(record.id, record.before, record.after) for record in records] == [
        ("dropped_field", "messages[].a: 3", ""),
        ("dropped_field", "b: 1", ""),
    ]
    assert records[1].why == "b: there is no b"
    assert "secret" not in repr(records)


def test_names_that_are_no_names_are_not_repeated() -> None:
    losses = DroppedFields("refuse")
    losses.leave({"a b": 1, "a\nb": 1, "x" * 1000: 1, "": 1}, {}, BODY)
    assert [record.before for record in losses.records()] == ["(odd name): 4"]


def test_the_account_is_bounded() -> None:
    """C7: a request with very many unknown fields makes no more records than this."""
    losses = DroppedFields("refuse")
    losses.leave({f"field_{index}": 1 for index in range(10_000)}, {}, BODY)
    records = losses.records()
    assert len(records) == MAX_KINDS + 1
    assert records[-1].before == f"(more): {10_000 - MAX_KINDS}"


def test_what_only_anthropics_servers_do() -> None:
    with pytest.raises(BadRequest, match=r"^messages\.2\.content\.0: a thing works only .* `server_tools: drop`"):
        DroppedFields("refuse").server_only(PLACE, "a thing")
    losses = DroppedFields("drop")
    losses.server_only(PLACE, "a thing")
    assert [record.before for record in losses.records()] == ["messages[].content[]: 1"]
