"""The states of what was read of a raw value's tags: the last one, and the values that begin inside.

The last tag, with the steps of a tag and of a chain of end tags:

    <parameter=new>⏎        this value's own
    <parameter=old>a⏎       begin_placed     VALUE_PLACED: a value that an example shows
    b                       end_value        PLACED: its line is over
    see <parameter=x> here  begin_in_line    VALUE_IN_LINE: the middle of a line, where this template writes none
    and </parameter> too    take_in_line     IN_LINE
    </parameter>            take_placed      PLACED

Each tag leads there from everywhere; `end_value` only forgets that a value began.
"""

from __future__ import annotations

from enum import auto

from proxy.transitions import QuickEnum


class LastTag(QuickEnum):
    """Where the last tag stood, and whether it began a value on the line that is read."""

    # Where the template writes one like it: an end tag, or what begins no value on this line.
    PLACED = auto()
    # In the middle of a line, where the template writes none.
    IN_LINE = auto()
    # Where the template writes one: a value begins with it.
    VALUE_PLACED = auto()
    # In the middle of a line: a value begins with it.
    VALUE_IN_LINE = auto()


class TagStep(QuickEnum):
    """What is read."""

    # An opening tag of no value, or a chain of end tags, where the template writes one.
    TAKE_PLACED = auto()
    # The same in the middle of a line.
    TAKE_IN_LINE = auto()
    # The opening tag of a value, where the template writes one.
    BEGIN_PLACED = auto()
    # The same in the middle of a line.
    BEGIN_IN_LINE = auto()
    # The end of the line, or of the value.
    END_VALUE = auto()


_ANYWHERE = {
    TagStep.TAKE_PLACED: LastTag.PLACED,
    TagStep.TAKE_IN_LINE: LastTag.IN_LINE,
    TagStep.BEGIN_PLACED: LastTag.VALUE_PLACED,
    TagStep.BEGIN_IN_LINE: LastTag.VALUE_IN_LINE,
}
LAST_TAGS: dict[LastTag, dict[TagStep, LastTag]] = {
    LastTag.PLACED: {**_ANYWHERE, TagStep.END_VALUE: LastTag.PLACED},
    LastTag.IN_LINE: {**_ANYWHERE, TagStep.END_VALUE: LastTag.IN_LINE},
    LastTag.VALUE_PLACED: {**_ANYWHERE, TagStep.END_VALUE: LastTag.PLACED},
    LastTag.VALUE_IN_LINE: {**_ANYWHERE, TagStep.END_VALUE: LastTag.IN_LINE},
}

# The last tag stood where the template writes one like it.
PLACED = (LastTag.PLACED, LastTag.VALUE_PLACED)
# It began a value on the line that is read.
BEGUN = (LastTag.VALUE_PLACED, LastTag.VALUE_IN_LINE)


class InnerValues(QuickEnum):
    """Which values begin inside the value."""

    NONE = auto()
    # Some, wherever they stand: `see <parameter=old>`.
    SOME = auto()
    # One of a key that cannot follow, where the template writes one, in front of the one that may be next.
    UNDECLARED = auto()


class InnerStep(QuickEnum):
    """What begins inside the value."""

    # A value of any key.
    BEGIN = auto()
    # One of a key that cannot follow.
    BEGIN_UNDECLARED = auto()


INNER_VALUES: dict[InnerValues, dict[InnerStep, InnerValues]] = {
    InnerValues.NONE: {InnerStep.BEGIN: InnerValues.SOME, InnerStep.BEGIN_UNDECLARED: InnerValues.UNDECLARED},
    InnerValues.SOME: {InnerStep.BEGIN: InnerValues.SOME, InnerStep.BEGIN_UNDECLARED: InnerValues.UNDECLARED},
    InnerValues.UNDECLARED: {
        InnerStep.BEGIN: InnerValues.UNDECLARED,
        InnerStep.BEGIN_UNDECLARED: InnerValues.UNDECLARED,
    },
}
