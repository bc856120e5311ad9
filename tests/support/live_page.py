"""The application with its live page, without gunicorn, and access to the page's state."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask.testing import FlaskClient

from proxy.config.api_keys import Keys
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.server.activity import Activity, ActivityRing
from proxy.server.state import WorkerState
from proxy.web.app import make_app
from tests.conftest import BufferedClient
from tests.support.scripted import PATIENCE
from tests.support.worker_state import make_state, read_rules

# The request environment of a browser on this machine.
LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "127.0.0.1:8003"}
OWN_PAGE = {"Origin": "http://127.0.0.1:8003"}


def admin(key: str) -> Keys:
    """Return keys with this admin key."""
    return Keys(admin=hashlib.sha256(key.encode()).hexdigest())


@dataclass
class Page:
    """A local client of the application, and its worker."""

    client: FlaskClient
    worker: WorkerState

    @property
    def activity(self) -> Activity:
        """The activity that the page shows."""
        assert self.worker.activity is not None
        return self.worker.activity

    def state(
        self, is_there: Callable[[dict[str, Any]], bool] = lambda state: True, query: str = "", **given: Any
    ) -> dict[str, Any]:
        """Return the state once `is_there` returns true for it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.client.get(f"/_ui/state{query}", environ_overrides=LOCAL, **given)
            assert answer.status_code == 200, answer.text
            state: dict[str, Any] = answer.get_json()
            if is_there(state):
                return state
            assert time.monotonic() < deadline, state
            time.sleep(0.01)

    def requests(self, count: int = 1, **given: Any) -> list[dict[str, Any]]:
        """Return the ended requests with their stories, when there are `count`."""
        state = self.state(lambda state: len(state["requests"]) >= count, **given)
        return [{**row, **self.story(row["number"])} for row in state["requests"]]

    def story(self, number: int) -> dict[str, Any]:
        answer = self.client.get(f"/_ui/requests/{number}", environ_overrides=LOCAL)
        assert answer.status_code == 200, answer.text
        story: dict[str, Any] = answer.get_json()
        return story


@contextmanager
def live_page(upstream: str, rules: str = "", keys: Keys | None = None, **settings: Any) -> Iterator[Page]:
    """Yield the application with its live page, whose ring is in memory."""
    read = parse_rules(rules.encode(), "rules.yaml", read_rules(None)) if rules else read_rules(None)
    worker = make_state(Settings(upstream=upstream, **settings), read, keys=keys)
    shared, lose = worker.shared, partial(worker.metrics.add, "activity_lost")
    worker.activity = Activity(ActivityRing(shared.transaction), lose, gather=0.01)
    app = make_app(worker)
    app.test_client_class = BufferedClient
    try:
        yield Page(app.test_client(), worker)
    finally:
        worker.activity.close()
