"""When a chunk that contains a call is rebuilt, its other fields are kept (C1), and so is the order of reasoning."""

from __future__ import annotations

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions
from proxy.dialects.chat.writer import ChatWriter
from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.engine.events import Chunk, Reasoning, Text
from proxy.exchange.reply_stream import StreamReply
from tests.conftest import Inside
from tests.support.helpers import calls, chunk, delta, ends, flat, new_engine, piece, received, run, says
from tests.support.messages_ask import ask
from tests.support.messages_checker import check_stream
from tests.support.scripted import DONE, LAST, SSE, Upstream, answer, chunked

OPTIONS = ChatOptions("m", True, StripFields(), parsed=True)


def written(chunks: list[Chunk], options: ChatOptions = OPTIONS) -> bytes:
    def crashed(error: Exception) -> None:
        raise error

    reply = StreamReply(new_engine(), ChatWriter(options), crashed)
    given = b"".join(reply.receive(each.raw) for each in chunks) + reply.receive(b"data: [DONE]\n\n")
    return given + reply.finish()


HELD = ["a <tool", "a <tool_call>", 'a <tool_call>{"name": "ba', "a ```json\n{", "a [TOOL_CA", "\n"]


def thinks(text: str, name: str = "reasoning") -> Chunk:
    return chunk(delta(0, None, **{name: text}))


def in_messages(chunks: list[Chunk]) -> list[tuple[str, str]]:
    """Return a Messages client's blocks."""

    def crashed(error: Exception) -> None:
        raise error

    reply = StreamReply(new_engine(ordered=True), MessagesWriter(ReplyOptions("m")), crashed)
    given = b"".join(reply.receive(each.raw) for each in chunks) + reply.receive(b"data: [DONE]\n\n")
    message = check_stream(given + reply.finish())
    return [(block["type"], block.get("text", block.get("thinking"))) for block in message["content"]]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("text", HELD[:-1])
@pytest.mark.parametrize("warm", [0, 3])
def test_reasoning_does_not_overtake_held_text(text: str, name: str, warm: int) -> None:
    """The first `warm` chunks of reasoning show the proxy the shape of such chunks."""
    before = [thinks("so ", name) for _ in range(warm)]
    chunks = [*before, says(text), thinks("hm", name), thinks("m", name), says(" b"), ends()]
    wanted = [("thinking", "so " * warm)] if warm else []
    assert in_messages(chunks) == [*wanted, ("text", text), ("thinking", "hmm"), ("text", "b")]
    events = flat(run(chunks, new_engine(ordered=True)))
    said = [(type(event).__name__, event.text) for event in events if isinstance(event, Text | Reasoning)]
    kinds = [kind for at, (kind, _) in enumerate(said) if at == 0 or said[at - 1][0] != kind]
    assert kinds == [*(["Reasoning"] if warm else []), "Text", "Reasoning", "Text"]
    assert "".join(text for kind, text in said if kind == "Text") == f"{text} b"


def test_reasoning_inside_a_text_call_is_sent_before_the_call() -> None:
    """For a client that receives both in order, the reasoning ends the held text."""
    chunks = [says("a\n<tool_call>"), thinks("hm"), says('{"name": "now", "arguments": {}}</tool_call>\nb'), ends()]
    seen = received(written(chunks))[0]
    assert (seen.calls, seen.reasoning, seen.text.split()) == ([("now", "{}")], "hm", ["a", "b"])
    events = [*flat(run(chunks, new_engine(ordered=True)))]
    said = [event.text for event in events if isinstance(event, Text | Reasoning)]
    assert "".join(said).startswith("a\n<tool_call>hm")


def test_reasoning_does_not_overtake_text_that_may_repeat_a_call() -> None:
    call = [calls(piece(0, '{"command": "ls"}', "bash", "a"))]
    for text in ('{"comm', "{", ' {"command"'):
        chunks = [*call, says(text), thinks("hm"), says("b"), ends("tool_calls")]
        events = flat(run(chunks, new_engine(ordered=True)))
        said = [event.text for event in events if isinstance(event, Text | Reasoning)]
        assert said == [text, "hm", "b"]
    # Text that does repeat the call is dropped, and the reasoning is kept.
    chunks = [*call, says('{"command": "ls"}'), thinks("hm"), ends("tool_calls")]
    events = flat(run(chunks, new_engine(ordered=True)))
    assert [event.text for event in events if isinstance(event, Text | Reasoning)] == ["hm"]


def test_separate_reasoning_is_not_delayed() -> None:
    """C2: nothing is held without need."""
    engine = new_engine()
    engine.feed(says("a <tool_call>"))
    assert [event.text for event in flat(engine.feed(thinks("hm"))) if isinstance(event, Reasoning)] == ["hm"]


def test_the_messages_dialect_keeps_text_and_reasoning_in_order(inside: Inside) -> None:
    held = chunk(delta(content="a <tool"))
    script = [SSE, *(chunked(each.raw) for each in (held, thinks("hm"), says(" b"), ends())), chunked(DONE), LAST]
    with Upstream(script) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        body = ask(stream=True, tools=[{"name": "now", "input_schema": {"type": "object"}}])
        message = check_stream(inside(server.url).post("/v1/messages", json=body).data)
    assert [block["type"] for block in message["content"]] == ["text", "thinking", "text"]
