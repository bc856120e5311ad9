"""The calls of a conversation that have no output yet: a call and its output are paired by their place (F48)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Alike:
    """The calls of one turn that an output could mean, in their order; those before `at` have one."""

    turn: int
    ids: list[str] = field(default_factory=list)
    at: int = 0

    def next(self, open_ids: set[str]) -> str:
        """The first of them that is open still; "" if none is."""
        while self.at < len(self.ids):
            id_ = self.ids[self.at]
            self.at += 1
            if id_ in open_ids:
                return id_
        return ""


class OpenCalls:
    """Calls by the client's id and by the function's name, with the ids that the server gets.

    Servers that count their ids anew in each turn say one twice: the second call gets another id. Each step costs the
    same, however many calls there are.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()
        # How often a client's id was there, if more than once.
        self._repeats: dict[str, int] = {}
        self._open: set[str] = set()
        self._by_call: defaultdict[str, list[_Alike]] = defaultdict(list)
        self._by_name: defaultdict[str, list[_Alike]] = defaultdict(list)

    def add(self, call_id: str, name: str, turn: int) -> str:
        """A call, with the client's id ("" is none) and the number of its turn; give the server's id."""
        own = call_id or f"call_{len(self._ids)}"
        id_ = own
        count = self._repeats.get(own, 1)
        while id_ in self._ids:
            count += 1
            id_ = f"{own}_{count}"
        if id_ != own:
            self._repeats[own] = count
        self._ids.add(id_)
        self._open.add(id_)
        for turns in (self._by_call[call_id], self._by_name[name]):
            if not turns or turns[-1].turn != turn:
                turns.append(_Alike(turn))
            turns[-1].ids.append(id_)
        return id_

    def answered(self, call_id: str, name: str) -> str:
        """The server's id of an open call with this id, or, without one, of this name; "" if none is open.

        It is of the newest turn that has such calls, and the first of them there: outputs come in the calls' order.
        """
        turns = self._by_name[name]
        if call_id:
            turns = self._by_call[call_id]
        while turns:
            id_ = turns[-1].next(self._open)
            if id_:
                self._open.remove(id_)
                return id_
            turns.pop()
        return ""
