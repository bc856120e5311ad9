"""The module that gunicorn loads: `proxy.app:create_app()`."""

from __future__ import annotations

from flask import Flask

from proxy.web import app
from proxy.web.page import PAGE


def create_app() -> Flask:
    """The application for one worker, with its live page; RulesError if settings or rules cannot be used."""
    return app.create_app(PAGE)
