"""Cases: tools, calls, a break, and the resulting reply. A case depends only on its seed and number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.harm import breaks_calls, breaks_doubts, breaks_json, breaks_pairs, breaks_whole
from benchmarks.harm.drafts import CUT, Break, Broken, Draft, Inapplicable
from benchmarks.harm.drive import Reply
from benchmarks.harm.families import FAMILIES as TEMPLATES
from benchmarks.harm.families import Body, Call, Family
from benchmarks.harm.markup import markup, others
from benchmarks.harm.notations import NOTATIONS
from benchmarks.harm.offers import Mixed, Offer, arguments, offers
from benchmarks.harm.strict import balanced
from benchmarks.harm.writing import CLEAN

SEED = 12
_ALL = (*breaks_calls.BREAKS, *breaks_json.BREAKS, *breaks_doubts.BREAKS, *breaks_pairs.BREAKS, *breaks_whole.BREAKS)
BREAKS: dict[str, Break] = {each.name: each for each in _ALL}
FAMILIES: dict[str, Family] = {**TEMPLATES, **{family.name: family for family in NOTATIONS}}
# Number of structured cases per case of another family, because most servers send structured calls.
_STRUCTURED_SHARE = 4
_TRIES = 400
_LEADS = ("", "Let me see.\n", "I will do it now:\n\n", "Grüße aus Zürich 🙂\n", "First the one, then the other.\n")
_TAILS = ("", "", "\nDone.", "\n\nThen I will look at what came of it.\n")


@dataclass(frozen=True, slots=True)
class Case:
    """A broken reply. `draft` is the intended reply, `start` the position of the calls in the text, and `core` the
    broken call's arguments as written in the reply.
    """

    number: int
    family: Family
    kind: Break
    draft: Draft
    broken: Broken
    reply: Reply
    around: str
    start: int
    core: str

    @property
    def meant(self) -> list[Call]:
        """The calls that the client should receive."""
        calls = list(self.draft.calls)
        if self.broken.meant is not None:
            calls[self.draft.target] = (self.draft.name, self.broken.meant)
        return calls

    @property
    def balanced(self) -> bool:
        """True if opening and end tags of the family are balanced in every value."""
        raw = self.family.tags.raw
        keys = {offer.name: offer.properties.keys() for offer in self.draft.offers}
        shown = [(raw(value), keys[name]) for name, values in self.draft.calls for value in values.values()]
        return all(balanced(self.family, text, own) for text, own in shown)

    @property
    def others(self) -> list[Call]:
        """The intact calls, which may be sent whatever happens to the broken one."""
        return [call for number, call in enumerate(self.draft.calls) if number != self.draft.target]


def pairs(families: Sequence[str] = (), breaks: Sequence[str] = ()) -> list[tuple[Family, Break]]:
    """Return the compatible pairs of families and breaks, limited to the given names if there are any."""
    families, breaks = families or [*FAMILIES], breaks or [*BREAKS]
    found = []
    for family in FAMILIES.values():
        if family.name not in families:
            continue
        chosen = [each for each in BREAKS.values() if each.name in breaks and _go_together(family, each)]
        found += [(family, each) for each in chosen] * (_STRUCTURED_SHARE if family.structured else 1)
    return found


def _go_together(family: Family, kind: Break) -> bool:
    """Return whether a break applies to a family. Ambiguous raw values can only be judged with a strict reader."""
    if not family.reader and not (kind.whole or kind.name == "missing_value"):
        return False
    if not family.reader and kind.shows_markup and family.body is not Body.JSON:
        return False
    return kind.takes(family)


def make(family: Family, kind: Break, number: int, seed: int = SEED) -> Case | None:
    """Return the case of this number; None if the break does not apply to this family."""
    rng = Random(f"{seed} {family.name} {kind.name} {number}")
    for _ in range(_TRIES):
        try:
            return _case(rng, family, kind, number)
        except Inapplicable:
            continue
    return None


def _case(rng: Random, family: Family, kind: Break, number: int) -> Case:
    offered = offers(rng, kind.shape, family.keys)
    mixed = Mixed(rng, family.fits)
    mixed.at_edge = kind.at_edge
    count = 2 if family.several and rng.random() < 0.25 else 1
    target = rng.randrange(count)
    shows = rng.random() < kind.markup
    shown = _shown_family(rng, family, kind) if shows else None
    calls = [_call(rng, family, offered, mixed, shown if number == target else None) for number in range(count)]
    draft = Draft(rng, family, offered, calls, target)
    broken = kind.make(draft)
    if broken.last and draft.target != count - 1:
        raise Inapplicable
    return _written(draft, kind, broken, number)


def _shown_family(rng: Random, family: Family, kind: Break) -> Family:
    """Return the family of the markup inside a value: mostly the call's own, sometimes another."""
    if kind.foreign or (not kind.shows_markup and rng.random() < 0.3):
        return rng.choice(others(family))
    return family


def _call(rng: Random, family: Family, offered: list[Offer], mixed: Mixed, shown: Family | None) -> Call:
    offer = rng.choice([offer for offer in offered if not family.single or offer.only_string] or [None])
    if offer is None:
        raise Inapplicable
    mixed.keys = tuple(offer.properties)
    mixed.markup = markup(shown, offer.name, rng.choice(mixed.keys)) if shown else ()
    values = arguments(rng, offer.schema, mixed)
    return offer.name, {offer.only_string: values[offer.only_string]} if family.single else values


def _written(draft: Draft, kind: Break, broken: Broken, number: int) -> Case:
    rng, family, style = draft.rng, draft.family, broken.style
    writer = broken.family or family
    values = draft.values if broken.written is None else broken.written
    calls = list(draft.calls)
    calls[draft.target] = (draft.name, values)
    finish = broken.finish or "stop"
    core = writer.arguments(values, style).split(CUT)[0].strip()
    cuts = Random(rng.random()) if rng.random() < 0.6 else None
    lead = broken.lead if broken.lead is not None else rng.choice(_LEADS) if family.lead else ""
    if family.structured:
        texts = _structured(calls, draft, broken)
        finish = broken.finish or ("stop" if broken.cut else "tool_calls")
        positions = [offer.name for offer in draft.offers]
        numbers = tuple(positions.index(name) for name, _ in draft.calls) if broken.by_tool else ()
        reply = Reply(lead, texts, finish, Random(rng.random()) if numbers else cuts, numbers=numbers)
        return Case(number, family, kind, draft, broken, reply, lead, 0, core)
    tail = rng.choice(_TAILS) if family.tail and not broken.last else ""
    tail = tail if broken.tail is None else broken.tail
    text = lead + writer.write(calls, draft.target, style)
    if broken.cut:
        text, tail = text.split(CUT)[0], ""
    reply = Reply(text + tail, (), finish, cuts, _results(draft, broken, writer))
    return Case(number, family, kind, draft, broken, reply, lead + tail, len(lead), core)


def _results(draft: Draft, broken: Broken, writer: Family) -> tuple[str, ...]:
    """Return the tool results before the reply that contain its calls."""
    if broken.shown is None:
        return ()
    calls = list(draft.calls)
    if broken.shown_values is not None:
        calls = [(draft.name, broken.shown_values)]
    text = writer.write(calls, -1)
    return ("another result", f"It says:\n{broken.shown(text)}\nThat is all.")


def _structured(calls: list[Call], draft: Draft, broken: Broken) -> tuple[tuple[str, str], ...]:
    """Return the structured calls, without those after a truncated one."""
    written = []
    for number, (name, values) in enumerate(calls):
        style = broken.style if number == draft.target else CLEAN
        text = draft.family.arguments(values, style)
        written.append((style.name or name, text.split(CUT)[0]))
        if number == draft.target and broken.cut:
            break
    return tuple(written)
