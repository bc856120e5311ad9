"""Ten poisoned conversations on the real llama.cpp server: refused without the proxy, accepted with it (F79 to F83)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.healing.real import POISONED, TEMPLATE, Row, rows, server
from tests.real import llama
from tests.support.chat_templates import FOLDER


@pytest.mark.slow
@pytest.mark.skipif(not llama.available(), reason="needs the extra `real`")
@pytest.mark.skipif(not (FOLDER / f"{TEMPLATE}.jinja").exists(), reason=f"there are no templates in {FOLDER}")
def test_what_llama_cpp_refuses_it_accepts_healed(tmp_path: Path) -> None:
    with server(tmp_path) as real:
        found = [*rows(real.url)]
    assert [row.shape for row in found] == [*POISONED] and len(found) == 10
    assert all(row.direct in (400, 500) for row in found)
    assert found == [Row(row.shape, row.direct, 200, 200) for row in found]
