"""Requests that go on from what is kept: they become requests that hold the whole conversation."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.responses.kept import Resumed, listed, page, resume
from proxy.errors import BadRequest, ResponseNotFound
from tests.support.responses_ask import assistant, user

SAID: Any = assistant("Hello", id="msg_1_0")
CALL: Any = {"type": "function_call", "id": "fc_1_1", "call_id": "c1", "name": "run", "arguments": "{}"}
FIRST: list[Any] = [user("Hi"), {"role": "user", "content": "there"}]


class Kept:
    """One response."""

    def response(self, id_: str) -> dict[str, Any] | None:
        return {"id": "resp_1", "output": [SAID, CALL]} if id_ == "resp_1" else None

    def input_of(self, id_: str) -> list[Any]:
        return FIRST if id_ == "resp_1" else []


def resumed(given: Any = "Go on", **fields: Any) -> Resumed:
    return resume({"model": "m", "input": given, **fields}, Kept())


OWN = {"type": "message", "role": "user", "content": "Go on"}


def test_the_input_is_the_whole_conversation() -> None:
    """And nothing of the state is left in the request, for the translation would refuse it."""
    found = resumed(previous_response_id="resp_1")
    assert found.items == [*FIRST, SAID, CALL, OWN]
    assert found.body == {"model": "m", "input": found.items}


def test_a_response_that_is_not_kept_is_told_by_its_code() -> None:
    with pytest.raises(ResponseNotFound, match="'resp_2' is not kept here; send the whole conversation") as caught:
        resumed(previous_response_id="resp_2")
    assert caught.value.code == "previous_response_not_found"


@pytest.mark.parametrize(
    ("reference", "item"),
    [
        ({"type": "item_reference", "id": "msg_1_0"}, SAID),
        ({"id": "fc_1_1"}, CALL),
        ({"type": "item_reference", "id": "msg_1_in1"}, listed("resp_1", FIRST)[1]),
    ],
)
def test_a_reference_is_the_item_that_it_means(reference: dict[str, Any], item: dict[str, Any]) -> None:
    """One of an answer, or of what `input_items` lists."""
    assert resumed([reference, OWN]).items == [item, OWN]


@pytest.mark.parametrize("id_", ["msg_1_7", "msg_2_0", "msg", "msg_1", "x_resp_1_0"])
def test_a_reference_to_nothing_is_refused_at_its_place(id_: str) -> None:
    with pytest.raises(BadRequest, match=r"input\.1: the item .* is not kept here"):
        resumed([OWN, {"type": "item_reference", "id": id_}])


@pytest.mark.parametrize(("store", "keep"), [(None, True), (True, True), (False, False)])
def test_a_response_is_kept_unless_the_client_does_not_want_it(store: bool | None, keep: bool) -> None:
    """As in the API, where `store` is true by default."""
    found = resumed(store=store)
    assert (found.keep, found.echo["store"]) == (keep, keep)


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": 7},
        {"store": "yes"},
    ],
)
def test_what_cannot_be_is_a_bad_request(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        resumed(**fields)


def test_items_are_listed_with_ids_and_parts() -> None:
    """Ids stay, and are told apart by the response."""
    found: list[Any] = [*listed("resp_1", [*FIRST, SAID, CALL])]
    assert [item["id"] for item in found] == ["msg_1_in0", "msg_1_in1", "msg_1_0", "fc_1_1"]
    assert found[1]["content"] == [{"type": "input_text", "text": "there"}]
    assert [item["type"] for item in found] == ["message", "message", "message", "function_call"]


ITEMS: list[Any] = [{"id": f"msg_1_in{number}"} for number in range(5)]


@pytest.mark.parametrize(
    ("asked", "numbers", "more"),
    [
        ({}, [4, 3, 2, 1, 0], False),
        ({"order": "asc", "limit": "2"}, [0, 1], True),
        ({"order": "asc", "after": "msg_1_in1"}, [2, 3, 4], False),
        ({"after": "msg_1_in1", "limit": "1"}, [0], False),
        ({"order": "asc", "after": "msg_1_in4"}, [], False),
    ],
)
def test_a_page_is_what_was_asked_for(asked: dict[str, str], numbers: list[int], more: bool) -> None:
    found: dict[str, Any] = page(ITEMS, **{"limit": "", "after": "", "order": "", **asked})
    assert [item["id"] for item in found["data"]] == [f"msg_1_in{number}" for number in numbers]
    ends = [found["data"][0]["id"], found["data"][-1]["id"]] if numbers else [None, None]
    assert [found["first_id"], found["last_id"], found["has_more"]] == [*ends, more]


@pytest.mark.parametrize(
    "asked",
    [
        *({"limit": limit} for limit in ("0", "101", "x", "9" * 5000, "\u0663", "\u00b2")),
        {"order": "up"},
        {"after": "x"},
    ],
)
def test_a_page_that_cannot_be_is_a_bad_request(asked: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        page(ITEMS, **{"limit": "", "after": "", "order": "", **asked})
