"""`GET /v1/models` and `GET /v1/models/{id}` in Anthropic's format (F95: Claude Code requires all fields).

Fields that the model server does not report are null. A single model also has the proxy's own field `efforts`, for
`setup`. Source: the API reference, and `ModelInfo` and `SyncPage` of the `anthropic` SDK 2.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from proxy.json import JsonObject
from proxy.upstream.model_list import ModelCard


def models_page(cards: Sequence[ModelCard]) -> JsonObject:
    """Return all models, each name once, as the only page."""
    unique = {card.id: card for card in cards}
    ids = [*unique]
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"data": [*map(model_info, unique.values())], "has_more": False, "first_id": first, "last_id": last}


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
