"""The modules that a worker imports when it starts. Each one delays the first request."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.real.processes import ROOT

# Modules that only commands need. The last two are large libraries.
LATER = frozenset(("proxy.cli", "proxy.doctor", "gunicorn.arbiter", "jsonschema"))
# All imported modules, including Python's own, which differ between releases.
MOST = 740
MOST_OF_OURS = 272


@pytest.mark.slow
def test_a_start_imports_only_what_the_first_requests_need() -> None:
    code = "import proxy.app, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = run.stdout.split()
    ours = [name for name in loaded if name.partition(".")[0] == "proxy"]
    assert LATER.isdisjoint(loaded), "import these where they are used"
    assert len(ours) <= MOST_OF_OURS, "one more module at each start: does the first request need it?"
    assert len(loaded) <= MOST, "a library imports more modules, or there is a new library"
