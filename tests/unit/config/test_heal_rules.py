"""What the rules say of the requests of a model: what is healed, with which parameters and tools, how often tried."""

from __future__ import annotations

import pytest

from proxy.commands.describe_rules import summary
from proxy.config.heal_rules import HealRules
from proxy.config.rules import Rules, parse_rules
from proxy.errors import RulesError
from proxy.healing.parameters import OfferedTools, Sampling

WORDS = "retry: 0, broken_calls: retry, repetition: {longest: 100, times: 20}, tools: {most_repeats: 8}"


def rules(words: str) -> Rules:
    return parse_rules(f'models:\n  - {{match: "m", {words}}}\n'.encode(), "r.yaml", Rules())


def test_by_default_one_more_try_is_made_and_nothing_is_ended() -> None:
    profile = rules("parse: auto").profile("m", "")
    assert (profile.retry, profile.repetition, profile.calls) == (1, None, "structured")
    assert profile.broken_calls == "auto"
    assert rules("parse: auto").heal_plan("m").tools.most_repeats == 0


def test_what_the_entry_says() -> None:
    found = rules(WORDS)
    assert (found.profile("m", "").retry, found.profile("m", "").repetition) == (0, (100, 20))
    assert found.profile("m", "").broken_calls == "retry"
    assert found.heal_plan("m").tools.most_repeats == 8
    (line,) = [line for line in summary(found) if line.startswith("models")]
    assert "calls that cannot be read are asked for again" in line
    for said in ("at most 8 times the same call", "ended where 100 characters repeat 20 times", "no second try"):
        assert said in line


@pytest.mark.parametrize(
    "words,told",
    [
        ("retry: 2", "must be 0 or 1"),
        ("retry: true", "must be 0 or 1"),
        ("broken_calls: always", "text"),
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


def test_healings_are_on_or_off_by_their_names_and_all_can_be_off() -> None:
    found = rules("heal: {on: [one_call, alternate], off: [all]}").entry("m").requests
    assert found.heal == HealRules(("one_call", "alternate"), ("all",))
    for words in ("heal: {on: , off: }", "heal: ", "parse: auto"):
        assert rules(words).entry("m").requests.heal == HealRules()


def test_parameters_are_set_or_the_default_or_stripped_or_no_more_than_a_number() -> None:
    words = "set: {top_k: 20, stop: [a, null]}, default: {seed: 1}, strip: [user], at_most: {max_tokens: 9, top_p: 0.5}"
    assert rules(f"sampling: {{{words}}}").entry("m").requests.sampling == Sampling(
        set={"top_k": 20, "stop": ["a", None]},
        default={"seed": 1},
        strip=("user",),
        at_most={"max_tokens": 9, "top_p": 0.5},
    )


def test_tools_are_dropped_cut_short_or_polled_by_globs() -> None:
    found = rules("tools: {drop: [web_*, '?'], describe: 1, polls: [wait]}").entry("m").requests.tools
    assert found == OfferedTools(drop=("web_*", "?"), describe=1, polls=("wait",), most_repeats=0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("heal: {on: [one_cal]}", "there is no healing 'one_cal'; use 'one_call'"),
        ("heal: {on: [zzzzz]}", "there is no healing 'zzzzz'; use one of docs/healing.md"),
        ("heal: {on: [all]}", "there is no healing 'all'; use one of docs/healing.md"),
        ("heal: [one_call]", "heal of an item of models must be a mapping"),
        ("heal: {of: [all]}", "there is no 'of' in heal of an item of models; use off"),
        ("sampling: {set: {model: a}}", "'model' cannot be changed by a rule; take it out of sampling of"),
        ("sampling: {default: {stream: true}}", "'stream' cannot be changed by a rule"),
        ("sampling: {at_most: {n: 1}}", "'n' cannot be changed by a rule"),
        ("sampling: {strip: [messages]}", "'messages' cannot be changed by a rule; take it out of an item of strip of"),
        ("sampling: {at_most: {top_k: 0}}", "top_k of sampling of an item of models must be a number above 0"),
        ("sampling: {at_most: {top_k: true}}", "must be a number above 0"),
        ("sampling: {at_most: {top_k: '9'}}", "must be a number above 0"),
        ("sampling: {set: {top_k: on}}", "top_k of sampling of an item of models cannot be 'on' as it stands"),
        ("tools: {drop: web}", "drop of tools of an item of models must be a list"),
        ("tools: {describe: 0}", "describe of tools of an item of models must be a number from 1 to 100000"),
        ("tools: {describe: 100001}", "must be a number from 1 to 100000"),
        ("tools: {most_repeats: true}", "must be a number from 2"),
        ("repetition: {longest: 2, times: 1}", "times of repetition of an item of models must be a number from 2"),
        ("repetition: ", "needs longest and times; write both"),
        ("retry: '1'", "retry of an item of models must be 0 or 1"),
    ],
)
def test_what_is_no_healing_no_field_and_no_count_is_told_with_what_is_meant(words: str, told: str) -> None:
    with pytest.raises(RulesError) as caught:
        rules(words)
    assert caught.value.message.startswith("r.yaml:2: ") and told in caught.value.message
