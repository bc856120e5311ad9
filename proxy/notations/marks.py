"""The tags of a call's notation: what they open or close, and where the next one is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from proxy.notations.source import NeedMore, Source

_SPELLING = re.compile(r"(?:\]<\]minimax\[>\[)?</?\s?(?!\|)((?:[｜|‖\s]*(?:DSML|GCML)[｜|‖\s]*)?[\w.|:-]+)")
NAMED = re.compile(r"name\s*=")
# `Mark.word` of an opener that is an element named after the key.
KEY = "key"
# Maximum length of an opening tag.
MAX_TAG = 250


class Level(Enum):
    """The part of a call that a tag opens or closes, and its letter in the groups of `tables.family`."""

    VALUE = "v"
    CALL = "c"
    WRAPPER = "w"


@dataclass(slots=True, eq=False)
class Mark:
    """A tag of the call's notation at text[start:end].

    `key` is the key of the value it opens, `kind` the tag's word, and `declared` the type it gives to the value. `word`
    is the spelling of a call or wrapper tag, or the style of a value's opener.
    """

    start: int
    end: int
    level: Level
    closing: bool
    key: str = ""
    kind: str = ""
    declared: str = ""
    word: str = ""

    def closes(self, opened: Mark) -> bool:
        """Return whether this end tag can close an opening tag."""
        if opened.level is not self.level or (opened.kind and self.kind and opened.kind != self.kind):
            return False
        return not opened.word or not self.word or opened.word == self.word


@dataclass(frozen=True, slots=True)
class Marks:
    """Finder of the tags of a call in one notation, spelled with `prefix`. `bare_keys`: a key may lack its opener."""

    source: Source
    pattern: re.Pattern[str]
    prefix: str
    bare_keys: bool

    def at(self, pos: int) -> Mark | None:
        """Return the mark exactly at a position, or None. Raise NeedMore if one may have begun."""
        self.source.step()
        text = self.source.text
        if text[pos : pos + 1] not in ("<", "]") and not self.bare_keys:
            return None
        found = self.pattern.match(text, pos)
        if found:
            return _mark(found) if self.prefix in found.group() else None
        if not self.source.final and len(text) - pos < MAX_TAG and not re.search(r"[>\n]", text[pos + 1 :]):
            raise NeedMore
        return None

    def after(self, pos: int) -> Mark | None:
        """Return the next mark from a position, or None."""
        text = self.source.text
        while (pos := text.find("<", pos)) >= 0:
            self.source.step()
            # MiniMax M3's token is part of its tags.
            found = self.pattern.match(text, pos - 1) if text[pos - 1 : pos] == "]" else None
            found = found or self.pattern.match(text, pos)
            # A pair that lacks its value's opener, in the middle of text, is part of the text.
            shown = found and found.groupdict().get("K2") and "arg_value" not in found.group()
            if found and not shown and self.prefix in found.group():
                return _mark(found)
            pos = found.end() if found else pos + 1
        return None


def _mark(found: re.Match[str]) -> Mark:
    """Return the mark for a match of a notation's pattern."""
    groups, tag = found.groupdict(), found.group()
    part = found.lastgroup or ""  # the outermost group, which ends last
    mark = Mark(found.start(), found.end(), Level(part[0]), part[1] == "c")
    if part == "vo":
        mark.key, mark.declared = (groups["K"] or groups.get("K2") or "").strip(), groups["T"] or ""
        mark.kind = groups["kind"] or "arg_value"
        mark.word = "name" if NAMED.search(tag) else "=" if "=" in tag else KEY if mark.kind == mark.key else ""
    elif part == "vc":
        mark.kind = groups["ckind"] or ""
    else:
        mark.word = spelling(tag)
    return mark


def spelling(tag: str) -> str:
    """Return the spelling of a tag: its namespace and word; empty for a token."""
    found = _SPELLING.match(tag)
    return found.group(1) if found else ""
