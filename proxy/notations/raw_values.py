"""Where a raw value between tags ends: one rule for parameters, GLM's pairs, elements and Kimi K3.

An end tag ends the value if another of the tool's values begins behind it, or if the call is closed behind it. Tags that
are opened inside the value take their own end tags. Where the end tag is missing, the next own key's opener or the
call's end tag ends the value. What leaves two readings is refused.
"""

from __future__ import annotations

import re

from proxy.notations.source import NeedMore, NoCall

VALUE, CALL, WRAPPER = "value", "call", "wrapper"


CDATA = re.compile(r"\s*<!\[CDATA\[")


class Mark:
    """A tag of the call's family in the text: its level, whether it closes, the key if it opens a value, how it is
    spelled."""

    __slots__ = ("closing", "declared", "end", "key", "kind", "level", "start", "word")

    def __init__(self, start, end, level, closing, key="", kind="", declared="", word="") -> None:
        self.start, self.end, self.level, self.closing, self.key, self.kind, self.declared, self.word = (
            start,
            end,
            level,
            closing,
            key,
            kind,
            declared,
            word,
        )


def raw_end(reader, marks, start: int, own, given, tool) -> RawEnd:
    """The end of a value: by end tags spelled as the call's own, else by those of another wrapper."""
    try:
        return _raw_end(reader, marks, start, own, given, tool)
    except NoCall:
        if not reader.source.final or not reader.words:
            raise
        words, reader.words = reader.words, {}
        try:
            return _raw_end(reader, marks, start, own, given, tool)
        finally:
            reader.words = words


def _is_own(reader, mark) -> bool:
    """Whether an end tag of a call or a wrapper is spelled as the one that is open."""
    word = reader.words.get(mark.level)
    return not word or not mark.word or mark.word == word


def _begins_line(text: str, pos: int) -> bool:
    before = text[text.rfind("\n", 0, pos) + 1 : pos]
    return not before.strip()


class RawEnd:
    __slots__ = ("end", "resume", "unended")

    def __init__(self, end, resume, unended) -> None:
        self.end, self.resume, self.unended = end, resume, unended


def _raw_end(reader, marks, start: int, own, given, tool) -> RawEnd:
    """The end of the value that begins at `start`; `own` is its opening mark, `marks(pos)` gives the next mark."""
    source = reader.source
    stack: list[Mark] = []
    others = set(tool.properties) - set(given) - {own.key} if tool else None
    split: Mark | None = None  # the first own key's opener inside
    fallback = inner_end = None
    if (cdata := CDATA.match(source.text, start)) and own.kind in ("param", "parameter"):
        end = source.find("]]>", cdata.end())
        at = source.blanks(end + 3) if end >= 0 else end
        mark = marks(at, here=True) if 0 <= at < source.size else None
        if mark and mark.closing:
            return RawEnd(at, mark.end, False)
    pos = start
    while True:
        mark = marks(pos)
        if mark is None:
            if not source.final:
                raise NeedMore
            break
        pos = mark.end
        if mark.closing and mark.level != VALUE and not _is_own(reader, mark):
            continue
        if (
            mark.closing
            and not reader.indented
            and source.text[mark.start - 1] in " \t"
            and _begins_line(source.text, mark.start)
        ):
            continue  # a docstring's
        if tool and mark.key and not mark.closing:
            mark.key = tool.meant(mark.key, given)
        if not mark.closing:
            if mark.level == VALUE and others is not None and mark.key in others and not stack and split is None:
                split = mark
            if mark.level != VALUE or mark.word == own.word:
                stack.append(mark)
            continue
        opened = next((n for n in range(len(stack) - 1, -1, -1) if _pairs(stack[n], mark)), None)
        if mark.level == VALUE:
            if mark.kind and own.kind and mark.kind != own.kind and opened is None and reader.exact_ends:
                continue
            follows = _follows(
                reader, marks, mark.end, others, given, own, stack if opened is None else stack[:opened], tool
            )
            if opened is None:
                if follows == "twice":
                    raise NoCall("a key's opener stands twice")
                if follows == "again":
                    if tool and not tool.parameter(own.key).types & {"string"}:
                        return RawEnd(
                            mark.start,
                            source.text.index(">", marks(source.blanks(mark.end), here=True).start) + 1,
                            False,
                        )
                    raise NoCall("the end tag stands twice")
                if follows:
                    if split is not None and split in stack:
                        return RawEnd(split.start, split.start, True)
                    return RawEnd(mark.start, mark.end, False)
                continue
            # closed inside; but if all is closed behind it, the end tag before it was missing
            inner = stack[opened]
            del stack[opened:]
            inner_end = RawEnd(mark.start, mark.end, False)
            if inner is split and follows in ("end", "value", "weak end"):
                if fallback is None:
                    fallback = RawEnd(split.start, split.start, True)
                if follows == "end" and _no_later_end(reader, marks, mark.end, own):
                    return fallback
                if follows == "value":
                    split = None if fallback is None else split
            continue
        if opened is not None:
            del stack[opened:]
            continue
        # an end tag of the call or of its wrapper: the value's own may be missing
        if not any(each.level == VALUE for each in stack) or split is not None:
            if mark.level == CALL and _call_is_over(reader, marks, mark.end, mark):
                if fallback is not None:  # its own end tag never came, those of the next keys did
                    return fallback
                if (
                    inner_end
                    and (split is None or split not in stack)
                    and not source.text[inner_end.resume : mark.start].strip()
                ):
                    return inner_end
                if split is not None and split in stack:
                    return RawEnd(split.start, split.start, True)
                return RawEnd(mark.start, mark.start, True)
            if mark.level == WRAPPER and _line_is_over(source, mark.end):
                if split is not None and split in stack:
                    return RawEnd(split.start, split.start, True)
                return RawEnd(mark.start, mark.start, True)
    if fallback is not None:
        return fallback
    last = _last_chain(reader, marks, start)
    if last is not None:
        return last
    raise NoCall("a value without its end")


def _last_chain(reader, marks, start: int):
    """At the reply's end: the last end tags that could be the call's own."""
    pos, found = start, []
    while (mark := marks(pos)) is not None:
        found.append(mark)
        pos = mark.end
    while found and found[-1].closing and found[-1].level != VALUE:
        pos = found.pop().start
    if (
        not found
        or not found[-1].closing
        or found[-1].level != VALUE
        or reader.source.text[found[-1].end : pos].strip()
    ):
        return None
    if any(not mark.closing and mark.level == VALUE for mark in found):
        return None
    return RawEnd(found[-1].start, found[-1].end, False)


def _pairs(opened: Mark, closing: Mark) -> bool:
    return opened.level == closing.level and (not opened.kind or not closing.kind or opened.kind == closing.kind)


def _follows(reader, marks, pos: int, others, given, own, stack, tool):
    """What follows behind a value's end tag: another value, the end of the call, or neither."""
    source = reader.source
    pos = source.blanks(pos)
    if pos == source.size:
        return "weak end"
    mark = marks(pos, here=True)
    if mark is None:
        if reader.ends_turn(pos):
            return "weak end"
        return ""
    if not mark.closing:
        if mark.level == VALUE:
            key = tool.meant(mark.key, given) if tool else mark.key
            lined = _begins_line(source.text, own.start)
            placed = (
                _begins_line(source.text, pos)
                if lined
                else not source.text[pos - 1].isspace() or source.text[own.start - 1].isspace()
            )
            alike = mark.word == own.word
            if others is None or key in others:
                if lined and not placed and tool and key not in tool.required and own.word:
                    raise NoCall("a key's opener in a line may be shown")
                return "value" if alike or placed else ""
            if key in given or key == own.key:
                return "twice"
            # a key that the tool does not declare: only where the call's own stand, and written like them
            return "value" if placed and alike else ""
        if mark.level == CALL and not stack:
            return "end" if _begins_line(source.text, pos) or not reader.lined else ""
        return ""
    if mark.level == VALUE:
        return "again" if _after_again(reader, marks, mark.end) else ""
    if any(each.level == mark.level for each in stack) or not _is_own(reader, mark):
        return ""
    if mark.level == CALL:
        return "end" if _call_is_over(reader, marks, mark.end, mark) else ""
    return "end" if _line_is_over(source, mark.end) else ""


def _after_again(reader, marks, pos: int) -> bool:
    pos = reader.source.blanks(pos)
    mark = marks(pos, here=True) if pos < reader.source.size else None
    return mark is not None and (
        (mark.closing and mark.level in (CALL, WRAPPER)) or (not mark.closing and mark.level == VALUE)
    )


def _call_is_over(reader, marks, pos: int, closed) -> bool:
    """Whether behind a call's end tag the wrapper ends, another call begins, or the reply ends."""
    source = reader.source
    while True:
        pos = source.blanks(pos)
        if pos == source.size or reader.ends_turn(pos):
            return True
        mark = marks(pos, here=True)
        if mark is None:  # a few words before the end of the wrapper
            mark = marks(pos)
            if mark is None:
                if not source.final:
                    raise NeedMore
                return False
            junk = source.text[pos : mark.start]
            return (
                mark.level == WRAPPER
                and mark.closing
                and len(junk) < 40
                and "\n" not in junk
                and _line_is_over(source, mark.end)
            )
        if mark.level == CALL and mark.closing:
            pos = mark.end
            continue
        if mark.closing:
            return mark.level == WRAPPER and _is_own(reader, mark) and _line_is_over(source, mark.end)
        return mark.level in (CALL, WRAPPER) and (_begins_line(source.text, pos) or not reader.lined)


def _line_is_over(source, pos: int) -> bool:
    """Whether nothing but blanks, tags and tokens follows on the line."""
    while True:
        while pos < source.size and source.text[pos] in " \t\r":
            pos += 1
        if pos == source.size:
            if not source.final:
                raise NeedMore
            return True
        return source.text[pos] in "\n<[]"


def _no_later_end(reader, marks, pos: int, own) -> bool:
    return True
