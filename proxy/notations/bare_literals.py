"""Literals in which strings may lack their quotation marks: Python's arguments, Gemma's objects."""

from __future__ import annotations

import re
from typing import Any

import regex

from proxy.codec.json_text import JsonObject
from proxy.notations.literals import Literals
from proxy.notations.source import NoCall

# Up to a comma before another key, or to the end of the call.
_PYTHON = regex.compile(
    r"(?!,)"
    r"(?:(?!,\s*[A-Za-z_]\w*\s*=|\)\s*(?:,\s*[A-Za-z_][\w.-]*(?::\d+)?\(|\]\s*(?:$|<|\n)))[^\n]|\n(?=[^\n]))+",
    regex.S,
)
_GEMMA = regex.compile(r"[^,}\]\n<]+")
_PREFIXED = re.compile(r"[A-Za-z]{1,2}[\"']")
_CALLED = re.compile(r"[A-Za-z_]\w*\.?\w*\(.*\)")
_QUOTED = re.compile(r"[\"'+]|^\w+\(")


class BareLiterals(Literals):
    """Gemma's literals. `bares` are the strings that had no quotation marks."""

    _pattern = _GEMMA

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.bares: set[str] = set()

    def bare(self, pos: int) -> tuple[str, int]:
        """Return the text that begins at a position, and its end."""
        found = self.source.match(self._pattern, pos)
        if not found or not found.group().strip() or "{" in found.group():
            raise NoCall("a value was expected, or it goes on after a bracket")
        text = found.group().strip()
        if text in ("...", "…") or text in self.schema.properties:
            raise NoCall("the value is only a name")
        self._check(text)
        self.bares.add(text)
        return text, found.end()

    def _between(self, token: str, start: int) -> tuple[str, int]:
        """Return a string up to the token that ends it; FunctionGemma writes every value so, whatever its type."""
        text, end = super()._between(token, start)
        if token == "<escape>":
            self.bares.add(text)
        return text, end

    def _read_member(self, pos: int, assign: tuple[str, ...], values: JsonObject, *, apart: bool) -> tuple[str, int]:
        """Read a key and its value; an undeclared key may be part of the text before it."""
        bare = bool(self.bares)
        key, end = super()._read_member(pos, assign, values, apart=apart)
        if bare and values and self._undeclared:
            raise NoCall("an undeclared key may be part of the text before it")
        return key, end

    def _check(self, text: str) -> None:
        """Raise NoCall if a text is a broken string or an expression."""


class PythonLiterals(BareLiterals):
    """Python's literals as arguments of a call."""

    _pattern = _PYTHON

    def _check(self, text: str) -> None:
        if _PREFIXED.match(text) or text.count('"') % 2 or text.count("'") % 2:
            raise NoCall("a text without its last mark")
        if (not self.schema.properties and _QUOTED.search(text)) or _CALLED.fullmatch(text):
            raise NoCall("an expression")
