"""Server-sent events: the WHATWG rules, equal results at every cut, and no lost bytes (F66)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import sse
from proxy.errors import LimitExceeded
from proxy.sse import Decoder, ServerSentEvent
from tests.support.helpers import all_cuts

Said = list[bytes]


def decode(cut: list[bytes]) -> list[ServerSentEvent]:
    decoder = Decoder()
    events = [event for part in cut for event in decoder.feed(part)]
    return [*events, *decoder.finish()]


def said(events: list[ServerSentEvent]) -> Said:
    """Return the data of each event with data."""
    return [event.data for event in events if event.data is not None]


def reference(data: bytes) -> Said:
    """Parse by the WHATWG rules (9.2.6), except that an unfinished event counts."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: Said = []
    buffer: list[bytes] = []
    for line in [*text.split(b"\n"), b""]:
        if not line:
            if buffer:
                found.append(b"\n".join(buffer))
            buffer = []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            buffer.append(value)
    return found


STREAMS: dict[str, tuple[bytes, Said]] = {
    "LF": (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "CR": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "LF then CR": (b"data: a\n\rdata: b\n\r", [b"a", b"b"]),
    "CRLF then CR": (b"data: a\r\n\rdata: b\r\n\r", [b"a", b"b"]),
    "CRLF then LF": (b"data: a\r\n\ndata: b\r\n\n", [b"a", b"b"]),
    "LF then CRLF": (b"data: a\n\r\ndata: b\n\r\n", [b"a", b"b"]),
    "CR then CRLF": (b"data: a\r\r\ndata: b\r\r\n", [b"a", b"b"]),
    "BOM": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "a BOM later is data's own": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
    "comment": (b": ping\n\ndata: a\n\n", [b"a"]),
    "comment inside": (b"data: a\n: x\ndata: b\n\n", [b"a\nb"]),
    "several data lines": (b"data: a\ndata: b\ndata:\n\n", [b"a\nb\n"]),
    "no space after the colon": (b"data:a\n\n", [b"a"]),
    "one space alone is markup": (b"data:  a\n\n", [b" a"]),
    "empty data": (b"data:\n\n", [b""]),
    "data without colon": (b"data\n\n", [b""]),
    "event name": (b"event: ping\ndata: {}\n\ndata: x\n\n", [b"{}", b"x"]),
    "id and retry": (b"id: 1\nretry: 5\ndata: x\n\n", [b"x"]),
    "unknown field": (b"dat: y\nData: z\ndata: x\n\n", [b"x"]),
    "a colon in data": (b'data: {"a": 1}\n\n', [b'{"a": 1}']),
    "UTF-8": ("data: naïve ｜▁ 🙂\n\n".encode(), ["naïve ｜▁ 🙂".encode()]),
    "blank lines before": (b"\n\n\ndata: x\n\n", [b"x"]),
    "a blank line more": (b"data: x\n\n\n\n\ndata: y\n\n", [b"x", b"y"]),
    "CRLF once among LF": (b"data: a\r\ndata: b\n\n", [b"a\nb"]),
    "no blank line at the end": (b"data: a\n\ndata: b\n", [b"a", b"b"]),
    "no line end at the end": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "CRLF once at the end": (b"data: b\r\n", [b"b"]),
    "nothing": (b"", []),
    "blank lines alone": (b"\n\r\n\r", []),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_decoded_as_in_the_standard(name: str) -> None:
    data, expected = STREAMS[name]
    assert reference(data) == expected
    assert said(decode([data])) == expected


@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_gives_equal_events_and_keeps_every_byte(name: str) -> None:
    data, _ = STREAMS[name]
    whole = decode([data])
    for cut in all_cuts(data):
        assert decode(cut) == whole
    raw = b"".join(event.raw for event in whole)
    assert raw.startswith(data) or data.startswith(raw)
    assert raw[len(data) :].strip(b"\n") == data[len(raw) :].strip(b"\r\n") == b""


_LINES = st.sampled_from(
    [b"data: x", b"data:", b"data", b": c", b"event: e", b"id: 1", b"", b"\xef\xbb\xbf", b"da", "ï🙂".encode(), b" "]
)
_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r\r", b""])


@settings(max_examples=300, derandomize=True)
@given(st.lists(st.tuples(_LINES, _ENDS), max_size=12), st.lists(st.integers(0, 60), max_size=6))
def test_random_lines_are_decoded_as_in_the_standard(lines: list[tuple[bytes, bytes]], places: list[int]) -> None:
    data = b"".join(line + end for line, end in lines)
    at = sorted({min(place, len(data)) for place in places})
    cut = [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]
    events = decode(cut)
    assert said(events) == reference(data)
    assert decode([data]) == events
    assert decode([data[place : place + 1] for place in range(len(data))]) == events


def test_an_event_is_returned_with_its_last_byte() -> None:
    for data in (b"data: a\n\n", b"data: a\r\n\r\n", b"data: a\r\r"):
        decoder = Decoder()
        assert decoder.feed(data[:-1]) == ()
        assert [event.data for event in decoder.feed(data[-1:])] == [b"a"]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\r", b"\r", b"\r\n\r"])
def test_an_event_without_its_blank_line_is_completed(ending: bytes) -> None:
    """F66: the next event in the client's stream must be separate."""
    data = b"data: a" + ending
    raw = b"".join(event.raw for event in decode([data]))
    assert raw.startswith(data)
    assert reference(raw + b"data: next\n\n") == [b"a", b"next"]


def test_the_size_limit_holds_at_every_cut() -> None:
    """C7: an event over the limit is refused even if it arrives in one piece."""
    data = b"data: " + b"a" * 40 + b"\n\n"
    for cut in ([data], [data[:20], data[20:]], [data[at : at + 1] for at in range(len(data))]):
        with pytest.raises(LimitExceeded):
            decoder = Decoder(max_event=32)
            for part in cut:
                decoder.feed(part)


@pytest.mark.parametrize("data", [b"a", b"a\nb", b"a\r\nb\rc", b"", "naïve 🙂".encode(), b"[DONE]"])
def test_encoded_events_are_decoded(data: bytes) -> None:
    expected = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert said(decode([sse.encode(data)])) == [expected]


def test_a_bom_is_removed_from_a_single_unfinished_event() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\xef\xbb\xbfdata: a") == ()
    assert [event.data for event in decoder.finish()] == [b"a"]
    assert decoder.finish() == ()
