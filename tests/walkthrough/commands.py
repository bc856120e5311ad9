"""Commands for readers of the documentation, in `sh` blocks below a mark `<!-- walk: NAME -->`."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^<!-- walk: (\S+) -->\n```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ANY = re.compile(r"^<!-- *walk", re.MULTILINE)
# A comment that follows a command and two blanks.
_COMMENT = re.compile(r"\s{2,}#.*$")


def walks(page: Path) -> dict[str, tuple[str, ...]]:
    """Return the commands of a page's marked blocks by name, without comments.

    Raises ValueError for a mark without a block, and for a duplicate name.
    """
    text = page.read_text("utf-8")
    found = _BLOCK.findall(text)
    blocks = {name: tuple(map(_plain, block.splitlines())) for name, block in found}
    if not len(blocks) == len(found) == len(_ANY.findall(text)):
        raise ValueError(f"{page}: each mark needs a unique name and a block that begins with ```sh")
    return blocks


def _plain(line: str) -> str:
    return _COMMENT.sub("", line)
