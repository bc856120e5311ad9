"""Lessons of model servers' refusals: the healings that each model needs, shared by all workers.

They hold for the rules under which they were learnt, as all that is learnt does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from proxy.codec.json_access import as_list, as_object
from proxy.codec.json_text import JsonObject, dump_json, load_json
from proxy.worker.shared_memory import Memory

_MAX_MODELS = 256


class Lessons:
    """The lessons in a memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._number = -1
        self._read: JsonObject = {}
        self._one = threading.Lock()

    def of(self, model: str) -> frozenset[str]:
        """The healings that a model needs, as far as they were learnt."""
        learnt = as_list(self._all().get(model))
        return frozenset(word for word in learnt if isinstance(word, str))

    def add(self, model: str, ids: Iterable[str]) -> bool:
        """Keep a lesson; False if it was known, or there is no room for it."""
        with self._memory.locked():
            lessons = self._all()
            before = self.of(model)
            after = before | {*ids}
            if after == before or (model not in lessons and len(lessons) >= _MAX_MODELS):
                return False
            generation = self._memory.generation()
            data = dump_json({"generation": generation, "models": {**lessons, model: sorted(after)}})
            return self._memory.teach(data)

    def _all(self) -> JsonObject:
        """The healings by model, under the rules in force."""
        with self._one:
            if self._memory.times_taught() != self._number:
                number, data = self._memory.lessons()
                self._read = as_object(load_json(data or b"{}"))
                self._number = number
            read = self._read
        if read.get("generation") != self._memory.generation():
            return {}
        return as_object(read.get("models"))
