"""Secrets in recorded bytes: starred wherever they stand, however they were cut, and nothing else is touched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.codec.redaction import redact, redact_stream
from tests.support.helpers import RECORDINGS, bodies, calls, chunk, delta, ends, piece, random_cut, received, says
from tests.support.work import over_soon

# Put together here, so that no scanner takes this file for a leak.
KEYS = {
    "sk": "sk-" + "proj-Ab3_" * 4,
    "github": "ghp_" + "A1b2" * 9,
    "github, fine-grained": "github_pat_" + "A1b2_" * 6,
    "aws": "AKIA" + "ABCD2345" * 2,
    "slack": "xox" + "b-1234567890-abcdef",
}
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEow+/IBAAK==\nabcd\n-----END RSA PRIVATE " + "KEY-----"
MINE = "my-own+credential/1"


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize("form", ["{}", "key={}.", '{{"content":"a\\n{} b"}}', "({})"])
def test_what_looks_like_a_key_becomes_as_many_stars(key: str, form: str) -> None:
    assert redact(form.format(key).encode()) == form.format("*" * len(key)).encode()


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize("before", ["\\u0022", "\\u003e", "\\u003C", "\\u000a", "\\\\u003e", "Bearer\\u0020"])
def test_a_key_behind_a_sign_that_json_may_write_by_its_number_is_starred(key: str, before: str) -> None:
    assert redact(f'{{"content":"a {before}{key} b"}}'.encode()) == (
        f'{{"content":"a {before}{"*" * len(key)} b"}}'.encode()
    )


def test_a_bearer_token_is_starred_and_the_word_is_not() -> None:
    assert redact(b"Authorization: Bearer abc.def-ghi_jkl/mno= x") == b"Authorization: Bearer " + b"*" * 20 + b" x"


@pytest.mark.parametrize("escaped", ["\n", "\\n", "\\\\n", "\\r\\n"])
@pytest.mark.parametrize("cut", [None, 45])
def test_a_private_key_is_starred_with_its_line_ends_plain_and_escaped(escaped: str, cut: int | None) -> None:
    pem = PEM.replace("\n", escaped)[:cut]
    assert redact(f'"{pem}" and on'.encode()) == b'"' + b"*" * len(pem) + b'" and on'


@pytest.mark.parametrize(
    "text",
    [
        "task-management-is-what-it-is-about",
        "u00task-management-is-what-it-is-about",
        "sk-short",
        "Bearer authentication is used",
        "ghp_short AKIA xoxo",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB",
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    assert redact(text.encode()) == text.encode()


@pytest.mark.parametrize("credential", ["", "x", "EMPTY", "none"])
def test_a_placeholder_is_no_credential(credential: str) -> None:
    assert redact(b"x EMPTY none", credential) == b"x EMPTY none"


def test_the_credential_is_starred_plain_and_as_json_has_it() -> None:
    credential = 'pass"w\\örd-1'
    for form in (credential, json.dumps(credential)[1:-1], json.dumps(credential, ensure_ascii=False)[1:-1]):
        assert redact(f"<{form}>".encode(), credential) == b"<" + b"*" * len(form.encode()) + b">"


SECRETS = {**KEYS, "pem": PEM, "credential": MINE, "bearer": "Bearer " + "abcDEF123" * 3}


@pytest.mark.slow
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@given(rng=st.randoms(use_true_random=False))
def test_a_streamed_secret_is_starred_at_every_cut(secret: str, rng: object) -> None:
    """Also in the arguments of one of two calls whose deltas take turns."""
    arguments = json.dumps({"command": f"export KEY={secret}\nls"})
    text = f"It is:\n{secret} and that is all."
    data = b"".join(says(part).raw for part in random_cut(text, rng))  # type: ignore[arg-type]
    data += calls(piece(0, "", "bash", "a"), piece(1, "", "bash", "b")).raw
    for part in random_cut(arguments, rng):  # type: ignore[arg-type]
        data += calls(piece(1, part), piece(0, "-")).raw
    got = received(redact_stream(data + ends("tool_calls").raw + b"data: [DONE]\n\n", MINE))
    kept = secret.partition("Bearer ")[1]
    starred = kept + "*" * (len(secret) - len(kept))
    assert got[0].text == text.replace(secret, starred)
    escaped = json.dumps(secret)[1:-1]
    assert got[0].arguments[1] == arguments.replace(escaped, kept + "*" * (len(escaped) - len(kept)))
    assert set(got[0].arguments[0]) <= {"-"}


def test_choices_that_take_turns_are_each_joined() -> None:
    key = KEYS["sk"]
    parts = [says(key[:9], choice=1), says(key[:9]), says(key[9:], choice=1), says("."), ends(), ends(choice=1)]
    got = received(redact_stream(b"".join(part.raw for part in parts)))
    assert (got[1].text, got[0].text) == ("*" * len(key), key[:9] + ".")


def test_only_the_events_with_a_part_of_a_secret_are_written_anew() -> None:
    key = KEYS["github"]
    parts = [says("a "), says(key[:9]), chunk(delta(content=key[9:], role="assistant")), says(" z")]
    data = redact_stream(b": x\n\n" + b"".join(part.raw for part in parts) + b"data: {half")
    assert data.startswith(b": x\n\n" + says("a ").raw)
    assert data.endswith(says(" z").raw + b"data: {half")
    assert [body["choices"][0]["delta"] for body in bodies(data[: -len(b"data: {half")])] == [
        {"content": "a "},
        {"content": "*" * 9},
        {"content": "*" * (len(key) - 9), "role": "assistant"},
        {"content": " z"},
    ]


@pytest.mark.parametrize("odd", [b"", b"\n", b"data: 7\n\n", b"data: x\n\n", b'data: {"choices": 7}\n\n', b"\xff\xfe"])
def test_what_is_no_chunk_stays(odd: bytes) -> None:
    assert redact_stream(odd, MINE) == odd


def test_what_is_nested_too_deeply_to_be_a_text_of_a_reply_is_passed_over() -> None:
    data = b'data: {"choices": ' + b"[" * 400 + b"]" * 400 + b"}\n\n"
    assert redact_stream(data) == data


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*/*.txt")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_recording_holds_no_secret_and_stays(path: object) -> None:
    data = path.read_bytes()  # type: ignore[attr-defined]
    assert redact(data, MINE) == redact_stream(data, MINE) == data


BEGIN = b"-----BEGIN PRIVATE " + b"KEY-----"


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [b"sk-", b"sk-" + b"a" * 15 + b" ", b"earer ", b"-----BEGIN ", BEGIN, BEGIN + b"\\" * 1000, b"xoxb-", b"ghp_"],
)
def test_hostile_text_takes_linear_time(unit: bytes) -> None:
    """C7: a square of this size would take hours."""
    data = unit * (1_000_000 // len(unit))
    with over_soon():
        redact(data, "another-credential")
        redact(BEGIN + data, "another-credential")


@pytest.mark.parametrize("key", [KEYS["sk"], MINE])
@pytest.mark.parametrize("cut", [1, 5, 9])
@pytest.mark.parametrize("place", ["{}", '{{"delta": {{"text": {}}}}}', '{{"index": 0, "item": [{{"a": {}}}]}}'])
def test_in_other_dialects_a_key_in_pieces_is_found_wherever_it_is(key: str, cut: int, place: str) -> None:
    pieces = [key[at : at + cut] for at in range(0, len(key), cut)]
    events = [f'data: {{"type": "part", "delta": {place.format(json.dumps(piece))}}}\n\n' for piece in pieces]
    data = "".join(events).encode()
    stars = [f'data: {{"type": "part", "delta": {place.format(json.dumps("*" * len(piece)))}}}\n\n' for piece in pieces]
    found = redact_stream(data, MINE, within=())
    assert [json.loads(line[6:]) for line in found.decode().split("\n\n")[:-1]] == [
        json.loads(line[6:]) for line in stars
    ]
