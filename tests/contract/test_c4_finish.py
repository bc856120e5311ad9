"""The finish reason is correct (contract C4). Truncated replies and replies with an unknown reason are not completed. A
natural reason says whether calls were sent. A reply without an end becomes an error.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable

import pytest

from proxy.engine.events import Chunk
from proxy.errors import UpstreamBroken
from proxy.notations.toolset import ToolSet, read_tools
from tests.contract.test_c1_valid_calls import ROWS as VALID
from tests.contract.test_c1_valid_calls import Row as ValidCall
from tests.contract.test_c3_negative import ROWS as NO_CALLS
from tests.contract.test_c3_negative import TOOLS
from tests.contract.test_c3_negative import Row as NoCall
from tests.support.client_view import whole
from tests.support.each_case import each_case
from tests.support.helpers import Views, calls, ends, new_engine, piece, random_cut, run, says, view
from tests.support.renderers import RENDERERS, Call

pytestmark = pytest.mark.slow

# Each call ends in a unique text, whose absence shows that the call was cut.
CALLS: list[Call] = [
    ("bash", {"timeout": 10, "command": "echo first-end"}),
    ("write_file", {"path": "a.txt", "content": "two\nlines, second-end"}),
]
ENDS = ("first-end", "second-end")
NATURAL = ("stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence", "end_turn")
CUT = ("length", "content_filter", "repetition", "odd", "STOPPED")
# The last three mean that the server gave up. APIs without an equal reason send an error.
OTHERS = (*CUT, "abort", "error", "insufficient_system_resource")


def reply(form: str) -> tuple[str, str, list[Call]]:
    """Return the prose before the calls, if the format allows any, the calls as written, and their meaning."""
    renderer = RENDERERS[form]
    meant = CALLS if renderer.several else CALLS[:1]
    return "So it is.\n" if renderer.lead else "", renderer.render(meant), meant


def said(text: str, rng: random.Random) -> list[Chunk]:
    return [says(part) for part in random_cut(text, rng) if part]


def read(view_: Views) -> list[Call]:
    """Return the calls that were sent, with parsed arguments."""
    return [(name, json.loads(arguments)) for name, arguments in view_[0].calls]


def places(size: int, rng: random.Random, count: int = 6) -> list[int]:
    """Return some places at which a text of this size can be cut, including the last four."""
    return sorted({*rng.sample(range(1, size), min(count, size - 1)), *range(max(1, size - 4), size)})


def is_opener(text: str) -> bool:
    """Return whether a text is a lone opener or half a header, which is dropped at the end."""
    return bool(re.fullmatch(r"\s*([<\[][^<>{}\[\]\s]+[>\]]\s*)+|(<\|start\|>|<\|channel\|>)[^{}]*", text))


@pytest.mark.parametrize("form", RENDERERS)
def test_a_truncated_reply_keeps_its_finish_and_no_call_is_completed(form: str) -> None:
    """All calls sent were complete, and the text after them is unchanged."""
    lead, written, meant = reply(form)
    text, rng = lead + written, random.Random(len(written))
    for end in places(len(text), rng):
        cut = text[:end]
        seen = view(run([*said(cut, rng), ends("length")]))
        found = read(seen)
        assert (seen.failed, seen[0].finish) == (None, "length")
        assert found == meant[: len(found)]
        assert all(mark in cut for mark in ENDS[: len(found)])
        if not found:
            assert seen[0].text == cut or is_opener(cut.removeprefix(seen[0].text))
        assert seen[0].text.startswith(lead[:end]) and cut.endswith(seen[0].text[len(lead) :])


def offering(row: ValidCall) -> ToolSet:
    return read_tools([{"type": "function", "function": {"name": "tool", "parameters": row.schema}}])


def deltas(arguments: Iterable[str]) -> list[Chunk]:
    return [calls(piece(0, "", name="tool", id="call_1")), *(calls(piece(0, part)) for part in arguments if part)]


@pytest.mark.slow
@each_case("row", VALID[::3], ids=map(str, range(0, len(VALID), 3)))
def test_a_truncated_structured_call_is_not_completed(row: ValidCall) -> None:
    """Its arguments are unchanged, without added closers. If the call had not begun, it is text."""
    text, rng = row.arguments.rstrip(), random.Random(len(row.arguments))
    for end in places(len(text), rng, 4) if len(text) > 1 else ():
        cut = text[:end]
        seen = view(run([*deltas(random_cut(cut, rng)), ends("length")], new_engine(offering(row))))
        assert (seen.failed, seen[0].finish) == (None, "length")
        assert seen[0].calls in ([("tool", cut)], [])
        assert seen[0].calls or cut in seen[0].text


def finish_of(reason: str, found: list[Call]) -> str:
    return ("tool_calls" if found else "stop") if reason in NATURAL else reason


@pytest.mark.parametrize("form", RENDERERS)
def test_natural_reasons_are_corrected_and_others_are_kept(form: str) -> None:
    """This holds in a stream, in a whole response, and in a stream that the proxy creates from a whole response."""
    lead, written, meant = reply(form)
    rng = random.Random(len(written))
    for reason in (*rng.sample(NATURAL, 2), *rng.sample(OTHERS, 2)):
        seen = view(run([*said(lead + written, rng), ends(reason)]))
        found = read(seen)
        # A call without a wrapper counts only if the model stopped on its own.
        assert found == meant or (reason in OTHERS and not found and seen[0].text == lead + written)
        assert (seen.failed, seen[0].finish) == (None, finish_of(reason, found))
    reason = rng.choice((*NATURAL, *CUT))
    got = whole({"content": lead + written}, reason)
    assert (got.error, got.finish) == ("", finish_of(reason, got.values))


@each_case("row", VALID[::6], ids=map(str, range(0, len(VALID), 6)))
def test_reasons_are_corrected_for_structured_calls(row: ValidCall) -> None:
    tools, rng = offering(row), random.Random(len(row.arguments))
    for reason in (*rng.sample(NATURAL, 2), *rng.sample(OTHERS, 2)):
        seen = view(run([*deltas(random_cut(row.arguments, rng)), ends(reason)], new_engine(tools)))
        assert seen[0].calls == [("tool", row.arguments)]
        assert (seen.failed, seen[0].finish) == (None, finish_of(reason, read(seen)))


@pytest.mark.slow
@each_case("row", NO_CALLS[::6], ids=lambda row: row.id)
def test_without_calls_the_finish_is_not_tool_calls(row: NoCall) -> None:
    """This holds even if the server's finish reason is `tool_calls`."""
    rng = random.Random(row.id)
    for reason in (rng.choice(NATURAL if row.finish == "stop" else OTHERS), rng.choice(OTHERS)):
        seen = view(run([*said(row.text, rng), ends(reason)], new_engine(TOOLS, sources=row.results)))
        assert (seen[0].text, seen[0].calls, seen[0].finish) == (row.text, [], finish_of(reason, []))


@pytest.mark.parametrize("form", RENDERERS)
def test_an_unfinished_reply_ends_in_an_error(form: str) -> None:
    """It has no finish reason wherever it is cut. With `[DONE]` it is complete."""
    lead, written, meant = reply(form)
    text, rng = lead + written, random.Random(len(written))
    for end in [*places(len(text), rng, 2), len(text)]:
        seen = view(run(said(text[:end], rng), done=False))
        assert isinstance(seen.failed and seen.failed.error, UpstreamBroken)
        assert seen[0].finish is None
        assert read(seen) == meant[: len(seen[0].calls)]
        assert seen[0].text.startswith(lead[:end]) and text[:end].endswith(seen[0].text[len(lead) :])
    seen = view(run(said(text, rng), done=True))
    assert (seen.failed, read(seen), seen[0].finish) == (None, meant, "tool_calls")


@each_case("row", VALID[::6], ids=map(str, range(0, len(VALID), 6)))
def test_an_unfinished_structured_call_ends_in_an_error(row: ValidCall) -> None:
    """The arguments sent are a prefix of the arguments received."""
    tools, rng = offering(row), random.Random(len(row.arguments))
    for end in {1, len(row.arguments) // 2, len(row.arguments)}:
        seen = view(run(deltas(random_cut(row.arguments[:end], rng)), new_engine(tools), done=False))
        assert isinstance(seen.failed and seen.failed.error, UpstreamBroken)
        assert seen[0].finish is None
        assert all(row.arguments[:end].startswith(arguments) for _, arguments in seen[0].calls)
