"""Links of the pages. On a site there are only pages: what lies beside docs/ in the sources is named, not linked."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Files outside of docs/ that are pages of the site.
PAGES = {"README.md": "index.md", "benchmarks/README.md": "generated/benchmarks.md"}
_LINK = re.compile(r"\[([^\]\n]+)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


class DeadLinkError(Exception):
    """A link leads to no file."""


def site_text(markdown: str, page: str, source: str) -> str:
    """A page's text with the links of the site; `page` is its path there, `source` that of its file in the sources.

    Raises DeadLinkError for a link to a file outside of docs/ that is not there; the site itself checks the others.
    """
    here = posixpath.dirname(page) or "."

    def replaced(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if place:
            return f"[{text}]({posixpath.relpath(place, here)}{anchor})"
        if not (ROOT / path).exists():
            raise DeadLinkError(f"{source}: {target}")
        return text

    return _LINK.sub(replaced, markdown)
