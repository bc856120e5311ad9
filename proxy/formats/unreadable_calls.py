"""What stands behind a call in JSON that cannot be read: how far of it nothing is a call.

    <tool_call>
    {"name": "bash", "arguments": {"command": "echo "x" </tool_call>
    <tool_call>
    {"name": "bash", "arguments": {"command": "rm"}}
    </tool_call>"}}
    </tool_call>

Where a string goes on behind the mark that was to end it, all that follows may be in it: nothing more of the reply is a
call. Where only the call's structure is wrong, or its brackets are missing, it is over at its closer, and another call
may follow; but not if a closer without its opener comes later: then that one is the call's own.
"""

from __future__ import annotations

import re

from proxy.formats.markers import END_OF_TURN, encoded
from proxy.formats.shown_closers import call_begins, past_brackets, past_closers, past_unmatched_closer, span_of
from proxy.formats.terminators import ends_here
from proxy.parsing.cursor import (
    Cursor,
    NotACall,
    OpenString,
    Parsing,
    RawCall,
    Rejection,
    StringGoesOn,
    Truncated,
    Unreadable,
    ValueGoesOn,
)

END_TOKENS = encoded(*END_OF_TURN)
_AFTER_CALL = frozenset((b"\r", b"\n", b"<", b"["))
_STRING = re.compile("[\"']")
_QUOTE_OR_END = re.compile(rb'["}\n]')
# So far is looked for the end of a line.
_MAX_LINE = 4096


def readable(
    cursor: Cursor, parsing: Parsing[tuple[RawCall, ...]], *, strong: bool = False
) -> Parsing[tuple[RawCall, ...]]:
    """The calls of a candidate. If it cannot be read, what may be in its strings is read too: no call begins there.

    Without `strong`, which says that what began it is evidence enough, it must have a wrapper, or name an offered tool.
    Nothing is shown where no string began: `bash{ not a key`.
    """
    start = cursor.pos
    try:
        return (yield from parsing)
    except Unreadable as refusal:
        if _may_show_calls(cursor, refusal, start, strong=strong):
            in_string = isinstance(refusal, OpenString) or (yield from cursor.ahead(_is_string_open(cursor)))
            cursor.reject(refusal.rejection, str(refusal))
            is_evident = strong or cursor.context.first or cursor.context.wrapped
            yield from _past_what_it_may_show(cursor, refusal, in_string=in_string and is_evident)
        raise NotACall(refusal.rejection, str(refusal)) from None


def _may_show_calls(cursor: Cursor, refusal: Unreadable, start: int, *, strong: bool) -> bool:
    """Whether what cannot be read, from `start` on, may be a call that shows others in its strings."""
    if not (strong or cursor.context.wrapped or cursor.evidence.named):
        return False
    # Where there is a place to go back to, it is read again from there.
    if cursor.back_to >= 0:
        return False
    # What was let go was not read to its end.
    if cursor.evidence.rejection is Rejection.RELEASED:
        return False
    if cursor.void or isinstance(refusal, ValueGoesOn):
        return True
    return _STRING.search(cursor.text(start, cursor.pos)) is not None


def _past_what_it_may_show(cursor: Cursor, refusal: Unreadable, *, in_string: bool) -> Parsing[None]:
    """Read on to where another call may begin; `in_string` counts where nothing closes the call."""
    span = span_of(cursor)
    if span is None:
        if in_string:
            yield from past_the_reply(cursor)
        return
    if (yield from _goes_to_the_end(cursor, refusal)):
        yield from past_the_reply(cursor)
        return
    while (yield from cursor.maybe(past_unmatched_closer(cursor, span))):
        pass


def _goes_to_the_end(cursor: Cursor, refusal: Unreadable) -> Parsing[bool]:
    """Whether all that follows may be in a string of the call, or must not be looked through once more."""
    if not cursor.may_reread():
        return True
    if isinstance(refusal, StringGoesOn):
        return not (yield from cursor.ahead(_is_over(cursor)))
    return isinstance(refusal, OpenString)


def _is_string_open(cursor: Cursor) -> Parsing[bool]:
    """Whether the number of quotation marks up to the next brace, or to the line's end, is odd, so that a string may be
    open here: `{"command": "x", y" …`, and not `{"command": …, "all": true}`. None is behind an object that has ended.
    Where neither comes, one may be open: what is left to be told at the end of the text would be told of each candidate
    in it.
    """
    if cursor.text(cursor.pos - 1, cursor.pos) == "}":
        return False
    start, odd = cursor.pos, False
    try:
        while True:
            yield from cursor.until(_QUOTE_OR_END, max(1, start + _MAX_LINE - cursor.pos))
            if (yield from cursor.byte()) != b'"':
                return odd
            cursor.pos += 1
            odd = not odd
    except Truncated:
        return odd
    except NotACall:
        return True


def past_the_reply(cursor: Cursor) -> Parsing[None]:
    """Read on to the tokens that end the reply; what is void no further than such text is read at all."""
    try:
        while True:
            at, token = yield from cursor.find(*END_TOKENS)
            cursor.pos = at
            if (yield from cursor.ahead(cursor.maybe(only_tokens(cursor)))):
                return
            cursor.pos = at + len(token)
    except Truncated:
        yield from cursor.past(*END_TOKENS)
    except NotACall:
        pass


def only_tokens(cursor: Cursor) -> Parsing[bool]:
    """Read end-of-turn tokens and blanks to the end of the reply; NotACall if anything else stands there."""
    yield from cursor.blanks()
    while not cursor.at_end():
        if (yield from cursor.which(END_TOKENS)) is None:
            raise NotACall("more text follows")
        yield from cursor.blanks()
    return True


def _is_over(cursor: Cursor) -> Parsing[bool]:
    """Whether the call is over here: at its closers, and behind them the line ends, or the next call begins."""
    yield from past_brackets(cursor)
    begins = yield from call_begins(cursor)
    if not begins and not (yield from ends_here(cursor)):
        return False
    yield from past_closers(cursor)
    if cursor.at_end():
        return True
    return (yield from cursor.byte()) in _AFTER_CALL
