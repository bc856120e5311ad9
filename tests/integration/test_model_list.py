"""The card of a real llama.cpp server."""

from __future__ import annotations

import requests

from proxy.upstream.model_list import read_cards
from tests.support.scripted import PATIENCE


def test_a_real_llama_servers_card_is_read(llama: str) -> None:
    """Its list of `models` beside `data` counts for nothing; its context stands in `meta`."""
    answer = requests.get(f"{llama}/v1/models", timeout=PATIENCE)
    (card,) = read_cards(answer.content)
    assert (card.id, card.owner, card.root, card.parent) == ("parrot", "llamacpp", "", "")
    assert card.max_len == answer.json()["data"][0]["meta"]["n_ctx"] > 0
    assert card.created > 1_700_000_000
