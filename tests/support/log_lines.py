"""Access to a request's log line."""

from __future__ import annotations

import pytest


def line(logged: pytest.LogCaptureFixture) -> str:
    """Return the request's only line."""
    (found,) = [record.getMessage() for record in logged.records if record.getMessage().startswith("id=")]
    return found
