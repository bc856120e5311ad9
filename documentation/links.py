"""Links of the site. A link to a source file outside of docs/ becomes plain text, because the site has only pages."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Files outside of docs/ that are pages of the site.
PAGES = {"README.md": "index.md", "benchmarks/README.md": "generated/benchmarks.md"}
_LINK = re.compile(r"\[([^\]\n]+)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


class DeadLinkError(Exception):
    """The file that a link names does not exist."""


def site_text(markdown: str, page: str, source: str) -> str:
    """Return a page's text with the links of the site.

    `page` is the path of the page on the site, `source` the path of its file in the sources. Raises DeadLinkError for a
    link to a missing file outside of docs/; mkdocs checks the other links.
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
