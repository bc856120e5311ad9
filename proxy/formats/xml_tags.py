"""What models write between `<` and `>`, in all its spellings: one reader of tags for all the XML-like families.

`<parameter=path>`, `<parameter name="path">`, `<atem:parameter name='path'>`, `<｜DSML｜parameter name="path"
string="true">`, `]<]minimax[>[<path>`, `<arg_key:opensource>`, `<ifm|arg_key>` are tags of the same few kinds.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from proxy.parsing.cursor import Cursor, Parsing
from proxy.parsing.literal_table import Literals

# MiniMax M3 writes it before every tag.
SEPARATOR = "]<]minimax[>["
MAX_TAG = 240
_STARTS = Literals((b"<", SEPARATOR.encode()))
_AFTER_TAG = re.compile(rb"[<>\r\n]")
# A tag that has come as a whole.
_WHOLE = re.compile(rb"<[^<>\r\n]{0,%d}+>" % MAX_TAG)
_HEAD = re.compile(r"(/?)\s*([^<>]*?)\s*/?\Z", re.S)
# DSML and GCML in the bars that they really have, and in those that models make of them (F10).
_BARS = re.compile(r"[｜|‖\s]*(?:DSML|GCML)[｜|‖\s]*")
_WORD = re.compile(r"([A-Za-z_][\w.|:-]*)\s*(?:=\s*(.*)|(.*))\Z", re.S)
_ATTRIBUTE = re.compile(r"""([A-Za-z_]\w*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_GLUED = {"functionname": "function", "invokename": "invoke", "parametername": "parameter", "paramname": "param"}


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: its `kind` without namespace and suffix, what it names, and its attributes.

    `closing` if it is an end tag; `ends` are the texts that can end what it begins, `begins` those that begin another
    one spelled alike; `marked` if it is DSML's or GCML's; `assigned` if the name stands behind the kind
    (`<function=NAME>`).
    """

    kind: str
    name: str
    closing: bool
    attributes: dict[str, str]
    ends: tuple[bytes, ...]
    begins: tuple[bytes, ...]
    marked: bool = False
    assigned: bool = False

    @property
    def opening(self) -> bool:
        """Whether it begins something, of whatever kind; NO_TAG does not."""
        if self.kind == "":
            return False
        return not self.closing

    def opens(self, kinds: Collection[str]) -> bool:
        """Whether it begins something of these kinds."""
        return self.kind in kinds and not self.closing

    def closes(self, kinds: Collection[str]) -> bool:
        """Whether it ends something of these kinds."""
        return self.kind in kinds and self.closing

    def names(self, kinds: Collection[str]) -> bool:
        """Whether it begins something of these kinds, and says its name."""
        return self.opens(kinds) and self.name != ""


# Where no tag stands.
NO_TAG = Tag("", "", False, {}, (), ())


def tag(cursor: Cursor) -> Parsing[Tag]:
    """Read the tag that stands here; NotACall, and nothing is read, if it is none."""
    known = yield from peek_tag(cursor)
    if known is None:
        raise cursor.refuse("a tag was expected")
    cursor.pos = cursor.memo[2]
    return known


def peek_tag(cursor: Cursor) -> Parsing[Tag | None]:
    """The tag that stands here, not read yet; None if there is none."""
    at, known, _ = cursor.memo
    if at == cursor.pos and isinstance(known, Tag):
        return known
    if cursor.begins_none(_STARTS):
        return None
    return (yield from cursor.ahead(_known_tag(cursor)))


def tag_ahead(cursor: Cursor) -> Parsing[Tag]:
    """The tag that stands here, not read yet; NO_TAG if there is none, which its first byte may say already."""
    if (yield from cursor.byte()) not in (b"<", b"]"):
        return NO_TAG
    return (yield from tag_or_none(cursor))


def tag_or_none(cursor: Cursor) -> Parsing[Tag]:
    """The tag that stands here, not read yet; NO_TAG if there is none."""
    return (yield from peek_tag(cursor)) or NO_TAG


def _known_tag(cursor: Cursor) -> Parsing[Tag | None]:
    start = cursor.pos
    known = yield from cursor.maybe(_tag(cursor))
    if known is not None:
        cursor.memo = (start, known, cursor.pos)
    return known


def _tag(cursor: Cursor) -> Parsing[Tag | None]:
    whole = cursor.complete_match(_WHOLE)
    if whole is not None:
        return read_tag(whole[1:-1].decode("utf-8", "replace"))
    separated = yield from cursor.which(_STARTS)
    if separated is None:
        raise cursor.refuse("a tag was expected")
    if separated != b"<":
        yield from cursor.expect(b"<")
    inside = yield from cursor.until(_AFTER_TAG, MAX_TAG)
    yield from cursor.expect(b">")
    return read_tag(inside.decode("utf-8", "replace"), SEPARATOR if separated != b"<" else "")


@lru_cache(maxsize=256)
def read_tag(inside: str, separator: str = "") -> Tag | None:
    """The tag of what stands between `<` and `>`; None if that is no tag.

    `parameter=path` names `path`, and so does `atem:parameter name="path"`; `separator` stood before the `<`.
    """
    head = _HEAD.match(inside)
    if not head:
        return None
    bars = _BARS.match(inside, head.start(2))
    word = _WORD.match(inside, bars.end() if bars else head.start(2))
    if not word:
        return None
    spelled, assigned, rest = word.groups(default="")
    attributes = _attributes(rest)
    kind = _kind(spelled)
    has_name = bool(assigned) or "name" in attributes
    written = inside[: word.end(1)]
    # Directly behind the kind: `=`, or an attribute.
    between = "=" if assigned else " name="
    return Tag(
        kind=_GLUED.get(kind, kind),
        name=assigned.strip().strip("\"'") or attributes.get("name", ""),
        closing=bool(head.group(1)),
        attributes=attributes,
        ends=_end_tags(written, kind, separator),
        begins=(f"{separator}<{written}{between}".encode(),) if has_name else (),
        marked=bool(bars),
        assigned=bool(assigned),
    )


def _attributes(text: str) -> dict[str, str]:
    """The attributes of a tag, in either quotation marks or none."""
    # Of the three ways to write a value, only one is not empty.
    return {key.lower(): "".join(value) for key, *value in _ATTRIBUTE.findall(text)}


def _end_tags(written: str, kind: str, separator: str) -> tuple[bytes, ...]:
    """The end tags of an opening tag, in the spellings that models give it."""
    spellings = [written, written.replace(" ", "")]
    if kind in _GLUED:
        spellings.append(_GLUED[kind])
    ends = dict.fromkeys(f"{separator}</{full}>" for full in spellings)
    return tuple(end.encode() for end in ends)


def _kind(spelled: str) -> str:
    """The word without its namespace (`atem:invoke`, `ifm|tool_call`) or suffix (`tool_call:opensource`)."""
    first, _, last = spelled.replace("|", ":").partition(":")
    if first in SUFFIXED:
        return first
    return last or first


# Kinds that Hunyuan's checkpoints write with a suffix.
SUFFIXED = frozenset(("tool_call", "tool_calls", "tool_sep", "arg_key", "arg_value"))
