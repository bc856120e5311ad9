"""Requests that refer to stored responses: `previous_response_id`, item references.

They are expanded to the whole conversation, so the rest of the translation does not need the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from msgspec import Struct

from proxy.dialects.responses.request import item_kind
from proxy.dialects.translation import Lost, shown
from proxy.errors import NotFound, ResponseNotFound
from proxy.json import Json, JsonObject, as_list, as_text, objects_in

# Advice for clients that refer to something that is not stored.
ADVICE = "send the whole conversation; responses are kept on one host only"


class State(Struct):
    """The fields of a request that may refer to stored responses."""

    input: str | list[Any]
    store: bool | None = None
    previous_response_id: str | None = None


class Kept(Protocol):
    """The stored responses of the key that sent the request."""

    def response(self, id_: str) -> JsonObject | None:
        """Return the stored response with this id, or None."""

    def input_of(self, id_: str) -> list[Json]:
        """Return the whole input of the response with this id, as items."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A request without references: the input in `body` is the whole conversation, as items.

    `echo` holds the response fields about storage; `keep` is whether to store the response.
    """

    body: JsonObject
    echo: JsonObject = field(default_factory=dict)
    keep: bool = False


def resume(body: JsonObject, kept: Kept | None) -> Resumed:
    """Return the request with all references expanded; unchanged if `kept` is None.

    Raises NotFound for anything that is not stored.
    """
    if kept is None:
        return Resumed(body)
    state = Lost().read(body, State)
    find, previous, given = cache(kept.response), state.previous_response_id, state.input
    items: list[Json] = []
    if previous:
        response = find(previous)
        if response is None:
            words = f"previous_response_id: {shown(previous)} is not kept here: {ADVICE}"
            raise ResponseNotFound(words, "previous_response_id")
        items = [*kept.input_of(previous), *as_list(response.get("output"))]
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    for at, item in enumerate(given):
        where = f"input.{at}"
        if item_kind(item, where) != "item_reference":
            items.append(item)
            continue
        id_ = as_text(item.get("id")) if isinstance(item, dict) else ""
        # An item's id starts with its kind and the id of its response: `msg_ID_0`.
        _, _, rest = id_.partition("_")
        response = find(f"resp_{rest.partition('_')[0]}") or {}
        found = next((one for one in objects_in(response.get("output")) if one.get("id") == id_), None)
        if found is None:
            raise NotFound(f"{where}: the item {shown(id_)} is not kept here: {ADVICE}", where)
        items.append(found)
    # As in the API, where `store` is true by default.
    keep = state.store is not False
    stateless = {name: value for name, value in body.items() if name not in ("store", "previous_response_id")}
    echo: JsonObject = {"store": keep, "previous_response_id": previous or None}
    return Resumed({**stateless, "input": items}, echo, keep)
