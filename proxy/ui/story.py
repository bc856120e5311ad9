"""The story of one request, as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.activity.ring import Story
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.chat.client_view import view_reply
from proxy.errors import RulesError
from proxy.exchange.capture import Captured, read_capture
from proxy.repair.policy import Policy
from proxy.repair.text_report import explained, read_text
from proxy.tools.toolset import ToolSet

_CAPTURE = "capture "


def last_capture(story: Story) -> bytes | None:
    """The capture of the request's last try; None if there is none."""
    names = sorted(name for name in story.parts if name.startswith(_CAPTURE))
    return story.parts[names[-1]] if names else None


def story_json(number: int, story: Story) -> JsonObject:
    """The story in steps: what the client sent, and for each try what went up and came back, and what went down."""
    steps: list[Json] = [*_steps(story)]
    return {**story.summary, "number": number, "steps": steps, "reading": [*_reading(story)]}


def _steps(story: Story) -> Iterator[JsonObject]:
    titles = {"asked": "What the client sent", "sent": "What the client got"}
    for name in sorted(story.parts, key=_order):
        data = story.parts[name]
        if name in titles:
            yield {"title": titles[name], "text": _text(data)}
        elif name.startswith(_CAPTURE):
            answer = data.partition(b"\n")[2]
            yield {"title": f"What the model server answered, try {name.removeprefix(_CAPTURE)}", "text": _text(answer)}
        else:
            yield {"title": f"What went up, try {name.removeprefix('up ')}", "text": _text(data)}


def _order(name: str) -> tuple[int, str, str]:
    """In the order in which it was said."""
    kind, _, number = name.partition(" ")
    return {"asked": 0, "sent": 2}.get(name, 1), number, {"up": "a", "capture": "b"}.get(kind, "")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _reading(story: Story) -> Iterator[str]:
    """Lines on how the text of the last answer is read: its calls, and why the rest of it is none."""
    captured = _captured(story)
    if captured is None or captured.status != 200:
        return
    tools = captured.chat.tools
    if tools is None:
        yield "the request offers no tools, so its text is not read"
        return
    for choice in view_reply(captured.body, streamed=captured.streamed).choices.values():
        yield from _explained(choice.text, tools, stopped=captured.complete)


def _explained(text: str, tools: ToolSet, *, stopped: bool) -> Iterator[str]:
    """The lines of the command `parse`, without the content, which stands elsewhere."""
    for line in explained(read_text(text, tools, Policy(), stopped=stopped)):
        if line in ("content:", "no content"):
            return
        yield line


def _captured(story: Story) -> Captured | None:
    data = last_capture(story)
    if data is None:
        return None
    try:
        return read_capture(data, "this request")
    except RulesError:
        return None
