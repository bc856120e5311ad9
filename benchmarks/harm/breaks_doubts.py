"""Ambiguous breaks, where text looks like a call or the end of a value, and replies that only look like calls: listings
of tools, and copies of tool results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.harm.breaks_json import bare_lines, bare_marks, by_rule, some_strings
from benchmarks.harm.drafts import Break, Broken, Draft, Inapplicable, Values, in_json, in_text
from benchmarks.harm.families import M3, Body, Family, Type
from benchmarks.harm.markup import markup
from benchmarks.harm.offers import Schema
from benchmarks.harm.strict import read_object
from benchmarks.harm.writing import Path, Style, dump

# Text that looks like the end of the object (D1).
_ENDS = ('a",}b', 'x"}, y', '"},"', 'f("a",}', '{"a": "b",}', 'say "hi"}\n', '"}]}', 'a"},{"b')


def _with(values: Values, path: Path, text: str) -> Values:
    """Return the values with another string at this path."""
    step, *rest = path
    inner = _with_item(values[str(step)], rest, text)
    return {**values, str(step): inner}


def _with_item(value: Any, path: list[str | int], text: str) -> Any:
    if not path:
        return text
    step, *rest = path
    if isinstance(value, list):
        return [_with_item(item, rest, text) if at == step else item for at, item in enumerate(value)]
    return {key: _with_item(item, rest, text) if key == step else item for key, item in value.items()}


def _plain_strings(draft: Draft, *, nested: bool) -> list[Path]:
    """Return the paths of strings without restrictions: top-level arguments, or with `nested` those inside them."""
    found = []
    for path, _ in draft.strings():
        enum = len(path) == 1 and "enum" in draft.offer.properties[str(path[0])]
        if (len(path) > 1) is nested and not enum:
            found.append(path)
    return found


def _bare(draft: Draft, values: Values, path: Path, *, lines: bool = False) -> Broken:
    """Return these values with the string at the path written without backslashes before its quotation marks."""
    style = some_strings(bare_lines if lines else bare_marks, [path])
    return replace(by_rule(draft, style, values), written=values, meant=values)


def comma_and_brace(draft: Draft) -> Broken:
    """A comma and a brace follow an unescaped quotation mark: `"content": "a",}b", "mode": "m"}`."""
    paths = _plain_strings(draft, nested=False)
    if not paths:
        raise Inapplicable
    path = draft.rng.choice(paths)
    return _bare(draft, _with(draft.values, path, draft.rng.choice(_ENDS)), path)


def outer_key_in_nested(draft: Draft) -> Broken:
    """A nested string contains its own end and the start of an outer key, which also follows it."""
    paths = [path for path in _plain_strings(draft, nested=True) if _keys_behind(draft, path)]
    if not paths:
        raise Inapplicable
    path = draft.rng.choice(paths)
    key = draft.rng.choice(_keys_behind(draft, path))
    ends = "".join("]" if isinstance(step, int) else "}" for step in reversed(path[1:]))
    mark = draft.rng.choice((f'f("{ends}, "{key}": "z")', f'x"{ends}, "{key}": "z', f'{{"a": "b"{ends}, "{key}": 1'))
    broken = _bare(draft, _with(draft.values, path, mark), path)
    # The key begins twice, so there is no reading.
    return replace(broken, one=False, also=[])


def _keys_behind(draft: Draft, path: Path) -> list[str]:
    keys = list(draft.values)
    return keys[keys.index(str(path[0])) + 1 :]


def shown_call(draft: Draft) -> Broken:
    """A value with unescaped quotation marks contains the end of the call and then a whole call."""
    paths = _plain_strings(draft, nested=False)
    shown = markup(draft.family, draft.name, next(iter(draft.offer.properties)))
    if not paths:
        raise Inapplicable
    path = draft.rng.choice(paths)
    family = draft.family
    end = f"{family.foot}{family.closer}{family.section[1]}".replace("{n}", "0")
    # The first two are whole calls, of this tool and of another one.
    example = draft.rng.choice(shown[:2])
    text = draft.rng.choice(
        (
            f'echo "x" {end}\n{example}\n',
            f'echo "x"\n{example}\n{end}\n{example}',
            f'{example} says "x"',
            f'a"b}}{end}\n{example}\n',
            f'say "x" and {example}',
        )
    )
    broken = _bare(draft, _with(draft.values, path, text), path, lines=draft.rng.random() < 0.5)
    return replace(broken, one=False)


def listing(draft: Draft) -> Broken:
    """The tool's definition is in place of its arguments."""
    properties = draft.offer.properties
    if not any(_is_no_object(schema) for schema in properties.values()):
        raise Inapplicable
    described = {key: {"type": "string", "description": "What."} for key in properties}
    # The whole schema, only its properties, and the properties in another form.
    written = draft.rng.choice((draft.offer.schema, properties, described))
    return Broken(written=written, no_call=True, one=False)


def _is_no_object(schema: Schema) -> bool:
    return "object" not in schema["type"]


def lost_comma_and_key_twice(draft: Draft) -> Broken:
    """A comma is missing, and a key is doubled with two values."""
    if len(draft.values) < 2:
        raise Inapplicable
    members = [f"{dump(key)}: {dump(value)}" for key, value in draft.values.items()]
    again = f"{dump(draft.rng.choice(list(draft.values)))}: {dump(draft.rng.choice(('zz', 77, 'a b')))}"
    members.insert(draft.rng.randint(0, len(members)), again)
    lost = draft.rng.randint(1, len(members) - 1)
    gap = draft.rng.choice((" ", "\n"))
    text = f"{{{', '.join(members[:lost])}{gap}{', '.join(members[lost:])}}}"
    return Broken(Style(text=lambda _: text), no_call=True, one=False)


def bare_envelope(draft: Draft) -> Broken:
    """The keys around the arguments are unquoted, as in JavaScript."""
    head = re.sub(r'"(\w+)":', r"\1:", draft.family.head)
    # Without a wrapper it may be code.
    return Broken(family=replace(draft.family, head=head), one=not draft.family.weak)


def arguments_first(draft: Draft) -> Broken:
    """The name comes after the arguments. One argument has unescaped quotation marks."""
    paths = [path for path, text in draft.strings() if '"' in text]
    if not paths:
        raise Inapplicable
    arguments = re.findall(r'"\w+": ', draft.family.head)[-1]
    turned = replace(draft.family, head=f"{{{arguments}", foot=', "name": "{name}"}')
    broken = by_rule(draft, some_strings(bare_marks, [draft.rng.choice(paths)]))
    if read_object(draft.family.arguments(draft.values, broken.style), lines=True) is not None:
        # The text is valid and has another meaning.
        raise Inapplicable
    return replace(broken, family=turned)


def _has_envelope(family: Family) -> bool:
    """Return whether the name and the arguments are members of an object."""
    return '"name"' in family.head


def element_end(draft: Draft) -> Broken:
    """The end tag of an element inside an item or an object is missing."""
    tags = draft.family.tags
    inside = [tags.raw(value) for value in draft.values.values() if isinstance(value, dict | list)]
    closers = [closer for raw in inside for closer in re.findall(rf"{re.escape(M3)}</[^<>]+>", raw)]
    if not closers:
        raise Inapplicable
    closer = draft.rng.choice(closers)
    raw = draft.rng.choice([raw for raw in inside if closer in raw])
    shorter = raw.replace(closer, "", 1)
    return Broken(Style(text=lambda text: text.replace(raw, shorter, 1)), one=False)


def _in_elements(family: Family) -> bool:
    return family.tags.type is Type.ELEMENTS


_PREFIXES: tuple[str, ...] = (
    "src/[id]/page.tsx:{n}:",
    "src/(group)/a.tsx:{n}:",
    "C:\\src\\a.py:{n}:",
    "my file.py:{n}:",
    "[{n}] ",
    "({n}) ",
    "{n}> ",
    "{n}#",
    "{n};",
    "line {n}: ",
    "Line {n} | ",
    "a.py({n}): ",
    "a.py:{n}:5: ",
    "{n}-",
    "{n:6}\t",
    "{n:05}| ",
    "{n:5}→",
    "^1a2b3c4 (A. Body 2026-01-01 10:00:00 +0000 {n}) ",
    "> ",
    "+",
    "    ",
    "docs/a b.md:",
)


def _numbered(text: str, form: str, end: str) -> str:
    """Return a text with a prefix and an end on each line."""
    return "\n".join(f"{form.format(n=number)}{line}{end}" for number, line in enumerate(text.split("\n"), 8))


def _shown(draft: Draft) -> Callable[[str], str]:
    form = draft.rng.choice(_PREFIXES)
    end = draft.rng.choice(("", "", "", "$", "\r", "  |"))
    return lambda text: _numbered(text, form, end)


def copied(draft: Draft) -> Broken:
    """The calls are copied from a tool result that contains them with line prefixes."""
    if any(len(draft.family.write([call], 0)) < 40 for call in draft.calls):
        raise Inapplicable
    return Broken(shown=_shown(draft), no_call=True, one=False)


def shown_otherwise(draft: Draft) -> Broken:
    """A tool result contains the call with one difference, so the call is not a copy."""
    places = [(path, text) for path, text in draft.strings() if text.strip() and not _is_one_of_few(draft, path)]
    if not places:
        raise Inapplicable
    path, text = draft.rng.choice(places)
    other = draft.rng.choice((f"x{text}", f"{text}x", f"src/{text}", f"-{text}", f"1{text}"))
    return Broken(shown=_shown(draft), shown_values=_with(draft.values, path, other))


def _is_one_of_few(draft: Draft, path: Path) -> bool:
    return "enum" in draft.offer.properties[str(path[0])]


def _can_list(family: Family) -> bool:
    """Return whether the arguments of a call in text can be any object."""
    return in_text(family) and family.body in (Body.JSON, Body.GEMMA)


def _json_in_text(family: Family) -> bool:
    return in_json(family) and in_text(family)


BREAKS = (
    Break("comma_and_brace", "inner marks unescaped, a comma and a brace behind one", comma_and_brace, in_json),
    Break("outer_key", "a nested string shows the next outer key, unescaped", outer_key_in_nested, in_json),
    Break("shown_call", "a value shows a whole call, its marks unescaped", shown_call, _json_in_text),
    Break("listing", "no call, but the definition of a tool", listing, _can_list),
    Break("copied", "no call, but a copy of what a tool showed", copied, in_text),
    Break("shown_otherwise", "nothing, but a tool showed a similar call", shown_otherwise, in_text),
    Break("element_end", "an end tag within an item missing", element_end, _in_elements),
    Break("key_twice", "a comma missing and a key twice", lost_comma_and_key_twice, in_json, 0.2),
    Break("bare_envelope", "the keys around the arguments unquoted", bare_envelope, _has_envelope, 0.2),
    Break("arguments_first", "the name behind arguments with unescaped marks", arguments_first, _has_envelope, 0.2),
)
