"""A family's own markup, as the text of a value may show it."""

from __future__ import annotations

from benchmarks.harm.families import FAMILIES, Body, Family
from benchmarks.harm.writing import CLEAN

# The words of these two stand for a structured call's, whose arguments no markup surrounds.
_FOR_STRUCTURED = ("hermes", "qwen_xml")


def others(family: Family) -> list[Family]:
    """Return the families in text that are written in another way."""
    return [other for other in FAMILIES.values() if other.name != family.name and not other.structured]


def markup(family: Family, name: str, key: str) -> tuple[str, ...]:
    """What of its own a value may show: closers as the template writes them and on one line, whole calls, openers."""
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
