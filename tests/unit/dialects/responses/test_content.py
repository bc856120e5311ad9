"""Parts of messages and outputs as parts of chat messages."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.responses.content import parts_of, text_of
from proxy.dialects.validation import BODY, DroppedFields
from proxy.errors import BadRequest

PLACE = BODY.field("input").at(0).field("content")


def parts(value: Any) -> tuple[list[Any], list[str]]:
    losses = DroppedFields("refuse", "OpenAI")
    return [*parts_of(value, PLACE, losses)], [record.before for record in losses.records()]


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("Hi", [text("Hi")]),
        ("", []),
        ([], []),
        ([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": ""}], [text("a")]),
        ([{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "no"}], [text("a"), text("no")]),
        (
            [{"type": "input_image", "image_url": "data:,", "detail": "low"}],
            [{"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}],
        ),
        (
            [{"type": "input_file", "file_data": "data:,", "filename": "a.pdf"}],
            [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:,"}}],
        ),
        (
            [{"type": "input_file", "file_data": "data:,"}],
            [{"type": "file", "file": {"filename": "file", "file_data": "data:,"}}],
        ),
    ],
)
def test_each_part_is_carried(given: Any, made: list[Any]) -> None:
    assert parts(given) == (made, [])


def test_a_detail_that_chat_has_no_word_for_is_told() -> None:
    image = {"type": "input_image", "image_url": "https://h/a.png", "detail": "original"}
    made, lost = parts([image])
    assert made == [{"type": "image_url", "image_url": {"url": "https://h/a.png"}}]
    assert lost == ["input[].content[].detail: 1"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (None, "input.0.content: Field required"),
        (7, "input.0.content: must be a string or a list of parts"),
        ([{"type": "input_audio"}], "input.0.content.0.type: .*cannot stand here"),
        ([{"type": "input_image", "image_url": "file:///a"}], "input.0.content.0.image_url: must begin with http"),
        ([{"type": "input_image", "file_id": "f"}], "input.0.content.0.file_id: this server keeps no files"),
        ([{"type": "input_file", "file_url": "http://h"}], "input.0.content.0.file_url: no chat server reads"),
        ([{"text": "a"}], "input.0.content.0.type"),
    ],
)
def test_what_cannot_be_carried_is_refused_by_its_place(given: Any, error: str) -> None:
    with pytest.raises(BadRequest, match=error):
        parts(given)


def test_where_only_text_may_stand_there_is_nothing_else() -> None:
    losses = DroppedFields("refuse", "OpenAI")
    assert (
        text_of([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], PLACE, losses) == "a\n\nb"
    )
    with pytest.raises(BadRequest, match="takes text only"):
        text_of([{"type": "input_image", "image_url": "data:,"}], PLACE, losses)
