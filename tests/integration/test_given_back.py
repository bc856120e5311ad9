"""A request's memory, which may be megabytes, is freed when the request ends and not by garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.dialects import DIALECTS, Dialect
from tests.support.live_page import live_page
from tests.support.scripted import DONE, Act, Upstream, answer, finish, stream, text, whole_reply

CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'
SAID = {
    "text": "It is done.",
    "a call": CALL,
    "a call that is shown": f"So:\n```\n{CALL}\n```\nand that is all.",
    "half a call": CALL[:40],
    "quotation marks without a backslash": CALL.replace("hi", 'say "hi"!'),
    "tags": "<tool_call>\n<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>",
}


def scripts(words: str) -> dict[str, list[Any]]:
    parts = [text(part) for part in (words[:9], words[9:])]
    return {
        "streamed": stream(*parts, finish(), DONE),
        "whole": whole_reply(words),
        "broken off": stream(*parts, Act.RST, ended=False),
        "no event": stream(b"data: {\n\n", ended=False),
        "an error": [answer({"error": {"message": "no", "type": "x", "code": 500}}, 500)],
        "gone": [Act.RST],
    }


@pytest.fixture
def garbage() -> Iterator[list[Any]]:
    """Yield the list that each collection fills with garbage."""
    gc.disable()
    gc.freeze()  # existing objects are not scanned again
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
@pytest.mark.parametrize("server_does", scripts(""))
def test_a_request_leaves_no_cycles(inside: Inside, garbage: list[Any], dialect: Dialect, server_does: str) -> None:
    script = {name: scripts(words)[server_does] for name, words in SAID.items()}
    body = dialect.ask(streamed=server_does != "whole", tools=True)
    with Upstream() as server:
        client = inside(server.url)
        for name, each in script.items():
            server.play(*[each] * 8)
            server.paths["/v1/models"] = [answer({"data": []})]
            client.post(dialect.path, json=body)
            gc.collect()
            gc.set_debug(gc.DEBUG_SAVEALL)
            client.post(dialect.path, json=body)
            gc.collect()
            gc.set_debug(0)
            found = sorted({type(each).__qualname__ for each in garbage if type(each).__module__.startswith("proxy.")})
            assert found == [], name
            garbage.clear()


@pytest.mark.parametrize("server_does", ["streamed", "whole", "broken off"])
def test_the_live_page_leaves_no_cycles(garbage: list[Any], server_does: str) -> None:
    body = DIALECTS["chat"].ask(streamed=server_does != "whole", tools=True)
    with Upstream() as server, live_page(server.url, audit_values=True) as page:
        server.play(*[scripts(CALL)[server_does]] * 8)
        page.client.post("/v1/chat/completions", json=body)
        page.requests(1)
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        page.client.post("/v1/chat/completions", json=body)
        page.requests(2)
        gc.collect()
        gc.set_debug(0)
        found = {type(each).__qualname__ for each in garbage if type(each).__module__.startswith("proxy.")}
    assert found == set()
