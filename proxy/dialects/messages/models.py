"""`GET /v1/models` and `GET /v1/models/{id}` in Anthropic's format (F95: Claude Code requires all fields).

Fields that the model server does not report are null. A single model also has the proxy's own field `efforts`, for
`setup`. Source: the API reference, and `ModelInfo`, `SyncPage` and `ModelListParams` of the `anthropic` SDK 2.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from proxy.errors import BadRequest
from proxy.json import Json, JsonObject
from proxy.upstream.model_list import ModelCard

DEFAULT_LIMIT = 20
_MAX_LIMIT = 1000
_SHOWN = 100


def models_page(
    cards: Sequence[ModelCard], *, limit: int | str = DEFAULT_LIMIT, before_id: str = "", after_id: str = ""
) -> JsonObject:
    """Return a page of at most `limit` models: after `after_id`, before `before_id`, or from the start.

    `has_more` refers to the direction of paging. Raises BadRequest for a limit outside 1 to 1000 and an unknown id.
    """
    text = str(limit) or str(DEFAULT_LIMIT)
    size = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0
    if not 1 <= size <= _MAX_LIMIT:
        raise BadRequest(f"limit: it must be a whole number from 1 to {_MAX_LIMIT}")
    # A duplicate name would make a client page in circles.
    unique = list({card.id: card for card in cards}.values())
    start = _place(unique, after_id, "after_id") + 1 if after_id else 0
    asked = unique[start : _place(unique, before_id, "before_id") if before_id else None]
    page = asked[-size:] if before_id else asked[:size]
    data: list[Json] = [model_info(card) for card in page]
    first, last = (page[0].id, page[-1].id) if page else (None, None)
    return {"data": data, "has_more": len(asked) > size, "first_id": first, "last_id": last}


def model_info(card: ModelCard, id: str = "", efforts: Sequence[str] | None = None) -> JsonObject:
    """Return one model. `id`: the client's name, if it differs from the card's. `efforts`: the effort words it
    supports.
    """
    info: JsonObject = {
        "type": "model",
        "id": id or card.id,
        "display_name": card.alias_of or card.id,
        # RFC 3339; 1970 for an unknown date, as in the API.
        "created_at": datetime.fromtimestamp(card.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "line": None,
        "capabilities": None,
        "max_input_tokens": card.max_len,
        "max_tokens": None,
        "deprecated_at": None,
        "retires_at": None,
    }
    return info if efforts is None else {**info, "efforts": [*efforts]}


def _place(cards: Sequence[ModelCard], id: str, what: str) -> int:
    for place, card in enumerate(cards):
        if card.id == id:
            return place
    raise BadRequest(f"{what}: there is no model {id[:_SHOWN]!r} in the list; begin again without it")
