"""Call ids and reasoning signatures of Messages clients (F8, F48, C5, C8)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.base import REASONING_FIELDS
from proxy.dialects.messages.ids import client_id, server_id, signature, signed_field
from tests.support.rows import rows

CLIENTS = re.compile(r"toolu_[A-Za-z0-9_-]+")
ANY = st.text(st.characters(exclude_categories=()))


@rows(__file__, "server,client")
def test_client_ids_of_server_ids_are_stable(server: str, client: str) -> None:
    """The ids are literals because later versions must read the ids of running conversations."""
    assert client_id(server) == client
    assert server_id(client) == server


@given(ANY)
def test_each_id_is_restored(server: str) -> None:
    client = client_id(server)
    assert CLIENTS.fullmatch(client)
    assert server_id(client) == server


@pytest.mark.parametrize("code", ["b64-A", "b64-!!", "b64-_w", "b64-Zm9=", "b64-Zm9", "b64-ü"])
def test_an_id_that_only_looks_escaped_is_unchanged(code: str) -> None:
    """Invalid base64, invalid UTF-8 or another encoding is not an error: clients may invent ids."""
    assert server_id(f"toolu_{code}") == code


@pytest.mark.parametrize("field", REASONING_FIELDS)
def test_a_signature_names_the_reasoning_field(field: str) -> None:
    assert signed_field(signature(field)) == field
