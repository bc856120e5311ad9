"""`make package`: build and check wheel and sdist in dist/, and try the wheel in an empty environment. No upload."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.package.build import PackageError, build, check, install, run
from tests.real.processes import ROOT


def main() -> int:
    """Empty dist/, build into it, and return the exit status."""
    folder = ROOT / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        try:
            built = build(folder, work)
            print(check(built, work), end="")
            commands = install(built.wheel, work / "empty")
            print(run([str(commands / "vllm-tool-proxy"), "--version"], work), end="")
        except PackageError as error:
            print(error, file=sys.stderr)
            return 1
    for path in (built.wheel, built.sdist):
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
