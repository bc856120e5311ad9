"""Markup of a family, for use inside values."""

from __future__ import annotations

from benchmarks.harm.families import FAMILIES, Body, Family
from benchmarks.harm.writing import CLEAN

# Families whose markup is used in structured calls, which have none of their own.
_FOR_STRUCTURED = ("hermes", "qwen_xml")


def others(family: Family) -> list[Family]:
    """Return the text families with a different notation."""
    return [other for other in FAMILIES.values() if other.name != family.name and not other.structured]


def markup(family: Family, name: str, key: str) -> tuple[str, ...]:
    """Return snippets of the family's markup: closers as in the template and on one line, whole calls, openers."""
    if family.structured:
        return tuple(text for other in _FOR_STRUCTURED for text in markup(FAMILIES[other], name, key))
    example = family.write([(name, {key: "v"})], 0)
    other = family.write([("other_tool", {"zz": "v"})], 0)
    tags = family.tags
    in_tags = family.body is Body.TAGS
    value_end = tags.edge + tags.closer(key) + tags.behind if in_tags else '"}'
    closers = value_end + family.foot + family.closer + family.section[1]
    closers = closers.replace("{name}", name)
    one_line = closers.replace("\n", "")
    opener = f"{family.section[0]}{family.opener}{family.head}".replace("{name}", name).replace("{n}", "0")
    begun = opener + tags.opener(key, "v", CLEAN) if in_tags else opener
    pieces = [example, other, closers.replace("{n}", "0").strip("\n"), one_line.replace("{n}", "0"), opener, begun]
    pieces += [tags.closer(key), tags.opener(key, "v", CLEAN)] if in_tags else [family.closer, family.section[1]]
    return tuple(dict.fromkeys(piece for piece in pieces if piece))
