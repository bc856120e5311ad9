"""The sign-in form: which key it says, in which bytes."""

from __future__ import annotations

import pytest

from proxy.ui.sign_in import MAX_FORM, given_key


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b"key=secret", b"secret"),
        (b"key=+secret%0D%0A", b"secret"),
        (b"key=a%2Bb%26c%3Dd", b"a+b&c=d"),
        (b"key=%C3%BC", "ü".encode()),
        (b"other=1&key=secret", b"secret"),
        (b"key=a&key=b", b"b"),
        (b"", b""),
        (b"key=", b""),
        (b"key", b""),
        (b"\xff\xfe", b""),
        (b"a=1&" * 10 + b"key=secret", b""),
        (b"key=" + b"x" * MAX_FORM, b""),
    ],
)
def test_the_key_is_what_the_field_says(body: bytes, key: bytes) -> None:
    assert given_key(body) == key
