"""Breaks for all families: names, keys, values, closers, openers, and truncation."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from benchmarks.harm import texts
from benchmarks.harm.drafts import CUT, Break, Broken, Draft, Inapplicable, Values, in_json, in_tags, in_text
from benchmarks.harm.families import M3, Body, Family, Type
from benchmarks.harm.markup import markup, others
from benchmarks.harm.offers import fold, spelled
from benchmarks.harm.writing import CLEAN, Path, Style, dump


def none(draft: Draft) -> Broken:
    """Nothing is broken."""
    return Broken()


def own_markup(draft: Draft) -> Broken:
    """Nothing is broken, but a value contains the family's own markup. Balanced markup is text."""
    key = next((key for key in draft.values), None)
    if key is None:
        raise Inapplicable
    if not _shows(draft, markup(draft.family, draft.name, key)):
        raise Inapplicable
    return _showing(draft)


def other_markup(draft: Draft) -> Broken:
    """Nothing is broken, but a value contains the markup of another family."""
    keys = list(draft.values)
    if not any(_shows(draft, markup(other, draft.name, key)) for other in others(draft.family) for key in keys):
        raise Inapplicable
    return _showing(draft)


def _shows(draft: Draft, pieces: Collection[str]) -> bool:
    texts_of = [text for _, text in draft.strings()]
    return any(piece in text for piece in pieces for text in texts_of)


def _showing(draft: Draft) -> Broken:
    """Nothing is broken, and a value contains markup."""
    also = edges(draft.family, draft.values)
    return Broken(one=not also, also=also)


def edges(family: Family, values: Values) -> list[Values]:
    """Return the arguments without the family's tags at their edges, which could be doubled tags and so leftovers."""
    if family.body is not Body.TAGS:
        return []
    ends = {key: _without_end_tags(family, key, value) for key, value in values.items()}
    begins = {key: _without_opener(family, key, value) for key, value in values.items()}
    padded = {key: value.removeprefix("\n") if value != values[key] else value for key, value in begins.items()}
    return [other for other in (ends, begins, padded) if other != values]


def _without_end_tags(family: Family, key: str, value: Any) -> Any:
    """Return the value without the family's closers at its end. Separated only by whitespace, they are leftovers."""
    closers = (family.tags.closer(key), *(each.strip() for each in (family.foot, family.closer, family.section[1])))
    while isinstance(value, str) and (found := next((c for c in closers if c and value.rstrip().endswith(c)), None)):
        value = value.rstrip().removesuffix(found).removesuffix(family.tags.edge)
    return value


def _without_opener(family: Family, key: str, value: Any) -> Any:
    opener = family.tags.opener(key, value, CLEAN)
    if not isinstance(value, str) or not value.lstrip().startswith(opener):
        return value
    return value.lstrip().removeprefix(opener).removeprefix(family.tags.edge)


def _renamed(values: Values, old: str, new: str) -> Values:
    return {new if key == old else key: value for key, value in values.items()}


def key_spelling(draft: Draft) -> Broken:
    """A key has a different case or different separators."""
    keys = [key for key in draft.values if "_" in key or key != key.lower()]
    if not keys:
        raise Inapplicable
    key = draft.rng.choice(keys)
    snake = key if "_" in key else "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
    new = spelled(snake, draft.rng.choice(("camel", "pascal", "kebab", "snake", "upper")))
    if new == key or fold(new) != fold(key):
        raise Inapplicable
    return _other_keys(draft, _renamed(draft.values, key, new))


def key_markup(draft: Draft) -> Broken:
    """Markup sticks to a key."""
    if not draft.values:
        raise Inapplicable
    key = draft.rng.choice(list(draft.values))
    new = draft.rng.choice(("{}</arg_key>", "<parameter={}>", "parameter={}", "{}>", " {}", "<{}>")).format(key)
    return _other_keys(draft, _renamed(draft.values, key, new))


def wrapped(draft: Draft) -> Broken:
    """One key contains all arguments, as an object or as its JSON text."""
    key = draft.rng.choice(("arguments", "input", "parameters", "args", draft.name))
    if not draft.values or key in draft.offer.properties:
        raise Inapplicable
    inner: Any = dump(draft.values) if draft.rng.random() < 0.5 else draft.values
    return _other_keys(draft, {key: inner})


def _other_keys(draft: Draft, written: Values) -> Broken:
    """The written keys differ from the intended ones. If the schema allows them, the written call is right, too.

    Weak evidence must have the tool's own keys, and an element with another name may be part of the surrounding text.
    """
    if draft.offer.open:
        # Raw text does not show that the value of an undeclared key is an object.
        as_text = {key: dump(value) if isinstance(value, dict) else value for key, value in written.items()}
        return Broken(written=written, one=False, also=[written, as_text])
    certain = not draft.family.weak and draft.family.tags.open != "<{key}>"
    return Broken(written=written, one=certain)


def extra_key(draft: Draft) -> Broken:
    """The call has a key that the tool does not declare. It is kept."""
    key = draft.rng.choice(("description", "reason", "zz"))
    if key in draft.offer.properties:
        raise Inapplicable
    items = list(draft.values.items())
    items.insert(draft.rng.randint(0, len(items)), (key, texts.words(draft.rng)))
    # Weak evidence must have the tool's own keys, and a tag that names no key is ambiguous.
    certain = not draft.family.weak and "{key}" not in draft.family.tags.close
    return Broken(written=dict(items), meant=dict(items), one=certain)


def value_as_string(draft: Draft) -> Broken:
    """A value of another type is written as a string."""
    keys = [key for key, value in draft.values.items() if _is_literal(draft, key, value)]
    if not keys:
        raise Inapplicable
    key = draft.rng.choice(keys)
    written = {**draft.values, key: dump(draft.values[key])}
    said = {Type.DSML: "true", Type.XTML: "string"}.get(draft.family.tags.type)
    return Broken(Style(typed={key: said} if said else {}), written=written)


def _is_literal(draft: Draft, key: str, value: Any) -> bool:
    schema = draft.offer.properties[key]
    return not isinstance(value, str) and "string" not in schema["type"] and "null" not in schema["type"]


def _says_types(family: Family) -> bool:
    """Return whether the family distinguishes strings from other types."""
    return family.body is not Body.TAGS or family.tags.type in (Type.DSML, Type.XTML)


def object_as_value(draft: Draft) -> Broken:
    """An object is in place of a string that should contain its JSON text."""
    keys = [
        key for key, schema in draft.offer.properties.items() if key in draft.values and schema == {"type": "string"}
    ]
    if not keys:
        raise Inapplicable
    key = draft.rng.choice(keys)
    document = {"name": "demo", "list": [1, True, None], "inner": {"text": texts.words(draft.rng)}}
    written = {**draft.values, key: document}
    return Broken(written=written, meant={**draft.values, key: dump(document)}, texts=frozenset((key,)))


def name_spelling(draft: Draft) -> Broken:
    """The name has a different case, a prefix or a counter, or is doubled."""
    name = draft.name
    others = [offer.name for offer in draft.offers if offer.name != name]
    spellings = [name.upper(), name.capitalize(), f"{name}.{name}", f"{name}{name}", fold(name), name.replace("_", "-")]
    if "functions." not in draft.family.head + draft.family.opener:
        spellings += [f"functions.{name}", f"{name}:0", f"functions.{name}:3"]
    new = draft.rng.choice(spellings)
    if new == name or fold(new) in map(fold, others):
        raise Inapplicable
    return Broken(Style(name=new))


def doubled_openers(draft: Draft) -> Broken:
    """An opener is doubled."""
    family = draft.family
    parts = [part for part, text in (("start", family.section[0]), ("opener", family.opener)) if len(text) > 1]
    # The tag that names the tool.
    parts += ["head"] if family.body is Body.TAGS and family.head.startswith(("<f", "<i", "<|", M3)) else []
    if not parts:
        raise Inapplicable
    return Broken(Style(twice=frozenset((draft.rng.choice(parts),))))


def doubled_closers(draft: Draft) -> Broken:
    """A closer is doubled."""
    family = draft.family
    parts = [part for part, text in (("end", family.section[1]), ("closer", family.closer)) if len(text) > 1]
    parts += ["foot"] if family.body is Body.TAGS and family.foot else []
    parts += ["parameter"] if family.body is Body.TAGS and draft.values else []
    if not parts:
        raise Inapplicable
    part = draft.rng.choice(parts)
    style = Style(twice=frozenset((part,)))
    # With a doubled end tag of a value, the first one could be the end of the text.
    return Broken(style, one=False, also=_with_end_tags(draft)) if part == "parameter" else Broken(style)


def _with_end_tags(draft: Draft) -> list[Values]:
    """Return the arguments if the first of two end tags is part of each string."""
    tags = draft.family.tags
    return [
        {
            key: f"{value}{tags.edge}{tags.closer(key)}" if isinstance(value, str) else value
            for key, value in draft.values.items()
        }
    ]


def missing_closers(draft: Draft) -> Broken:
    """The closers of the call or the wrapper are missing at the end of the reply; the model ended the reply."""
    family = draft.family
    lost = [frozenset(("end",))] if len(family.section[1].strip()) > 1 else []
    lost += [frozenset(("closer", "end"))] if family.closer else []
    lost += [frozenset(("foot", "closer", "end"))] if family.body is Body.TAGS and family.foot else []
    lost += [frozenset(("foot", "end"))] if family.body is Body.PYTHON else []
    if not lost:
        raise Inapplicable
    chosen = draft.rng.choice(lost)
    # An open bracket in Python may belong to code.
    return Broken(Style(without=chosen), one=family.body is not Body.PYTHON or "foot" not in chosen, last=True)


def end_tags(where: str) -> Any:
    """Return the break that omits the end tag of the first, a middle, the last, or every value."""

    def make(draft: Draft) -> Broken:
        count = len(draft.values)
        if count < {"first": 2, "middle": 3, "last": 1, "all": 2}[where]:
            raise Inapplicable
        lost = {"first": [0], "middle": [draft.rng.randint(1, max(1, count - 2))], "last": [count - 1]}
        numbers = lost.get(where, range(count))
        if any(isinstance(value, str) and value != value.strip() for value in draft.values.values()):
            # It is ambiguous which line ends belong to the value.
            raise Inapplicable
        if any(value == "" for number, value in enumerate(draft.values.values()) if number in numbers):
            # A value without text and without an end tag does not count (C10).
            raise Inapplicable
        return Broken(Style(no_end=frozenset(numbers)))

    return make


def _cut_values(draft: Draft) -> tuple[Values, Path]:
    """Return the arguments with CUT inside one of their strings, and the path of that string."""
    places = [(path, text) for path, text in draft.strings() if text]
    if not places:
        raise Inapplicable
    path, text = draft.rng.choice(places)
    values = json.loads(json.dumps(draft.values))
    inside = values
    for step in path[:-1]:
        inside = inside[step]
    at = draft.rng.randint(0, len(text) - 1)
    inside[path[-1]] = text[:at] + CUT + text[at:]
    return values, path


def cut_stop(draft: Draft) -> Broken:
    """The reply ends inside a string, although the finish reason is `stop`."""
    values, _ = _cut_values(draft)
    return Broken(written=values, one=False, cut=True, last=True)


def cut_length(draft: Draft) -> Broken:
    """The reply is cut off inside a string by the length limit."""
    values, _ = _cut_values(draft)
    return Broken(written=values, one=False, cut=True, last=True, finish="length")


def cut_repetition(draft: Draft) -> Broken:
    """The server aborts inside a string, with its own finish reason."""
    return replace(cut_length(draft), finish="repetition")


def cut_end(draft: Draft) -> Broken:
    """The length limit cuts off the reply after the last value. Only closers are missing, and nothing adds them."""
    json_text = draft.family.body in (Body.JSON, Body.GEMMA)
    text = (lambda written: written[:-1]) if json_text else None
    style = Style(text=text, without=frozenset(("foot", "closer", "end")))
    if not (json_text or draft.values):
        raise Inapplicable
    finish = draft.rng.choice(("length", "repetition", "content_filter"))
    return Broken(style, one=False, cut=True, last=True, finish=finish)


def crlf(draft: Draft) -> Broken:
    """The template uses Windows line ends."""
    family, tags = draft.family, draft.family.tags
    start, end = family.section

    def two(text: str) -> str:
        return text.replace("\n", "\r\n")

    windows = replace(
        family,
        section=(two(start), two(end)),
        between=two(family.between),
        opener=two(family.opener),
        head=two(family.head),
        closer=two(family.closer),
        tags=replace(tags, open=two(tags.open), edge=two(tags.edge), behind=two(tags.behind)),
    )
    if windows.write(draft.calls, draft.target) == family.write(draft.calls, draft.target):
        raise Inapplicable
    return Broken(family=windows)


def one_line(draft: Draft) -> Broken:
    """Values that the template puts on separate lines are on the same line as their tags."""
    if any(isinstance(value, str) and value.startswith(("\r", "\n")) for value in draft.values.values()):
        raise Inapplicable
    return Broken(family=replace(draft.family, tags=replace(draft.family.tags, edge="")))


def _on_lines(family: Family) -> bool:
    return bool(family.tags.edge)


def _not_python(family: Family) -> bool:
    return family.body is not Body.PYTHON


BREAKS = (
    Break("none", "nothing", none, whole=True),
    Break("own_markup", "nothing, but a value shows the family's own markup", own_markup, markup=1.0, whole=True),
    Break(
        "other_markup",
        "nothing, but a value shows another family's markup",
        other_markup,
        markup=1.0,
        foreign=True,
        whole=True,
    ),
    Break("wrapped", "one key holds all arguments", wrapped),
    Break("key_spelling", "a key in another spelling", key_spelling, _not_python),
    Break("key_markup", "markup at a key", key_markup, in_json),
    Break("extra_key", "an undeclared key more", extra_key),
    Break("value_as_string", "a number, boolean, array or object as a string", value_as_string, _says_types),
    Break("object_as_value", "an object where a string is wanted", object_as_value, lambda family: not in_tags(family)),
    Break("name_spelling", "the name in another spelling", name_spelling),
    Break(
        "doubled_openers",
        "an opener twice",
        doubled_openers,
        lambda family: in_text(family) and family.name != "harmony",
    ),
    Break("doubled_closers", "a closer twice", doubled_closers, in_text),
    Break("missing_closers", "closers missing at the natural stop", missing_closers, in_text),
    *(
        Break(f"end_tag_{where}", f"{about} missing", end_tags(where), in_tags)
        for where, about in (
            ("first", "the first value's end tag"),
            ("middle", "a middle value's end tag"),
            ("last", "the last value's end tag"),
            ("all", "all values' end tags"),
        )
    ),
    Break("cut_stop", "ends inside a string, stop", cut_stop),
    Break("cut_length", "cut inside a string, length", cut_length),
    Break("cut_repetition", "cut inside a string, repetition", cut_repetition),
    Break("cut_end", "cut behind the last value, length and others", cut_end),
    Break("crlf", "the template's line ends as on Windows", crlf, in_text),
    Break("one_line", "no line ends around values", one_line, _on_lines),
)
