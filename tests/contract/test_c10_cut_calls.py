"""C10: unreadable text is never lost. A truncated call in any notation is the complete call or stays text."""

from __future__ import annotations

import pytest

from proxy.json import JsonObject
from proxy.notations import tables
from tests.support.helpers import call_json, offered
from tests.support.notations_reading import read, repaired
from tests.support.renderers import RENDERERS

pytestmark = pytest.mark.once

TOOLS = offered()
ARGUMENTS: JsonObject = {"path": "a", "content": "b c"}
CALL = ("write_file", ARGUMENTS)
OBJECT = call_json("write_file", **ARGUMENTS)
RENDERED = {name: renderer.render([CALL]) for name, renderer in RENDERERS.items()}
PLAIN = {
    **{opener: f"{opener}{OBJECT}{(*closers, '')[0]}" for opener, closers in tables.TOKENS.items()},
    **{word: f"<{word}>{OBJECT}</{word}>" for word in tables.WRAPPER_WORDS},
}
ROWS = {**RENDERED, **{name: text for name, text in PLAIN.items() if name not in "".join(RENDERED.values())}}
# A header without its message contains no part of a call.
HEADERS = ("<|start|>", "<|channel|>")


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_truncated_call_is_the_whole_call_or_its_text(name: str) -> None:
    """Only a lone opening marker is dropped."""
    text = ROWS[name]
    assert repaired(read(text, TOOLS).calls, TOOLS) == [CALL]
    for end in range(1, len(text) + 1):
        cut = text[:end]
        whole = read(cut, TOOLS)
        assert read(cut, TOOLS, (1, 3, 7)[end % 3]) == whole, cut
        calls = repaired(whole.calls, TOOLS)
        assert calls in ([], [CALL]), cut
        if not calls and "wri" in cut and ("{" in cut or not cut.startswith(HEADERS)):
            assert whole.text == cut
