"""What an entry of `models` says of second tries, of output that repeats, and of calls that repeat."""

from __future__ import annotations

import pytest

from proxy.commands.describe_rules import summary
from proxy.config.model_entry import entry_with
from proxy.config.rules import Rules, parse_rules
from proxy.errors import RulesError

WORDS = "retry: 0, repetition: {longest: 100, times: 20}, tools: {most_repeats: 8}"


def rules(words: str) -> Rules:
    return parse_rules(f'models:\n  - {{match: "m", {words}}}\n'.encode(), "r.yaml", Rules())


def test_by_default_one_more_try_is_made_and_nothing_is_ended() -> None:
    profile = rules("parse: auto").profile("m", "")
    assert (profile.retry, profile.repetition, profile.calls) == (1, None, "structured")
    assert rules("parse: auto").heal_plan("m").tools.most_repeats == 0


def test_what_the_entry_says() -> None:
    found = rules(WORDS)
    assert (found.profile("m", "").retry, found.profile("m", "").repetition) == (0, (100, 20))
    assert found.heal_plan("m").tools.most_repeats == 8
    (line,) = [line for line in summary(found) if line.startswith("models")]
    for said in ("at most 8 times the same call", "ended where 100 characters repeat 20 times", "no second try"):
        assert said in line


def test_an_entry_that_is_printed_says_the_same() -> None:
    printed = entry_with(rules(WORDS).entry("m"), "m", [])
    again = parse_rules(f"models:\n{printed}\n".encode(), "r.yaml", Rules())
    assert again.entry("m") == rules(WORDS).entry("m")


@pytest.mark.parametrize(
    "words,told",
    [
        ("retry: 2", "must be 0 or 1"),
        ("retry: true", "must be 0 or 1"),
        ("repetition: {longest: 100}", "needs longest and times"),
        ("repetition: {longest: 1, times: 3}", "must be a number from 2 to 1000"),
        ("repetition: {longest: 100, times: 9999}", "must be a number from 2 to 1000"),
        ("tools: {most_repeats: 1}", "must be a number from 2"),
        ("tools: {most_repeats: many}", "must be a number from 2"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(words: str, told: str) -> None:
    with pytest.raises(RulesError, match=f"r.yaml:2: .*{told}"):
        rules(words)
