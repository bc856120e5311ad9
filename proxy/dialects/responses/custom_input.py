"""The input of a custom tool, out of the arguments of the function that stands for it.

The model writes JSON, the client gets the text in it: `{"input": "*** Begin Patch\\n…"}` is `*** Begin Patch`, a line
end and so on. A patch that is wrapped again, in a fence or in an object, is unwrapped.
"""

from __future__ import annotations

from proxy.codec.json_text import Json, read_json
from proxy.dialects.responses.tools import INPUT

_PATCH = "*** Begin Patch"
_KEYS = (INPUT, "patch")


def plain_input(arguments: str) -> str:
    """The text of a custom tool's input, out of whole arguments; the arguments themselves if they hold none."""
    value = _parsed(arguments)
    text: Json = value
    if isinstance(value, dict):
        text = value.get(INPUT, "" if not value else None)
        if len(value) == 1:
            text = next(iter(value.values()))
    if not isinstance(text, str):
        return arguments
    return _unwrapped(text)


def _unwrapped(text: str) -> str:
    """A patch without the fence or the object around it; any other text as it is."""
    inner = _in_object(text)
    patch = _in_fence(inner)
    if patch.lstrip().startswith(_PATCH):
        return patch
    return text


def _in_object(text: str) -> str:
    if not text.lstrip().startswith("{"):
        return text
    value = _parsed(text)
    if not isinstance(value, dict) or len(value) != 1:
        return text
    key, inner = next(iter(value.items()))
    if key in _KEYS and isinstance(inner, str):
        return inner
    return text


def _in_fence(text: str) -> str:
    lines = text.strip().split("\n")
    if len(lines) < 3 or not lines[0].startswith("```") or lines[-1].strip() != "```":
        return text
    return "\n".join(lines[1:-1])


def _parsed(text: str) -> Json:
    """The value of a JSON text, with numbers of any size; None for what is none."""
    try:
        return read_json(text, dict)
    except ValueError:
        return None
