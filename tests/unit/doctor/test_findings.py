"""What a probe finds, put into the words of its table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.doctor.examination import Examination
from proxy.doctor.findings import Finding, Found, Level, Probe, Told, findings_of, found
from tests.support.doctor_answers import examination, said

TELLS = (
    Told("good", Level.GOOD, "all is well"),
    Told(
        "bad",
        Level.HARM,
        "it said {words}",
        "harm at {place}",
        "{words} is repaired",
        "set {{on}} at {place}",
        rule=("server", "{kind}"),
        heal="one_call",
    ),
)


def findings(*items: Found) -> list[Finding]:
    """What a probe that finds these says."""

    def look(at: Examination) -> Iterator[Found]:
        yield from items

    return [*findings_of(Probe("p", "a probe", look, TELLS), examination(said({})))]


def test_values_are_put_into_each_text_and_into_the_rule() -> None:
    (finding,) = findings(found("bad", words="no", place=7, kind="vllm"))
    assert finding == Finding(
        "bad",
        "p",
        Level.HARM,
        "it said no",
        "harm at 7",
        "no is repaired",
        "set {on} at 7",
        ("server", "vllm"),
        "one_call",
    )


def test_what_a_server_says_is_no_template() -> None:
    (finding,) = findings(found("bad", words="{place} {0} {", place="p", kind="{words}"))
    assert (finding.what, finding.proxy) == ("it said {place} {0} {", "{place} {0} { is repaired")
    assert finding.rule == ("server", "{words}")


def test_findings_come_in_the_order_in_which_they_are_found() -> None:
    bad = found("bad", words="", place="", kind="")
    assert [finding.id for finding in findings(found("good"), bad, found("good"))] == ["good", "bad", "good"]
    assert findings() == []


@pytest.mark.parametrize("item", [found("unknown"), found("bad", words="w")], ids=["no such words", "no such value"])
def test_what_has_no_words_or_no_value_is_a_defect(item: Found) -> None:
    with pytest.raises(KeyError):
        findings(item)
