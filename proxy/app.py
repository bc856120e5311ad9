"""The module that gunicorn loads: `proxy.app:create_app()`."""

from __future__ import annotations

from proxy.web.app import create_app

__all__ = ("create_app",)
