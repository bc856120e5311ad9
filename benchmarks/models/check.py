"""Verdicts on calls by the rules of the Berkeley Function-Calling Leaderboard.

A reply is right if it has as many calls as expected and each expected call is matched by another one, in any order.
A call matches if its name is equal, it has no argument that the tool does not declare, each argument has the declared
type and one of the accepted values, and an argument is left out only if an empty string is among its values. Strings
are compared without letter case, blanks and `, . / - _ * ^`, and quotation marks of both kinds are equal. Code is
not: for steps of an agent, strings are equal apart from the whitespace around them.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Sequence
from typing import Any

from benchmarks.models.questions import Json, Question

IGNORED = re.compile(r"[ ,./\-_*^]")
# The leaderboard accepts an integer as a number, but never a boolean as either.
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class Verdict(enum.Enum):
    """The result of one reply."""

    RIGHT = "right"
    WRONG = "wrong"
    NO_CALL = "no call"
    UNWANTED = "unwanted"
    NONE = "none, as wanted"


def judge(question: Question, calls: Sequence[tuple[str, str]]) -> Verdict:
    """Return the verdict on a reply's calls, each a name and its arguments as JSON."""
    if not question.calls:
        return Verdict.UNWANTED if calls else Verdict.NONE
    if not calls:
        return Verdict.NO_CALL
    if len(calls) != len(question.calls):
        return Verdict.WRONG
    left = list(calls)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in question.tools}
    for expected in question.calls:
        matching = [
            call for call in left if _matches(call, expected, schemas[expected["name"]], question.category == "agent")
        ]
        if not matching:
            return Verdict.WRONG
        left.remove(matching[0])
    return Verdict.RIGHT


def _matches(call: tuple[str, str], expected: Json, schema: Json, exact: bool) -> bool:
    """Return whether a call is the expected one."""
    name, text = call
    try:
        arguments = json.loads(text)
    except ValueError:
        return False
    if name != expected["name"] or not isinstance(arguments, dict):
        return False
    accepted: dict[str, list[Any]] = expected["arguments"]
    for key, value in arguments.items():
        if key not in accepted or type(value) not in TYPES[schema["properties"][key]["type"]]:
            return False
        if _plain(value, exact) not in [_plain(one, exact) for one in accepted[key]]:
            return False
    return all(key in arguments or "" in values for key, values in accepted.items())


def _plain(value: Any, exact: bool) -> Any:
    """Return a value normalized for comparison."""
    if isinstance(value, str):
        return value.strip() if exact else IGNORED.sub("", value).lower().replace("'", '"')
    return [_plain(item, exact) for item in value] if isinstance(value, list) else value
