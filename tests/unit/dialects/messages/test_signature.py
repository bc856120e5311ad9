"""The signature of a thinking block: the field in which the server said it, and a mark of its integrity."""

from __future__ import annotations

import base64

import pytest

from proxy.dialects.messages.signature import FIELDS, Signature, signed_field

TEXT = "So, I look.\n\ud83d"


def signed(field: str, *parts: str) -> str:
    made = Signature()
    for part in parts:
        made.add(part)
    return made.sign(field)


@pytest.mark.parametrize("field", FIELDS)
def test_a_signature_names_the_field_of_its_text(field: str) -> None:
    """The same at every cut."""
    assert signed(field, *TEXT) == signed(field, TEXT)
    assert signed_field(signed(field, TEXT), TEXT) == field


def test_what_is_not_its_own_names_none() -> None:
    good = signed("reasoning", TEXT)
    data = bytearray(base64.b64decode(good))
    data[0] = 2
    other = [base64.b64encode(each).decode() for each in (bytes(data), b"\x09" * 24)]
    foreign = ["", "EqQBCkYIBxgCKkBs", "no base64", *other]
    assert [signed_field(each, TEXT) for each in foreign] == [""] * len(foreign)
    assert signed_field(good, TEXT + " ") == ""


def test_a_field_that_nobody_knows_is_none() -> None:
    assert signed_field(signed("thoughts", TEXT), TEXT) == ""
