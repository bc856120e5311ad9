"""What of a response is masked: errors in every form, and nothing that the model wrote."""

from __future__ import annotations

import json
import random

import pytest

from proxy.codec.masking import mask_of
from proxy.codec.response_masking import MAX_UNFINISHED, BodyMasking, body_masking, is_error, mask_body
from proxy.limits import MAX_ERROR_BODY
from tests.support.helpers import random_cut

KEY = "not-needed"
STARS = "*" * len(KEY)
MASK = mask_of(KEY)
STREAM = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"

CHUNK = b'data: {"choices": [{"delta": {"content": "api_key=not-needed"}}]}\n\n'
DELTA = b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"text": "not-needed"}}\n\n'
PLAIN = b'data: {"choices": [{"delta": {"content": "a \\/ b"}}]}\n\n'
ERROR = b'data: {"error": {"message": "no key not-needed"}}\n\n'
SERVED = {
    "a chunk": CHUNK,
    "an event of Messages": DELTA,
    "in escapes": CHUNK.replace(b"not-", b"\\u006eot-"),
    "error and detail are null": b'data: {"choices": [], "you": "not-needed", "error": null, "detail": null}\n\n',
    **{
        f"an error that is {empty}": b'data: {"choices": [], "you": "not-needed", "error": %s}\n\n' % empty.encode()
        for empty in ('""', "{}", "[]", "false", "0")
    },
    "the type of an error beside choices": b'data: {"type": "error", "choices": [{"text": "not-needed"}]}\n\n',
    "data in two lines": b'data: {"choices": [],\ndata: "you": "not-needed"}\n\n',
    "CRLF": CHUNK.replace(b"\n", b"\r\n"),
    "CR": CHUNK.replace(b"\n", b"\r"),
    "a byte order mark": b"\xef\xbb\xbf" + CHUNK,
    "no UTF-8": b'data: {"content": "\xff not-needed"}\n\n',
    "an id": b"id: 7\n" + CHUNK,
    "an array": b'data: ["not-needed"]\n\n',
    "a detail among others": b'data: {"text": "not-needed", "detail": "high"}\n\n',
}
MASKED = {
    "an error": ERROR,
    "an error as text": b'data: {"choices": [], "error": "no key not-needed"}\n\n',
    "detail": b'data: {"detail": "no key not-needed"}\n\n',
    "object": b'data: {"object": "error", "message": "no key not-needed"}\n\n',
    "type": b'event: x\ndata: {"type": "error", "message": "not-needed"}\n\n',
    "by its name": b'event: error\ndata: {"message": "not-needed"}\n\n',
    "a failure of Responses": b'event: response.failed\ndata: {"response": {"error": "not-needed"}}\n\n',
    "the same by its type": b'data: {"type": "response.failed", "response": {"error": "not-needed"}}\n\n',
    "a comment": b": you are not-needed\n\n",
    "words": b"data: no key not-needed\n\n",
    "a name alone": b"event: not-needed\n\n",
    "CRLF": ERROR.replace(b"\n", b"\r\n"),
    "CR": ERROR.replace(b"\n", b"\r"),
    "in escapes": ERROR.replace(b"not-", b"\\u006eot-").replace(b"-", b"\\u002d"),
}


def streaming(content_type: str = STREAM, status: int = 200, coding: str = "") -> BodyMasking:
    return body_masking(MASK, status, content_type, coding)


def sent(masking: BodyMasking, parts: list[bytes]) -> bytes:
    return b"".join(map(masking.feed, parts)) + masking.finish()


def every_cut(data: bytes) -> list[list[bytes]]:
    cuts = [[data[:at], data[at:]] for at in range(len(data) + 1)]
    return [[data], [data[at : at + 1] for at in range(len(data))], *cuts]


@pytest.mark.parametrize("event", SERVED.values(), ids=SERVED)
def test_what_the_model_says_leaves_as_it_came_at_every_cut(event: bytes) -> None:
    for parts in every_cut(event + PLAIN + event):
        assert sent(streaming(), parts) == event + PLAIN + event


@pytest.mark.parametrize("event", MASKED.values(), ids=MASKED)
def test_what_it_does_not_say_is_masked_at_every_cut(event: bytes) -> None:
    expected = MASK.whole(event)
    assert b"*****" in expected and len(expected) == len(event)
    cuts = every_cut(CHUNK + event + DELTA)
    for parts in cuts if len(event) < 1000 else random.Random(7).sample(cuts, 40):
        assert sent(streaming(), parts) == CHUNK + expected + DELTA


def test_a_comment_beside_a_chunk_is_masked() -> None:
    assert sent(streaming(), [b": not-needed\n" + CHUNK]) == b": " + STARS.encode() + b"\n" + CHUNK


@pytest.mark.parametrize("missing", [1, 2])
def test_an_event_without_its_blank_line_is_judged_as_well(missing: int) -> None:
    for parts in every_cut(CHUNK + ERROR[:-missing]):
        assert sent(streaming(), parts) == CHUNK + MASK.whole(ERROR)[:-missing]
    for parts in every_cut(CHUNK + CHUNK[:-missing]):
        assert sent(streaming(), parts) == CHUNK + CHUNK[:-missing]


def test_where_a_stream_ends_in_a_part_of_a_secret_that_counts_as_one() -> None:
    assert sent(streaming(), [CHUNK + b": you are not-nee"]) == CHUNK + b": you are *******"


def test_an_event_leaves_at_its_end() -> None:
    masking = streaming()
    assert masking.feed(CHUNK + b"data: {") == CHUNK
    assert masking.feed(b'"choices": []}\n') == b""
    assert masking.feed(b"\n") == b'data: {"choices": []}\n\n'


def test_whole_events_without_a_secret_are_not_copied() -> None:
    masking = streaming()
    for event in (PLAIN.replace(b"\\/", b"or"), b'data: {"a": 1}\r\n\r\n', b": ping\n\n"):
        assert masking.feed(event) is event


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_of_an_event_that_does_not_end_so_much_waits(size: int) -> None:
    """Its rest is masked, for nobody knows what it is; the next one is judged again."""
    long = b'data: {"choices": "' + b"x" * (MAX_UNFINISHED + 5_000) + b" not-needed" + b'"}\n\n'
    masking, given, came, most = streaming(), b"", 0, 0
    head, tail = long[: MAX_UNFINISHED - 10], long[MAX_UNFINISHED - 10 :]
    for part in (head, *(tail[at : at + size] for at in range(0, len(tail), size))):
        came += len(part)
        given += masking.feed(part)
        most = max(most, came - len(given))
    assert most <= MAX_UNFINISHED + size
    assert given == long.replace(KEY.encode(), STARS.encode())
    assert masking.feed(CHUNK + ERROR) == CHUNK + MASK.whole(ERROR)
    assert masking.finish() == b""


def test_an_event_that_is_too_long_and_cut_off() -> None:
    long = b"data: " + b"x" * (MAX_UNFINISHED + 9) + b" not-nee"
    assert sent(streaming(), [long]) == long.replace(b"not-nee", b"*******")


def test_a_long_event_that_comes_at_once_is_judged() -> None:
    long = b'data: {"choices": "' + b"x" * (2 * MAX_UNFINISHED) + b'not-needed"}\n\n'
    assert sent(streaming(), [long]) == long


def test_a_stream_in_any_cut() -> None:
    rng = random.Random(7)
    events = [*SERVED.values(), *(event for event in MASKED.values() if len(event) < 1000)]
    for _ in range(30):
        chosen = rng.choices(events, k=30)
        data = b"".join(chosen)
        expected = sent(streaming(), chosen)
        assert sent(streaming(), random_cut(data, rng)) == expected and len(expected) == len(data)


def test_lines_of_json_are_judged_one_by_one() -> None:
    said, error = b'{"message": {"content": "not-needed"}, "done": false}\n', b'{"error": "no key not-needed"}\n'
    for parts in every_cut(said + error + said):
        assert sent(streaming(LINES), parts) == said + MASK.whole(error) + said
    masking = streaming(LINES)
    assert masking.feed(said + error[:5]) == said


BODIES = {
    "error": {"error": "no key not-needed"},
    "an error object": {"id": 1, "error": {"message": "no key not-needed"}},
    "detail": {"detail": [{"msg": "not-needed"}]},
    "object": {"object": "error", "message": "not-needed"},
    "type": {"type": "error", "message": "not-needed"},
    "a string": "not-needed",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_whole_error_is_masked(body: object) -> None:
    data = json.dumps(body).encode()
    expected = data.replace(KEY.encode(), STARS.encode())
    assert is_error(data) and mask_body(MASK, 200, data) == expected
    for parts in every_cut(data):
        assert sent(streaming("application/json"), parts) == expected


EMPTY: list[object] = ["", {}, [], False, 0]
ANSWERS = {
    "of a model": {"choices": [{"text": "not-needed"}], "error": None, "detail": None},
    "an array": [{"text": "not-needed"}],
    "a detail among others": {"text": "not-needed", "detail": "high"},
    **{f"error {empty!r}": {"choices": [{"text": "not-needed"}], "error": empty} for empty in EMPTY},
    "an object called error": {"object": "error", "choices": [{"text": "not-needed"}]},
    "of Responses": {"type": "error", "output": [{"text": "not-needed"}], "error": {}},
}


@pytest.mark.parametrize("blank", [b"", b" \r\n\t"])
@pytest.mark.parametrize("body", ANSWERS.values(), ids=ANSWERS)
def test_a_whole_answer_is_not(blank: bytes, body: object) -> None:
    data = blank + json.dumps(body).encode()
    assert mask_body(MASK, 200, data) is data
    for parts in every_cut(data):
        assert sent(streaming("application/json"), parts) == data


def test_half_an_answer_is_no_json() -> None:
    assert mask_body(MASK, 200, b'{"text": "not-need') == b'{"text": "********'


def test_a_body_that_is_longer_than_errors_are_is_an_answer() -> None:
    start = b'{"error": "' + b"x" * (MAX_ERROR_BODY - 11)
    masking = streaming("application/json")
    assert masking.feed(start) == b""
    assert masking.feed(b"not-needed") == start + b"not-needed"
    assert masking.feed(b'not-needed"}') + masking.finish() == b'not-needed"}'


def test_what_is_no_object_does_not_wait() -> None:
    masking = streaming("text/html")
    assert masking.feed(b"<p>!") == b"<p>!"
    assert masking.feed(b"not-needed!") == b"**********!"


def test_what_is_nested_too_deeply_is_masked() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    event = b'data: {"a": "not-needed", "b": ' + deep + b"}\n\n"
    assert sent(streaming(STREAM), [event]) == event.replace(KEY.encode(), STARS.encode())


@pytest.mark.parametrize("content_type", ["text/plain; charset=utf-8", "text/vtt", "audio/mpeg"])
def test_what_a_model_says_or_speaks_leaves_at_once(content_type: str) -> None:
    assert streaming(content_type).feed(b"say not-needed!") == b"say not-needed!"
    assert streaming(content_type, 401).feed(b"no key not-needed!") == b"no key **********!"


@pytest.mark.parametrize("content_type", [STREAM, LINES, "application/json", ""])
def test_a_status_that_says_error_masks_all(content_type: str) -> None:
    for parts in every_cut(CHUNK):
        assert sent(streaming(content_type, 400), parts) == CHUNK.replace(KEY.encode(), STARS.encode())
    assert mask_body(MASK, 500, CHUNK) == CHUNK.replace(KEY.encode(), STARS.encode())


@pytest.mark.parametrize("content_type", [STREAM, LINES, "application/json"])
def test_what_cannot_be_searched_or_need_not_be_leaves_at_once(content_type: str) -> None:
    for masking in (streaming(content_type, 200, "gzip"), body_masking(mask_of(()), 200, content_type)):
        assert masking.feed(b"\x1f\x8b not-needed") == b"\x1f\x8b not-needed"
        assert masking.finish() == b""
