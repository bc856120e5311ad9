"""The model cards of the upstream, and the name under which a model is requested."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.config.rules import Rules, parse_rules
from proxy.errors import NotFound
from proxy.upstream.model_list import ModelCard, completed_list, listed_aliases, read_cards, served_name
from tests.support.rows import rows

# vLLM 0.32 with two names of one model and a LoRA adapter.
VLLM = {
    "object": "list",
    "data": [
        {
            **{"id": name, "object": "model", "created": 1795223438, "owned_by": "vllm", "root": root},
            **{"parent": parent, "max_model_len": 131072, "permission": [{"id": "modelperm-1", "allow_view": True}]},
        }
        for name, root, parent in (
            ("qwen", "/models/qwen", None),
            ("qwen-again", "/models/qwen", None),
            ("sql", "/adapters/sql", "qwen"),
        )
    ],
}


def cards(*names: str, **more: Any) -> tuple[ModelCard, ...]:
    return tuple(ModelCard(name, **more) for name in names)


def rules(text: str = "") -> Rules:
    return parse_rules(text.encode(), "r.yaml")


def read(body: object) -> tuple[ModelCard, ...]:
    return read_cards(json.dumps(body).encode())


def test_vllms_cards_are_read() -> None:
    assert read(VLLM) == (
        ModelCard("qwen", "vllm", "/models/qwen", "", 131072, 1795223438),
        ModelCard("qwen-again", "vllm", "/models/qwen", "", 131072, 1795223438),
        ModelCard("sql", "vllm", "/adapters/sql", "qwen", 131072, 1795223438),
    )


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"no JSON", b"[" * 100_000, b"\xff", b"null", b"[]", b"5", b"{}", b'{"data":5}', b'{"data":{}}'),
        *(b'{"data":[]}', b'{"data":[5, null, [], {}]}', b'{"data":[{"id":""}]}', b'{"data":[{"id":5}]}'),
        *(b'{"data":[{"owned_by":"vllm"}]}', b'{"error":{"message":"Unauthorized"}}', b'{"data":[{"id":"cut off'),
    ],
)
def test_a_body_without_a_list_of_models_has_no_cards(body: bytes) -> None:
    assert read_cards(body) == ()


@rows(__file__, "fields,card")
def test_an_invalid_field_counts_as_missing(fields: dict[str, object], card: dict[str, Any]) -> None:
    assert read({"data": [{"id": "m", **fields}]}) == (ModelCard("m", **card),)


def test_invalid_cards_are_skipped_and_the_others_keep_their_order() -> None:
    assert [card.id for card in read({"data": [{"id": "b"}, 5, {"id": None}, {"id": "a"}]})] == ["b", "a"]


def test_the_only_model_is_used_even_if_it_has_several_names_or_adapters() -> None:
    assert served_name("claude-x", read(VLLM), rules()) == "qwen"
    assert served_name("claude-x", (ModelCard("sql", root="/a", parent="q"), ModelCard("q", root="/q")), rules()) == "q"
    assert served_name("claude-x", cards("m", "m"), rules()) == "m"


def test_a_name_that_the_server_lists_is_not_changed() -> None:
    assert served_name("claude-x", cards("a", "claude-x", "b"), rules()) == "claude-x"
    listed = (ModelCard("q"), ModelCard("r"), ModelCard("claude-lora", parent="q"))
    assert served_name("claude-lora", listed, rules()) == "claude-lora"


def test_the_message_lists_at_most_ten_printable_names() -> None:
    known = cards("x\ny\x1b[2J", "long" * 100, *(f"m{number}" for number in range(10)))
    with pytest.raises(NotFound) as caught:
        served_name("claude-\n" + "x" * 500, known, rules())
    message = caught.value.message
    assert message.isprintable() and len(message) < 600
    assert "m7 and 2 more;" in message and "m8" not in message


@rows(__file__, "aliases,listed")
def test_aliases_of_listed_models_are_listed(aliases: dict[str, str], listed: dict[str, str]) -> None:
    served = cards("Qwen/Qwen3", "small", "odd name (1)", "claude-own", max_len=4096)
    found = listed_aliases(served, rules(json.dumps({"aliases": aliases})))
    assert {card.id: card.alias_of for card in found} == listed
    assert {card.max_len for card in found} <= {4096} and all(card.root == card.alias_of for card in found)


@pytest.mark.parametrize("body", [b"no list", b'{"data": 7}', b"[]", b""])
def test_an_answer_without_a_list_is_unchanged(body: bytes) -> None:
    assert completed_list(body, cards("o"), rules("aliases: {fast: o}")) == body
