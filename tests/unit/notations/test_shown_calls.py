"""A call that a value shows is no call, also where the call around it comes to nothing: a key twice, prose between the
tags, an end tag that is missing, a reply that breaks off."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.helpers import function, new_scanner, offered, scan
from tests.support.renderers import RENDERERS, Call
from tests.unit.notations.test_raw_values import FAMILIES, MARKS, around

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
TOOLS = offered(
    function("edit_text", {"path": TEXT, "old": TEXT, "new": TEXT, "count": {"type": "integer"}}, "path"),
    function("shown", {"what": TEXT}),
)
FIRST: Call = ("edit_text", {"path": "q", "old": "w"})
KEYS = ("path", "old", "new")
TAG = re.compile(r"\s*(?:\]<\]minimax\[>\[)?<[^<>]*>(?:[a-z]+<\|sep\|>)?")
PIECES = ("prose ", "<b>", "</x>", "\n\nand")


def values(family: str) -> dict[str, str]:
    """Values that show a call of another tool."""
    example = RENDERERS[family].render([("shown", {"what": "v"})])
    end_tag = TAG.match(around(family, "old")[1])
    end = end_tag.group().strip() if end_tag and family not in MARKS else ""
    return {
        "on lines": f"x\n{example}\ny",
        "in a line": f"x {example} y",
        "alone": example,
        "with closers": f"{example}\n{around(family, 'old')[1].strip()} so",
        "with an opener": f"{around(family, 'old')[0].strip()} {example}",
        "behind an end tag": f"a {end} {example} b",
        "behind an end tag on a line": f"a\n{end}\n{example}\nb",
    }


def broken(family: str, key: str, value: str) -> Iterator[str]:
    """Two calls, the second of which shows that one and is broken behind it, or before it."""
    call: Call = ("edit_text", {"path": "a.py", "old": "b", "new": "c", key: value})
    text = RENDERERS[family].render([FIRST, call])
    at = text.rfind(value)
    before, behind = text[:at] + value, text[at + len(value) :]
    tags = [found.span() for found in TAG.finditer(behind)]
    yield text
    yield before
    yield text.replace("old", "path")
    yield before + behind.replace("new", key).replace("old", key)
    for start, end in tags[:6]:
        yield before + behind[:start] + behind[end:]
    for _, end in tags[:3]:
        yield from (before + behind[:end] + piece + behind[end:] for piece in PIECES)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_that_a_value_shows_never_leaves(family: str, key: str) -> None:
    """Whole and in pieces, in turn, and each text at one of the keys."""
    for turn, (name, value) in enumerate(values(family).items(), start=FAMILIES.index(family)):
        if KEYS[turn % len(KEYS)] != key:
            continue
        for number, text in enumerate(dict.fromkeys(broken(family, key, value))):
            size = 7 if number % 2 else len(text)
            found = scan([text[at : at + size] for at in range(0, len(text), size)], new_scanner(TOOLS)).parsed
            assert [call for call, _ in found if call == "shown"] == [], f"{name}: {text}"


@pytest.mark.parametrize("family", ["kimi_k3", "minimax_m2", "anthropic", "deepseek_v32", "minimax_m3", "dots"])
def test_what_breaks_off_behind_a_closed_call_is_read_no_second_time(family: str) -> None:
    example = RENDERERS[family].render([("shown", {"what": "v"})])
    whole = RENDERERS[family].render([FIRST, ("edit_text", {"path": f"x {example} y"})])
    text = whole[: whole.rfind(" y") + 2]
    found = [scan(cut, new_scanner(TOOLS)) for cut in ([text], [*text])]
    assert [each.parsed for each in found] == [[FIRST], [FIRST]]
    assert text.endswith(found[0].text) and f"x {example} y" in found[0].text
    assert found[0].text == found[1].text
