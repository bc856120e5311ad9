"""The commands that the documentation marks as what a reader does: `<!-- walk: NAME -->` above a block of `sh`."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^<!-- walk: (\S+) -->\n```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ANY = re.compile(r"^<!-- *walk", re.MULTILINE)
# What stands behind a command: two blanks and a comment.
_COMMENT = re.compile(r"\s{2,}#.*$")


def walks(page: Path) -> dict[str, tuple[str, ...]]:
    """The marked blocks of a page: the name of each, and its commands without comments. Raises ValueError for a mark
    without a block, and for a name that stands there twice.
    """
    text = page.read_text("utf-8")
    found = _BLOCK.findall(text)
    blocks = {name: tuple(map(_plain, block.splitlines())) for name, block in found}
    if not len(blocks) == len(found) == len(_ANY.findall(text)):
        raise ValueError(f"{page}: each mark stands above a block of its own, which begins with ```sh")
    return blocks


def _plain(line: str) -> str:
    return _COMMENT.sub("", line)
