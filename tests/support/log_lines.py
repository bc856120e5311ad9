"""What the log says of a request."""

from __future__ import annotations

import pytest


def line(logged: pytest.LogCaptureFixture) -> str:
    """The one line of the request."""
    (found,) = [record.getMessage() for record in logged.records if record.getMessage().startswith("id=")]
    return found
