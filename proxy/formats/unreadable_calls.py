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

from proxy.formats.markers import END_OF_TURN, encoded
from proxy.formats.shown_closers import call_begins, past_closers, past_unmatched_closer, span_of
from proxy.formats.terminators import blanks, ends_here, leftover
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
)

END_TOKENS = encoded(*END_OF_TURN)
_AFTER_CALL = frozenset((b"\r", b"\n", b"<", b"["))
_SPACES = (b" ", b"\t")
_BRACKETS = (b"}", b"]")


def readable(
    cursor: Cursor, parsing: Parsing[tuple[RawCall, ...]], *, strong: bool = False
) -> Parsing[tuple[RawCall, ...]]:
    """The calls of a candidate. If it cannot be read, what may be in its strings is read too: no call begins there.

    Without `strong`, which says that what began it is evidence enough, it must have a wrapper, or name an offered tool.
    """
    try:
        return (yield from parsing)
    except Unreadable as refusal:
        # Where there is a place to go back to, it is read again from there.
        counts = strong or cursor.wrapped or cursor.named
        # What was let go was not read to its end.
        if counts and cursor.back_to < 0 and cursor.rejection is not Rejection.RELEASED:
            cursor.reject(refusal.rejection, str(refusal))
            yield from _past_what_it_may_show(cursor, refusal)
        raise NotACall(refusal.rejection, str(refusal)) from None


def _past_what_it_may_show(cursor: Cursor, refusal: Unreadable) -> Parsing[None]:
    """Read on to where another call may begin."""
    span = span_of(cursor)
    # Only a few times the rest of the reply is looked through.
    if span is None or not cursor.may_reread():
        yield from past_the_reply(cursor)
        return
    may_be_over = not isinstance(refusal, OpenString)
    if isinstance(refusal, StringGoesOn):
        may_be_over = yield from cursor.ahead(_is_over(cursor))
    if not may_be_over:
        yield from past_the_reply(cursor)
        return
    while (yield from cursor.maybe(past_unmatched_closer(cursor, span))):
        pass
    if not (yield from cursor.ahead(_is_followed(cursor))):
        yield from past_the_reply(cursor)


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
    yield from cursor.maybe(_brackets(cursor))
    begins = yield from call_begins(cursor)
    if not begins and not (yield from ends_here(cursor)):
        return False
    yield from past_closers(cursor)
    return cursor.at_end() or (yield from cursor.byte()) in _AFTER_CALL


def _is_followed(cursor: Cursor) -> Parsing[bool]:
    """Whether what may follow a call stands behind its closers: a line end, or another call that is written alike; one
    that is not is rather shown.
    """
    while (yield from cursor.which(_SPACES)) or (yield from leftover(cursor)):
        pass
    if not cursor.at_end() and (yield from cursor.byte()) not in _AFTER_CALL:
        return False
    yield from past_closers(cursor)
    yield from cursor.maybe(blanks(cursor))
    if not (yield from call_begins(cursor)):
        return True
    return (yield from cursor.peek(tuple(each.opener for each in cursor.enclosures))) is not None


def _brackets(cursor: Cursor) -> Parsing[bool]:
    yield from cursor.blanks()
    while (yield from cursor.which(_BRACKETS)):
        yield from cursor.blanks()
    return True
