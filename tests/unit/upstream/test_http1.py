"""The decoder of the upstream's HTTP/1.1: every framing, at every cut; what is no HTTP is told, never guessed."""

from __future__ import annotations

import http.client
import io
import itertools
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamBroken
from proxy.limits import MAX_HEAD
from proxy.transitions import IllegalTransition, next_state
from proxy.upstream.http1 import TRANSITIONS, DecoderState, DecoderStep, ResponseDecoder
from tests.support.work import over_soon

BODY = b"data: \xc3\xa4\r\n\r\n0\r\n\r\ndata: b\n\n"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"".join(b"%X\r\n%b\r\n" % (len(part), part) for part in (BODY[:1], BODY[1:12], BODY[12:]))
# name -> the bytes on the wire, and whether the framing itself says where the body ends
FRAMINGS: dict[str, tuple[bytes, bool]] = {
    "length": (OK + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY), True),
    "length, said twice alike": (OK + b"Content-Length: %d\r\n" % len(BODY) * 2 + b"\r\n" + BODY, True),
    "chunked": (CHUNKED + CHUNKS + b"0\r\n\r\n", True),
    "chunked with extensions and trailers": (
        CHUNKED + b"1;a=b\r\n" + BODY[:1] + b"\r\n%x ; c\r\n" % (len(BODY) - 1) + BODY[1:] + b"\r\n000\r\nX: y\r\n\r\n",
        True,
    ),
    "chunked wins over length": (
        OK + b"Content-Length: 1\r\nTransfer-Encoding: Chunked\r\n\r\n" + CHUNKS + b"0\r\n\r\n",
        True,
    ),
    "until close": (OK + b"Connection: close\r\n\r\n" + BODY, False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, False),
    "no reason phrase": (b"HTTP/1.1 200\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY), True),
    "after interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Length: 7\r\n\r\n"
        + OK
        + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY),
        True,
    ),
}


def decoded(*parts: bytes) -> tuple[ResponseDecoder, bytes]:
    decoder = ResponseDecoder()
    body = b"".join([decoder.feed(part) for part in parts])
    return decoder, body


@pytest.mark.parametrize("wire,framed", FRAMINGS.values(), ids=FRAMINGS.keys())
def test_a_framing_gives_the_same_body_whole_and_byte_by_byte(wire: bytes, framed: bool) -> None:
    for parts in ([wire], [wire[at : at + 1] for at in range(len(wire))]):
        decoder, body = decoded(*parts)
        assert (decoder.status, body, decoder.complete) == (200, BODY, framed)
        decoder.finish()
        assert decoder.complete


@pytest.mark.parametrize("name", FRAMINGS)
@given(cuts=st.lists(st.integers(0, 200), max_size=8))
def test_a_framing_gives_the_same_body_at_random_cuts(name: str, cuts: list[int]) -> None:
    wire, framed = FRAMINGS[name]
    places = [0, *sorted(cuts), len(wire)]
    decoder, body = decoded(*(wire[start:end] for start, end in pairwise(places)))
    assert (body, decoder.complete) == (BODY, framed)


def test_the_status_is_zero_until_the_head_is_whole() -> None:
    decoder, body = decoded(OK + b"Retry-After: 3\r\n\r")
    assert (decoder.status, decoder.headers.get("retry-after"), body) == (0, None, b"")
    decoder.feed(b"\n")
    assert (decoder.status, decoder.headers.get("retry-after")) == (200, ["3"])


def test_an_interim_answer_is_not_the_answer() -> None:
    decoder, _ = decoded(b"HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\n")
    assert (decoder.status, decoder.complete) == (0, False)
    with pytest.raises(UpstreamBroken, match="before it answered"):
        decoder.finish()


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_cannot_have_a_body_ends_with_its_head(status: int) -> None:
    decoder, body = decoded(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status)
    assert (decoder.status, decoder.complete, body) == (status, True, b"")


def test_an_empty_body_is_complete_at_once() -> None:
    assert decoded(OK + b"Content-Length: 0\r\n\r\n")[0].complete
    assert decoded(CHUNKED + b"0\r\n\r\n")[0].complete


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_what_comes_after_the_end_is_no_part_of_the_body(framing: str) -> None:
    decoder, body = decoded(FRAMINGS[framing][0] + b"HTTP/1.1 200 OK\r\n\r\nmore", b"and more")
    assert (body, decoder.complete) == (BODY, True)


@pytest.mark.parametrize(
    "wire",
    [
        OK + b"Content-Length: 5\r\n\r\nfour",
        OK + b"Content-Length: 5\r\n\r\n",
        CHUNKED,
        CHUNKED + b"5\r\nfour",
        CHUNKED + b"4\r\nfour",
        CHUNKED + b"4\r\nfour\r\n",
        CHUNKED + b"4\r\nfour\r\n0\r\n",
        CHUNKED + b"4\r\nfour\r\n0\r\nX: y\r\n",
        OK + b"Content-Length: 5\r\n",
        b"",
    ],
)
def test_an_answer_that_ends_early_broke_off(wire: bytes) -> None:
    """U11: nothing that was cut may look complete."""
    decoder, _ = decoded(wire)
    assert not decoder.complete
    with pytest.raises(UpstreamBroken):
        decoder.finish()


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        OK + b"".join(b"X-%d: y\r\n" % number for number in range(200)) + b"\r\n",
        OK + b"X: " + b"y" * 65000 + b"\r\n" + b"Z: " + b"y" * 2000,
        OK + b"Content-Length: -5\r\n\r\n",
        OK + b"Content-Length: 5, 5\r\n\r\n",
        OK + "Content-Length: \u0665\r\n\r\n".encode(),
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK + b"Transfer-Encoding: identity\r\n\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"g\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"0x5\r\n",
        CHUNKED + b"1_0\r\n",
        CHUNKED + b"11111111111111111\r\n",
        CHUNKED + b";" * 2000,
        CHUNKED + b"4\r\nfourX\r\n",
        CHUNKED + b"4\r\nfour\nX",
        CHUNKED + b"0\r\n" + b"X" * 2000,
    ],
)
def test_what_is_no_http_is_broken_whole_and_byte_by_byte(wire: bytes) -> None:
    for parts in ([wire], [wire[at : at + 1] for at in range(len(wire))]):
        with pytest.raises(UpstreamBroken):
            decoded(*parts)[0].finish()


def test_two_transfer_encoding_headers_are_not_taken_for_one() -> None:
    """RFC 9112, 6.1: `chunked` must be the last coding of all lines together; here it is not the only one."""
    with pytest.raises(UpstreamBroken):
        decoded(OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n")


def test_a_head_may_be_as_large_as_the_limit() -> None:
    start = OK + b"X: "
    decoder, _ = decoded(start + b"y" * (MAX_HEAD - len(start) - 6000) + b"\r\nContent-Length: 0\r\n\r\n")
    assert decoder.complete


def test_trailers_have_a_limit() -> None:
    """C7: an upstream that never ends its trailers is broken, not waited for."""
    decoder, _ = decoded(CHUNKED + b"0\r\n")
    with pytest.raises(UpstreamBroken):
        for _ in range(20_000):
            decoder.feed(b"X-Endless: trailer\r\n")


def test_interim_answers_have_a_limit() -> None:
    """C7: an upstream that sends nothing but interim answers is broken, not waited for."""
    decoder = ResponseDecoder()
    with pytest.raises(UpstreamBroken):
        for _ in range(20_000):
            decoder.feed(b"HTTP/1.1 102 Processing\r\n\r\n")


def test_decoding_is_linear_in_the_number_of_small_chunks() -> None:
    """C7: a megabyte of tiny chunks in one read costs no more than a deadline with ample room."""
    wire = CHUNKED + b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"
    with over_soon():
        decoder, body = decoded(wire)
    assert decoder.complete and len(body) == 200_000


def begun(framing: bytes) -> ResponseDecoder:
    one = ResponseDecoder()
    one.feed(OK + framing + b"\r\n")
    return one


@pytest.mark.parametrize("cut", range(len(CHUNKS)))
def test_whole_chunks_are_known_at_every_cut_and_give_what_the_decoder_gives(cut: int) -> None:
    one, other = begun(b"Transfer-Encoding: chunked\r\n"), begun(b"Transfer-Encoding: chunked\r\n")
    given = b""
    for part in (CHUNKS[:cut], CHUNKS[cut:]):
        whole = one.whole_chunks(part)
        given += one.feed(part) if whole is None else whole
    assert given == other.feed(CHUNKS) == BODY
    ends = {0, 6, 6 + 16, len(CHUNKS)}
    whole = begun(b"Transfer-Encoding: chunked\r\n").whole_chunks(CHUNKS[:cut])
    assert (whole is not None) is (cut in ends)


@pytest.mark.parametrize(
    "data",
    [
        *(b"3;a=b\r\nabc\r\n", b"0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"+3\r\nabc\r\n", b" 3\r\nabc\r\n"),
        *(b"3 \r\nabc\r\n", b"3\r\nabc\r\n;\r\n"),
        *(b"0x3\r\nabc\r\n", b"1_0\r\n0123456789abcdef\r\n", b"\r\nabc\r\n", b"2\r\nabc\r\n", b"4\r\nabc\r\n"),
        *(b"3\nabc\n", b"3\r\nabc\r", b"3\r\nabc", b"3\r\nabcd\r\n", b"000000003\r\nabc\r\n", b"g\r\nabc\r\n"),
    ],
)
def test_anything_but_whole_chunks_is_left_to_the_decoder(data: bytes) -> None:
    assert begun(b"Transfer-Encoding: chunked\r\n").whole_chunks(data) is None


def test_whole_chunks_follow_no_half_one_and_no_length() -> None:
    one = begun(b"Transfer-Encoding: chunked\r\n")
    one.feed(b"3\r\nab")
    assert one.whole_chunks(b"3\r\nabc\r\n") is None
    assert begun(b"Content-Length: 8\r\n").whole_chunks(b"3\r\nabc\r\n") is None
    assert begun(b"").whole_chunks(b"3\r\nabc\r\n") == b"3\r\nabc\r\n"


HEADERS = (
    b"Content-Type: application/json\r\nX-A:b\r\nx-a:\t c, d \t\r\n",
    b"A: 1\r\n" * 100,
    b"A: 1\r\n" * 101,
    b"Folded: a\r\n b\r\n",
    b"Empty:\r\nEmpty-too: \r\nX: y\r\n",
    b"Latin: caf\xe9\r\nX: y\r\n",
    b"UTF-8: caf\xc3\xa9\r\n",
    b"No colon\r\nX: y\r\n",
    b"Blank : x\r\nX: y\r\n",
    b": no name\r\nX: y\r\n",
    b"X: a\rb\r\nY: z\r\n",
    b"X: a\nY: z\r\n",
    b"From mail@a.b Mon\r\nX: y\r\n",
    b"X: a\x00b\r\n",
    b"Content-Length: 3\r\nContent-Length: 4\r\n",
    b"",
)


@pytest.mark.parametrize("text", HEADERS)
def test_plain_headers_are_what_the_parser_of_mail_makes_of_them(text: bytes) -> None:
    expected: dict[str, list[str]] = {}
    readable = True
    try:
        for name, value in http.client.parse_headers(io.BytesIO(text + b"\r\n")).items():
            expected.setdefault(name.lower(), []).append(str(value))
    except http.client.HTTPException:
        readable = False
    decoder = ResponseDecoder()
    try:
        decoder.feed(OK + text + b"\r\n")
    except UpstreamBroken:
        assert not readable or b"Content-Length" in text
        return
    assert readable
    assert decoder.headers == expected


LEGAL = [(state, step, behind) for state, steps in TRANSITIONS.items() for step, behind in steps.items()]
ILLEGAL = [
    (state, step)
    for state, step in itertools.product(DecoderState, DecoderStep)
    if step not in TRANSITIONS.get(state, {})
]


def test_every_state_is_in_the_table_and_leads_to_the_end_of_the_answer() -> None:
    assert set(TRANSITIONS) == set(DecoderState)
    leading = {DecoderState.COMPLETE}
    for _ in DecoderState:
        leading |= {state for state, _, behind in LEGAL if behind in leading}
    assert leading == set(DecoderState)
    assert TRANSITIONS[DecoderState.COMPLETE] == {}


@pytest.mark.parametrize(("state", "step", "behind"), LEGAL)
def test_a_step_of_the_table_leads_to_its_state(state: DecoderState, step: DecoderStep, behind: DecoderState) -> None:
    assert next_state(TRANSITIONS, state, step) is behind


@pytest.mark.parametrize(("state", "step"), ILLEGAL)
def test_every_other_step_is_a_defect(state: DecoderState, step: DecoderStep) -> None:
    with pytest.raises(IllegalTransition, match=f"{state.name} cannot {step.name}"):
        next_state(TRANSITIONS, state, step)
