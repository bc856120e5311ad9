"""What a Responses client has of a model server's reply: the way of real bytes, through decoder, engine and writer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from proxy.codec.json_text import JsonObject
from proxy.dialects.responses.echo import echo
from proxy.dialects.responses.output import ReplyOptions
from proxy.dialects.responses.tools import OfferedTools
from proxy.dialects.responses.writer import ResponsesDialect, ResponsesWriter
from proxy.engine.engine import Engine, Task
from proxy.engine.events import Event
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.whole_answer import answer_as_answer
from proxy.formats.reasoning import Thoughts
from tests.support.helpers import SEED, ends, run, says
from tests.support.responses_checker import check_response, check_stream, text_of

# With this limit an answer that was cut off was cut off by it.
LIMIT = 1


def options(**fields: Any) -> ReplyOptions:
    """What a reply says of a small request."""
    given = {"id": "abc", "echo": echo({"model": "m"}), "limit": LIMIT, "created_at": 5, "now": lambda: 6}
    return ReplyOptions(**{**given, **fields})


def offering(*named: tuple[str, Any]) -> OfferedTools:
    """These tools, by the names under which the server knows them."""
    return OfferedTools(by_name=dict(named))


def told(parts: Iterable[str]) -> list[Event]:
    """The events of a reply that says this and ends, thoughts told from the text."""
    engine = Engine(Task(tools=None, seed=SEED, ordered=True, thoughts=Thoughts()))
    return run([*map(says, parts), ends()], engine)


def sent(parts: Iterable[bytes], engine: Engine, **fields: Any) -> bytes:
    """The stream that a client gets for these bytes of a model server's."""
    reply = StreamReply(engine, ResponsesWriter(options(**fields)), _crashed)
    given = b"".join(map(reply.receive, parts))
    if reply.failure is None:
        given += reply.finish()
    return given + (b"" if reply.failure is None else reply.fail(reply.failure))


def streamed(parts: Iterable[bytes], engine: Engine, **fields: Any) -> dict[str, Any]:
    """The last response of that stream, read by all rules but the SDK's types."""
    return check_stream(sent(parts, engine, **fields), types=False)


def whole(answer: JsonObject, engine: Engine, **fields: Any) -> dict[str, Any]:
    """The response for a whole answer, strictly read; raises the error that it ends in."""
    body = json.dumps(answer).encode()
    return check_response(answer_as_answer(body, answer, engine, ResponsesDialect(options(**fields))))


def check_alike(response: dict[str, Any], calls: list[tuple[str, str]], text: str, finish: str | None) -> None:
    """This dialect has the calls, the text and the end that a chat client has, to whom `finish` is None if it fails."""
    found = [item for item in response["output"] if item["type"] == "function_call"]
    assert (finish is None) is (response["status"] == "failed"), response
    assert [item["name"] for item in found] == [name for name, _ in calls]
    if finish is None:
        return
    assert (finish in ("stop", "tool_calls")) is (response["status"] == "completed")
    assert [item["arguments"] for item in found] == [_written(given) for _, given in calls]
    if not text_of(response, "reasoning"):
        assert text_of(response).strip() == text.strip()


def _written(arguments: str) -> str:
    """A call without arguments has none of them."""
    return arguments if arguments.strip() else "{}"


def _crashed(error: Exception) -> None:
    raise AssertionError("the engine raised") from error
