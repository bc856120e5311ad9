"""The folder of third-party corpora and captures, which are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "TESTS_SHARED"
# Earlier releases use the second name.
SHARED = Path(os.environ.get(VARIABLE) or os.environ.get("TOOL_PROXY_SHARED") or Path(__file__).parents[3] / "shared")
