"""Ten poisoned conversations on the real llama.cpp server, whose Jinja is its own: refused without the proxy, accepted
with it (F79 to F83), for a model whose name says its family and for one whose name says nothing.
"""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.conftest import Inside
from tests.healing.shapes import POISONED, SHAPES, TEMPLATE, tool
from tests.real import llama
from tests.support.chat_templates import FOLDER
from tests.support.scripted import PATIENCE

CHAT = "/v1/chat/completions"
# The names by which its family is known, and by which it is not.
FAMILY, UNKNOWN = "Mistral-Nemo-Instruct", "parrot"


@pytest.mark.slow
@pytest.mark.skipif(not llama.available(), reason="needs the extra `real`")
@pytest.mark.skipif(not (FOLDER / f"{TEMPLATE}.jinja").exists(), reason=f"there are no templates in {FOLDER}")
def test_what_llama_cpp_refuses_it_accepts_healed(tmp_path: Path) -> None:
    with llama.LlamaServer(cache=tmp_path, template=FOLDER / f"{TEMPLATE}.jinja") as real:
        client = Inside()(real.url)
        for shape in POISONED:
            body = {"messages": SHAPES[shape], "tools": [tool()], "max_tokens": 1}
            direct = httpx2.post(real.url + CHAT, json={**body, "model": UNKNOWN}, timeout=PATIENCE)
            assert direct.status_code in (400, 500), shape
            for name in (FAMILY, UNKNOWN):
                assert client.post(CHAT, json={**body, "model": name}).status_code == 200, (shape, name)
