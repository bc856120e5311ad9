"""Minimal aiohttp proxy, to measure its cost per event: `python parsing_proxy.py PORT UPSTREAM_PORT`.

It parses the JSON of each event, checks whether it contains text, and writes the event unchanged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

_SESSION = web.AppKey("session", aiohttp.ClientSession)
_END = b"\n\n"


async def answer(request: web.Request) -> web.StreamResponse:
    """Forward a request and return the response."""
    body = await request.read()
    headers = {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{sys.argv[2]}{request.path}"
    async with request.app[_SESSION].request(request.method, url, data=body, headers=headers) as upstream:
        if upstream.content_type != "text/event-stream":
            text = await upstream.read()
            return web.Response(body=text, status=upstream.status, content_type=upstream.content_type)
        response = web.StreamResponse(status=upstream.status, headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for event in events(upstream):
            look(event)
            await response.write(event)
        await response.write_eof()
        return response


async def events(upstream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the events of a response unchanged."""
    rest = b""
    async for data in upstream.content.iter_any():
        *whole, rest = (rest + data).split(_END)
        for event in whole:
            yield event + _END


def look(event: bytes) -> str:
    """Return the text in an event."""
    data = event[5:].strip()
    if data == b"[DONE]":
        return ""
    choices = json.loads(data).get("choices")
    return str(choices[0]["delta"].get("content") or "") if choices else ""


async def session(app: web.Application) -> AsyncIterator[None]:
    """Hold the connections to the upstream while the application runs."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as made:
        app[_SESSION] = made
        yield


def main() -> None:
    """Listen and serve."""
    app = web.Application(client_max_size=16 << 20)
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None, backlog=4096)


if __name__ == "__main__":
    main()
