"""What a worker loads when it starts: each module is time in which nobody is served."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.real.processes import ROOT

# What only the paths of the operator need, and commands; the last two are libraries, and large.
LATER = frozenset(
    (
        *("proxy.web.page_views", "proxy.web.page_state", "proxy.cli", "proxy.doctor"),
        *("gunicorn.arbiter", "jsonschema"),
    )
)
# All that is loaded, Python's own modules included: those differ from release to release.
MOST = 740
MOST_OF_OURS = 272


@pytest.mark.slow
def test_a_start_loads_no_more_than_the_first_requests_need() -> None:
    code = "import proxy.app, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = run.stdout.split()
    ours = [name for name in loaded if name.partition(".")[0] == "proxy"]
    assert LATER.isdisjoint(loaded), "these are to be imported where they are used"
    assert len(ours) <= MOST_OF_OURS, "one more module at each start: does the first request need it?"
    assert len(loaded) <= MOST, "a library loads more than it did, or another one is loaded"
