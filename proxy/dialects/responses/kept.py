"""Requests that go on from what is kept: `previous_response_id`, item references.

They become requests that hold the whole conversation; the rest of the translation knows nothing of a store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from proxy.codec.json_access import as_list, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.responses.items import input_items, kind_of
from proxy.dialects.validation import BODY, flag, nonempty_string, optional, shown
from proxy.errors import ResponseNotFound

# The fields that say what is kept, and from where it goes on.
_STATE = ("store", "previous_response_id")
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_MAX_PAGE = 100
_PAGE = 20
# Digits of a number that could be one.
_LONGEST = 5


class Kept(Protocol):
    """The responses that are kept for the key that asks."""

    def response(self, id_: str) -> JsonObject | None:
        """The response of this id; None if there is none."""

    def input_of(self, id_: str) -> list[Json]:
        """Its whole input, as items."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A request without state: `body` holds the whole conversation, and so do `items`, its input as items.

    `echo` are the fields of the response that say what is kept. `keep`: the response is to be kept.
    """

    body: JsonObject
    items: list[Json] = field(default_factory=list)
    echo: JsonObject = field(default_factory=dict)
    keep: bool = False


def resume(body: JsonObject, kept: Kept) -> Resumed:
    """The request with all that it goes on from. BadRequest for what is not kept."""
    previous = optional(body, "previous_response_id", BODY)
    if previous and kept.response(previous) is None:
        words = f"previous_response_id: {shown(previous)} is not kept here; send the whole conversation as `input`"
        raise ResponseNotFound(words, "previous_response_id")
    items = [*_up_to(previous, kept), *_own_items(body, kept)]
    # As in the API, where `store` is true by default.
    keep = body.get("store") is None or flag(body, "store", BODY)
    echo: JsonObject = {"store": keep, "previous_response_id": previous or None}
    stateless = {name: value for name, value in body.items() if name not in _STATE}
    return Resumed({**stateless, "input": items}, items, echo, keep)


def _up_to(id_: str, kept: Kept) -> list[Json]:
    """Return all items up to the end of a response."""
    response = kept.response(id_) if id_ else None
    return [] if response is None else [*kept.input_of(id_), *as_list(response.get("output"))]


def _own_items(body: JsonObject, kept: Kept) -> list[Json]:
    """The request's own items, each reference replaced by what it means."""
    items: list[Json] = []
    for item, path in input_items(body):
        if kind_of(item, path) != "item_reference":
            items.append(item)
            continue
        id_ = nonempty_string(item, "id", path)
        kept_item = _item(id_, kept)
        if kept_item is None:
            raise path.bad(f"the item {shown(id_)} is not kept here; send the item itself")
        items.append(kept_item)
    return items


def _item(id_: str, kept: Kept) -> JsonObject | None:
    """An item by its id, which begins, behind its kind, with that of its response: `msg_ID_0`."""
    parts = id_.split("_")
    response_id = f"resp_{parts[1]}" if len(parts) > 2 else ""
    response = kept.response(response_id) if response_id else None
    if response is None:
        return None
    items = [*objects_in(response.get("output")), *listed(response_id, kept.input_of(response_id))]
    return next((item for item in items if item.get("id") == id_), None)


def listed(response_id: str, items: list[Json]) -> list[JsonObject]:
    """The input of a response as `input_items` lists it: each item with an id, each text as a part."""
    return [_with_id(response_id, index, item) for index, item in enumerate(objects_in(items))]


def _with_id(response_id: str, index: int, item: JsonObject) -> JsonObject:
    kind = item.get("type") or "message"
    listed_item: JsonObject = {**item, "type": kind}
    if not item.get("id"):
        prefix = _PREFIXES.get(str(kind), "item")
        listed_item["id"] = f"{prefix}_{response_id.removeprefix('resp_')}_in{index}"
    if kind == "message":
        listed_item.setdefault("status", "completed")
        content = item.get("content")
        if isinstance(content, str):
            part = "output_text" if item.get("role") == "assistant" else "input_text"
            listed_item["content"] = [{"type": part, "text": content}]
    return listed_item


def page(items: list[JsonObject], *, limit: str, after: str, order: str) -> JsonObject:
    """A page of `input_items`: newest first unless it is asked otherwise. BadRequest for a page that cannot be."""
    size = _page_size(limit)
    if order not in ("", "asc", "desc"):
        raise BODY.field("order").bad(f"{shown(order)} is none of asc, desc")
    ordered = items if order == "asc" else items[::-1]
    rest = _behind(ordered, after)
    data = rest[:size]
    ends: JsonObject = {"first_id": None, "last_id": None}
    if data:
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
    return {"object": "list", "data": [*data], **ends, "has_more": len(rest) > size}


def _page_size(limit: str) -> int:
    """The most items that a page may have."""
    size = _PAGE
    if limit:
        size = int(limit) if limit.isascii() and limit.isdecimal() and len(limit) < _LONGEST else 0
    if not 1 <= size <= _MAX_PAGE:
        raise BODY.field("limit").bad(f"must be a whole number from 1 to {_MAX_PAGE}")
    return size


def _behind(items: list[JsonObject], id_: str) -> list[JsonObject]:
    """The items behind the one of this id; all of them for ""."""
    if not id_:
        return items
    ids = [item["id"] for item in items]
    if id_ not in ids:
        raise BODY.field("after").bad(f"{shown(id_)} is none of the items")
    return items[ids.index(id_) + 1 :]
