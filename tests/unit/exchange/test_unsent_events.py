"""Events that wait to leave as they came (C6)."""

from __future__ import annotations

from proxy.exchange.unsent_events import MAX_KEPT, UnsentEvents


def test_events_are_numbered_and_kept_until_they_have_left() -> None:
    unsent = UnsentEvents(changed=False)
    assert not unsent.kept
    assert [unsent.keep(raw) for raw in (b"a", b"b", b"c")] == [1, 2, 3]
    assert unsent.kept == {1: b"a", 2: b"b", 3: b"c"}
    unsent.leave(2)
    unsent.leave(7)
    assert unsent.kept == {1: b"a", 3: b"c"}
    assert unsent.sequence == 3


def test_of_a_reply_that_was_changed_nothing_is_kept() -> None:
    unsent = UnsentEvents(changed=True)
    assert unsent.keep(b"a") == 1 and not unsent.kept
    other = UnsentEvents(changed=False)
    other.keep(b"a")
    other.change()
    assert other.changed and not other.kept
    assert other.keep(b"b") == 2 and not other.kept


def test_too_much_is_given_up() -> None:
    """C7."""
    unsent = UnsentEvents(changed=False)
    half = b"x" * (MAX_KEPT // 2)
    unsent.keep(half)
    unsent.keep(half)
    assert not unsent.changed
    unsent.leave(1)
    unsent.keep(half)
    assert not unsent.changed
    assert unsent.keep(b"x") == 4
    assert unsent.changed and not unsent.kept
