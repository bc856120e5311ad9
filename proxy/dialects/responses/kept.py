"""Requests that refer to kept responses: `previous_response_id`, item references.

They become requests that hold the whole conversation; the rest of the translation knows of no store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from proxy.codec.json_access import as_list, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.responses.items import input_items, kind_of
from proxy.dialects.validation import BODY, flag, nonempty_string, optional, shown
from proxy.errors import NotFound, ResponseNotFound

# What a client does that refers to something that is not here.
ADVICE = "send the whole conversation; responses are kept on one host only"
# The fields that need a store.
_STATE = ("store", "previous_response_id")


class Kept(Protocol):
    """The responses kept for the key that sent the request."""

    def response(self, id_: str) -> JsonObject | None:
        """Return the response of this id, or None if there is none."""

    def input_of(self, id_: str) -> list[Json]:
        """Return the whole input of the response of this id, as items."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A request without state: `body` holds the whole conversation, and so do `items`, its input as items.

    `echo` holds the fields of the response that say what is kept; `keep` is whether to keep the response.
    """

    body: JsonObject
    items: list[Json] = field(default_factory=list)
    echo: JsonObject = field(default_factory=dict)
    keep: bool = False


def resume(body: JsonObject, kept: Kept) -> Resumed:
    """Return the request with everything that it refers to. Raises NotFound for what is not kept."""
    find = cache(kept.response)
    previous = optional(body, "previous_response_id", BODY)
    items: list[Json] = []
    if previous:
        response = find(previous)
        if response is None:
            words = f"previous_response_id: {shown(previous)} is not kept here: {ADVICE}"
            raise ResponseNotFound(words, "previous_response_id")
        items = [*kept.input_of(previous), *as_list(response.get("output"))]
    items += _own_items(body, find)
    # As in the API, where `store` is true by default.
    keep = body.get("store") is None or flag(body, "store", BODY)
    echo: JsonObject = {"store": keep, "previous_response_id": previous or None}
    stateless = {name: value for name, value in body.items() if name not in _STATE}
    return Resumed({**stateless, "input": items}, items, echo, keep)


def _own_items(body: JsonObject, find: Callable[[str], JsonObject | None]) -> list[Json]:
    """Return the request's own items with each reference replaced by its item."""
    items: list[Json] = []
    for item, path in input_items(body):
        if kind_of(item, path) != "item_reference":
            items.append(item)
            continue
        id_ = nonempty_string(item, "id", path)
        # An item's id begins with its kind and the id of its response: `msg_ID_0`.
        _, _, rest = id_.partition("_")
        response = find(f"resp_{rest.partition('_')[0]}") or {}
        found = next((one for one in objects_in(response.get("output")) if one.get("id") == id_), None)
        if found is None:
            raise NotFound(f"{path.where}: the item {shown(id_)} is not kept here: {ADVICE}", path.where)
        items.append(found)
    return items
