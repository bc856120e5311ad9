"""Where a request goes, and what tells its conversation."""

from __future__ import annotations

import re

import pytest

from proxy.codec.json_text import JsonObject
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.exchange.routing import choose_server, conversation_of, server_of

RULES = parse_rules(b"models: [{match: 'a*', url: http://a}, {match: 'b*'}, {match: '?', url: http://one}]", "r.yaml")


@pytest.mark.parametrize(
    ("model", "url"),
    [("ab", "http://a"), ("b", "http://usual"), ("", "http://usual"), ("y", "http://one"), (None, "http://usual")],
)
def test_a_model_goes_to_its_own_server_and_all_others_to_that_of_the_settings(model: str | None, url: str) -> None:
    assert choose_server(model, RULES, Settings(upstream="http://usual")) == url


def test_an_entry_of_the_rules_has_a_server_also_where_an_earlier_one_takes_its_models() -> None:
    settings = Settings(upstream="http://usual")
    assert [server_of(entry, settings) for entry in RULES.models] == ["http://a", "http://usual", "http://one"]


def test_a_conversation_is_told_by_a_digest_of_its_beginning() -> None:
    first: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "secret words"}]}
    later: JsonObject = {"model": "m", "messages": [*first["messages"], {"role": "user", "content": "b"}]}  # type: ignore[misc]
    assert conversation_of(first) == conversation_of(later)
    assert re.fullmatch("[0-9a-f]{32}", conversation_of(first))
    assert conversation_of({**first, "model": None}) != conversation_of(first)


@pytest.mark.parametrize("body", [{}, {"messages": [{"role": "user", "content": ""}]}, {"model": "m"}])
def test_without_words_there_is_no_conversation(body: JsonObject) -> None:
    assert conversation_of(body) == ""
