"""The measure of harm: its generator, its judge, and what the proxy makes of broken calls."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from benchmarks.harm import marks
from benchmarks.harm.cases import BREAKS, FAMILIES, Case, make, pairs
from benchmarks.harm.drafts import Break, Broken, Draft
from benchmarks.harm.drive import Left, Reply
from benchmarks.harm.families import Call, Family, Type
from benchmarks.harm.judge import Judged, Verdict, judge
from benchmarks.harm.markup import markup
from benchmarks.harm.offers import Offer, accepts
from benchmarks.harm.run import main, run
from benchmarks.harm.strict import Mode, balanced, closed_calls, read_object, readings

pytestmark = pytest.mark.once

WRITE = Offer(
    "write",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    },
)
CLOSED = Offer("write", {**WRITE.schema, "additionalProperties": False})
SMOKE = 4000


@pytest.fixture(scope="module")
def smoke() -> Any:
    """A short run."""
    return run(SMOKE, seed=12)


# The generator.


def test_there_are_twenty_ways_to_break_in_every_kind_of_family() -> None:
    assert len(BREAKS) >= 20
    assert {family.name for family, _ in pairs([*FAMILIES])} == set(FAMILIES)
    assert {kind.name for _, kind in pairs((), [*BREAKS])} == set(BREAKS)
    assert pairs(["glm"], ["none"]) == [(FAMILIES["glm"], BREAKS["none"])]


def described(case: Case) -> tuple[Any, ...]:
    """What there is to say of a case."""
    cuts = case.reply.cuts.getstate() if case.reply.cuts else None
    return (
        case.draft.offers,
        case.draft.calls,
        case.broken.written,
        case.reply.text,
        case.reply.calls,
        cuts,
        case.core,
    )


@pytest.mark.parametrize("kind", BREAKS)
def test_a_case_is_a_function_of_seed_family_break_and_number(kind: str) -> None:
    """The same one comes back, and another number or seed is another one; every break can be made somewhere."""
    family = next(family for family, each in pairs((), [kind]) if each.name == kind)
    one, again = make(family, BREAKS[kind], 3, seed=5), make(family, BREAKS[kind], 3, seed=5)
    others = [make(family, BREAKS[kind], 4, seed=5), make(family, BREAKS[kind], 3, seed=6)]
    assert one is not None and again is not None
    assert described(one) == described(again)
    assert all(other is not None and described(other) != described(one) for other in others)


@pytest.mark.parametrize("form", [name for name, family in FAMILIES.items() if family.reader and not family.structured])
def test_what_is_written_without_a_break_is_read_strictly_as_it_was_meant(form: str) -> None:
    """The writer and the strict reader of every family agree, and the calls are as their schemas say."""
    for number in range(30):
        case = make(FAMILIES[form], BREAKS["none"], number)
        assert case is not None
        assert readings(case.family, case.reply.text[case.start :], case.draft.offers) == [case.draft.calls]
        for name, values in case.draft.calls:
            assert any(offer.name == name and accepts(offer.schema, values) for offer in case.draft.offers)


# Nothing is broken here; tools, values or surroundings make it hard.
WHOLE = ("copied", "shown_otherwise", *(name for name, each in BREAKS.items() if each.whole))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [name for name in BREAKS if name not in WHOLE])
def test_a_break_breaks(kind: str) -> None:
    """No reply is what the template would have written, but where a value says of itself what it is."""
    for family, each in {family.name: (family, each) for family, each in pairs((), [kind])}.values():
        case = make(family, each, 0)
        if case is None:
            continue
        clean = family.write(case.draft.calls, case.draft.target)
        whole = tuple((name, family.arguments(values)) for name, values in case.draft.calls)
        unbroken = case.around[: case.start] + clean + case.around[case.start :]
        assert case.reply.calls != whole if family.structured else case.reply.text != unbroken


def test_a_reply_that_is_cut_ends_inside_of_a_string() -> None:
    for form in ("structured", "hermes", "qwen_xml", "pythonic", "gemma4"):
        case = make(FAMILIES[form], BREAKS["cut_stop"], 1)
        assert case is not None
        said = case.reply.calls[-1][1] if case.family.structured else case.reply.text
        assert said.endswith(case.core) and "␄" not in said
        assert case.reply.finish == "stop"


@pytest.mark.parametrize("form", [name for name, family in FAMILIES.items() if family.reader])
def test_every_family_has_markup_of_its_own(form: str) -> None:
    """Whole calls, openers, closers on several lines and on one."""
    shown = markup(FAMILIES[form], "write", "path")
    assert len(shown) >= 3 or form in ("pythonic", "gemma4", "bare_json")
    assert any("other_tool" in piece for piece in shown)


# Unusual tools, other notations, and missing values.


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("gemma4_round", {"path": "a"}, '<|tool_call>call:write(path:<|"|>a<|"|>)<tool_call|>'),
        ("glm_wrapper_key", {"n": 1}, "<tool_call>write<tool_call>n</arg_key><arg_value>1</arg_value></tool_call>"),
        ("llama_list", {"path": "a"}, '; {"name": "write", "parameters": {"path": "a"}}'),
        ("name_tag_text", {"path": "a"}, "<write>a</write>"),
        ("cwm", {"path": "a"}, "<tool: write>\na\n</tool>"),
        ("minimax_arrow", {"path": "a"}, '[TOOL_CALL]\n{tool => "write", args => {\n  --path "a"\n}}\n[/TOOL_CALL]'),
        ("response_member", {}, '{"response": "{\\"name\\": \\"write\\", \\"arguments\\": {}}"}'),
    ],
)
def test_other_notations_are_written_as_in_the_field(form: str, values: dict[str, Any], text: str) -> None:
    assert FAMILIES[form].write([("write", values)], 0) == text


@pytest.mark.parametrize("form", ["structured", "hermes", "qwen_xml", "glm", "gemma4", "pythonic", "kimi_k3"])
def test_a_missing_value_has_no_delimiter_and_is_never_empty(form: str) -> None:
    """C10: the key is left out, or there is no call."""
    for number in range(10):
        case = make(FAMILIES[form], BREAKS["missing_value"], number)
        assert case is not None
        meant, missing = case.meant[case.draft.target][1], case.draft.values.keys()
        lost = missing - meant.keys()
        assert len(lost) == 1 and "␆" not in case.reply.text + str(case.reply.calls)
        assert case.broken.no_call is bool(lost & set(case.draft.offer.schema.get("required", ())))
        empty = [(name, {**values, **dict.fromkeys(lost, "")}) for name, values in case.meant]
        gone = left(*empty, text=case.around)
        assert judge(case, gone).verdict is Verdict.WRONG


@pytest.mark.parametrize("kind", ["odd_keys", "optional_only", "empty_object", "by_tool"])
def test_unusual_calls_are_valid(kind: str) -> None:
    for family, each in pairs((), [kind]):
        case = make(family, each, 1)
        assert case is None or all(
            accepts(offer.schema, values)
            for name, values in case.meant
            for offer in case.draft.offers
            if offer.name == name
        )


# Unescaped marks by the rules.


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"path": "a", "content": "b"}', {"path": "a", "content": "b"}),
        ('{"path": "x "y" z", "limit": 1}', {"path": 'x "y" z', "limit": 1}),
        ('{"limit": 1, "path": ""y""}', {"path": '"y"', "limit": 1}),
        ('{"content": "{"a": {"b": 1}}"}', {"content": '{"a": {"b": 1}}'}),
        ('{"content": "a", "zz": "b", "path": "c"}', {"content": 'a", "zz": "b', "path": "c"}),
        ('{"content": "say \\"x\\"\\n"y"", "path": "c"}', {"content": 'say "x"\n"y"', "path": "c"}),
        ('{"content": """a "b"\nc""", "path": "d"}', {"content": 'a "b"\nc', "path": "d"}),
        ('{"content": "", "path": "d"}', {"content": "", "path": "d"}),
        # An own key that is not given ends the string, whatever was meant.
        ('{"content": "a", "limit": "b"}', {"content": "a", "limit": "b"}),
        # It begins twice: no reading.
        ('{"content": "a", "path": "b", "path": "c"}', None),
        ('{"content": "x "y"', None),
        ('{"content": "x", "path": ["a "b" c"]}', None),
        ("no object", None),
    ],
)
def test_marks_are_read_by_the_rules(text: str, read: dict[str, Any] | None) -> None:
    assert marks.read(text, WRITE.schema) == read


def test_marks_in_objects_in_objects_are_read_if_there_is_one_reading() -> None:
    """The inner object's own keys count; in an array of strings nothing does."""
    inner = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    schema = {"type": "object", "properties": {"o": inner, "l": {"type": "array", "items": inner}}}
    assert marks.read('{"o": {"a": "x "y"", "b": "z"}, "l": []}', schema) == {"o": {"a": 'x "y"', "b": "z"}, "l": []}
    assert marks.read('{"l": [{"b": "y"}, {"a": ""x""}]}', schema) == {"l": [{"b": "y"}, {"a": '"x"'}]}
    assert marks.read('{"l": [{"a": ""x""}, {"b": "y"}]}', schema) is None
    assert marks.read('{"l": [{"b": "y"}, {"b": "{"q": "r"}"}]}', schema) == {"l": [{"b": "y"}, {"b": '{"q": "r"}'}]}


# The strict reader.


def qwen(*values: tuple[str, str]) -> str:
    """A call in Qwen's tags."""
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values)
    return f"<tool_call>\n<function=write>\n{inside}</function>\n</tool_call>"


CLOSERS = "</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("value", "mode", "read"),
    [
        ("plain", Mode.FIRST, "plain"),
        ("</parameter></function></tool_call>", Mode.FIRST, "</parameter></function></tool_call>"),
        (f"x\n{CLOSERS} y", Mode.FIRST, f"x\n{CLOSERS} y"),
        (f"x\n{CLOSERS}\ny", Mode.FIRST, "x"),
        (qwen(("zz", "v")), Mode.BALANCED, qwen(("zz", "v"))),
        (qwen(("zz", "v")) + "\ny", Mode.FIRST, "<tool_call>\n<function=write>\n<parameter=zz>\nv"),
    ],
)
def test_a_raw_value_ends_where_the_template_goes_on(value: str, mode: Mode, read: str) -> None:
    """An end tag counts on a line of its own, with the closers behind it, and a line end or nothing behind them."""
    text = qwen(("path", "p"), ("content", value))
    found = readings(FAMILIES["qwen_xml"], text, [WRITE], (mode,))
    if "<function=" in read and mode is Mode.FIRST:
        assert found == []  # the call that it holds would have lost its end
    else:
        assert found == [[("write", {"path": "p", "content": read})]]


def test_a_value_that_swallows_another_one_is_not_strict() -> None:
    """Where an end tag is missing, the other key's opening tag ends the value."""
    text = qwen(("path", "p"), ("content", "c")).replace("\n</parameter>", "", 1)
    assert readings(FAMILIES["qwen_xml"], text, [WRITE]) == []
    assert readings(FAMILIES["qwen_xml"], text, [WRITE], (Mode.SPLIT,)) == [[("write", {"path": "p", "content": "c"})]]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "write", "arguments": {"path": "a",}}\n</tool_call>',
        '<tool_call>\n{"name": "write", "arguments": {"path": "a", "path": "b"}}\n</tool_call>',
        '<tool_call>\n{"name": "Write", "arguments": {"path": "a"}}\n</tool_call>',
        '<tool_call>\n{"name": "write", "arguments": {"path": "a"}}',
        '<tool_call>\n{"name": "write", "arguments": {"path": NaN}}\n</tool_call>',
    ],
)
def test_what_is_not_as_the_template_says_is_not_strict(text: str) -> None:
    assert readings(FAMILIES["hermes"], text, [WRITE]) == []


def test_line_ends_in_strings_leave_no_doubt() -> None:
    """What leaves must be strict JSON all the same."""
    text = '<tool_call>\n{"name": "write", "arguments": {"path": "a\nb"}}</tool_call> and so on'
    assert readings(FAMILIES["hermes"], text, [WRITE]) == [[("write", {"path": "a\nb"})]]
    assert read_object('{"path": "a\nb"}') is None
    assert read_object('{"path": "a\nb"}', lines=True) == {"path": "a\nb"}


def test_balanced_markup_is_known() -> None:
    for form, value, known in (
        ("qwen_xml", qwen(("path", "p")), True),
        ("qwen_xml", "no markup", True),
        ("qwen_xml", "</parameter>", False),
        ("qwen_xml", "<parameter=path>", False),
        ("qwen_xml", "</parameter><parameter=path>", False),
        ("glm", "</arg_value>", False),
        ("call_element", "<Call><path>v</path></Call><p>", True),
        ("call_element", "</path>", False),
        ("minimax_m3", FAMILIES["minimax_m3"].write([("write", {"path": "v"})], 0), True),
        ("minimax_m3", "]<]minimax[>[<path>", False),
    ):
        assert balanced(FAMILIES[form], value, ["path", "content"]) is known, value


# The judge.

MEANT: dict[str, Any] = {"path": "a", "content": 'say "hi"'}
STRUCTURED = FAMILIES["structured"]
HERMES = FAMILIES["hermes"]
QWEN = FAMILIES["qwen_xml"]


def made(
    family: Family,
    said: str,
    calls: list[Call] | None = None,
    *,
    broken: Broken | None = None,
    kind: str = "marks_one",
    around: str = "",
    finish: str = "",
    offer: Offer = WRITE,
    core: str = "",
) -> Case:
    """A case by hand: `said` is the reply, or the arguments of a structured call."""
    calls = calls or [("write", MEANT)]
    draft = Draft(Random(1), family, [offer], calls, 0)
    if family.structured:
        reply = Reply(around, (("write", said),), finish or "tool_calls")
    else:
        reply = Reply(around + said, (), finish or "stop")
    each = Break(kind, "by hand", lambda draft: Broken())
    return Case(0, family, each, draft, broken or Broken(), reply, around, len(around), core or said)


def left(*calls: tuple[str, Any], text: str = "", finish: str = "tool_calls", failed: str = "") -> Left:
    """What left the proxy; arguments are values, or their text."""
    arguments = [values if isinstance(values, str) else json.dumps(values) for _, values in calls]
    return Left(text, [name for name, _ in calls], arguments, finish, failed)


BAD = '{"path": "a", "content": "say "hi""}'
IN_TEXT = f'<tool_call>\n{{"name": "write", "arguments": {BAD}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("gone", "verdict"),
    [
        (left(("write", MEANT)), Verdict.RIGHT),
        (left(("write", {"content": 'say "hi"', "path": "a"})), Verdict.RIGHT),
        (left(("write", MEANT), finish="stop"), Verdict.WRONG),
        (left(("write", MEANT), text="more"), Verdict.WRONG),
        (left(("write", MEANT), ("write", MEANT)), Verdict.WRONG),
        (left(("other", MEANT)), Verdict.WRONG),
        (left(("write", {**MEANT, "content": "say hi"})), Verdict.WRONG),
        (left(("write", {"path": "a"})), Verdict.WRONG),
        (left(("write", {**MEANT, "hi": ""})), Verdict.WRONG),
        (left(("write", '{"path": "a"')), Verdict.WRONG),
        (left(("write", '{"path": "a", "content": "s'), finish="", failed="cannot be finished"), Verdict.REFUSED),
        (left(text=f"write{BAD}", finish="stop"), Verdict.REFUSED),
    ],
)
def test_a_broken_structured_call_is_judged(gone: Left, verdict: Verdict) -> None:
    assert judge(made(STRUCTURED, BAD), gone).verdict is verdict


@pytest.mark.parametrize(
    ("gone", "verdict"),
    [
        (left(("write", MEANT), text="Now:\n"), Verdict.RIGHT),
        (left(("write", MEANT)), Verdict.WRONG),
        (left(("write", MEANT), text="Now:\n}"), Verdict.WRONG),
        (left(text=f"Now:\n{IN_TEXT}", finish="stop"), Verdict.REFUSED),
        (left(text="Now:\n", finish="stop"), Verdict.WRONG),
        (left(text=f"Now:\n{IN_TEXT}", finish="tool_calls"), Verdict.WRONG),
        (left(("write", {"path": "a"}), text=f"Now:\n{IN_TEXT}"), Verdict.WRONG),
    ],
)
def test_a_broken_call_in_text_is_judged(gone: Left, verdict: Verdict) -> None:
    assert judge(made(HERMES, IN_TEXT, around="Now:\n", core=BAD), gone).verdict is verdict


def test_of_two_calls_the_one_that_is_not_broken_may_leave_alone() -> None:
    """It must be as it was meant, and the other one must be text."""
    other: Call = ("write", {"path": "b"})
    text = f'{IN_TEXT}\n<tool_call>\n{{"name": "write", "arguments": {{"path": "b"}}}}\n</tool_call>'
    case = made(HERMES, text, [("write", MEANT), other], core=BAD)
    assert judge(case, left(("write", MEANT), other)).verdict is Verdict.RIGHT
    assert judge(case, left(other, text=IN_TEXT)).verdict is Verdict.REFUSED
    assert judge(case, left(("write", MEANT), text='{"path": "b"}')).verdict is Verdict.REFUSED
    assert judge(case, left(other, text="")).verdict is Verdict.WRONG
    assert judge(case, left(("write", {"path": "c"}), text=IN_TEXT)).verdict is Verdict.WRONG


def test_a_call_in_front_of_the_broken_one_is_no_other_reading() -> None:
    other: Call = ("write", {"path": "b"})
    text = f'<tool_call>\n{{"name": "write", "arguments": {{"path": "b"}}}}\n</tool_call>\n{IN_TEXT}'
    case = made(HERMES, text, [other, ("write", MEANT)], core=BAD)
    case = replace(case, draft=replace(case.draft, target=1))
    assert judge(case, left(other, ("write", MEANT))) == Judged(Verdict.RIGHT, "", True)
    assert judge(case, left(other, text=IN_TEXT)) == Judged(Verdict.REFUSED, "as text", True)


def test_what_is_legal_as_it_was_written_is_counted_apart() -> None:
    """The schema accepts it; what it does not accept is refused if it leaves as it was written."""
    written = {"path": "a", "content": "say ", "limit": 3}
    case = made(STRUCTURED, json.dumps(written))
    assert judge(case, left(("write", written))) == Judged(Verdict.LEGAL, "strictly", False)
    assert judge(case, left(("write", {**written, "limit": 4}))).verdict is Verdict.WRONG
    strange = {"path": "a", "hi": ""}
    case = made(STRUCTURED, json.dumps(strange), offer=CLOSED)
    assert judge(case, left(("write", strange))) == Judged(Verdict.REFUSED, "as it was written", True)
    # A value of the wrong type says what was written, under the tool's own key; there is one way to mend it.
    wrong_type = {"path": "a", "limit": "3"}
    case = made(STRUCTURED, json.dumps(wrong_type))
    assert judge(case, left(("write", wrong_type))) == Judged(Verdict.LEGAL, "strictly", True)


def test_what_the_rules_read_is_counted_apart_too() -> None:
    other = {"path": "a", "content": "b"}
    case = made(STRUCTURED, BAD, broken=Broken(one=False, also=[other]))
    assert judge(case, left(("write", other))) == Judged(Verdict.LEGAL, "by the rules", False)
    assert judge(case, left(("write", {"path": "a"}))).verdict is Verdict.WRONG


def test_a_value_that_swallowed_another_one_is_wrong() -> None:
    text = qwen(("path", "p"), ("content", "c")).replace("\n</parameter>", "", 1)
    case = made(QWEN, text, [("write", {"path": "p", "content": "c"})], kind="end_tag_first")
    assert judge(case, left(("write", {"path": "p", "content": "c"}))) == Judged(Verdict.RIGHT, "", True)
    swallowed = {"path": "p\n<parameter=content>\nc"}
    assert judge(case, left(("write", swallowed))).verdict is Verdict.WRONG


def test_a_value_that_ends_at_its_own_closers_is_legal_only_where_they_are_the_templates() -> None:
    """Two ways to read it are no certain reading; balanced markup is text, and has one."""
    for shown, verdict, one in (
        (f"x\n{CLOSERS}\ny", Verdict.LEGAL, False),
        (f"x {CLOSERS}\ny", Verdict.WRONG, True),
        (f"{qwen(('zz', 'v'))}\ny", Verdict.WRONG, True),
    ):
        meant = {"content": shown}
        case = made(
            QWEN,
            qwen(("content", shown)),
            [("write", meant)],
            kind="own_markup",
            offer=Offer("write", {"type": "object", "properties": {"content": {"type": "string"}}}),
        )
        cut = shown.split("\n</parameter>")[0] if "\n</parameter>" in shown else "x "
        judged = judge(case, left(("write", {"content": cut}), text="y"))
        assert (judged.verdict, judged.one) == (verdict, one)
        assert judge(case, left(("write", meant))).verdict is Verdict.RIGHT


@pytest.mark.parametrize("finish", ["stop", "length", "repetition"])
def test_of_what_is_cut_no_call_may_come(finish: str) -> None:
    """It stays text, or as it was cut under an end that says so; nothing may supply the end of a string."""
    cut = '{"path": "a", "content": "sa'
    broken = Broken(one=False, cut=True, finish=finish)
    case = made(STRUCTURED, cut, broken=broken, finish=finish)
    closed = {"path": "a", "content": "sa"}
    assert judge(case, left(("write", closed), finish="tool_calls")).verdict is Verdict.WRONG
    assert judge(case, left(("write", closed), finish=finish)).verdict is Verdict.WRONG
    assert judge(case, left(("write", MEANT), finish=finish)).verdict is Verdict.WRONG
    as_cut = Verdict.WRONG if finish == "stop" else Verdict.REFUSED
    assert judge(case, left(("write", cut), finish=finish)).verdict is as_cut
    assert judge(case, left(("write", cut[:-1]), finish=finish)).verdict is Verdict.WRONG
    assert judge(case, left(("write", cut), finish="tool_calls")).verdict is Verdict.WRONG
    assert judge(case, left(("write", cut), finish="", failed="no end")).verdict is Verdict.REFUSED
    text = f'<tool_call>\n{{"name": "write", "arguments": {cut}'
    case = made(HERMES, text, broken=broken, finish=finish, core=cut)
    assert judge(case, left(text=text, finish=finish)).verdict is Verdict.REFUSED
    assert judge(case, left(("write", closed), finish=finish)).verdict is Verdict.WRONG
    if finish != "stop":
        assert judge(case, left(text=text, finish="stop")).verdict is Verdict.WRONG


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_of_what_is_no_call_none_may_come(finish: str) -> None:
    """Not even one that the schema allows, and that is what was written."""
    text = '<tool_call>\n{"name": "write", "arguments": {"path": "a"}}\n</tool_call>'
    written = {"path": "a"}
    case = made(HERMES, text, [("write", written)], broken=Broken(one=False, no_call=True), core='{"path": "a"}')
    judged = judge(case, left(("write", written), finish=finish))
    assert (judged.verdict, judged.one) == (Verdict.WRONG, False)
    assert judge(case, left(text=text, finish="stop")).verdict is Verdict.REFUSED
    assert judge(case, left(text="", finish="stop")).verdict is Verdict.WRONG


def test_of_copies_none_may_be_a_call() -> None:
    """Of two calls that a tool showed, the one that was not chosen is a copy all the same."""
    calls: list[Call] = [("write", {"path": "a"}), ("write", {"path": "b"})]
    text = HERMES.write(calls, -1)
    broken = Broken(one=False, no_call=True, shown=lambda text: text)
    case = made(HERMES, text, calls, broken=broken, core='{"path": "a"}')
    assert judge(case, left(text=text, finish="stop")).verdict is Verdict.REFUSED
    assert judge(case, left(calls[1], text=HERMES.write(calls[:1], -1))) == Judged(
        Verdict.WRONG, "a call was made of a copy", False
    )


def test_a_tool_shows_the_calls_before_they_are_copied() -> None:
    """Line by line, in the same order; or one of them with another text."""
    for number in range(30):
        case = made_by("hermes", "copied", number)
        shown = case.reply.results[-1].split("\n")[1:-1]
        written = case.reply.text[case.start :].split("\n")
        assert all(line in other for line, other in zip(written, shown, strict=False))
        similar = made_by("hermes", "shown_otherwise", number)
        assert similar.meant == similar.draft.calls and similar.broken.shown_values is not None
        assert similar.broken.shown_values not in [values for _, values in similar.draft.calls]


def made_by(family: str, kind: str, number: int) -> Case:
    """A case that the generator makes."""
    case = make(FAMILIES[family], BREAKS[kind], number)
    assert case is not None
    return case


@pytest.mark.parametrize("form", ["structured", "hermes", "harmony", "kimi_k2", "bare_json"])
def test_a_comma_and_a_brace_stand_behind_a_mark(form: str) -> None:
    """The value is what was meant, and the rules know whether there is one reading."""
    for number in range(20):
        case = made_by(form, "comma_and_brace", number)
        assert json.dumps(case.broken.meant)[1:-1] not in case.core
        assert re.search(r'"\s*[,}\]]', case.core) is not None
        if case.broken.one:
            assert case.broken.also == [case.broken.meant]


@pytest.mark.parametrize("form", ["structured", "hermes"])
def test_an_outer_key_begins_twice(form: str) -> None:
    for number in range(20):
        case = made_by(form, "outer_key", number)
        keys = [key for key in case.draft.values if case.core.count(f'"{key}": ') > 1]
        assert keys and not case.broken.one and not case.broken.also


def test_a_shown_call_stands_in_the_text_with_the_closers_before_it() -> None:
    for form in ("hermes", "kimi_k2", "deepseek_v31"):
        cases = [made_by(form, "shown_call", number) for number in range(20)]
        closer = FAMILIES[form].closer.strip()
        assert all(case.core.count(closer) for case in cases) and not any(case.broken.one for case in cases)


def test_an_end_tag_within_an_item_is_missing() -> None:
    for number in range(20):
        case = made_by("minimax_m3", "element_end", number)
        clean = case.family.arguments(case.draft.values)
        assert clean.count("<]minimax[>[</") == case.core.count("<]minimax[>[</") + 1 or len(case.core) < len(clean)
        assert clean.count("[>[<") - clean.count("[>[</") == case.core.count("[>[<") - case.core.count("[>[</")


def test_a_comma_is_missing_and_a_key_stands_there_twice() -> None:
    for number in range(20):
        case = made_by("structured", "key_twice", number)
        assert read_object(case.core, lines=True) is None
        assert max(case.core.count(f'"{key}": ') for key in case.draft.values) > 1


def test_the_envelope_is_turned_or_lacks_its_marks() -> None:
    for form in ("hermes", "mistral", "llama3"):
        bare, turned = made_by(form, "bare_envelope", 1), made_by(form, "arguments_first", 1)
        assert "{name: " in bare.reply.text and "name: " not in turned.reply.text.replace('"name": ', "")
        assert re.search(r'\{"(?:arguments|parameters)": \{', turned.reply.text) is not None


CLOSED_CALL = '<tool_call>\n{"name": "write", "arguments": {"path": "a"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        ("hermes", CLOSED_CALL, [["a"]]),
        ("hermes", f"{CLOSED_CALL}\nand more", [["a"]]),
        ("hermes", f"{CLOSED_CALL}\n{CLOSED_CALL} x", [["a"], ["a", "a"]]),
        ("hermes", f"{CLOSED_CALL[:-1]} x", []),
        ("mistral", '[TOOL_CALLS][{"name": "write", "arguments": {"path": "a"}}] x', [["a"]]),
        ("mistral", '[TOOL_CALLS][{"name": "write", "arguments": {"path": "a"}}, x', []),
        ("qwen_xml", qwen(("path", "a")), []),
    ],
)
def test_calls_that_are_closed_count_whatever_follows(form: str, text: str, read: list[list[str]]) -> None:
    found = closed_calls(FAMILIES[form], text, [WRITE])
    assert [[values["path"] for _, values in calls] for calls in found] == read


def test_a_call_that_is_closed_before_the_broken_text_is_legal() -> None:
    """A value that begins with the end of the call makes a call of its own."""
    case = made(HERMES, f"{CLOSED_CALL}\n, more", [("write", MEANT)], core="more")
    assert judge(case, left(("write", {"path": "a"}), text=", more")).verdict is Verdict.LEGAL
    assert judge(case, left(("write", {"path": "b"}), text=", more")).verdict is Verdict.WRONG


def test_what_is_clean_leaves_as_the_very_bytes() -> None:
    case = made(STRUCTURED, json.dumps(MEANT), kind="none")
    assert judge(case, left(("write", json.dumps(MEANT)))).verdict is Verdict.RIGHT
    assert judge(case, left(("write", json.dumps(MEANT, separators=(",", ":"))))).verdict is not Verdict.RIGHT


def test_one_and_true_and_one_point_nought_are_three_values() -> None:
    for number, given in ((1, True), (1, 1.0), (0, False)):
        case = made(STRUCTURED, BAD, [("write", {"path": "a", "limit": number})])
        assert judge(case, left(("write", {"path": "a", "limit": given}))).verdict is Verdict.WRONG


def test_the_text_of_an_object_may_be_written_in_any_way() -> None:
    """Only where the break says so."""
    meant = {"path": '{"a": 1}'}
    loose, strict = Broken(texts=frozenset(("path",))), Broken()
    gone = left(("write", {"path": '{"a":1}'}))
    assert judge(made(STRUCTURED, BAD, [("write", meant)], broken=loose), gone).verdict is Verdict.RIGHT
    assert judge(made(STRUCTURED, BAD, [("write", meant)], broken=strict), gone).verdict is Verdict.WRONG
    other = left(("write", {"path": '{"a":2}'}))
    assert judge(made(STRUCTURED, BAD, [("write", meant)], broken=loose), other).verdict is Verdict.WRONG


def test_a_defect_of_the_engine_is_wrong() -> None:
    assert judge(made(STRUCTURED, BAD), replace(left(), crashed="ValueError: x")).verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "integer"}, 1, True),
        ({"type": "integer"}, True, False),
        ({"type": "number"}, 1, True),
        ({"type": ["string", "null"]}, None, True),
        ({"type": "string", "enum": ["a"]}, "b", False),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], False),
        (WRITE.schema, {"path": "a"}, True),
        (WRITE.schema, {"content": "a"}, False),
        (WRITE.schema, {"path": "a", "zz": 1}, False),
        ({**WRITE.schema, "additionalProperties": True}, {"path": "a", "zz": 1}, True),
    ],
)
def test_the_judge_knows_what_a_schema_accepts(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert accepts(schema, value) is fits


def test_a_format_that_says_types_writes_the_wrong_one_where_it_is_broken() -> None:
    assert {family.name for family, _ in pairs((), ["value_as_string"]) if family.tags.type is not Type.SCHEMA} == {
        "dsml",
        "kimi_k3",
    }


# The run.


@pytest.mark.slow
def test_a_run_counts_every_case_by_break_and_by_family(smoke: Any) -> None:
    assert smoke.total.verdicts.total() == SMOKE
    assert sum(count.verdicts.total() for count in smoke.breaks.values()) == SMOKE
    assert sum(count.verdicts.total() for count in smoke.families.values()) == SMOKE
    assert set(smoke.breaks) == BREAKS.keys()
    assert set(smoke.families) == FAMILIES.keys()
    assert smoke.total.one == sum(count.one for count in smoke.breaks.values()) > SMOKE / 2
    assert smoke.total.one_right <= smoke.total.verdicts[Verdict.RIGHT]
    assert sum(smoke.reasons.values()) == smoke.total.verdicts[Verdict.WRONG]


@pytest.mark.slow
def test_what_is_not_broken_leaves_as_it_came() -> None:
    """C1, in every family; of calls without a wrapper of their own a few are refused."""
    control = run(300, seed=12, breaks=["none"])
    assert control.total.one == 300 and not control.total.verdicts[Verdict.WRONG]
    refused = {name for name, count in control.families.items() if count.one != count.one_right}
    assert refused <= {"name_tag_elements", "name_tag_text"} and control.total.one_right >= 296


@pytest.mark.slow
def test_nothing_wrong_leaves_the_proxy(smoke: Any) -> None:
    """C9: of a broken call comes what was meant, or none."""
    assert dict(smoke.reasons) == {}


def test_the_report_says_what_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    """A table by break and one by family, the verdicts, and the exit code."""
    assert main(["--cases", "30", "--break", "none", "--break", "trailing_comma"]) == 0
    said = capsys.readouterr().out
    assert "| break" in said and "| family" in said and "| trailing_comma" in said
    assert "= 0          0  met" in said and "100.0%  met" in said and "30 cases, seed 12" in said


def test_the_report_comes_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", "10", "--break", "none", "--family", "glm", "--seed", "7", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["seed"] == 7 and said["wrong"] == [] and said["total"] == said["families"]["glm"]
    assert said["total"] == {
        "right": 10,
        "refused": 0,
        "wrong": 0,
        "legal itself": 0,
        "one reading": 10,
        "one reading, right": 10,
    }


def test_one_case_can_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--family", "glm", "--break", "none", "--case", "4"]) == 0
    said = capsys.readouterr().out
    assert "--seed 12 --family glm --break none --case 4" in said and "== right" in said
    assert "1 cases, seed 12" in said
