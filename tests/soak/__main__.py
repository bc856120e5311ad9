"""`make soak MINUTES=10`: see `python -m tests.soak --help`. The exit code is 1 if a check failed."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.soak.soak import Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(Path(folder), minutes=options.minutes, clients=options.clients, seed=options.seed)
        return asyncio.run(soak.run(options.workers))


if __name__ == "__main__":
    sys.exit(main())
