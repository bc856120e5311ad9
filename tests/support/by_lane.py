"""Comparison of replies with and without the lane, for dialects that translate."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from proxy.dialects.chat.request import read_chat
from proxy.engine.engine import Engine
from proxy.exchange.plan import make_task
from proxy.exchange.reply_stream import StreamReply
from proxy.repair.policy import Policy
from tests.same.cases import Case
from tests.support.helpers import SEED

# A tool whose calls are streamed live.
FUNCTION = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
Feed = Callable[[StreamReply, bytes], bytes]


def new_engine(body: dict[str, Any]) -> Engine:
    asked = read_chat(json.dumps(body).encode(), body)
    return Engine(make_task(asked, Policy(), seed=SEED, raw_text=False, ordered=True))


def engine_of(case: Case) -> Engine:
    """Return an engine for a case's request."""
    return new_engine(case.body)


def usually(one: StreamReply, part: bytes) -> bytes:
    """Feed a reply without the lane."""
    return one.receive(part)


class ByLane:
    """Feed a reply as the pump does. `passed` counts the bytes that took the lane, `held` those that it held back."""

    def __init__(self) -> None:
        self.passed = 0
        self.held = 0

    def __call__(self, one: StreamReply, part: bytes) -> bytes:
        given = one.pass_by(part) if one.open_lane() else None
        if given is None:
            return one.receive(part)
        self.passed += len(part)
        if not given:
            self.held += len(part)
        return given


def ignore(error: Exception) -> None:
    """Fail the test: the engine must not raise."""
    raise AssertionError("the engine raised") from error


def ended(one: StreamReply, parts: Iterable[bytes], feed: Feed) -> bytes:
    """Return the stream of a reply until its end or its error."""
    given = b"".join(feed(one, part) for part in parts)
    given += one.finish()
    return given if one.failure is None else given + one.fail(one.failure)


def check_corpora(
    rng: random.Random,
    chosen: Iterable[Case],
    stream: Callable[[Engine, Iterable[bytes], Feed], bytes],
    read: Callable[[bytes], object],
) -> None:
    """Check that each case yields the same result with and without the lane, and that some cases take the lane."""
    lane = ByLane()
    for case in chosen:
        parts = list(batches(base64.b64decode(case.answer), rng))
        passed = lane.passed
        by = stream(engine_of(case), parts, lane)
        if lane.passed == passed:
            continue  # the case did not take the lane
        assert read(by) == read(stream(engine_of(case), parts, usually)), case.name
    assert lane.passed > 0


def batches(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield the events of a body, some joined and some cut in two."""
    rest = data
    while rest:
        at = 0
        for _ in range(rng.randrange(1, 4)):
            at = rest.find(b"\n\n", at) + 2
            if at == 1:
                at = len(rest)
                break
        if rng.random() < 0.1:
            at = max(1, at - rng.randrange(20))
        yield rest[:at]
        rest = rest[at:]
