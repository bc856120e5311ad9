"""Judge of cases: right, refused, legal or wrong. It shares no code with the proxy's parsers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from benchmarks.harm.cases import Case
from benchmarks.harm.drive import Left
from benchmarks.harm.families import Body, Call
from benchmarks.harm.offers import Offer, accepts
from benchmarks.harm.strict import Mode, read_object, readings

CUT_REASONS = frozenset(("length", "repetition", "content_filter"))


class Verdict(Enum):
    """Result of a broken call."""

    RIGHT = "right"
    REFUSED = "refused"
    WRONG = "wrong"
    LEGAL = "legal itself"


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict and its reason. `one`: there is exactly one reading by the rules."""

    verdict: Verdict
    why: str
    one: bool


def judge(case: Case, left: Left) -> Judged:
    """Judge the proxy's output for a case."""
    strict = _strict(case)
    one = _one_reading(case, strict)
    verdict, why = _verdict(case, left, strict)
    return Judged(verdict, why, one)


def _verdict(case: Case, left: Left, strict: list[list[Call]]) -> tuple[Verdict, str]:
    if left.crashed:
        return Verdict.WRONG, f"the engine raised {left.crashed}"
    if left.failed:
        return Verdict.REFUSED, "the dialect's error"
    calls = _parsed(left)
    if calls is None:
        return _unparsed(case, left)
    if calls and case.broken.is_copy:
        return Verdict.WRONG, "a call was made of a copy"
    if _is_right(case, left, calls):
        return Verdict.RIGHT, ""
    if _is_refused(case, left, calls):
        return Verdict.REFUSED, "as text"
    wanted = case.reply.finish if case.reply.finish in CUT_REASONS else "tool_calls"
    if left.finish != wanted:
        return Verdict.WRONG, f"the finish is {left.finish}"
    return _as_written(case, calls, strict) or (Verdict.WRONG, _difference(case, left, calls))


def _as_written(case: Case, calls: list[Call], strict: list[list[Call]]) -> tuple[Verdict, str] | None:
    """Return the verdict on calls that match the text, strictly or by the rules; None if they do not."""
    if case.broken.no_call:
        return None
    said = [_with(case, values) for values in case.broken.says]
    for reading in (*strict, *said):
        if not _same(reading, calls):
            continue
        if all(_has_own_keys(call, case.draft.offers) for call in reading):
            return Verdict.LEGAL, "strictly"
        return Verdict.REFUSED, "as it was written"
    if any(_same(_with(case, values), calls) for values in case.broken.also):
        return Verdict.LEGAL, "by the rules"
    return None


def _parsed(left: Left) -> list[Call] | None:
    """Return the calls with parsed arguments; None if one is not a JSON object."""
    found: list[Call] = []
    for name, text in left.calls:
        values = read_object(text)
        if values is None:
            return None
        found.append((name, values))
    return found


def _unparsed(case: Case, left: Left) -> tuple[Verdict, str]:
    """Judge calls that are not objects. Only a truncated call with a finish reason that says so may stay truncated."""
    *before, (name, text) = left.calls
    as_cut = bool(case.reply.calls) and case.reply.calls[-1] == (name, text)
    if case.broken.cut and as_cut and left.finish == case.reply.finish and left.finish in CUT_REASONS:
        sound = Left(names=[name for name, _ in before], arguments=[text for _, text in before])
        if _same(case.others[: len(before)], _parsed(sound) or []):
            return Verdict.REFUSED, "as it was cut"
    return Verdict.WRONG, "a call without valid arguments"


def _is_right(case: Case, left: Left, calls: list[Call]) -> bool:
    """Return whether the output has the intended calls and the content around them."""
    if case.broken.cut or case.broken.no_call:
        return False
    meant = case.meant
    if len(calls) != len(meant) or left.finish != "tool_calls":
        return False
    for number, (given, wanted) in enumerate(zip(calls, meant, strict=True)):
        texts = case.broken.texts if number == case.draft.target else frozenset[str]()
        if given[0] != wanted[0] or not _same_values(given[1], wanted[1], texts):
            return False
    if left.text.split() != case.around.split():
        return False
    return case.kind.name != "none" or _same_bytes(case, left)


def _same_bytes(case: Case, left: Left) -> bool:
    """Return whether valid structured arguments are unchanged (C1)."""
    if not case.family.structured:
        return True
    return left.arguments == [case.family.arguments(values) for _, values in case.draft.calls]


def _is_refused(case: Case, left: Left, calls: list[Call]) -> bool:
    """Return whether missing calls stayed text or were truncated and reported, and all others are as intended.
    """
    missing = _missing(case, calls)
    if not missing:
        return False
    if left.finish != _finish_of_refused(case, calls):
        return False
    if case.family.structured:
        return True
    if case.broken.cut and calls and "cut_call" in left.repairs:
        missing = [number for number in missing if number < case.draft.target]
    text = " ".join(left.text.split())
    return all(" ".join(_core(case, number).split()) in text for number in missing)


def _missing(case: Case, calls: list[Call]) -> list[int] | None:
    """Return the numbers of the intended calls that are missing; None if there is an unintended call."""
    # Of two equal calls, assume that the intact one was sent.
    missing = sorted(range(len(case.meant)), key=lambda number: number == case.draft.target)
    for call in calls:
        number = next((number for number in missing if _same([case.meant[number]], [call])), None)
        if number is None:
            return None
        if number == case.draft.target and (case.broken.cut or case.broken.no_call):
            return None
        missing.remove(number)
    return missing


def _finish_of_refused(case: Case, calls: list[Call]) -> str:
    """Return the finish reason of a reply with only these calls."""
    if case.reply.finish in CUT_REASONS:
        return case.reply.finish
    return "tool_calls" if calls else "stop"


def _core(case: Case, number: int) -> str:
    """Return the arguments of a call as written in the reply, up to the point where the reply was cut.

    If the family rewrites the whole call, only the name is certain to be in the reply.
    """
    if case.family.rewrite:
        return case.draft.calls[number][0]
    if number == case.draft.target:
        return case.core
    behind_the_cut = case.broken.cut and number > case.draft.target
    return "" if behind_the_cut else (case.broken.family or case.family).arguments(case.draft.calls[number][1]).strip()


def _strict(case: Case) -> list[list[Call]]:
    """Return the strict readings of the reply."""
    if not case.family.reader:
        return []
    if not case.family.structured:
        text = case.reply.text[case.start :]
        if case.balanced:
            # Balanced markup is text, so end tags in it do not count.
            return readings(case.family, text, case.draft.offers, (Mode.BALANCED,))
        modes = tuple(Mode) if case.kind.shows_markup else (Mode.BALANCED, Mode.FIRST)
        return readings(case.family, text, case.draft.offers, modes)
    calls = [(name, read_object(text, lines=True)) for name, text in case.reply.calls]
    sound = [(name, values) for name, values in calls if values is not None]
    return [sound] if len(sound) == len(calls) else []


def _one_reading(case: Case, strict: list[list[Call]]) -> bool:
    """Return whether the rules give exactly one reading: the intended call, and no other legal one."""
    if not case.broken.one:
        return False
    if case.family.body is Body.TAGS and case.kind.shows_markup:
        return case.balanced or (bool(strict) and all(_same(reading, case.meant) for reading in strict))
    # Ignore readings that end before the broken call.
    reached = [reading for reading in strict if not _same(reading, case.draft.calls[: case.draft.target])]
    return all(_same(reading, case.meant) or not _all_legal(reading, case) for reading in reached)


def _all_legal(reading: list[Call], case: Case) -> bool:
    return all(_is_legal(call, case.draft.offers) for call in reading)


def _has_own_keys(call: Call, offers: Sequence[Offer]) -> bool:
    """Return whether the call's tool is offered and accepts its keys."""
    known = (offer for offer in offers if offer.name == call[0])
    return any(offer.open or call[1].keys() <= offer.properties.keys() for offer in known)


def _is_legal(call: Call, offers: Sequence[Offer]) -> bool:
    """Return whether the call's tool is offered and its schema accepts the arguments."""
    return any(offer.name == call[0] and accepts(offer.schema, call[1]) for offer in offers)


def _with(case: Case, values: dict[str, Any]) -> list[Call]:
    calls = list(case.draft.calls)
    calls[case.draft.target] = (case.draft.name, values)
    return calls


def _same(one: list[Call], other: list[Call]) -> bool:
    return list(map(_comparable, one)) == list(map(_comparable, other))


def _comparable(call: Call) -> tuple[str, str]:
    """Return a call in a form that distinguishes 1, 1.0 and true."""
    return call[0], json.dumps(call[1], sort_keys=True)


def _same_values(given: dict[str, Any], wanted: dict[str, Any], texts: frozenset[str]) -> bool:
    """Return whether the arguments are equal. At `texts`, any JSON text of the same value is accepted."""
    given = {key: _read(value) if key in texts else value for key, value in given.items()}
    wanted = {key: _read(value) if key in texts else value for key, value in wanted.items()}
    return json.dumps(given, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def _read(value: Any) -> Any:
    try:
        return ["the JSON text of", json.loads(value)] if isinstance(value, str) else value
    except ValueError:
        return value


def _difference(case: Case, left: Left, calls: list[Call]) -> str:
    """Return a short description of the difference from the intended reply."""
    meant = case.meant
    if case.broken.cut:
        return "a call was made of what was cut"
    if case.broken.no_call:
        return "a call was made of what is none"
    if len(calls) > len(meant):
        return "more calls than were meant"
    if len(calls) < len(meant):
        return "fewer calls than were meant, and no text" if not calls else "fewer calls than were meant"
    for (name, values), (wanted, expected) in zip(calls, meant, strict=True):
        if name != wanted:
            return "another tool"
        if values.keys() - expected.keys():
            return "keys that were not meant"
        if expected.keys() - values.keys():
            return "keys are lost"
        if not _same_values(values, expected, case.broken.texts):
            return "other values"
    if left.text.split() != case.around.split():
        return "the text around is another"
    return "other bytes"
