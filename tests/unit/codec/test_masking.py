"""The very secrets in bytes: found in all their forms, at every cut, and nothing else is touched or waits."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable
from itertools import cycle
from urllib.parse import quote

import pytest

from proxy.codec.masking import Mask, Masking, mask_of
from tests.support.each_case import each_case
from tests.support.helpers import RECORDINGS, all_cuts, random_cut

pytestmark = pytest.mark.once

KEY = "Key-01/23456789-abcdef"


def in_escapes(key: str, every: int, form: str = "\\u{:04x}") -> str:
    return "".join(letter if at % every else form.format(ord(letter)) for at, letter in enumerate(key))


FORMS = {
    "plain": KEY,
    "slashes": KEY.replace("/", "\\/"),
    "slashes within JSON": KEY.replace("/", "\\\\/"),
    "slashes twice": KEY.replace("/", "\\\\\\/"),
    "all": in_escapes(KEY, 1),
    "some": in_escapes(KEY, 2),
    "upper case": in_escapes(KEY, 1, "\\u{:04X}"),
    "both": in_escapes(KEY, 3).replace("/", "\\/"),
    "within JSON": in_escapes(KEY, 1, "\\\\u{:04x}"),
    "three deep": in_escapes(KEY, 1, "\\\\\\\\u{:04x}"),
}
EACH_OF_JSON = pytest.mark.parametrize("form", [*FORMS.values()], ids=[*FORMS])
FORMS |= {
    "Python": in_escapes(KEY, 2, "\\x{:02x}"),
    "Python, long": in_escapes(KEY, 3, "\\U{:08X}"),
    "braces": in_escapes(KEY, 2, "\\u{{{:x}}}"),
    "URL": in_escapes(KEY, 2, "%{:02X}"),
    "URL, lower case": in_escapes(KEY, 1, "%{:02x}"),
    "URL in URL": in_escapes(KEY, 3, "%25{:02X}"),
    "of old scripts": in_escapes(KEY, 2, "%u{:04X}"),
    "HTML": in_escapes(KEY, 1, "&#{};"),
    "HTML, hex": in_escapes(KEY, 2, "&#x{:02x};"),
    "HTML, long": in_escapes(KEY, 2, "&#X0000{:02X};"),
    "HTML, names": KEY.replace("/", "&sol;").replace("-", "&#45;"),
    "HTML in HTML": in_escapes(KEY, 2, "&amp;#{};"),
    "HTML in JSON": in_escapes(KEY, 2, "\\u0026#{};"),
    "URL in JSON": in_escapes(KEY, 3, "\\u0025{:02x}"),
    "every way": "".join(
        form.format(ord(letter))
        for letter, form in zip(KEY, cycle(["%{:02X}", "&#{};", "\\u{:04x}", "%25{:02x}"]), strict=False)
    ),
}
EACH = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
AROUND = ['{"note": "you are %s!"}', "%s", "%s%s", ": %s\n\n", "a\\\\ %s\\n", '{"%s":"%s"}', "Key-0%sKey-01", "%s\\"]


def masked(parts: list[bytes], mask: Mask) -> bytes:
    masking = Masking(mask)
    return b"".join(map(masking.feed, parts)) + masking.finish(cut_off=False)


@EACH
@each_case("around", AROUND)
def test_each_form_becomes_as_many_stars_at_every_cut(form: str, around: str) -> None:
    data = around.replace("%s", form).encode()
    wanted = around.replace("%s", "*" * len(form)).encode()
    assert mask_of(KEY).whole(data) == wanted
    for cut in all_cuts(data):
        assert masked(cut, mask_of(KEY)) == wanted


# As base64 has them, and what else one may think of.
KEYS = [
    "ab+cd/ef+12345678==",
    "p%41ss&amp;w\\u0041rd",
    "it's<\"quoted\">&so+on",
    "100%25sure&#43;",
    "a\\'b\\\"c\\\\d-key",
]
WAYS: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps(text)[1:-1],
    "repr": lambda text: repr(text)[1:-1],
    "ascii bytes": lambda text: repr(text.encode())[2:-1],
    "url": lambda text: quote(text, safe=""),
    "url, lower case": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "html": html.escape,
    "html, hex": lambda text: "".join(each if each.isalnum() else f"&#x{ord(each):X};" for each in text),
    "go": lambda text: json.dumps(text)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    "shell": lambda text: re.sub(r"([^\w])", r"\\\1", text),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("outer", [None, *WAYS])
@each_case("inner", WAYS)
def test_a_key_is_found_however_it_was_quoted(key: str, inner: str, outer: str | None) -> None:
    """In one way, or in one within another."""
    written = WAYS[inner](key)
    if outer is not None:
        written = WAYS[outer](written)
    data = f"bad key <{written}>.".encode()
    wanted = b"bad key <" + b"*" * len(written) + b">."
    assert mask_of(key).whole(data) == wanted
    rng = random.Random(len(data))
    for _ in range(3):
        assert masked(random_cut(data, rng), mask_of(key)) == wanted


def test_an_escape_without_its_end_is_found_at_the_very_end() -> None:
    """HTML may leave the semicolon out; what the end of a whole body cuts off is no reason to show the rest."""
    for data in (b"bad Key-0123&#45", b"bad Key-0123&#x2d"):
        assert mask_of("Key-0123-").whole(data) == b"bad " + b"*" * (len(data) - 4)
        for cut in all_cuts(data):
            assert masked(cut, mask_of("Key-0123-")) == b"bad " + b"*" * (len(data) - 4)


CJK = "\u94a5\u5319" * 4


@pytest.mark.slow
@pytest.mark.parametrize("secret", ['pass"w\\o/rd-1', "schlüssel-1234", CJK, "aaaaaaaa", "abcabcab", "a" * 3000])
def test_odd_secrets_are_found_in_what_json_writes(secret: str) -> None:
    once, twice = json.dumps(secret), json.dumps(json.dumps(secret))
    for bare in (once[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], twice[3:-3]):
        data = f"<{bare}>".encode()
        wanted = b"<" + b"*" * (len(data) - 2) + b">"
        for cut in ([data], [data[:9], data[9:]], [data[at : at + 1] for at in range(len(data))]):
            assert masked(cut, mask_of(secret)) == wanted


def test_what_the_client_sent_as_utf_8_is_found_as_such() -> None:
    """WSGI shows each byte of a header as a character."""
    sent = "schlüssel-1234".encode().decode("latin-1")
    for data in ("schlüssel-1234".encode(), b"schl\\u00fcssel-1234", "schlüssel-1234".encode("latin-1")):
        assert mask_of(sent).whole(data) == b"*" * len(data)


@pytest.mark.parametrize("secrets", [("longer-than-it", "than-it-is"), ("than-it-is", "longer-than-it", "it-is-what")])
def test_secrets_that_overlap_are_all_found(secrets: tuple[str, ...]) -> None:
    data = b"<longer-than-it-is-what>"
    wanted = {2: b"<*****************-what>", 3: b"<**********************>"}[len(secrets)]
    for cut in all_cuts(data):
        assert masked(cut, mask_of(secrets)) == wanted


@pytest.mark.parametrize("secret", ["", "EMPTY", "sk-1234"])
def test_what_is_short_is_a_placeholder(secret: str) -> None:
    data = f"<{secret}>".encode()
    assert mask_of(secret).whole(data) is data


@pytest.mark.parametrize(
    ("secret", "data", "wanted"),
    [
        ("nothing-12", rb'{"a": "\nothing-12"}', rb'{"a": "***********"}'),
        ("nothing-12", rb'{"a": "\\nothing-12"}', rb'{"a": "\\**********"}'),
        ("2d567890", rb'{"a": "\u4e2d567890"}', rb'{"a": "************"}'),
        ("u4e2d567", rb'{"a": "\u4e2d567890"}', rb'{"a": "*********890"}'),
        ("1234567890", rb'{"a": "\\u12\u00311234567890"}', rb'{"a": "\\u12\u0031**********"}'),
    ],
)
def test_json_stays_json(secret: str, data: bytes, wanted: bytes) -> None:
    """No escape is left in half."""
    for cut in all_cuts(data):
        assert masked(cut, mask_of(secret)) == wanted
    json.loads(wanted)


LINES = [b'data: {"a": "So it is\\n"}\n\n', b": ping\n\n", b"data: [DONE]\n\n", '{"a": "Ünder \\u00e9 \\/"}'.encode()]


@pytest.mark.parametrize("line", LINES)
def test_what_holds_no_secret_leaves_at_once(line: bytes) -> None:
    """C1, C2."""
    masking = Masking(mask_of((KEY, "another-key")))
    for _ in range(3):
        assert masking.feed(line) == line
    assert masking.finish() == b""


def test_what_plainly_holds_none_is_not_copied() -> None:
    masking = Masking(mask_of(KEY))
    for line in LINES[:3]:
        assert masking.feed(line) is line and mask_of(KEY).whole(line) is line


@pytest.mark.parametrize(
    ("data", "waits"),
    [
        (b"So K", b"K"),
        (b"So Ke", b"Ke"),
        (b"So KKey-", b"Key-"),
        (b"So Key-x", b""),
        (b"So key", b""),
        (rb"So \u004", rb"\u004"),
        (rb"So \u004bey", rb"\u004bey"),
        (b"So 5 % ", b""),
        (b"So %4", b"%4"),
        (b"So %4b", b"%4b"),
        (b"So %4c", b""),
        (b"So &#7", b"&#7"),
        (b"So &#75;", b"&#75;"),
        (b"So &#76;", b""),
        (b"So &am", b"&am"),
        (b"So &amp;", b"&amp;"),
        (b"So &lt;", b""),
        (b"So \\", b"\\"),
        (b"So " + KEY[:-1].encode(), KEY[:-1].encode()),
        (b"So " + KEY.encode(), b""),
    ],
)
def test_only_what_may_be_the_beginning_of_a_secret_waits(data: bytes, waits: bytes) -> None:
    masking = Masking(mask_of(KEY))
    given = masking.feed(data)
    assert len(given) == len(data) - len(waits)
    rest = masking.feed(b"\n")
    assert rest == waits + b"\n" and masking.finish() == b""


@EACH_OF_JSON
def test_a_secret_that_the_end_cuts_is_starred_from_four_characters_on(form: str) -> None:
    for size in range(1, len(form)):
        data = b"So " + form[:size].encode()
        whole = Masking(mask_of(KEY))
        got = whole.feed(data) + whole.finish()
        assert got == mask_of(KEY).whole(data, cut_off=True) and len(got) == len(data)
        characters = len(json.loads(f'"{_whole_escapes(form[:size])}"')) if "\\\\" not in form else 0
        if characters:
            assert got == (b"So " + b"*" * size if characters >= 4 else data)


def _whole_escapes(part: str) -> str:
    at = part.rfind("\\", len(part) - 5 if len(part) >= 5 else 0)
    return part[:at] if at >= 0 and not part[at:].startswith("\\/") else part


SHAPES: dict[str, Callable[[random.Random], bytes]] = {
    "a's": lambda rng: b"a" * rng.randint(0, 30),
    "abc's": lambda rng: b"abc" * rng.randint(0, 9) + b"ab"[: rng.randint(0, 2)],
    "escapes": lambda rng: b"".join(rng.choice([rb"\u0061", rb"\\u0062", b"c", rb"\/", b"a"]) for _ in range(12)),
    "backslashes": lambda rng: b"\\" * rng.randint(0, 20) + b"u0061" + b"\\" * rng.randint(0, 3),
}


@pytest.mark.parametrize("secret", ["aaaaaaaa", "abcabcab", "aabcaabcaab"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_in_parts_it_is_as_at_once(shape: Callable[[random.Random], bytes], secret: str) -> None:
    rng = random.Random(5)
    for _ in range(100):
        data = b" ".join(shape(rng) for _ in range(rng.randint(1, 4)))
        assert masked(random_cut(data, rng), mask_of(secret)) == mask_of(secret).whole(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [b"\\", b"\\\\u0061", rb"\u00", rb"\/", b"a", rb"\u0061", b"%", b"%61", b"%25", b"&", b"&#", b"&#97;", b"&amp;"],
)
@pytest.mark.parametrize("secret", ["a" * 4000, "a" * 4000 + "b", "\\" * 4000])
def test_what_waits_is_bounded(unit: bytes, secret: str) -> None:
    """C7."""
    masking, came, gave = Masking(mask_of(secret)), 0, 0
    for _ in range(24):
        part = unit * (5000 // len(unit))
        came += len(part)
        gave += len(masking.feed(part))
        assert came - gave < 80_000
    assert len(masking.finish()) == came - gave


def test_recordings_stay() -> None:
    for path in sorted(RECORDINGS.glob("*/*.txt")):
        data = path.read_bytes()
        assert mask_of((KEY, "another-key")).whole(data, cut_off=True) == data


SLICE = 4096
PLACES = ((0, 0), (1, -30), (1, -1), (1, 0), (3, -50))


def searched(form: str, size: int, slices: int, behind: int) -> None:
    data = b"x" * (slices * size + behind) + form.encode() + b"\\/" * 9
    data += b"x" * (3 * size - len(data))
    assert mask_of(KEY).whole(data) == data.replace(form.encode(), b"*" * len(form))


@EACH_OF_JSON
@pytest.mark.parametrize("slices, behind", PLACES)
def test_a_body_is_searched_to_its_end(form: str, slices: int, behind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at in slices, here in small ones."""
    monkeypatch.setattr("proxy.codec.masking._SLICE", SLICE)
    searched(form, SLICE, slices, behind)


@pytest.mark.slow
@pytest.mark.parametrize("slices, behind", PLACES)
def test_a_large_body_is_searched_to_its_end(slices: int, behind: int) -> None:
    searched(FORMS["both"], 2**20, slices, behind)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_however_a_secret_is_cut_off_no_more_than_its_beginning_is_shown(form: str) -> None:
    """Of three characters nobody can tell that they are of a secret."""
    for size in range(len(form)):
        data = b"So " + form[:size].encode()
        shown = mask_of(KEY).whole(data, cut_off=True)
        assert len(shown) == len(data)
        assert shown == data[: len(shown.rstrip(b"*"))] + b"*" * (len(data) - len(shown.rstrip(b"*")))
        assert len(shown.rstrip(b"*")) <= len(b"So ") + 40
    assert mask_of(KEY).whole(b"So " + form[:-1].encode(), cut_off=True) == b"So " + b"*" * (len(form) - 1)


@pytest.mark.parametrize(
    ("end", "clean"),
    [
        ('"usage":{"total_tokens":17}}', True),
        ("a{b}", True),
        ("Key of all", True),
        ("\\u{4b}", False),
        ("\\u{4b", False),
        ("100%", False),
        ("in K", False),
    ],
)
def test_what_ends_as_no_secret_can_begin_is_clean(end: str, clean: bool) -> None:
    """Answers end in braces, as an escape may (`\\u{2b}`): not all of an answer is read for escapes because of that."""
    assert mask_of(KEY).clean(b'{"content":"a\\n b", ' + end.encode()) == clean
