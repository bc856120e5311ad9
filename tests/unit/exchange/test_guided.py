"""The guided call that replaces an unreadable one in a second try."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.errors import UpstreamBroken
from proxy.exchange.second_try import guided_call
from tests.support.helpers import function, new_engine, offered
from tests.support.rows import rows

ENGINE = (function("write_file", {"path": {"type": "string"}}, "path"),)
ARGUMENTS = '{"path": "a.txt"}'


def answer(*calls: tuple[str, str], finish: str = "tool_calls", content: str | None = None) -> dict[str, Any]:
    made = [
        {"id": f"c{at}", "type": "function", "function": {"name": n, "arguments": a}} for at, (n, a) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": made}
    return {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


@rows(__file__, "made")
def test_any_other_answer_is_an_error(made: dict[str, Any]) -> None:
    with pytest.raises(UpstreamBroken, match="was made to call a tool"):
        guided_call(made, new_engine(offered(*ENGINE)), "write_file")
