"""Ten conversations that a real llama.cpp server, with its own Jinja, rejects without the proxy and accepts with it.

The model's name is of a known family, or of none (F79 to F83).
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
# A name of a known family, and one of no family.
FAMILY, UNKNOWN = "Mistral-Nemo-Instruct", "parrot"


@pytest.mark.slow
@pytest.mark.skipif(not llama.available(), reason="needs the extra `real`")
@pytest.mark.skipif(not (FOLDER / f"{TEMPLATE}.jinja").exists(), reason=f"no templates in {FOLDER}")
def test_llama_cpp_accepts_healed_conversations_that_it_rejects_directly(tmp_path: Path) -> None:
    with llama.LlamaServer(cache=tmp_path, template=FOLDER / f"{TEMPLATE}.jinja") as real:
        client = Inside()(real.url)
        for shape in POISONED:
            body = {"messages": SHAPES[shape], "tools": [tool()], "max_tokens": 1}
            direct = httpx2.post(real.url + CHAT, json={**body, "model": UNKNOWN}, timeout=PATIENCE)
            assert direct.status_code in (400, 500), shape
            for name in (FAMILY, UNKNOWN):
                assert client.post(CHAT, json={**body, "model": name}).status_code == 200, (shape, name)
