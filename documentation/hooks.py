"""Hooks of mkdocs: add the generated pages and README as the first page, and rewrite the links.

mkdocs loads this file by its path. `python -m mkdocs` must run in the project's folder to find this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from documentation.links import ROOT, site_text
from documentation.pages import FOLDER, pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

INDEX = "index.md"
BENCHMARKS = f"{FOLDER}/benchmarks.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files in docs/."""
    for path, text in {INDEX: (ROOT / "README.md").read_text("utf-8"), **pages()}.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of pages from the sources; generated pages already have the links of the site."""
    path = page.file.src_uri
    if path == INDEX:
        return site_text(markdown, path, "README.md")
    if path == BENCHMARKS:
        return site_text(markdown, path, "benchmarks/README.md")
    if path.startswith(f"{FOLDER}/"):
        return markdown
    return site_text(markdown, path, f"docs/{path}")
