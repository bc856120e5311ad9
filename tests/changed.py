"""The tests of what changed: `python -m tests.changed` prints their files and folders for `make quick`.

What changed is what differs from the last commit, and what git does not know yet; if that is nothing, the last commit.
A module's tests are the file of its name below tests/unit; where there is none, those of its folder that import it;
else the whole folder. A file of tests that changed is run itself, if it needs no process. The tests of the house are
always run. `python -m tests.changed --python` prints the Python files that changed, for ruff.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNIT = Path("tests/unit")
HOUSE = "tests/test_house.py"
# Their tests need no process.
LIGHT = (UNIT, Path("tests/contract"), Path("tests/failures"))


def changed() -> list[str]:
    """The paths of the files that changed, from the top of the tree."""
    now = _git("diff", "--name-only", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    return now or _git("diff", "--name-only", "HEAD~1", "HEAD")


def chosen_for(paths: Iterable[str]) -> list[str]:
    """The tests of these files, each once; those of the house alone if none has any."""
    found = {test for path in map(Path, paths) for test in _tests_of(path)}
    return [HOUSE, *sorted(found - {HOUSE})]


def _tests_of(path: Path) -> Iterator[str]:
    """The tests of one file."""
    if path.suffix != ".py":
        return
    if path.name.startswith("test_") and any(path.is_relative_to(folder) for folder in LIGHT):
        if (ROOT / path).exists():
            yield str(path)
    elif path.parts[0] == "proxy":
        yield from _of_module(path.relative_to("proxy"))


def _of_module(module: Path) -> Iterator[str]:
    own = UNIT / module.parent / f"test_{module.name}"
    if (ROOT / own).exists():
        yield str(own)
        return
    folder = UNIT / module.parent
    if not (ROOT / folder).is_dir() or folder == UNIT:
        return
    name = ".".join(("proxy", *module.with_suffix("").parts))
    importing = [test for test in sorted((ROOT / folder).glob("test_*.py")) if name in test.read_text("utf-8")]
    yield from [str(test.relative_to(ROOT)) for test in importing] or [str(folder)]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.splitlines()


def main() -> None:
    """Print what was asked for, in one line."""
    paths = changed()
    if "--python" in sys.argv[1:]:
        print(*(path for path in paths if path.endswith(".py") and (ROOT / path).exists()))
    else:
        print(*chosen_for(paths))


if __name__ == "__main__":
    main()
