"""The engine's inputs from a request, and the ids of new calls."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b

from proxy.json import Json
from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.notations.thoughts import Thoughts
from proxy.notations.toolset import ToolSet
from proxy.repair.policy import Policy

_KIMI = re.compile(r"functions\..{1,128}:[0-9]{1,6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The engine's inputs from the request.

    - `tools`: None if the reply must not be parsed, because the request offers no tools or has `tool_choice: "none"`
      (F86).
    - `seed`: the seed for new call ids.
    - `raw_text`: only the proxy parses.
    - `json_reply`: the client asked for JSON.
    - `sources`: the texts of tool results and user messages, from which calls may be copied (F89).
    - `made` and `ids`: the name and arguments of each earlier call in the conversation, and the ids of these calls.
    - `one_call`: the client wants no parallel calls (F52).
    - `ordered`: the client shows text and reasoning in one order, so neither may overtake the other.
    - `thoughts`: how to separate reasoning from the text; None if it is not separated.
    - `forced`: the tool that the model must call, or "" (F87).
    - `hold_broken`: hold an unreadable call, because another try may replace it if the reply ends with it.
    - `policy`: the repair policy from the rules.
    """

    tools: ToolSet | None
    seed: bytes = b""
    raw_text: bool = False
    json_reply: bool = False
    sources: tuple[str, ...] = ()
    made: tuple[tuple[str, Json], ...] = ()
    ids: frozenset[str] = frozenset()
    one_call: bool = False
    ordered: bool = False
    thoughts: Thoughts | None = None
    forced: str = ""
    hold_broken: bool = False
    policy: Policy = field(default_factory=Policy)
    max_held: int = MAX_HELD
    max_calls: int = MAX_CALLS


@dataclass(frozen=True, slots=True)
class NewIds:
    """Creates call ids for a choice in the style of the model's profile (F8, F50).

    The ids do not depend on how the stream was split. `used` are the ids already in use.
    """

    task: Task
    choice: int
    used: set[str]

    def __call__(self, index: int, name: str, server_id: str) -> str:
        """Return a new id for a call whose `server_id` is "" or already used."""
        if self.task.policy.ids == "kimi" or _KIMI.fullmatch(server_id):
            number = len(self.task.ids) + index
            while f"functions.{name}:{number}" in self.used:
                number += 1
            return f"functions.{name}:{number}"
        key = b"%b %d %d" % (self.task.seed, self.choice, index)
        digits = blake2b(key, digest_size=12).hexdigest()
        if self.task.policy.ids == "mistral":
            return digits[:9]  # its templates require nine letters and digits (F49)
        return f"call_{digits}"
