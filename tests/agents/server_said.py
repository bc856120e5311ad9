"""What a real model server said, in any dialect: whether it is what its model's script means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.agents.shape import said
from tests.support.reply import Seen

# A server may read this notation itself; its calls are no text then.
_MARKS = ("<tool_call>", "</tool_call>")


def faults(folder: Path, meant: str) -> Iterator[str]:
    """Say what the model server said, by the run's folder, if it was never what its model was meant to write: that very
    text, or what the server itself makes of it.
    """
    found = said(folder, "server")
    if not any(_is(each, meant) for each in found):
        yield f"the model server never sent {meant!r}, but {[(each.text, each.calls) for each in found]}"


def _is(found: Seen, meant: str) -> bool:
    if not found.calls:
        return found.text == meant
    before, _, call = meant.partition(_MARKS[0])
    try:
        written = json.loads(call.removesuffix(_MARKS[1]))
    except ValueError:
        return False
    read = [{"name": name, "arguments": arguments} for name, arguments in found.calls]
    return read == [written] and found.text.strip() == before.strip()
