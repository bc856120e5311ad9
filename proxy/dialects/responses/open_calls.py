"""The calls of a conversation that have no output yet: a call and its output are paired by their place (F48)."""

from __future__ import annotations

from collections import defaultdict


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
        self._by_call: defaultdict[str, list[str]] = defaultdict(list)
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, call_id: str, name: str) -> str:
        """A call, with the client's id ("" is none); give the server's."""
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
        self._by_call[call_id].append(id_)
        self._by_name[name].append(id_)
        return id_

    def answered(self, call_id: str, name: str) -> str:
        """The server's id of the newest call with this id, or, without one, of this name; "" if none is open."""
        found = self._by_name[name]
        if call_id:
            found = self._by_call[call_id]
        while found:
            id_ = found.pop()
            if id_ in self._open:
                self._open.remove(id_)
                return id_
        return ""
