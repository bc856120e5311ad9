"""Ten poisoned conversations on a real llama.cpp server, whose Jinja is its own: `python -m tests.healing.real`.

`--url URL --model NAME` asks another server that is there instead, such as a real vLLM. Each conversation is asked
directly and through the proxy, for a model whose name says its family and for one whose name says nothing, for which
the proxy learns from the refusals. Printed are the statuses.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import Inside
from tests.healing.shapes import SHAPES, tool
from tests.real.llama import LlamaServer
from tests.support.chat_templates import FOLDER
from tests.support.scripted import PATIENCE

CHAT = "/v1/chat/completions"
# The template, and the name by which its family is known.
TEMPLATE, FAMILY, UNKNOWN = "mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Nemo-Instruct", "parrot"
POISONED = (
    *("arguments cut off", "arguments with markup behind", "function_call", "ids of OpenAI", "call without result"),
    *("system later", "user, user", "user behind a result", "picture", "result an object"),
)


@dataclass(frozen=True)
class Row:
    """The statuses of one conversation: asked directly, healed by the family, healed by what was learnt."""

    shape: str
    direct: int
    family: int
    learnt: int


def rows(url: str, names: tuple[str, str] = (FAMILY, UNKNOWN)) -> Iterator[Row]:
    """All ten on the server at this URL, which knows the model by these names."""
    client = Inside()(url)
    for shape in POISONED:
        body = {"messages": SHAPES[shape], "tools": [tool()], "max_tokens": 1}
        healed = [client.post(CHAT, json={**body, "model": name}).status_code for name in names]
        yield Row(shape, _direct(url, {**body, "model": names[-1]}), *healed)


def _direct(url: str, body: dict[str, object]) -> int:
    request = urllib.request.Request(url + CHAT, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


def server(cache: Path) -> LlamaServer:
    """llama.cpp with that template."""
    return LlamaServer(cache=cache, template=FOLDER / f"{TEMPLATE}.jinja")


def main() -> int:
    """Print the table; 1 if one of them is refused although it was healed."""
    parser = argparse.ArgumentParser(description="ten poisoned conversations, without the proxy and with it")
    parser.add_argument("--url", help="of a model server that is there")
    parser.add_argument("--model", help="the name that it knows its model by")
    given = parser.parse_args()
    with ExitStack() as stack:
        if given.url:
            found = [*rows(given.url, (given.model, given.model))]
        else:
            cache = stack.enter_context(tempfile.TemporaryDirectory())
            found = [*rows(stack.enter_context(server(Path(cache))).url)]
    print(f"{given.url or TEMPLATE}: {'conversation':50} direct  healed  learnt")
    for row in found:
        print(f"{row.shape:82} {row.direct:5} {row.family:7} {row.learnt:7}")
    return int(any((row.family, row.learnt) != (200, 200) for row in found))


if __name__ == "__main__":
    sys.exit(main())
