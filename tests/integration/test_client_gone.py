"""K1: when the client leaves, the model server sees the close immediately and the slot is free (real gunicorn).

The close must be forwarded immediately, not at the next write.
"""

from __future__ import annotations

from tests.conftest import Front
from tests.support.scripted import SSE, Client, answer, chat, chunked, completion, text


def test_a_client_that_leaves_a_forwarded_path_is_noticed(either_front: Front) -> None:
    upstream, proxy = either_front.upstream, either_front.proxy
    for said in ([], [SSE + chunked(text("a"))]):
        gate = upstream.gate()
        upstream.play([*said, gate])
        with Client.post(proxy.port, {"prompt": "x", "stream": True}, "/v1/completions") as client:
            gate.wait()
            left = client.vanish(reset=False)
        assert upstream.seen[0].gone_after(left)
        assert proxy.idle()


def test_a_client_that_leaves_does_not_disturb_the_others(front: Front) -> None:
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
