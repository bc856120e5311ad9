"""A response that is made in the background has a request of its own."""

from __future__ import annotations

from proxy.server.wsgi_answer import HAND_OVER, TURN
from proxy.web.background import ITS_OWN
from proxy.web.before_request import TURN as READ


def test_nothing_by_which_the_worker_drives_the_clients_request_is_copied() -> None:
    assert {HAND_OVER, TURN} <= ITS_OWN
    assert READ == TURN
