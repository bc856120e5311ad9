"""The harm benchmark: its generator, its judge, and its results for broken calls."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from benchmarks.harm import marks
from benchmarks.harm.cases import BREAKS, FAMILIES, Case, make, pairs
from benchmarks.harm.drafts import Break, Broken, Draft
from benchmarks.harm.drive import Left, Reply
from benchmarks.harm.families import Call, Family
from benchmarks.harm.judge import Judged, Verdict, judge
from benchmarks.harm.offers import Offer, accepts
from benchmarks.harm.run import main, run
from benchmarks.harm.strict import Mode, readings
from tests.support.rows import rows

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
# Three cases for each family and each break that applies to it.
SMOKE = 4000


@pytest.fixture(scope="module")
def smoke() -> Any:
    """Results of a short run."""
    return run(SMOKE, seed=12)


# The generator.


def test_there_are_at_least_twenty_breaks_and_all_families_have_some() -> None:
    assert len(BREAKS) >= 20
    assert {family.name for family, _ in pairs([*FAMILIES])} == set(FAMILIES)
    assert {kind.name for _, kind in pairs((), [*BREAKS])} == set(BREAKS)
    assert pairs(["glm"], ["none"]) == [(FAMILIES["glm"], BREAKS["none"])]


def described(case: Case) -> tuple[Any, ...]:
    """Return every property of a case."""
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
def test_a_case_depends_only_on_seed_family_break_and_number(kind: str) -> None:
    """The same arguments give the same case, and another number or seed gives another case."""
    family = next(family for family, each in pairs((), [kind]) if each.name == kind)
    one, again = make(family, BREAKS[kind], 3, seed=5), make(family, BREAKS[kind], 3, seed=5)
    others = [make(family, BREAKS[kind], 4, seed=5), make(family, BREAKS[kind], 3, seed=6)]
    assert one is not None and again is not None
    assert described(one) == described(again)
    assert all(other is not None and described(other) != described(one) for other in others)


@pytest.mark.parametrize("form", [name for name, family in FAMILIES.items() if family.reader and not family.structured])
def test_unbroken_calls_are_read_strictly_as_they_were_meant(form: str) -> None:
    """Writer and strict reader of every family agree, and the calls are valid for their schemas."""
    for number in range(30):
        case = make(FAMILIES[form], BREAKS["none"], number)
        assert case is not None
        assert readings(case.family, case.reply.text[case.start :], case.draft.offers) == [case.draft.calls]
        for name, values in case.draft.calls:
            assert any(offer.name == name and accepts(offer.schema, values) for offer in case.draft.offers)


# Nothing is broken in these cases. Tools, values or context make them difficult.
WHOLE = ("copied", "shown_otherwise", *(name for name, each in BREAKS.items() if each.whole))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [name for name in BREAKS if name not in WHOLE])
def test_a_break_changes_the_reply(kind: str) -> None:
    """No broken reply is equal to the one that the template would have written."""
    for family, each in {family.name: (family, each) for family, each in pairs((), [kind])}.values():
        case = make(family, each, 0)
        if case is None:
            continue
        clean = family.write(case.draft.calls, case.draft.target)
        whole = tuple((name, family.arguments(values)) for name, values in case.draft.calls)
        unbroken = case.around[: case.start] + clean + case.around[case.start :]
        assert case.reply.calls != whole if family.structured else case.reply.text != unbroken


# Unusual tools, other notations, and missing values.


@pytest.mark.parametrize("form", ["structured", "hermes", "qwen_xml", "glm", "gemma4", "pythonic", "kimi_k3"])
def test_a_missing_value_has_no_delimiter_and_an_empty_value_is_wrong(form: str) -> None:
    """C10: the key is omitted, or there is no call."""
    for number in range(10):
        case = make(FAMILIES[form], BREAKS["missing_value"], number)
        assert case is not None
        meant, missing = case.meant[case.draft.target][1], case.draft.values.keys()
        lost = missing - meant.keys()
        assert len(lost) == 1 and "␆" not in case.reply.text + str(case.reply.calls)
        assert case.broken.no_call is bool(lost & set(case.draft.offer.schema.get("required", ())))
        empty = [(name, {**values, **dict.fromkeys(lost, "")}) for name, values in case.meant]
        gone = Left(case.around, [name for name, _ in empty], [json.dumps(values) for _, values in empty], "tool_calls")
        assert judge(case, gone).verdict is Verdict.WRONG


# Unescaped quotation marks, read by the rules.


@rows(__file__, "text,read")
def test_unescaped_quotation_marks_are_read_by_the_rules(text: str, read: dict[str, Any] | None) -> None:
    assert marks.read(text, WRITE.schema) == read


# The strict reader.


def qwen(*values: tuple[str, str]) -> str:
    """Return a call in Qwen's tags."""
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
def test_a_raw_value_ends_where_the_template_continues(value: str, mode: Mode, read: str) -> None:
    """An end tag counts only on its own line, if it is followed by the closing tags and the end of the line or text."""
    text = qwen(("path", "p"), ("content", value))
    found = readings(FAMILIES["qwen_xml"], text, [WRITE], (mode,))
    if "<function=" in read and mode is Mode.FIRST:
        assert found == []  # the call inside the value would lose its end
    else:
        assert found == [[("write", {"path": "p", "content": read})]]


# The judge.

def made(
    family: Family,
    said: str,
    calls: list[Call],
    *,
    broken: Broken,
    around: str = "",
    finish: str = "",
    offer: Offer = WRITE,
    core: str = "",
) -> Case:
    """Return a case in which `said` is the reply, or the arguments of a structured call."""
    calls = calls or [("write", {"path": "a", "content": 'say "hi"'})]
    draft = Draft(Random(1), family, [offer], calls, 0)
    if family.structured:
        reply = Reply(around, (("write", said),), finish or "tool_calls")
    else:
        reply = Reply(around + said, (), finish or "stop")
    each = Break("marks_one", "by hand", lambda draft: Broken())
    return Case(0, family, each, draft, broken, reply, around, len(around), core or said)


@rows(__file__, "rule,reply,client,judged")
def test_the_client_gets_what_was_meant_or_no_call(
    rule: str, reply: dict[str, Any], client: dict[str, Any], judged: list[Any]
) -> None:
    """`rule` says what each row shows. `closed`: the schema allows no other keys."""
    given = {**reply, "broken": Broken(**reply.get("broken", {})), "calls": [*map(tuple, reply.get("calls", ()))]}
    family, offer = FAMILIES[given.pop("family")], CLOSED if given.pop("closed", False) else WRITE
    names, texts = ([call[at] for call in client["calls"]] for at in (0, 1))
    gone = Left(client.get("text", ""), names, texts, client.get("finish", ""), client.get("failed", ""))
    found = judge(made(family, offer=offer, **given), gone)
    assert [found.verdict.name, found.why, found.one] == judged, rule


def test_a_copied_call_must_not_become_a_call() -> None:
    """If a tool showed two calls, both are copies, whichever was chosen."""
    calls: list[Call] = [("write", {"path": "a"}), ("write", {"path": "b"})]
    family = FAMILIES["hermes"]
    text = family.write(calls, -1)
    broken = Broken(one=False, no_call=True, shown=lambda text: text)
    case = made(family, text, calls, broken=broken, core='{"path": "a"}')
    assert judge(case, Left(text, finish="stop")).verdict is Verdict.REFUSED
    gone = Left(family.write(calls[:1], -1), ["write"], ['{"path": "b"}'], "tool_calls")
    assert judge(case, gone) == Judged(Verdict.WRONG, "a call was made of a copy", False)


# The run.


@pytest.mark.slow
def test_unbroken_calls_are_sent_as_meant() -> None:
    """C1: this holds in every family. A few calls without a wrapper are refused."""
    control = run(300, seed=12, breaks=["none"])
    assert control.total.one == 300 and not control.total.verdicts[Verdict.WRONG]
    refused = {name for name, count in control.families.items() if count.one != count.one_right}
    assert refused <= {"name_tag_elements", "name_tag_text"} and control.total.one_right >= 296


@pytest.mark.slow
def test_no_wrong_call_is_sent(smoke: Any) -> None:
    """C9: a broken call is sent as meant, or not at all."""
    assert dict(smoke.reasons) == {}


def test_the_report_shows_tables_verdicts_and_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """It has one table by break and one by family. The exit status is 0."""
    assert main(["--cases", "30", "--break", "none", "--break", "trailing_comma"]) == 0
    said = capsys.readouterr().out
    assert "| break" in said and "| family" in said and "| trailing_comma" in said
    assert "= 0          0  met" in said and "100.0%  met" in said and "30 cases, seed 12" in said
