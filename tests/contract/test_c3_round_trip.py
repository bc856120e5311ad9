"""Round trip: random calls of random tools in every format, intact and after random damage."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from benchmarks.harm.writing import dump
from proxy.json import Json
from proxy.notations.toolset import ToolSet
from tests.support.helpers import function, new_scanner, offered, random_cut, scan
from tests.support.renderers import RENDERERS, Call

DATA = json.loads(Path(__file__).with_name("fuzz.json").read_text("utf-8"))

pytestmark = pytest.mark.once

Schema = dict[str, Any]
Kind = tuple[Schema, st.SearchStrategy[Any]]

# Tools and parameters. No name occurs in a marker below, and some keys are those of calls themselves.
NAMES = ("lookup", "run_job", "fetchPage", "db_query2", "Translate", "list_open_tickets", "x", "moveTo")
KEYS = ("path", "size", "deep", "from", "name", "type", "arguments", "input", "filePath", "max_items", "k1", "note")
LEADS = (
    "",
    "Let me see.\n",
    "I need `two` of them:\n\n",
    "- the first comes now\n- the *other* one after it\n\n",
    "Grüße aus Zürich 🙂\n",
)

_M3 = "]<]minimax[>["
# Markers that begin, end or divide calls in some format. Strings may contain them.
MARKERS = tuple(DATA["MARKERS"])


@dataclass(frozen=True, slots=True)
class Request:
    """The tools of a request, and the calls in its reply."""

    tools: ToolSet
    calls: tuple[Call, ...]


def quoted_call(form: str, name: str) -> str:
    """Return a call in one of the formats, as a string may quote it. No tool has its parameter."""
    return RENDERERS[form].render([(name, {"zz": "quoted"})])


PLAIN = st.text(st.characters(codec="utf-8"), max_size=20)
MIXED = st.lists(
    st.sampled_from(MARKERS) | st.sampled_from(("word", "a < b", "größer", "x = 1;")) | PLAIN, max_size=8
).map("".join)
QUOTED = st.builds(quoted_call, st.sampled_from(sorted(RENDERERS)), st.sampled_from(NAMES))
TEXTS = PLAIN | MIXED | MIXED | st.tuples(MIXED, QUOTED, MIXED).map("".join)
# If other types are allowed, too, raw text must not be a literal of one of them.
NO_LITERALS = TEXTS.map(lambda text: f"s{text}")
INTEGERS = st.integers(-(2**53), 2**53)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | INTEGERS

SCALARS: tuple[Kind, ...] = (
    ({"type": "string"}, TEXTS),
    ({"type": "integer"}, INTEGERS),
    ({"type": "number"}, NUMBERS),
    ({"type": "boolean"}, st.booleans()),
    ({"type": ["integer", "null"]}, INTEGERS | st.none()),
    ({"type": ["boolean", "null"]}, st.booleans() | st.none()),
    ({"type": ["string", "null"]}, NO_LITERALS | st.none()),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, NO_LITERALS | INTEGERS),
)


def array_of(kind: Kind) -> Kind:
    return {"type": "array", "items": kind[0]}, st.lists(kind[1], max_size=3)


def object_of(kinds: dict[str, Kind]) -> Kind:
    """Return the kind of an object whose values may each be missing."""
    properties = {key: schema for key, (schema, _) in kinds.items()}
    return {"type": "object", "properties": properties}, st.fixed_dictionaries(
        {}, optional={key: values for key, (_, values) in kinds.items()}
    )


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> Kind:
    """Draw the schema of a parameter and its values, mostly strings."""
    choice = draw(st.integers(0, 9 if depth else 7))
    if choice > 8:
        return array_of(draw(kinds(depth - 1)))
    if choice > 7:
        return object_of(draw(st.dictionaries(st.sampled_from(KEYS), kinds(depth - 1), max_size=3)))
    return SCALARS[0] if choice < 4 else draw(st.sampled_from(SCALARS))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Draw one to three tools with up to four parameters each, and one to three calls."""
    shapes: dict[str, tuple[dict[str, Kind], tuple[str, ...]]] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)):
        parameters = draw(st.dictionaries(st.sampled_from(KEYS), kinds(), max_size=4))
        shapes[name] = parameters, tuple(key for key in parameters if draw(st.booleans()))
    calls: list[Call] = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(shapes)))
        parameters, required = shapes[name]
        given_keys = [key for key in parameters if key in required or draw(st.booleans())]
        calls.append((name, {key: draw(parameters[key][1]) for key in given_keys}))
    tools = [
        function(name, {key: schema for key, (schema, _) in parameters.items()}, *required)
        for name, (parameters, required) in shapes.items()
    ]
    return Request(offered(*tools), tuple(calls))


def texts(value: Json) -> Iterator[str]:
    """Yield the texts that a format may write without escapes: the strings in a value, and its JSON."""
    if isinstance(value, str):
        yield value
        return
    yield dump(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


def written(form: str, request: Request) -> tuple[str, list[tuple[str, str]]]:
    """Return the calls as a model writes them, as many as the format allows, and the expected calls."""
    renderer = RENDERERS[form]
    calls = request.calls if renderer.several else request.calls[:1]
    assume(all(renderer.fits(text) for _, values in calls for value in values.values() for text in texts(value)))
    return renderer.render(calls), [comparable(*call) for call in calls]


def comparable(name: str, arguments: object) -> tuple[str, str]:
    """Return a call in a form that distinguishes 1, 1.0 and true."""
    return name, json.dumps(arguments, sort_keys=True)


# Formats whose values are raw, and those whose first call has no wrapper.
_PROBE = "a\"'b\n"
RAW_VALUES = {name for name, each in RENDERERS.items() if _PROBE in each.render([("lookup", {"path": _PROBE})])}
NAMES_ALONE = ("glm4_0414", "functionary_v32")
QUIET = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


@pytest.mark.slow
@pytest.mark.parametrize("form", RENDERERS)
@settings(max_examples=10, derandomize=True, suppress_health_check=QUIET)
@given(request_=requests(), lead=st.sampled_from(LEADS), rng=st.randoms(use_true_random=False))
def test_calls_are_read_as_intended(form: str, request_: Request, lead: str, rng: random.Random) -> None:
    """F1 to F15, F21, F26: names, values and order are equal at any cut, and no other prose than the preceding text is
    sent. A raw value with markup may be refused, but never changes (C9). A name alone without a wrapper is not a call.
    """
    text, expected = written(form, request_)
    assume(form not in NAMES_ALONE or request_.calls[0][1])
    # A notation's token cannot be part of a raw value.
    assume(form not in RAW_VALUES or not any(_M3 in values for _, values in expected))
    before = lead if RENDERERS[form].lead else ""
    found = scan(random_cut(before + text, rng), new_scanner(request_.tools))
    left = [comparable(*call) for call in found.parsed]
    if form in RAW_VALUES and left != expected:
        assert all(call in expected for call in left) and any("<" in values or "[" in values for _, values in expected)
    else:
        assert (left, found.text) == (expected, before)


def damaged(text: str, rng: random.Random) -> str:
    """Delete, double or replace one or two random slices of a text."""
    for _ in range(rng.randint(1, 2)):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.choice((1, 2, 5, 12, 40)))
        other = rng.randint(0, len(text))
        piece = text[start:end]
        new = rng.choice(("", piece * 2, rng.choice(MARKERS), text[other : other + rng.randint(1, 20)]))
        text = text[:start] + new + text[end:]
    return text


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, suppress_health_check=QUIET)
@given(
    form=st.sampled_from(sorted(RENDERERS)),
    request_=requests(),
    lead=st.sampled_from(LEADS),
    stopped=st.booleans(),
    rng=st.randoms(use_true_random=False),
)
def test_damage_only_loses_a_call(form: str, request_: Request, lead: str, stopped: bool, rng: random.Random) -> None:
    """C3, C7: no exception, and each byte once and in order at any cut. A call is an object for an offered tool."""
    text = damaged(lead + RENDERERS[form].render(request_.calls), rng)
    found = scan(random_cut(text, rng), new_scanner(request_.tools), stopped=stopped)
    assert scan(random_cut(text, rng), new_scanner(request_.tools), stopped=stopped) == found
    names = {tool.name for tool in request_.tools}
    for name, arguments in found.parsed:
        assert name in names
        assert isinstance(arguments, dict)


def test_only_ambiguous_values_are_excluded() -> None:
    """The round trip covers all other values."""
    fits = RENDERERS["qwen3_coder"].fits
    assert not any(map(fits, ("a</parameter>\n</function>", "a</parameter>", "a\r")))
    assert fits("a</parameter> b </function>\n\nc </tool_call>") and fits("\nx")
    assert not RENDERERS["mimo"].fits("\nx")
    assert not RENDERERS["gemma4"].fits('<|"|>') and RENDERERS["hermes"].fits("</tool_call>")
