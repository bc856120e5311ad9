"""The shapes of conversations: each is what it says, and what the template does with it is told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from proxy.codec.json_text import JsonObject
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Level
from proxy.doctor.shapes import MARK, PROBES, SHAPES, Shape
from proxy.healing.heal import IDS, heal, in_force
from tests.support.doctor_answers import error, examination, found, ids
from tests.support.socketless import Made

EVERY = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
Template = Callable[[JsonObject], str]


def on(template: Template) -> Examination:
    """A server that shows its prompts; the template refuses by a ValueError."""

    def answer(path: str, body: JsonObject) -> Made:
        if path != "/tokenize":
            return 404, b""
        try:
            prompt = template(body)
        except ValueError as refused:
            return error(str(refused))
        return 200, json.dumps({"token_strs": [prompt]}).encode()

    return examination(answer)


def all_there(body: JsonObject) -> str:
    """A template that leaves nothing out."""
    return json.dumps(body)


def refusing(*marks: str) -> Template:
    """A template that refuses what has one of these in it."""

    def template(body: JsonObject) -> str:
        if any(mark in json.dumps(body) for mark in marks):
            raise ValueError("not\n  supported")
        return json.dumps(body)

    return template


@EVERY
def test_a_text_that_is_in_the_prompt_is_kept_and_one_that_is_not_is_lost(shape: Shape) -> None:
    assert ids(PROBES, f"template_{shape.id}", on(all_there)) == [f"{shape.id}_kept"]
    without = on(lambda body: json.dumps(body).replace(MARK, ""))
    (finding,) = found(PROBES, f"template_{shape.id}", without)
    assert finding.id == f"{shape.id}_lost" and finding.harm == shape.harm and finding.heal == shape.heal
    assert shape.title in finding.what and "(seen by /tokenize)" in finding.what


@EVERY
def test_the_text_stands_in_a_shape_once_and_all_is_a_request(shape: Shape) -> None:
    made = shape.make(MARK)
    assert json.dumps(made).count(MARK) == 1
    assert {*made} == {"messages", "tools"}
    assert json.dumps(shape.make("other")) == json.dumps(made).replace(MARK, "other")


@pytest.mark.parametrize(
    "shape", [each for each in SHAPES if each.heal not in ("", "text_calls")], ids=lambda shape: shape.id
)
def test_the_healing_of_a_shape_changes_that_shape(shape: Shape) -> None:
    """Without it all stays as it is, but for what every request is healed by."""
    assert shape.heal in IDS
    usual = in_force((), ())
    body = {"model": "m", **shape.make(MARK)}
    healed = heal(body, (*usual, shape.heal))
    assert healed.body != heal(body, tuple(name for name in usual if name != shape.heal)).body


def test_where_a_plainer_shape_is_refused_nothing_is_known_of_those_that_have_it() -> None:
    at = on(refusing("callabcd1"))
    told = {shape.id: ids(PROBES, f"template_{shape.id}", at) for shape in SHAPES}
    assert told["results"] == ["results_refused"]
    assert {name for name, found_ids in told.items() if found_ids == [f"{name}_untold"]} == {
        shape.id for shape in SHAPES if shape.base == "results"
    }
    at = on(refusing('"tools"'))
    assert ids(PROBES, "template_developer", at) == ["developer_untold"]
    assert ids(PROBES, "template_other_ids", at) == ["other_ids_untold"]


def test_a_refusal_is_shown_on_one_line_and_ends_the_session() -> None:
    (finding,) = found(PROBES, "template_two_users", on(refusing("Hello.")))
    assert finding.what == "the template refuses two user messages in a row: not supported"
    assert "cannot go on" in finding.harm and "as soon as the server has refused it" in finding.proxy
    assert finding.remedy.endswith("or heal: {on: [alternate]} in the model's entry")


def test_a_template_is_asked_once_for_a_shape() -> None:
    asked: list[str] = []

    def template(body: JsonObject) -> str:
        asked.append(json.dumps(body))
        return asked[-1]

    at = on(template)
    for _ in range(2):
        ids(PROBES, "template_several_calls", at)
    # The plainest one, and those of the tools, of the results and of this shape.
    assert len(asked) == len({*asked}) == 4


@pytest.mark.parametrize(
    ("name", "level", "proxy"),
    [
        ("tools", Level.HARM, "nothing: what the template leaves out, no request can put in"),
        ("developer", Level.NOTE, "it heals that in every request (developer), before the template sees it"),
        ("two_systems", Level.HARM, "it heals that in the request (one_system) where the model's name or a rule says"),
    ],
)
def test_what_every_request_is_healed_by_is_no_harm(name: str, level: Level, proxy: str) -> None:
    (finding,) = found(PROBES, f"template_{name}", on(lambda body: json.dumps(body).replace(MARK, "")))
    assert finding.level is level and finding.proxy.startswith(proxy)
