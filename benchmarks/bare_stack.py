"""Baseline server: Flask, gunicorn's threads and `requests`, without the proxy's own code.

    gunicorn --worker-class gthread benchmarks.bare_stack:app

It forwards request and response bodies unchanged. BENCH_UPSTREAM is the URL of the upstream.
"""

from __future__ import annotations

import os

import requests
from flask import Flask, Response, request

app = Flask(__name__)


@app.get("/health")
def health() -> str:
    """Report that the server runs."""
    return "ok"


@app.post("/<path:path>")
def answer(path: str) -> Response:
    """Forward a request and return the response."""
    upstream = requests.post(
        f"{os.environ['BENCH_UPSTREAM']}/{path}",
        data=request.get_data(),
        headers={"Content-Type": "application/json"},
        stream=True,
        timeout=60,
    )
    content_type = upstream.headers.get("Content-Type", "application/json")
    if content_type.startswith("text/event-stream"):
        return Response(upstream.iter_content(chunk_size=None), upstream.status_code, content_type=content_type)
    return Response(upstream.content, upstream.status_code, content_type=content_type)
