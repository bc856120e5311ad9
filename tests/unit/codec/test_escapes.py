"""Escapes are undone, layer by layer, and each place is known in the data."""

from __future__ import annotations

import pytest

from proxy.codec.escapes import layers, undone


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        *((rb"a\u002bb", b"a+b"), (rb"a\x2Bb", b"a+b"), (rb"a\U0000002bb", b"a+b"), (rb"a\u{2b}b", b"a+b")),
        *((b"a%2Bb", b"a+b"), (b"a%u002bb", b"a+b"), (b"a&#43;b", b"a+b"), (b"a&#043b", b"a+b")),
        *((b"a&#x2b;b", b"a+b"), (b"a&plus;b", b"a+b"), (rb"a\/b", b"a/b"), (rb"a\\\/b", b"a/b")),
        *((rb"a\\u002bb", b"a+b"), (rb"a\\\u002bb", rb"a\\+b")),
        # None of these is a byte, or an escape at all.
        *((rb"\u4e2d", rb"\u4e2d"), (b"&#300;", b"&#300;"), (b"&nothing;", b"&nothing;"), (b"100% &", b"100% &")),
    ],
)
def test_each_way_of_escaping_is_undone_once(data: bytes, plain: bytes) -> None:
    assert undone(data) == plain


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"%252B", [b"%252B", b"%2B", b"+"]),
        (b"&amp;#43;", [b"&amp;#43;", b"&#43;", b"+"]),
        (rb"\u0026#43;", [rb"\u0026#43;", b"&#43;", b"+"]),
        (b"plain", [b"plain"]),
        (b"%25252525252525252B", [b"%25" + b"25" * left + b"2B" for left in (7, 6, 5, 4, 3)]),
    ],
)
def test_escapes_within_escapes_come_to_light_one_after_the_other(data: bytes, texts: list[bytes]) -> None:
    """Five layers at most."""
    assert [layer.text for layer in layers(data, ended=True)] == texts


@pytest.mark.parametrize("data", [b"ab%2", rb"ab\u00", b"ab&#4", b"ab&plu", b"ab\\", b"ab%"])
def test_the_beginning_of_one_at_the_end_is_left_open(data: bytes) -> None:
    (layer,) = layers(data, ended=False)
    assert (layer.text, layer.open) == (b"ab", 2)
    whole = next(layers(data, ended=True))
    assert (whole.text, whole.open) == (data, len(data))


def test_each_place_in_a_layer_is_known_in_the_data() -> None:
    data = b"a%252Bc&#43;d"
    first, second, third = layers(data, ended=True)
    assert (first.text, second.text, third.text) == (data, b"a%2Bc+d", b"a+c+d")
    assert [third.position_of(at) for at in range(len(third.text) + 1)] == [0, 1, 6, 7, 12, 13]
