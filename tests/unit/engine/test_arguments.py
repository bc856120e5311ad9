"""How much of a call's arguments is sent while they arrive (contracts C1, C2, C4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.arguments import Arguments, Policy, Where, policy_of
from proxy.json import JsonObject
from proxy.limits import MAX_DEPTH
from proxy.notations.toolset import Tool, ToolSet
from proxy.repair import policy as rules
from proxy.repair.repairer import Repairer
from tests.support.helpers import all_cuts, function, offered
from tests.support.rows import rows
from tests.support.work import over_soon


def tool(name: str = "typed") -> Tool:
    found = offered().resolve(name)
    assert found is not None
    return found


def policy(which: Tool | None, **given: Any) -> Policy:
    """Return the streaming policy of a call of this tool."""
    parts = which.compiled.all_parts() if which else ()
    return Policy(parts, frozenset(which.required) if which else frozenset(), **given)


def begun(policy: Policy) -> Arguments:
    arguments = Arguments()
    arguments.begin(policy)
    return arguments


def fed(cut: list[str], which: Tool | None, **given: Any) -> tuple[str, Arguments]:
    """Return the text that was sent, which is a prefix of the arguments at every step."""
    arguments = begun(policy(which, **given))
    left = ""
    for part in cut:
        left += arguments.feed(part)
        assert arguments.text.startswith(left)
        assert arguments.sent == len(left.encode("utf-8", "surrogatepass"))
    assert arguments.text == "".join(cut)
    return left, arguments


VALID = [
    "{}",
    " {\n} ",
    '{"label": "a"}',
    '{"label":"","count":0}',
    '{ "label" : "a b" , "count" : 10 }',
    '{"count": -1, "ratio": 1.5e3, "flag": true, "maybe": null}',
    '{"items": ["a", "}", "]", "\\""], "options": {"a": {"b": [1, {}]}}}',
    '{"either": "10", "free": "x", "label": "naïve 🙂 ｜"}',
    '{"label": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude42\\ud83d"}',
    json.dumps({"label": "x" * 500, "items": ["y" * 500]}),
    json.dumps({"free": {"a": 1}, "either": 5}, indent=2),
]


@pytest.mark.parametrize("text", VALID, ids=lambda text: text[:30])
def test_a_valid_object_is_sent_up_to_its_last_value_at_every_cut(text: str) -> None:
    """C1, C2: the last value and the closing brace are sent at the end of the call."""
    values = json.loads(text)
    for cut in all_cuts(text, 50 if len(text) > 400 else 200):
        left, arguments = fed(cut, tool())
        assert arguments.where is Where.END and text[: arguments.closed].strip() == text.strip()
        assert json.loads(left + str(arguments.tail(values))) == values


@rows(__file__, "text,left")
def test_a_value_that_a_fix_may_change_waits(text: str, left: str) -> None:
    """C2: every value except a string waits until it is complete, with the comma and the key before it.

    So does a string's quotation mark until its first character: an empty string may be forbidden and dropped (F35).
    """
    for cut in all_cuts(text):
        got, arguments = fed(cut, tool())
        assert (got.rstrip(), arguments.where is Where.HELD) == (left.rstrip(), False)


# Arguments that no repair can read.
UNREADABLE = (
    *("array", "wrong closer", "no value", "leading zero", "too deep", "missing colon", "closed wrongly inside"),
    *("doubled key", "doubled key by an escape", "NaN"),
)
BROKEN: dict[str, tuple[str, str]] = {
    "single quote": ("{'label': 'a'}", ""),
    "missing brace": ('"label": "a"}', ""),
    "array": ('["a"]', ""),
    "string": ('"{\\"label\\": 1}"', ""),
    "unknown key": ('{"label": "a", "lable": "b"}', '{"label": "a'),
    "doubled key": ('{"label": "a", "label": "b"}', '{"label": "a'),
    "doubled key by an escape": ('{"label": "a", "l\\u0061bel": "b"}', '{"label": "a'),
    "raw newline in a string": ('{"label": "a\nb"}', '{"label": "a'),
    "raw tab in a string": ('{"label": "a\tb"}', '{"label": "a'),
    "raw newline in a key": ('{"la\nbel": "a"}', ""),
    "raw newline in a nested string": ('{"items": ["a\nb"]}', ""),
    "bad escape": ('{"label": "a\\x41"}', '{"label": "a'),
    "bad unicode escape": ('{"label": "a\\u00g0"}', '{"label": "a'),
    "bad escape in a key": ('{"l\\xabel": "a"}', ""),
    "bad escape in a nested string": ('{"items": ["\\x"]}', ""),
    "trailing comma": ('{"label": "a",}', '{"label": "a'),
    "missing comma": ('{"label": "a" "count": 1}', '{"label": "a'),
    "missing colon": ('{"label" "a"}', ""),
    "python literal": ('{"flag": True}', ""),
    "NaN": ('{"ratio": NaN}', ""),
    "leading zero": ('{"count": 01}', ""),
    "no value": ('{"count": }', ""),
    "wrong closer": ('{"label": "a"]', '{"label": "a'),
    "closed wrongly inside": ('{"items": [1}, "count": 1}', ""),
    "key without quotes": ('{label: "a"}', ""),
    "smart quotes": ('{“label”: "a"}', ""),
    "too deep": ('{"items": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}", ""),
    "string for an object": ('{"options": "a"}', ""),
    "string for an integer": ('{"label": "a", "count": "10"}', '{"label": "a"'),
    "integer for a string": ('{"label": 1}', ""),
    "wrong item": ('{"items": ["a", 1]}', ""),
    "null for a number": ('{"count": null}', ""),
    "too long a key": ('{"' + "k" * 300 + '": 1}', ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_nothing_is_sent_after_the_first_invalid_byte(name: str) -> None:
    """C4: the text that was sent does not depend on the cuts, and the repaired arguments begin with it."""
    text, left = BROKEN[name]
    found = Repairer(ToolSet([tool()]), rules.Policy()).repair("typed", text, stopped=True)
    assert (found is None) is (name in UNREADABLE)
    for cut in all_cuts(text, 30 if len(text) > 100 else 200):
        got, arguments = fed(cut, tool())
        assert arguments.where is Where.HELD and got.rstrip() == left.rstrip()
        assert arguments.feed('"label": "z') == ""
        if found is not None:
            assert json.loads(got + str(arguments.tail(found.values))) == found.values


@rows(__file__, "text,closed")
def test_the_end_of_a_valid_json_object_is_found(text: str, closed: int) -> None:
    for cut in all_cuts(text):
        assert fed(cut, tool())[1].closed == closed
        assert fed(cut, tool(), hold=True)[1].closed == closed


def test_nothing_is_sent_on_hold() -> None:
    left, arguments = fed(['{"label": "a"}'], tool(), hold=True)
    assert (left, arguments.where, arguments.tail({"label": "a"})) == ("", Where.HELD, '{"label": "a"}')


def test_a_value_waits_only_if_a_rule_changes_it() -> None:
    given: dict[str, Any] = {"rule_keys": frozenset(("label",)), "keeps": lambda key, value: value != "bad"}
    for text, left in (
        ('{"label": "goo', ""),
        ('{"label": "good", "free": "x', '{"label": "good", "free": "x'),
        ('{"free": "x", "label": "bad", "free": "y"}', '{"free": "x"'),
    ):
        assert {fed(cut, tool(), **given)[0] for cut in all_cuts(text)} == {left}


CHOOSY = function(
    "choosy",
    {
        "mode": {"enum": ["on", "off"]},
        "kind": {"type": "string", "enum": ["Big", "small"]},
        "one": {"const": "1"},
        "note": {"type": "string", "minLength": 1},
        "both": {"type": ["string", "integer"], "maxLength": 2},
        "deep": {"allOf": [{"type": "string"}, {"enum": ["x"]}]},
        "either": {"anyOf": [{"enum": ["a"]}, {"type": "string"}]},
        "number": {"type": "integer"},
        "word": {"$ref": "#/$defs/word"},
        "never": False,
    },
    **{"$defs": {"word": {"type": "string"}}},
)


@rows(__file__, "key,goes_on")
def test_a_string_streams_only_if_no_fix_can_change_it(key: str, goes_on: bool) -> None:
    (which,) = offered(CHOOSY)
    assert fed([f'{{"{key}": "o'], which)[0] == (f'{{"{key}": "o' if goes_on else "")


def test_a_schema_with_many_paths_to_one_definition_is_read_once() -> None:
    """C7: each level refers to the next one twenty times."""
    levels: JsonObject = {"d0": {"type": "string", "enum": ["x"]}}
    for at in range(20):
        levels[f"d{at + 1}"] = {"anyOf": [{"$ref": f"#/$defs/d{at}"}] * 20}
    (which,) = offered(function("x", {"a": {"$ref": "#/$defs/d20"}}, **{"$defs": levels}))
    with over_soon():
        assert fed(['{"a": "o'], which)[0] == ""


def test_an_empty_string_that_is_forbidden_is_not_sent() -> None:
    """F35: it may be dropped."""
    (which,) = offered(CHOOSY)
    for cut in all_cuts('{"word": "x", "note": ""}'):
        left, arguments = fed(cut, which)
        assert (left, arguments.where) == ('{"word": "x"', Where.HELD)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"path": "a.log</arg_value><arg_key>content', '{"path": "a.log'),
        ('{"path": "a.log\\n</parameter>\\n<parameter=content>', '{"path": "a.log'),
        ('{"path": "a.log \\n</par', '{"path": "a.log'),
        ('{"path": "a < b', '{"path": "a < b'),
        ('{"path": "a\\n\\n", "content": "b</arg_value>', '{"path": "a\\n\\n", "content": "b</arg_value>'),
        ('{"path": "</b>', '{"path": "</b>'),
    ],
)
def test_a_string_stops_before_markup_that_may_begin_the_next_pair(text: str, left: str) -> None:
    """This holds only while a required key is missing."""
    for cut in all_cuts(text):
        assert fed(cut, tool("write_file"))[0] == left


@rows(__file__, "sent,values,tail")
def test_repaired_arguments_continue_what_was_sent(sent: str, values: JsonObject, tail: str) -> None:
    """C4: the text that was sent is a prefix of the final arguments."""
    left, arguments = fed([sent], tool())
    assert arguments.tail(values) == tail
    assert json.loads(left + tail) == values


@rows(__file__, "sent,values")
def test_arguments_that_contradict_what_was_sent_have_no_tail(sent: str, values: JsonObject) -> None:
    """C4: the reply then ends in an error."""
    assert fed([sent], tool())[1].tail(values) is None


def test_without_a_schema_every_key_is_accepted_and_every_string_streams() -> None:
    """F40: a call to a tool that was not offered is left to the client, and so is one to a tool without properties."""
    (which,) = offered(function("x", {}))
    for each in (None, which):
        assert fed(list('{"x": {"y": 1}, "z": "abc'), each)[0] == '{"x": {"y": 1}, "z": "abc'


INNER = ("x = {", "}; y", 'print("}")', '{"a": "b"}', '"}"', 'a", b', 'say "hi", she said', '"}\n', '"} ')


@pytest.mark.parametrize("inner", INNER)
def test_c4_a_string_with_unescaped_quotation_marks_begins_with_what_was_sent(inner: str) -> None:
    """A quotation mark that may end the string waits, with the text after it, until the call ends."""
    values: JsonObject = {"count": 1, "label": f'x "{inner}" y'}
    text = json.dumps(values).replace('\\"', '"')
    found = Repairer(ToolSet([tool()]), rules.Policy()).repair("typed", text, stopped=True)
    assert found is not None and found.values == values
    for cut in all_cuts(text):
        left, arguments = fed(cut, tool())
        assert left == '{"count": 1, "label": "x '
        assert json.loads(left + str(arguments.tail(values))) == values


@rows(__file__, "name,text,left")
def test_the_policy_of_a_call_is_the_one_of_its_tool(name: str, text: str, left: str) -> None:
    """A longer name that begins with a tool's name may contain the arguments."""
    made = policy_of(Repairer(offered(), rules.Policy()), name, hold=False)
    assert begun(made).feed(text) == left
    assert begun(policy_of(Repairer(offered(), rules.Policy()), name, hold=True)).feed(text) == ""
