"""The events of a reply that have come and not left: what goes on as it came if the engine fails (contract C6)."""

from __future__ import annotations

# Bytes of events that wait to leave as they came.
MAX_KEPT = 4 * 1024 * 1024


class UnsentEvents:
    """The upstream's events: `kept` are those that wait, by number, `sequence` is that of the last one that came.

    `changed` is true once the rest of the reply could not leave as the upstream's own bytes any more: then nothing is
    kept.
    """

    __slots__ = ("_size", "changed", "kept", "sequence")

    def __init__(self, *, changed: bool) -> None:
        self.changed = changed
        self.sequence = 0
        self.kept: dict[int, bytes] = {}
        self._size = 0

    def keep(self, raw: bytes) -> int:
        """Number an event, and keep it until it has left. Where too many wait they are given up: then a crash ends in
        an error.
        """
        self.sequence += 1
        if self.changed:
            return self.sequence
        self._size += len(raw)
        if self._size > MAX_KEPT:
            self.change()
        else:
            self.kept[self.sequence] = raw
        return self.sequence

    def leave(self, sequence: int) -> None:
        """The event of this number leaves as it came."""
        self._size -= len(self.kept.pop(sequence, b""))

    def change(self) -> None:
        """Something leaves in another shape, or too much waits."""
        self.changed = True
        self.kept.clear()
