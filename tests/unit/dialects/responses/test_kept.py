"""Requests that refer to stored responses become requests with the whole conversation."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.responses.kept import Resumed, resume
from proxy.errors import BadRequest, NotFound
from tests.support.responses_ask import assistant, user

SAID: Any = assistant("Hello", id="msg_1_0")
CALL: Any = {"type": "function_call", "id": "fc_1_1", "call_id": "c1", "name": "run", "arguments": "{}"}
FIRST: list[Any] = [user("Hi"), {"role": "user", "content": "there"}]
OWN = {"type": "message", "role": "user", "content": "Go on"}
ADVICE = "send the whole conversation; responses are kept on one host only"


class Kept:
    """One stored response that counts its lookups."""

    def __init__(self) -> None:
        self.reads = 0

    def response(self, id_: str) -> dict[str, Any] | None:
        self.reads += 1
        return {"id": "resp_1", "output": [SAID, CALL]} if id_ == "resp_1" else None

    def input_of(self, id_: str) -> list[Any]:
        return FIRST if id_ == "resp_1" else []


def resumed(given: Any = "Go on", **fields: Any) -> Resumed:
    return resume({"model": "m", "input": given, **fields}, Kept())


@pytest.mark.parametrize(
    ("reference", "item"), [({"type": "item_reference", "id": "msg_1_0"}, SAID), ({"id": "fc_1_1"}, CALL)]
)
def test_a_reference_is_replaced_by_its_item(reference: dict[str, Any], item: dict[str, Any]) -> None:
    assert resumed([reference, OWN]).body["input"] == [item, OWN]


def test_a_response_is_read_once_for_all_references_to_it() -> None:
    kept = Kept()
    references: list[Any] = [{"type": "item_reference", "id": id_} for id_ in ("msg_1_0", "fc_1_1") * 50]
    assert resume({"model": "m", "input": references}, kept).body["input"] == [SAID, CALL] * 50
    assert kept.reads == 1


@pytest.mark.parametrize("id_", ["msg_1_7", "msg_2_0", "msg", "msg_1", "x_resp_1_0", "_", "\ud800"])
def test_an_unknown_reference_is_refused_with_its_position(id_: str) -> None:
    with pytest.raises(NotFound, match=rf"input\.1: the item .* is not kept here: {ADVICE}") as caught:
        resumed([OWN, {"type": "item_reference", "id": id_}])
    assert (caught.value.status, caught.value.param) == (404, "input.1")


@pytest.mark.parametrize("fields", [{"previous_response_id": 7}, {"store": "yes"}])
def test_a_value_of_the_wrong_type_is_a_bad_request(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        resumed(**fields)
