"""Where a model's thoughts are: in a field, in the text, and whether the prompt opens them."""

from __future__ import annotations

import json

import pytest

from proxy.codec.json_text import JsonObject
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Level
from proxy.doctor.thoughts import PROBES
from proxy.errors import UpstreamTimeout
from tests.support.doctor_answers import error, examination, found, ids, said, whole
from tests.support.socketless import Made


def thinking(reply: Made, model: str = "m") -> Examination:
    """A server whose model answers so where it is asked to think."""
    return examination(said({"think": reply}), model)


def prompting(prompt: str, model: str = "m") -> Examination:
    """A server that shows its prompts, which end so."""

    def answer(path: str, body: JsonObject) -> Made:
        if path != "/tokenize":
            return 404, b""
        return 200, json.dumps({"token_strs": [f"{json.dumps(body)}{prompt}"]}).encode()

    return examination(answer, model)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (whole("Yes.", thoughts="Hm."), "thoughts_in_field"),
        (whole("Yes."), "no_thoughts"),
        (whole("<think>Hm.</think>Yes."), "thoughts_in_text"),
        (whole("Hm.</think>Yes."), "thoughts_in_text"),
        (whole("Hm.</think>Yes.", thoughts="Hm."), "thoughts_in_text"),
        (whole("<think>Hm."), "no_thoughts"),
        (error("no", 400), "thoughts_untold"),
        (UpstreamTimeout("late"), "thoughts_untold"),
    ],
    ids=["a field", "none", "marked", "half marked", "both", "never closed", "refused", "silent"],
)
def test_where_thoughts_come_is_told(reply: Made, told: str) -> None:
    assert ids(PROBES, "thoughts", thinking(reply)) == [told]


def test_thoughts_in_the_text_are_harm_and_the_rule_that_mends_it_is_named() -> None:
    (finding,) = found(PROBES, "thoughts", thinking(whole("Hm.</think>Yes.", thoughts="Hm.")))
    assert finding.level is Level.HARM and finding.rule == ("reasoning", "split")
    assert "…</think>" in finding.what and "beside the field reasoning_content" in finding.what
    assert "knows no family of this model" in finding.proxy


def test_of_a_known_family_the_marks_are_its_own() -> None:
    text = "Hm.</think>Yes."
    (finding,) = found(PROBES, "thoughts", thinking(whole(text), "qwen3-8b"))
    assert "knows the family (qwen3)" in finding.proxy
    assert ids(PROBES, "thoughts", thinking(whole(text), "gpt-oss-20b")) == ["no_thoughts"]


def test_why_nothing_could_be_told_is_said() -> None:
    (finding,) = found(PROBES, "thoughts", thinking(error("Too large", 413)))
    assert finding.level is Level.UNTOLD and "status 413: Too large" in finding.what


@pytest.mark.parametrize(
    ("prompt", "model", "told"),
    [
        ("<|assistant|>", "m", "not_opened"),
        ("<|assistant|><think>\n", "m", "opened_unknown"),
        ("<|assistant|><think>\n", "deepseek-r1", "opened_known"),
        ("<|assistant|><think>\n", "qwen3-8b", "opened_unknown"),
        ("<|assistant|>", "deepseek-r1", "opens_not"),
        ("<think> so it was </think>", "m", "not_opened"),
    ],
    ids=["none", "an unknown name", "known", "another family's", "not as the family", "not at the end"],
)
def test_whether_the_prompt_opens_a_thought_is_told(prompt: str, model: str, told: str) -> None:
    assert ids(PROBES, "opened", prompting(prompt, model)) == [told]


def test_without_prompts_it_cannot_be_told() -> None:
    assert ids(PROBES, "opened", examination(said({}))) == ["opens_untold"]
