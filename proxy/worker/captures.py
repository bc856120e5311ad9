"""The folder of captures, as the settings have it."""

from __future__ import annotations

from collections.abc import Callable

from proxy.config.settings import Settings
from proxy.exchange.capture_folder import CaptureFolder

_DAY = 86400.0


def capture_folder(settings: Settings, count: Callable[[str, int], None]) -> CaptureFolder:
    """The folder that the settings name, with their bounds; `count` is told what becomes of captures."""
    return CaptureFolder(settings.capture, settings.capture_max, settings.capture_days * _DAY, count)
