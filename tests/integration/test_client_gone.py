"""K1: whenever the client leaves, the model server sees it at once and the slot is free (real gunicorn).

What is looked at is that a close is passed on at once, and not when somebody writes again.
"""

from __future__ import annotations

from tests.conftest import Front
from tests.support.scripted import (
    ROLE,
    SSE,
    Action,
    Client,
    answer,
    arguments,
    chat,
    chunked,
    completion,
    head,
    opened,
    text,
)

# moment -> what the upstream has sent by then, whether the client asked for a stream, and how it can tell that it is so
MOMENTS: dict[str, tuple[list[Action], bool, bytes]] = {
    "before headers": ([], True, b""),
    "before the first token": ([SSE + chunked(ROLE)], True, b""),
    "mid-text": ([SSE + chunked(ROLE), chunked(text("word "))], True, b"word"),
    "mid-call, its arguments on their way": (
        [SSE + chunked(ROLE), chunked(opened(0, "c1", "write_file")), chunked(arguments(0, '{"path": "a'))],
        True,
        b"write_file",
    ),
    "mid-call, an argument held back": (
        [SSE + chunked(text("word ")), chunked(opened(0, "c1", "todo")), chunked(arguments(0, '{"items": "[1'))],
        True,
        b"word",
    ),
    "mid-call, held as text": (
        [SSE + chunked(text("word ")), chunked(text('<tool_call>\n{"name": "write_file", "argu'))],
        True,
        b"word",
    ),
    "waiting for a whole answer's head": ([], False, b""),
    "waiting for a whole answer's body": ([head(200, {"Content-Length": "500"}) + b'{"id"'], False, b""),
}


def test_a_client_that_leaves_a_path_that_passes_is_seen_too(either_front: Front) -> None:
    upstream, proxy = either_front.upstream, either_front.proxy
    for said in ([], [SSE + chunked(text("a"))]):
        gate = upstream.gate()
        upstream.play([*said, gate])
        with Client.post(proxy.port, {"prompt": "x", "stream": True}, "/v1/completions") as client:
            gate.wait()
            left = client.vanish(reset=False)
        assert upstream.seen[0].gone_after(left)
        assert proxy.idle()


def test_one_client_that_leaves_does_not_disturb_the_others(front: Front) -> None:
    leaves, stays = front.upstream.gate(), front.upstream.gate()
    front.upstream.play([leaves], [stays, answer(completion("a"))])
    with Client.post(front.proxy.port, chat()) as leaving:
        leaves.wait()
        with Client.post(front.proxy.port, chat(stream=False)) as staying:
            stays.wait()
            assert front.upstream.seen[0].gone_after(leaving.vanish(reset=True))
            stays.open()
            with staying.answer() as response:
                assert response.status == 200
