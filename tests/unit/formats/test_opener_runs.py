"""Openers of which nothing comes: they are passed as parsers would refuse them, and in few steps."""

from __future__ import annotations

import random
from typing import Any

import pytest

from proxy.formats import scanner as scanner_module
from proxy.formats.grammar import TEXT, grammars
from proxy.formats.markers import MARKERS, WRAPPER_TAGS
from proxy.formats.opener_runs import opener_run, opener_runs
from proxy.formats.spans import Candidate
from proxy.formats.spans import begun as begin
from proxy.parsing.buffer import MAX_MATCH, TextBuffer
from proxy.parsing.markdown import Markdown
from tests.support.helpers import Scanned, call_json, new_scanner, scan

RUNS = grammars(json_reply=False, raw_text=False)[TEXT].runs
OPENERS = (*WRAPPER_TAGS, *(marker.opener for marker in MARKERS))
NOW = call_json("now")
OTHERS = (
    *("\n", " ", "<", "<b>", "a", "]", "[", "</tool_call>", "`", "\n> ", '"', "{", "<function=", "<|im_end|>"),
    *(" " * 65, NOW, f"{NOW}</tool_call>", f"<tools>{NOW}</tools>", f"[TOOL_CALLS][{NOW}]", f'\n{call_json("nope")}'),
)
MORE = "." * MAX_MATCH


def passed(text: str, before: str = "") -> int:
    """How many bytes of the text are passed at once."""
    markdown = Markdown()
    markdown.feed(before.encode())
    found = opener_run(TextBuffer(bytearray(text.encode())), RUNS, markdown, 0)
    return found.end if found else 0


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("<tool_call>" * 5 + MORE, 55),
        ("<tool_call>" * 9 + MORE, 55),
        ("<tool_call>\n" * 5 + MORE, 59),
        ("<tool_call>" * 2 + "<b <" + MORE, 22),
        ("<tool_call>" * 2 + "<b>" + MORE, 0),
        ("<tool_call>" * 4 + MORE, 0),
        ("<tool_call>" * 5 + MORE[1:], 0),
        ("<tool_call>[Tool call:<a <" + MORE, 22),
        ("<tool_call>[Tool call: ]<a <" + MORE, 0),
        ("[Tool call:" * 5 + MORE, 0),
        ("<|DSML<" + MORE, 6),
        ("<|DSML>" + MORE, 0),
    ],
)
def test_what_is_passed_ends_where_a_candidate_is_refused(text: str, count: int) -> None:
    assert passed(text) == count


@pytest.mark.parametrize("before", ["> ", "`", "```\n"])
def test_in_code_and_quotes_nothing_is_passed(before: str) -> None:
    assert passed("<tool_call>" * 5 + MORE, before) == 0


def test_what_begins_something_else_too_is_left_to_its_parser() -> None:
    assert opener_runs([b"<b>"], [b"<"]) is None
    runs = opener_runs([b"<tools>", b"<tools><a>", b"<Call>"], [b"<"])
    assert runs is not None
    assert not runs.match(b"<tools>" * 5 + MORE.encode())
    assert runs.match(b"<Call>" * 5 + MORE.encode())


def said(text: str, cut: int) -> tuple[Scanned, object]:
    """What a scanner makes of a text."""
    scanner = new_scanner()
    return scan([text[at : at + cut] for at in range(0, len(text), cut)], scanner), scanner.refusals


@pytest.mark.slow
def test_any_mixture_of_openers_gives_what_their_parsers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(15)
    texts = []
    for _ in range(150):
        openers = OPENERS if rng.random() < 0.5 else rng.sample(OPENERS, 3)
        units = rng.choices(openers, k=rng.randint(1, 40)) + rng.choices(OTHERS, k=rng.randint(0, 6))
        rng.shuffle(units)
        texts.append(rng.choice(("", "I see. ", "\n")) + "".join(units))
    at_once = [said(text, cut) for text in texts for cut in (len(text), 70)]
    monkeypatch.setattr(scanner_module, "opener_run", lambda *_: None)
    assert at_once == [said(text, cut) for text in texts for cut in (len(text), 70)]


def test_a_long_run_takes_few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: counted, not timed."""
    begun: list[int] = []

    def counted(*args: Any, **kwds: Any) -> Candidate:
        begun.append(1)
        return begin(*args, **kwds)

    monkeypatch.setattr(scanner_module, "begun", counted)
    text = "I see. " + "".join(random.Random(1).choices(OPENERS, k=4_000))
    scan([text])
    assert len(begun) < 400
