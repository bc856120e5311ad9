"""Whole calls, repaired by name matching, rules and fixes together, and their results in a stream."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proxy.engine.events import Failed
from proxy.json import JsonObject
from proxy.notations.schema import compile_schema
from proxy.notations.toolset import ToolSet, read_tools
from proxy.notations.validator import violations
from proxy.repair.policy import Policy, ToolRule
from proxy.repair.repairer import Repairer
from tests.support.helpers import all_cuts, calls, ends, new_engine, offered, piece, run, view
from tests.support.random_schemas import TOOLS, Kind, repaired, validator
from tests.support.rows import rows
from tests.support.work import over_soon

pytestmark = pytest.mark.once
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path"],
}


def ids(text: str, schema: JsonObject = SCHEMA, *, stopped: bool = True) -> tuple[str, list[str]] | None:
    """Return the repaired arguments of a text and the ids of the repairs."""
    found = repaired(schema, text, stopped=stopped)
    return (found.arguments, [fix.id for fix in found.fixes]) if found else None


def test_a_reading_by_the_schema_counts_only_if_the_schema_accepts_it() -> None:
    text = '{"label": "a "3" b"}'
    schema: JsonObject = {"type": "object", "properties": {"label": {"type": "string"}}}
    assert ids(text, schema) == ('{"label": "a \\"3\\" b"}', ["inner_quotes"])
    assert ids(text, {**schema, "required": ["other"]}) is None
    assert ids(text, {}) is None
    assert Repairer(offered(), Policy()).repair("other", text, stopped=True) is None


def test_a_built_in_rule_never_changes_what_the_schema_accepts() -> None:
    rule = ToolRule("default", "tool", ("path",), "missing_or_empty", "set_default", default=("x",))
    for text, arguments in (('{"path": ""}', '{"path": ""}'), ("{}", '{"path": "x"}')):
        found = repaired(SCHEMA, text, policy=Policy(fallback_rules=(rule,)))
        assert found is not None
        assert found.arguments == arguments


def streamed(tools: ToolSet, cut: list[str], *, finish: str = "tool_calls") -> tuple[bool, list[str], str]:
    """Return whether the reply failed, the streamed arguments, and the text."""
    opened = calls(piece(0, "", name="tool", id="call_1"))
    engine = new_engine(tools)
    events = run([opened, *(calls(piece(0, part)) for part in cut), ends(finish)], engine)
    seen = view(events)
    assert bool(events) and (seen.failed is not None) is isinstance(events[-1], Failed)
    return seen.failed is not None, [arguments for _, arguments in seen[0].calls], seen[0].text


OUTCOMES: dict[str, tuple[str, str | None]] = {
    "doubled keys": ('{"path": "a", "path": "a"}', '{"path": "a"}'),
    "doubled keys in a string that went on": ('{"count": 1, "count": 1, "path": "b"}', '{"count": 1, "path": "b"}'),
    "NaN where it may be left out": ('{"path": "a", "ratio": NaN}', None),
    "a number beyond all range": ('{"path": "a", "ratio": 1e400}', '{"path": "a", "ratio": 1e400}'),
    "an integer of 10,000 digits": (f'{{"count": {"1" * 10_000}}}', f'{{"count": {"1" * 10_000}}}'),
    "10,000 digits into a string": (f'{{"path": {"1" * 10_000}}}', f'{{"path": "{"1" * 10_000}"}}'),
    "too many levels": ('{"path": "a", "x": ' + "[" * 400 + "]" * 400 + "}", None),
    "10,000 digits in a string": (f'{{"path": "{"1" * 10_000}"}}', f'{{"path": "{"1" * 10_000}"}}'),
    "a lone surrogate": ('{"path": "\\ud83d"}', '{"path": "\\ud83d"}'),
    "a lone surrogate and a repair": ('{"path": "\\ud83d", "count": "1"}', '{"path": "\\ud83d", "count": 1}'),
    "1.10 into a string": ('{"path": 1.10}', '{"path": "1.10"}'),
    "1.10 that stays a number": ('{"ratio": 1.10, "path": "a"}', '{"ratio": 1.10, "path": "a"}'),
    "-0": ('{"ratio": -0, "path": "a"}', '{"ratio": -0, "path": "a"}'),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_odd_values_have_the_same_outcome_at_every_cut(name: str) -> None:
    """C4: None means that the value is unreadable. The call is partly sent, so it ends in an error."""
    text, after = OUTCOMES[name]
    tools = read_tools([{"type": "function", "function": {"name": "tool", "parameters": SCHEMA}}])
    for cut in all_cuts(text, 4) if len(text) < 200 else ([text], [text[:20], text[20:]]):
        failed, arguments, said = streamed(tools, cut)
        if after is None:
            assert (failed, said) == (True, "")
            continue
        assert (failed, said) == (False, "")
        assert arguments == [after] or (after != text and json.loads(arguments[0]) == json.loads(after))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, member in members for place in _places(member, (*path, key)))]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


VALUE_DAMAGES = (
    json.dumps,
    str,
    lambda value: [value],
    lambda value: value[0] if isinstance(value, list) and len(value) == 1 else value,
    lambda value: value.swapcase() if isinstance(value, str) else value,
    lambda value: {"arguments": value},
    lambda _: None,
    lambda _: "",
    lambda _: 1.10,
)
KEY_DAMAGES = (
    str.upper,
    lambda key: key.replace("_", "-"),
    lambda key: f"{key}</arg_key>",
    lambda key: f'"{key}"',
    lambda key: key[:-1],
)
TEXT_DAMAGES = (
    json.dumps,
    lambda text: text + text,
    lambda text: text[1:],
    lambda text: f"json\n{text}",
    lambda text: f"{text}</tool_call>",
    lambda text: f"{text}}}",
    lambda text: text[:-1],
    lambda text: text[: len(text) // 2],
    lambda text: f"{text[:-1]},}}",
    lambda text: text.replace('"', "'"),
    lambda text: text.replace('"', "", 2),
    lambda text: text.replace(":", " ", 1),
    lambda text: repr(json.loads(text)),
)


def damaged(value: Any, rng: random.Random) -> str:
    """Return the JSON of a value with one error in a value, a key, or the text."""
    kind, path = rng.randrange(3), rng.choice(_places(value))
    new = copy.deepcopy(value)
    if kind == 0 and path:
        _at(new, path[:-1])[path[-1]] = rng.choice(VALUE_DAMAGES)(_at(new, path))
    elif kind == 1 and path and isinstance(path[-1], str):
        inside = _at(new, path[:-1])
        inside[rng.choice(KEY_DAMAGES)(path[-1])] = inside.pop(path[-1])
    elif kind == 2:
        return rng.choice(TEXT_DAMAGES)(json.dumps(value))
    return json.dumps(new)


@pytest.mark.slow
@settings(max_examples=200, derandomize=True)
@given(TOOLS.flatmap(lambda kind: st.tuples(st.just(kind), kind.values)), st.randoms(use_true_random=False))
def test_repairing_a_damaged_call_is_independent_of_the_cuts(given_: tuple[Kind, Any], rng: random.Random) -> None:
    """C4: a repair adds no violations and is idempotent, and streamed arguments equal the repaired ones."""
    kind, value = given_
    assume(validator(kind.schema).is_valid(value))
    text, shape = damaged(value, rng), compile_schema(kind.schema)
    found = repaired(kind.schema, text)
    if found is not None:
        again = repaired(kind.schema, found.arguments)
        assert again is not None
        assert (again.arguments, again.fixes) == (found.arguments, ())
        assert found.violations == violations(found.values, shape)
    tools = read_tools([{"type": "function", "function": {"name": "tool", "parameters": kind.schema}}])
    outcomes = {_outcome(streamed(tools, cut), found) for cut in all_cuts(text, 2)}
    assert len(outcomes) == 1, text


def _outcome(given_: tuple[bool, list[str], str], found: Any) -> tuple[Any, ...]:
    failed, arguments, said = given_
    if not failed and arguments:
        assert found is not None
        assert json.loads(arguments[0]) == json.loads(found.arguments)
    return failed, () if failed else tuple(arguments), said


@rows(__file__, "parameters")
def test_an_invalid_schema_does_no_harm(parameters: Any) -> None:
    tools = read_tools([{"type": "function", "function": {"name": "tool", "parameters": parameters}}])
    for text in ('{"a": "1", "b": [2]}', "{'a': 1}", "{}", '{"A": 1', "null"):
        failed, arguments, said = streamed(tools, [*text])
        assert (failed, said) == (False, "")
        assert isinstance(json.loads(arguments[0]), dict)


@pytest.mark.slow
def test_a_call_of_2_mb_is_repaired_quickly() -> None:
    """C7: this holds even for an error at its very end."""
    schema: JsonObject = {**SCHEMA, "additionalProperties": False}
    tools = read_tools([{"type": "function", "function": {"name": "tool", "parameters": schema}}])
    text = json.dumps({"path": "line {\n" * 300_000, "count": "1"})
    cut = [text[at : at + 4096] for at in range(0, len(text), 4096)]
    with over_soon():
        failed, (arguments,), _ = streamed(tools, cut)
    assert not failed
    assert json.loads(arguments)["count"] == 1
