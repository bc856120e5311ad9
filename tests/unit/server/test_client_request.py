"""A request as its bytes come in: where its head and its body end, at every cut, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from proxy import gunicorn_conf
from proxy.server import client_request
from proxy.server.client_request import CHUNKS_AT_ONCE, PARTS, STAGES, Part, Request, Stage
from proxy.web import app
from tests.integration.test_slow_clients import REFUSED, framed_request, head_of
from tests.support.dialects import DIALECTS
from tests.support.helpers import all_cuts

pytestmark = pytest.mark.once


def read(parts: Sequence[bytes], most: int = 10_000) -> Request:
    """A request that came in these parts."""
    request = Request(1000, most)
    for part in parts:
        request.feed(part)
    return request


@pytest.mark.parametrize("size", [1, 5, 100, 5000])
@pytest.mark.parametrize("framed", ["length", "one chunk", "trailers"])
def test_the_end_of_a_request_is_found_at_every_cut(size: int, framed: str) -> None:
    body, behind = b"a" * size, b"GET / HT"
    whole = framed_request(body, framed)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    for cut in all_cuts(whole):
        request = Request(1000, 10_000)
        for number, part in enumerate(cut):
            assert (request.stage is Stage.WHOLE) is (not b"".join(cut[number:]))
            request.feed(part)
        assert (request.stage, request.head, bytes(request.body)) == (Stage.WHOLE, head, body)
    for cut in all_cuts(whole + behind):
        request = Request(1000, 10_000)
        rest = b""
        for part in cut:
            if request.stage is Stage.WHOLE:
                rest += part
            else:
                request.feed(part)
        assert (request.stage, request.rest + rest, bytes(request.body)) == (Stage.WHOLE, behind, body)


@pytest.mark.parametrize("chunk", [b"1\r\n{\r\n", b"1;a\r\n{\r\n", b"0002\r\n{}\r\n"])
def test_of_many_chunks_only_so_many_are_read_at_once(chunk: bytes) -> None:
    """All other clients wait for that long."""
    count = 5 * CHUNKS_AT_ONCE
    request = Request(1000, 10_000)
    request.feed(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * count + b"0\r\n\r\nrest")
    fed = 1
    while request.more:
        assert request.stage is Stage.BODY
        request.feed(b"")
        fed += 1
    assert fed == 6
    assert (request.stage, request.rest) == (Stage.WHOLE, b"rest")
    assert bytes(request.body) == chunk.split(b"\r\n")[1] * count


@pytest.mark.parametrize("behind", [b"", b"\r\n\r\n", b"\r\n\r\n0\r\n\r\n"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_at_every_cut(name: str, behind: bytes) -> None:
    line, begun, _ = REFUSED[name]
    whole = head_of(DIALECTS["chat"], line) + begun + behind
    once = read([whole])
    for cut in all_cuts(whole):
        request = read(cut)
        assert (request.stage, request.why, bytes(request.body)) == (once.stage, once.why, bytes(once.body))


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_request_without_a_body_is_whole_with_its_head(head: bytes) -> None:
    request = read([head])
    assert (request.stage, request.head, bytes(request.body), request.rest) == (Stage.WHOLE, head, b"", b"")


@pytest.mark.parametrize("version", [b"1.0", b"1.2", b"2.0"])
def test_chunks_are_of_one_version_of_http(version: bytes) -> None:
    head = b"POST / HTTP/%b\r\nTransfer-Encoding: chunked\r\n\r\n" % version
    request = read([head, b"0\r\n\r\n"])
    assert (request.stage, request.head) == (Stage.REFUSED, head)


def test_only_who_can_read_it_is_given_leave() -> None:
    for version, expects in ((b"1.1", True), (b"1.0", False)):
        lines = b"POST / HTTP/%b\r\nContent-Length: 5\r\n" % version
        request = read([lines + b"Expect: 100-continue\r\n\r\n"])
        assert (request.stage, request.expects, request.head) == (Stage.BODY, expects, lines + b"\r\n")


@pytest.mark.parametrize("size", [999, 1000, 1001, 3000])
def test_a_head_that_ends_behind_its_limit_is_too_long_at_every_cut(size: int) -> None:
    head = b"GET / HTTP/1.1\r\nA: "
    head += b"x" * (size - len(head) - 4) + b"\r\n\r\n"
    for cut in all_cuts(head + b"a\nb"):
        assert read(cut).stage is (Stage.WHOLE if size <= 1000 else Stage.LONG_HEAD)


def test_a_head_that_is_too_long() -> None:
    assert read([b"GET / HTTP/1.1\r\nA: " + b"x" * 970]).stage is Stage.HEAD
    assert read([b"GET / HTTP/1.1\r\nA: " + b"x" * 990]).stage is Stage.LONG_HEAD


def test_what_is_too_large_is_not_awaited() -> None:
    assert app.MAX_BODY == gunicorn_conf.MAX_BODY
    given = read([head_of(DIALECTS["chat"], "Content-Length: 101")], 100)
    assert given.stage is Stage.REFUSED and b"Content-Length: 101\r\n" in given.head
    assert read([head_of(DIALECTS["chat"], "Content-Length: 100")], 100).stage is Stage.BODY
    head = head_of(DIALECTS["chat"], "Transfer-Encoding: chunked")
    assert read([head, b"32\r\n" + b"x" * 50 + b"\r\n32\r\n"], 100).stage is Stage.BODY
    request = read([head, b"32\r\n" + b"x" * 50 + b"\r\n33\r\n"], 100)
    assert request.stage is Stage.REFUSED and request.body == b""
    assert b"Content-Length: 101\r\n" in request.head and b"Transfer-Encoding" not in request.head


def test_a_body_has_only_so_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_request, "MAX_CHUNKS", 3)
    head = head_of(DIALECTS["chat"], "Transfer-Encoding: chunked")
    assert read([head, b"1\r\na\r\n" * 2 + b"0\r\n\r\n"]).stage is Stage.WHOLE
    assert read([head, b"1\r\na\r\n" * 3 + b"0\r\n\r\n"]).stage is Stage.REFUSED


def test_every_stage_of_a_request_is_in_the_table_and_the_last_ones_lead_nowhere() -> None:
    assert set(STAGES) == set(Stage)
    assert {stage for stage in Stage if not STAGES[stage]} == {Stage.LONG_HEAD, Stage.WHOLE, Stage.REFUSED}
    assert set().union(*STAGES.values()) == set(Stage) - {Stage.HEAD}


def test_every_part_of_a_body_is_in_the_table_and_what_is_whole_has_no_chunks() -> None:
    assert set(PARTS) == set(Part)
    assert set().union(*PARTS.values()) == set(Part) - {Part.ALL}


@pytest.mark.parametrize("before", Stage)
@pytest.mark.parametrize("after", Stage)
def test_a_request_comes_to_the_stages_of_the_table_alone(before: Stage, after: Stage) -> None:
    request = Request(1000, 1000)
    request.stage = before
    if after in STAGES[before]:
        request._move(after)
        assert request.stage is after
        return
    with pytest.raises(RuntimeError, match="cannot come to"):
        request._move(after)


@pytest.mark.parametrize("before", Part)
@pytest.mark.parametrize("after", Part)
def test_the_parts_of_a_body_follow_each_other_as_the_table_says(before: Part, after: Part) -> None:
    request = Request(1000, 1000)
    request._part = before
    if after in PARTS[before]:
        request._go_on(after)
        assert request._part is after
        return
    with pytest.raises(RuntimeError, match="there cannot be"):
        request._go_on(after)
