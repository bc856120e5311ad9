"""With which text a block of text or of thinking begins: its first character is no blank, so that none is empty."""

from __future__ import annotations

from typing import Literal, TypeAlias

TextKind: TypeAlias = Literal["text", "thinking"]
_MAX_BLANKS = 4096


class BlockStart:
    """The blanks before a block.

    Those before text are kept until it comes, those around thinking go: `<think> a</think> Hello` is `a`, and then
    `Hello`.
    """

    def __init__(self) -> None:
        self._blanks = ""
        self._is_behind_thinking = False

    def take(self, kind: TextKind, text: str) -> str:
        """The text with which a block of this kind begins, "" as long as it is blank."""
        if kind == "thinking":
            self._blanks = ""
            self._is_behind_thinking = True
            return text.lstrip()
        text = self._blanks + text
        self._blanks = ""
        if self._is_behind_thinking:
            text = text.lstrip()
        if not text.strip():
            self._blanks = text[:_MAX_BLANKS]
            return ""
        self._is_behind_thinking = False
        return text

    def forget(self) -> None:
        """Something else begins."""
        self._blanks, self._is_behind_thinking = "", False
