"""What the engine must know of a request, and what follows from it for the reply alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b

from proxy.codec.json_text import Json
from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.notations.thoughts import Thoughts
from proxy.repair.policy import Policy
from proxy.tools.toolset import ToolSet

_KIMI = re.compile(r"functions\..{1,128}:[0-9]{1,6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the engine must know of the request.

    `tools` is None if the reply must not be parsed: the request offers none, or says `tool_choice: "none"` (F86).
    `seed` makes the ids of calls found in text; `raw_text`: the proxy alone parses; `json_reply`: the client asked
    for JSON; `sources`: the texts of the tool results and the user messages, from which calls may be copied (F89);
    `made`: the calls of the conversation so far, as names and arguments, and `ids` those of these calls; `one_call`:
    the client asked for no parallel calls (F52); `ordered`: it has text and reasoning in one order, so that neither
    may overtake the other; `thoughts`: reasoning is separated from the text; `forced`: the one tool that the model was
    made to call (F87); `hold_broken`: a call that cannot be read waits, as it may be asked for once more, if the reply
    ends with it; `policy`: what the rules say.
    """

    tools: ToolSet | None
    seed: bytes
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

    @property
    def begins_in_thought(self) -> bool:
        """True if the prompt has opened a thought, with which the text then begins."""
        return self.thoughts is not None and self.thoughts.begun != ""


@dataclass(frozen=True, slots=True)
class NewIds:
    """New ids for the calls of a choice in the style of the model's profile, the same at every cut; Kimi's own ids stay
    Kimi's (F8, F50). `used` are those that the choice has.
    """

    task: Task
    choice: int
    used: set[str]

    def __call__(self, index: int, name: str, server_id: str) -> str:
        """The id of a call whose `server_id` is "", or another call's already."""
        if self.task.policy.ids == "kimi" or _KIMI.fullmatch(server_id):
            number = len(self.task.ids) + index
            while f"functions.{name}:{number}" in self.used:
                number += 1
            return f"functions.{name}:{number}"
        key = b"%b %d %d" % (self.task.seed, self.choice, index)
        digits = blake2b(key, digest_size=12).hexdigest()
        if self.task.policy.ids == "mistral":
            return digits[:9]  # its templates take nine letters and digits (F49)
        return f"call_{digits}"
