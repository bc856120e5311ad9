"""What a whole request costs, as a count of calls of the proxy's own Python functions: the same on each machine.

A figure may shrink, and is then to be written anew here; one that grows is a regression.
"""

from __future__ import annotations

from benchmarks import body
from tests.conftest import Inside
from tests.support.scripted import Upstream, answer, completion
from tests.unit.exchange.test_call_counts import counted

CHAT = "/v1/chat/completions"
REQUESTS = 5
# Calls for a request with ten tools that is answered by a text: 580 where its answer comes in one part, which it does
# on an idle machine, and 27 more for each further one.
FIGURE = 637.0


def test_a_whole_request_costs_no_more_calls_than_it_did(inside: Inside) -> None:
    asked = body.request({}, stream=False)
    with Upstream() as upstream:
        client = inside(upstream.url)
        upstream.play(*[[answer(completion("So it is."))]] * (REQUESTS + 2))
        for _ in range(2):
            assert client.post(CHAT, json=asked).status_code == 200
        with counted() as count:
            for _ in range(REQUESTS):
                assert client.post(CHAT, json=asked).status_code == 200
    assert FIGURE * 0.8 <= count[0] / REQUESTS <= FIGURE
