"""What stands before the scanner's position: every step from every place."""

from __future__ import annotations

import pytest

from proxy.formats.places import PLACES, Place, PlaceStep
from proxy.transitions import next_state

ANYWHERE = {PlaceStep.TAKE: Place.BEHIND_CALL, PlaceStep.LIST: Place.BEHIND_LISTING, PlaceStep.SAY: Place.TEXT}


@pytest.mark.parametrize("place", Place)
@pytest.mark.parametrize("step", ANYWHERE)
def test_what_comes_last_is_what_counts(place: Place, step: PlaceStep) -> None:
    assert next_state(PLACES, place, step) is ANYWHERE[step]


def test_blanks_end_a_call_and_no_listing() -> None:
    behind = {place: next_state(PLACES, place, PlaceStep.LEAVE) for place in Place}
    assert behind == {
        Place.TEXT: Place.TEXT,
        Place.BEHIND_CALL: Place.TEXT,
        Place.BEHIND_LISTING: Place.BEHIND_LISTING,
    }
