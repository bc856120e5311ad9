"""A real browser without a window: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

# What it needs as root, in a container, and with a small /dev/shm.
_FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
# What is awaited comes, however busy the machine is, in milliseconds.
PATIENCE = 60_000


def chromium() -> str:
    """Where it is. Without one CI fails, and elsewhere the test is skipped."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        told = "there is no Chromium here (apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser, until the block ends."""
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=chromium(), args=_FLAGS)
        try:
            yield one
        finally:
            one.close()


@contextmanager
def opened(browser: Browser, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Page]:
    """A page in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
