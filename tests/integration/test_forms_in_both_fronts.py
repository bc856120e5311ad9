"""Each notation for calls, as the clients of all dialects see it: streamed in pieces and whole, bare, in a fence, in an
unclosed fence, and after reasoning (F6, F8, F11, F12, F15, C3, C5).
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from proxy.json import JsonObject
from proxy.notations.toolset import ToolSet
from tests.failures import test_recordings as recordings
from tests.failures import test_text_formats as corpus
from tests.support.client_view import ROLE, of_bytes, streamed, whole, wire
from tests.support.each_case import each_case
from tests.support.helpers import ends, function, new_engine, offered, random_cut, says, units
from tests.support.translated import TRANSLATING
from tests.support.whole_reply_forms import CALLS, FORMS, OFFERS, TOOLS, Arguments

pytestmark = pytest.mark.once

CORPORA = Path(__file__).parents[1] / "corpora"
TEXT = {"type": "string"}
Calls = list[tuple[str, Arguments]]
THOUGHT = "<think>\nI need the tool.\n</think>"
DRESSES = {
    "bare": "{}",
    "a fence": "```json\n{}\n```",
    "an open fence": "```json\n{}\n",
    "reasoning": f"{THOUGHT}\n\n{{}}",
    "reasoning, a fence": f"{THOUGHT}\n```\n{{}}\n```",
}


def in_chat(text: str, tools: ToolSet) -> list[tuple[Calls, str, str | None]]:
    """Return a chat client's calls, text and finish reason, for three ways to split the stream and for a whole answer.
    """
    pieces = [[text], units(text), random_cut(text, random.Random(5))]
    got = [streamed(*map(says, cut), ends(), cuts=0, tools=tools) for cut in pieces]
    got.append(whole({"content": text}, tools=tools))
    return [(each.values, each.text, each.finish) for each in got]


def in_translations(text: str, tools: ToolSet) -> list[tuple[Calls, str, str | None]]:
    """Return the same for clients of the other dialects, where reasoning is not text."""
    said: JsonObject = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    answer: JsonObject = {"id": "w", "object": "chat.completion", "created": 7, "model": "m", "choices": [said]}
    found = []
    for each in TRANSLATING:
        for cut in ([text], random_cut(text, random.Random(5))):
            found.append(each.streamed([wire([ROLE, *map(says, cut), ends()])], new_engine(tools)))
        found.append(each.whole(answer, new_engine(tools)))
    return [(each.calls, each.text, each.finish) for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_without_other_text_is_a_call_in_both_fronts(form: str, dress: str) -> None:
    for name, arguments in CALLS[1:3] if dress == "bare" else CALLS[1:2]:
        text = DRESSES[dress].replace("{}", FORMS[form](name, arguments))
        for tools in (TOOLS, *(each for each in OFFERS[1:] if each.resolve(name) is not None)):
            for seen in (*in_chat(text, tools), *in_translations(text, tools)):
                calls, left, finish = seen
                assert (calls, finish) == ([(name, arguments)], "tool_calls")
                assert left.strip() in ("", THOUGHT if text.startswith(THOUGHT) else "")


@pytest.mark.parametrize("form", FORMS)
def test_each_form_before_prose_is_text(form: str) -> None:
    """C3."""
    text = FORMS[form](*CALLS[0]) + "\nThis lists the files."
    for seen in (*in_chat(text, TOOLS), *in_translations(text, TOOLS)):
        assert seen == ([], text, "stop")


TRAVEL: ToolSet = offered(
    function(
        "trip",
        {
            "from": TEXT,
            "to": TEXT,
            "class": TEXT,
            "days": {"type": "integer"},
            "flag": {"type": "boolean"},
            "maybe": {"type": ["integer", "null"]},
            "options": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "object"}}},
            "rows": {"type": "array"},
        },
        "from",
    ),
    function("read", {"path": TEXT, "limit": {"type": "integer"}}, "path"),
)
# Replies with their calls and the remaining text.
SUITE = [json.loads(line) for line in (CORPORA / "other_suites.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", SUITE, ids=lambda row: row["name"])
def test_forms_from_other_suites_are_calls_in_both_fronts(row: dict[str, Any]) -> None:
    meant = [(name, arguments) for name, arguments in row["calls"]]
    for seen in (*in_chat(row["text"], TRAVEL), *in_translations(row["text"], TRAVEL)):
        assert (seen[0], seen[1].strip(), seen[2]) == (meant, row["left"], "tool_calls")


@pytest.mark.slow
@each_case("row", corpus.ROWS, ids=[row["id"] for row in corpus.ROWS])
def test_each_corpus_reply_is_the_same_in_all_dialects(row: corpus.Row) -> None:
    """`streamed` and `whole` parse each reply strictly and compare the dialects."""
    parts = random_cut(row["text"], random.Random(3))
    got = streamed(*map(says, parts), ends(row["finish"]), cuts=1, tools=corpus.TOOLS)
    assert [*got.names] == [call["name"] for call in row["calls"]]
    got = whole({"content": row["text"]}, row["finish"], tools=corpus.TOOLS)
    assert [*got.names] == [call["name"] for call in row["calls"]]


@pytest.mark.parametrize("name", recordings.STREAMS)
def test_each_recorded_stream_is_the_same_in_all_dialects(name: str) -> None:
    """`of_bytes` compares the dialects."""
    data = (recordings.FOLDER / name).read_bytes()
    of_bytes(data, cuts=1, tools=recordings.tools_for(name), raw_text="-none-" in name)


@pytest.mark.parametrize("name", recordings.WHOLES)
def test_each_recorded_answer_is_the_same_in_all_dialects(name: str) -> None:
    """`whole` compares the dialects."""
    (entry,) = json.loads((recordings.FOLDER / name).read_bytes())["choices"]
    whole(entry["message"], entry["finish_reason"], tools=recordings.tools_for(name), raw_text="-none-" in name)
