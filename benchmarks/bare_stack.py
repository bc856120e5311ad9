"""What a request costs Flask, gunicorn's threads and `requests` alone: the frame that the proxy stands in.

    gunicorn --worker-class gthread benchmarks.bare_stack:app

It looks at nothing: a body goes up as it came, and the answer comes back as it came. BENCH_UPSTREAM says where to.
"""

from __future__ import annotations

import os

import requests
from flask import Flask, Response, request

app = Flask(__name__)


@app.get("/health")
def health() -> str:
    """It runs."""
    return "ok"


@app.post("/<path:path>")
def answer(path: str) -> Response:
    """Send a request on, and its answer back."""
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
