"""The details of one request on the live page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.dialects.chat.request import read_chat
from proxy.exchange.capture import capture_bytes, request_facts
from proxy.exchange.recording import TryRecording
from proxy.library import reasons
from proxy.notations.source import Rejection
from proxy.notations.thoughts import Thoughts
from proxy.server.activity import Record
from proxy.web.page_views import story_json
from tests.support.helpers import OFFERED, ends, says
from tests.support.scripted import chat
from tests.unit.exchange.test_reply_stream import ROLE, STRONG, wire

TEXT = wire([ROLE, says(f"I will.\n{STRONG}"), ends()])


def capture(body: bytes = TEXT, *, status: int = 200, complete: bool = True, **asked: Any) -> bytes:
    """Return the capture of an answer."""
    request = read_chat(b"", chat(**{"tools": [*OFFERED], **asked}))
    about = request_facts(request, raw_text=False, client="", ordered=False, thoughts=Thoughts(unknown=True))
    answer = TryRecording(b"", raw_text=False)
    answer.call = cast(Any, SimpleNamespace(status=status, header=lambda _: "text/event-stream"))
    answer.answer.add(body)
    answer.complete = complete
    return capture_bytes(about, answer, ())


def story(**parts: bytes) -> Record:
    """Return a record. The argument `capture_1` becomes the part `capture 1`."""
    return Record({"id": "r1"}, {name.replace("_", " "): data for name, data in parts.items()})


def reading(one: Record) -> list[Any]:
    found = story_json(7, one)["reading"]
    assert isinstance(found, list)
    return found


def test_without_tools_the_story_says_that_the_text_is_not_read() -> None:
    assert reading(story(capture_1=capture(tools=[]))) == ["the request offers no tools, so its text is not read"]


@pytest.mark.parametrize(
    "one",
    [story(), story(capture_1=capture(status=500)), story(capture_1=b"no capture"), story(capture_1=b"")],
    ids=["nothing kept", "an error", "what is no capture", "nothing in it"],
)
def test_without_a_readable_capture_there_is_no_reading(one: Record) -> None:
    assert reading(one) == []


def test_every_rejection_has_a_sentence() -> None:
    sentences = reasons()
    assert {rejection.label for rejection in Rejection} <= sentences.keys()
    assert "no_name" in sentences and all(sentences.values())
