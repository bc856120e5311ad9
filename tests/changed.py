"""The unit tests of the packages that changed: `python -m tests.changed` prints their folders for `make quick`.

What changed is what differs from the last commit, and what git does not know yet; if that is nothing, the last commit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNIT = Path("tests") / "unit"


def changed() -> list[str]:
    """The paths of the files that changed, from the top of the tree."""
    now = _git("diff", "--name-only", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    return now or _git("diff", "--name-only", "HEAD~1", "HEAD")


def folders(paths: Iterable[str]) -> list[str]:
    """The tests of the packages that the paths belong to, and those of the house; all unit tests if it is none."""
    packages = {parts[1] for parts in map(_parts, paths) if len(parts) > 2 and parts[0] == "proxy"}
    packages |= {parts[2] for parts in map(_parts, paths) if len(parts) > 3 and parts[:2] == UNIT.parts}
    found = sorted(str(UNIT / package) for package in packages if (ROOT / UNIT / package).is_dir())
    return ["tests/test_house.py", *(found or [str(UNIT)])]


def _parts(path: str) -> tuple[str, ...]:
    return Path(path).parts


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    print(*folders(changed()))
