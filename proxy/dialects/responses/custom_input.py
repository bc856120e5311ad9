"""The input of a custom tool, out of the arguments of the function that stands for it, while they stream.

The model writes JSON, the client gets the text in it: `{"input": "*** Begin Patch\\n…"}` is `*** Begin Patch`, a line
end and so on. A patch that is wrapped once more, in a fence or in an object, is unwrapped; what may be wrapped so waits
until it is whole.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from proxy.codec.json_text import Json, read_json
from proxy.dialects.responses.tools import INPUT
from proxy.transitions import next_state

# The beginning of the arguments, up to the first character of the input.
_OPENING = re.compile(rf'\s*+\{{\s*+"{INPUT}"\s*+:\s*+"')
_LONGEST_OPENING = 64
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>[^u]))", re.DOTALL)
_CUT = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_LOW = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_LOW_CUT = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")
_WHOLE = 6
# What a patch is wrapped in begins so.
_WRAPPERS = ("`", "{")
_PATCH = "*** Begin Patch"
_MAX_BLANKS = 4096
_KEYS = (INPUT, "patch")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class InputState(Enum):
    """The stage to which the arguments are read."""

    # The input has not begun.
    OPENING = auto()
    # It has, and may still be wrapped.
    FIRST = auto()
    # It leaves as it comes.
    LIVE = auto()
    # It has left, and has ended.
    CLOSED = auto()
    # It leaves at the end of the arguments.
    WHOLE = auto()


class InputStep(Enum):
    """What is known of them now."""

    # The input begins.
    BEGIN = auto()
    # It is in no wrapper.
    LET_GO = auto()
    # It is in a wrapper, or there is none where it should be.
    KEEP = auto()
    # Its string has ended.
    CLOSE = auto()


TRANSITIONS: dict[InputState, dict[InputStep, InputState]] = {
    InputState.OPENING: {
        InputStep.BEGIN: InputState.FIRST,
        InputStep.KEEP: InputState.WHOLE,
    },
    InputState.FIRST: {
        InputStep.LET_GO: InputState.LIVE,
        InputStep.KEEP: InputState.WHOLE,
        InputStep.CLOSE: InputState.WHOLE,
    },
    InputState.LIVE: {
        InputStep.CLOSE: InputState.CLOSED,
    },
    InputState.CLOSED: {},
    InputState.WHOLE: {
        InputStep.CLOSE: InputState.WHOLE,
    },
}


class CustomInput:
    """Arguments in any cut to the text of the input; equal results at every cut, joined."""

    def __init__(self) -> None:
        self._state = InputState.OPENING
        self._raw: list[str] = []
        # What is not decoded yet: an opening, or half an escape.
        self._pending = ""
        self._decoded: list[str] = []

    def _move(self, step: InputStep) -> None:
        self._state = next_state(TRANSITIONS, self._state, step)

    @property
    def arguments(self) -> str:
        """The arguments so far, as the model wrote them."""
        return "".join(self._raw)

    def feed(self, fragment: str) -> str:
        """Take the next arguments; give the text that can leave."""
        self._raw.append(fragment)
        if self._state in (InputState.CLOSED, InputState.WHOLE):
            return ""
        self._pending += fragment
        if self._state is InputState.OPENING and not self._opened():
            return ""
        text, has_ended = self._decode()
        if self._state is InputState.FIRST:
            text = self._decide()
        if has_ended:
            self._move(InputStep.CLOSE)
        return text

    def _decide(self) -> str:
        """The part of the beginning that can leave: all of it once it is known to be in no wrapper."""
        text = "".join(self._decoded)
        beginning = text.lstrip()
        if beginning.startswith(_WRAPPERS):
            self._move(InputStep.KEEP)
            return ""
        if not beginning and len(text) < _MAX_BLANKS:
            return ""
        self._move(InputStep.LET_GO)
        return text

    def finish(self) -> tuple[str, str]:
        """The whole input, and what of it has not left yet."""
        if self._state in (InputState.LIVE, InputState.CLOSED) and self._decoded:
            return "".join(self._decoded), ""
        text = plain_input(self.arguments)
        return text, text

    def _opened(self) -> bool:
        """True once the input has begun."""
        match = _OPENING.match(self._pending)
        if match is None:
            if len(self._pending) > _LONGEST_OPENING:
                self._move(InputStep.KEEP)
            return False
        self._pending = self._pending[match.end() :]
        self._move(InputStep.BEGIN)
        return True

    def _decode(self) -> tuple[str, bool]:
        """Decode what is pending, up to half an escape or the end of the string; True beside the text if that came."""
        decoded: list[str] = []
        at = 0
        has_ended = False
        text = self._pending
        while at < len(text):
            plain = _PLAIN.match(text, at)
            if plain is not None:
                decoded.append(plain[0])
                at = plain.end()
            elif text[at] == '"':
                has_ended = True
                at = len(text)
            else:
                size, character = _escape(text, at)
                if not size:
                    break
                decoded.append(character)
                at += size
        self._pending = text[at:]
        self._decoded += decoded
        return "".join(decoded), has_ended


def _escape(text: str, at: int) -> tuple[int, str]:
    """The length of the escape at a place, and its character; 0 if it has not come whole."""
    match = _ESCAPE.match(text, at)
    if match is None:
        if _CUT.match(text, at):
            return 0, ""
        return 2, text[at : at + 2]  # no escape of JSON's
    if match["code"] is None:
        return 2, _ESCAPES.get(match["letter"], match[0])
    code = int(match["code"], 16)
    if 0xD800 <= code < 0xDC00:
        return _pair(text, at, code)
    if 0xDC00 <= code < 0xE000:
        return _WHOLE, _REPLACEMENT
    return _WHOLE, chr(code)


def _pair(text: str, at: int, high: int) -> tuple[int, str]:
    """The same for the first half of a pair, `\\ud83d\\ude00`; one without the second is no character."""
    low = _LOW.match(text, at + _WHOLE)
    if low is not None:
        return 2 * _WHOLE, chr(0x10000 + ((high - 0xD800) << 10) + (int(low[1], 16) - 0xDC00))
    if _LOW_CUT.match(text, at + _WHOLE):
        return 0, ""
    return _WHOLE, _REPLACEMENT


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
