"""Audit records of repairs (contract C6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repair:
    """An audit record (contract C6): the fix, the values before and after, the reason, and the tool of the call.

    In a `text_call`, `before` is the model's text, `after` the client's call as JSON, and `notation` its notation.
    Records of translated requests are logged only if `logged` is true, because they are the same in every turn.
    """

    id: str
    before: str
    after: str
    why: str
    tool: str = ""
    logged: bool = False
    notation: str = ""
