"""Ids of calls and signatures of reasoning, as Messages clients have them (F8, F48, C5, C8)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.messages.ids import FIELDS, client_id, server_id, signature, signed_field

CLIENTS = re.compile(r"toolu_[A-Za-z0-9_-]+")
ANY = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("call_abc123", "toolu_call_abc123"),
        ("chatcmpl-tool-0f", "toolu_chatcmpl-tool-0f"),
        ("toolu_01A", "toolu_toolu_01A"),
        ("9QnVRnDzK", "toolu_9QnVRnDzK"),
        ("functions.bash:0", "toolu_b64-ZnVuY3Rpb25zLmJhc2g6MA"),
        ("b64-x", "toolu_b64-YjY0LXg"),
        ("", "toolu_b64-"),
        ("grüß", "toolu_b64-Z3LDvMOf"),
        ("call_1\n", "toolu_b64-Y2FsbF8xCg"),
    ],
)
def test_what_servers_give_and_what_clients_get(server: str, client: str) -> None:
    """Written out, because ids of conversations that are under way must still be read by a later version."""
    assert client_id(server) == client
    assert server_id(client) == server


@given(ANY)
def test_each_id_comes_back_as_it_was(server: str) -> None:
    client = client_id(server)
    assert CLIENTS.fullmatch(client)
    assert server_id(client) == server


@pytest.mark.parametrize("code", ["b64-A", "b64-!!", "b64-_w", "b64-Zm9=", "b64-Zm9", "b64-ü"])
def test_what_only_looks_escaped_stays_as_it_is(code: str) -> None:
    """No base64, no UTF-8, or not as it would be written here: never an error, for clients may make up ids."""
    assert server_id(f"toolu_{code}") == code


@pytest.mark.parametrize("field", FIELDS)
def test_a_signature_names_the_field_of_its_reasoning(field: str) -> None:
    assert signed_field(signature(field)) == field
