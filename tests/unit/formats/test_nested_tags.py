"""Tags that were opened inside a value and are not closed yet."""

from __future__ import annotations

from proxy.formats.end_tag_chains import Level, Mark
from proxy.formats.nested_tags import OpenTags


def opened(level: Level, kind: str = "", key: str = "") -> Mark:
    return Mark(level, False, kind, key)


def closing(level: Level, kind: str = "") -> Mark:
    return Mark(level, True, kind)


def test_an_end_tag_closes_the_innermost_of_its_kind_with_all_in_it() -> None:
    tags = OpenTags()
    outer, inner, call = opened(Level.VALUE, "p", "a"), opened(Level.VALUE, "p", "b"), opened(Level.CALL)
    for mark in (outer, inner, call):
        tags.push(mark)
    assert tags and tags.named == 2
    assert tags.close(closing(Level.VALUE, "p")) is inner
    assert tags.named == 1
    assert tags.close(closing(Level.CALL)) is None, "it was open in the one that is closed"
    assert tags.close(closing(Level.VALUE, "q")) is None
    assert tags.close(closing(Level.VALUE, "p")) is outer
    assert not tags and tags.named == 0
    assert tags.close(closing(Level.VALUE, "p")) is None


def test_what_is_forgotten_gives_its_keys() -> None:
    tags = OpenTags()
    for key in ("a", "", "b", "a"):
        tags.push(opened(Level.VALUE, "p", key))
    assert (tags.named, tags.clear(), tags.clear()) == (3, {"a", "b"}, set())
    assert not tags and tags.named == 0 and tags.close(closing(Level.VALUE, "p")) is None
