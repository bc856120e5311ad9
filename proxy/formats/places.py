"""What stands directly before the place up to which the scanner has come, blanks aside, and how that changes.

             take                       say, leave
    TEXT ────────────> BEHIND_CALL ────────────────> TEXT
    TEXT ────────────> BEHIND_LISTING ─────────────> TEXT
             list                          say

    take and list lead there from everywhere; blanks behind a listing are still behind it.
"""

from __future__ import annotations

from enum import Enum, auto


class Place(Enum):
    """What stands before what is read next."""

    # Text, or nothing at all: the reply begins.
    TEXT = auto()
    # A call, or a token that is dropped. A closer that is left over is no text:
    #     <tool_call>{"name": "now", "arguments": {}}</tool_call></tool_call>
    BEHIND_CALL = auto()
    # What says which tools there are. What names another one without arguments says so, too:
    #     {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
    #     {"name": "now", "parameters": {}}
    BEHIND_LISTING = auto()


class PlaceStep(Enum):
    """What the scanner comes past."""

    # Calls, or a token that is dropped.
    TAKE = auto()
    # The definition of a tool, which is no call.
    LIST = auto()
    # Text, and what was no call.
    SAY = auto()
    # Blanks, or a tag of the model's reasoning; or what waited is let go.
    LEAVE = auto()


_ANYWHERE = {PlaceStep.TAKE: Place.BEHIND_CALL, PlaceStep.LIST: Place.BEHIND_LISTING, PlaceStep.SAY: Place.TEXT}
PLACES: dict[Place, dict[PlaceStep, Place]] = {
    Place.TEXT: {**_ANYWHERE, PlaceStep.LEAVE: Place.TEXT},
    Place.BEHIND_CALL: {**_ANYWHERE, PlaceStep.LEAVE: Place.TEXT},
    Place.BEHIND_LISTING: {**_ANYWHERE, PlaceStep.LEAVE: Place.BEHIND_LISTING},
}
