"""The prefix cache is preserved (contract C8). The upstream request depends only on the client's request, and the next
turn's request begins with this turn's.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from proxy.dialects.chat.request import read_chat
from proxy.dialects.messages.request import translate as translate_messages
from proxy.dialects.responses.request import translate as translate_responses
from proxy.dialects.translation import ModelOptions
from proxy.exchange.plan import Plan, upstream_request
from proxy.healing.families import FAMILIES
from proxy.healing.heal import IDS, HealPlan
from proxy.json import dump_request
from tests.contract.test_c1_valid_calls import ROWS
from tests.support import messages_ask, responses_ask

Item = dict[str, Any]
ROOT = Path(__file__).parents[2]
DIALECTS = ("chat", "messages", "responses")
# The built-in rules, the healings of each family, and all healings.
PLANS = (HealPlan(), *(HealPlan(on=frozenset(each.healings)) for each in FAMILIES), HealPlan(frozenset(IDS)))
HISTORIES = ("drop", "reasoning", "reasoning_content")
TEXTS = ("", "one", "two\nlines", "größer", "<tool_call>", '{"a": 1}', "```\ncode\n```", " ")
BILLING = "x-anthropic-billing-header: cch="
TALKS = range(40)
Call = tuple[str, str, str]


@dataclass(frozen=True)
class Turn:
    """Messages to the model, and its reply. `results` belong to the previous calls, and `note` is the client's text."""

    results: tuple[tuple[str, str], ...]
    said: str
    note: str
    thought: str
    answer: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Talk:
    """A growing conversation, and its tools by name."""

    tools: dict[str, Any]
    turns: tuple[Turn, ...]
    seed: int


def new_talk(seed: int) -> Talk:
    rng = random.Random(seed)
    rows = {f"tool_{number}": row for number, row in enumerate(rng.sample(ROWS, rng.randint(1, 4)))}
    turns, open_calls = list[Turn](), tuple[Call, ...]()
    for number in range(rng.randint(2, 7)):
        results = tuple((call[0], rng.choice(TEXTS)) for call in open_calls)
        said = "" if results and rng.random() < 0.8 else f"question {number}"
        note = rng.choice(("", "", "", "mind this"))
        names = rng.choices(sorted(rows), k=rng.choice((0, 1, 1, 2)))
        open_calls = tuple((f"call_{number}_{at}", name, rows[name].arguments) for at, name in enumerate(names))
        thought, answer = rng.choice(TEXTS), rng.choice(TEXTS)
        if not (thought.strip() or open_calls):
            answer = answer.strip() or "done"  # an empty conversation has no end of turn
        turns.append(Turn(results, said, note, thought, answer, open_calls))
    return Talk({name: row.schema for name, row in rows.items()}, tuple(turns), seed)


def chat(turn: Turn, rng: random.Random) -> tuple[list[Item], list[Item]]:
    """Return the messages and the reply as chat, including forms that agents send and templates do not expect."""
    asked: list[Item] = [{"role": "tool", "tool_call_id": call, "content": said} for call, said in turn.results]
    if turn.note:
        asked.append({"role": rng.choice(("system", "developer")), "content": turn.note})
    if turn.said:
        asked.append({"role": "user", "content": rng.choice((turn.said, [{"type": "input_text", "text": turn.said}]))})
    answer: Item = {"role": "assistant", "content": turn.answer or rng.choice(("", None))}
    if turn.thought:
        answer["reasoning_content"] = turn.thought
    if turn.calls or rng.random() < 0.2:
        answer["tool_calls"] = [
            {"id": id_, "function": {"name": name, "arguments": rng.choice((text, text, json.loads(text), text[:-1]))}}
            for id_, name, text in turn.calls
        ]
    return asked, [answer]


def messages(turn: Turn, rng: random.Random) -> tuple[list[Item], list[Item]]:
    note = messages_ask.text(f"<system-reminder>\n{turn.note}\n</system-reminder>")
    blocks = [
        *(messages_ask.result(rng.choice((said, [messages_ask.text(said)])), call) for call, said in turn.results),
        *([note] if turn.note else []),
        *([messages_ask.text(turn.said)] if turn.said else []),
    ]
    answer = [
        *([{"type": "thinking", "thinking": turn.thought, "signature": "s"}] if turn.thought else []),
        *([messages_ask.text(turn.answer)] if turn.answer else []),
        *({"type": "tool_use", "id": id_, "name": name, "input": json.loads(text)} for id_, name, text in turn.calls),
    ]
    return [messages_ask.user(*blocks)], [messages_ask.assistant(*answer)]


def responses(turn: Turn, rng: random.Random) -> tuple[list[Item], list[Item]]:
    said = [responses_ask.user(rng.choice((turn.said, responses_ask.text(turn.said))))] if turn.said else []
    asked = [
        *(responses_ask.output(text, call) for call, text in turn.results),
        *([responses_ask.developer(turn.note)] if turn.note else []),
        *said,
    ]
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": turn.thought}]}
    answer = [
        *([thought] if turn.thought else []),
        *([responses_ask.assistant(turn.answer)] if turn.answer else []),
        *(responses_ask.call(id_, name, text) for id_, name, text in turn.calls),
    ]
    return asked, answer


def requests(talk: Talk, dialect: str) -> Iterator[Item]:
    """Yield the client's request of each turn."""
    rng, history = random.Random(talk.seed), list[Item]()
    functions = [{"name": name, "parameters": schema} for name, schema in talk.tools.items()]
    for turn in talk.turns:
        asked, answer = {"chat": chat, "messages": messages, "responses": responses}[dialect](turn, rng)
        history += asked
        match dialect:
            case "chat":
                tools = [{"type": "function", "function": each} for each in functions]
                yield {"model": "m", "tools": tools, "messages": deepcopy(history)}
            case "messages":
                given = deepcopy(history)
                # The client's cache marker moves, and its accounting changes with each request.
                given[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
                tools = [{"name": name, "input_schema": schema} for name, schema in talk.tools.items()]
                yield messages_ask.ask(*given, system=f"{BILLING}{len(history)}\nbe brief", tools=tools)
            case _:
                tools = [{"type": "function", **each} for each in functions]
                yield responses_ask.ask(*deepcopy(history), instructions="be brief", tools=tools)
        history += answer


def sent_upstream(body: Item, dialect: str, seed: int) -> bytes:
    """Return the request that the model server receives."""
    options = ModelOptions(model="served", reasoning_history=HISTORIES[seed % len(HISTORIES)])
    if dialect == "messages":
        body = translate_messages(body, options).body
    elif dialect == "responses":
        body = translate_responses(body, options).body
    plan = Plan(heal=PLANS[seed % len(PLANS)])
    return upstream_request(read_chat(dump_request(body), body), plan).body


def digest() -> str:
    """Return one digest of all upstream requests of all conversations."""
    found = sha256()
    for dialect in DIALECTS:
        for talk in map(new_talk, TALKS):
            for body in requests(talk, dialect):
                found.update(sent_upstream(body, dialect, talk.seed))
    return found.hexdigest()


def check_growth(talk: Talk, dialect: str, seed: int) -> None:
    """Assert that each request begins with the previous messages, byte for byte, and is otherwise equal."""
    for before, after in pairwise(json.loads(sent_upstream(body, dialect, seed)) for body in requests(talk, dialect)):
        assert {**before, "messages": []} == {**after, "messages": []}
        assert json.dumps(before["tools"]) == json.dumps(after["tools"])
        size = len(before["messages"])
        assert size < len(after["messages"])
        assert json.dumps(before["messages"]) == json.dumps(after["messages"][:size])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", TALKS)
def test_the_next_turn_begins_with_this_turn(dialect: str, seed: int) -> None:
    check_growth(new_talk(seed), dialect, seed)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", range(len(HISTORIES)))
def test_the_turn_after_a_reply_of_only_reasoning_begins_with_the_previous_turn(dialect: str, seed: int) -> None:
    """This holds whether or not the reasoning is sent back."""
    first, second = Turn((), "one", "", "hm", "", ()), Turn((), "two", "", "", "done", ())
    check_growth(Talk(new_talk(seed).tools, (first, first, second), seed), dialect, seed)


def test_equal_requests_are_sent_upstream_as_equal_bytes() -> None:
    """The client's request object is not modified."""
    asked = [
        (body, dialect, seed) for dialect in DIALECTS for seed in TALKS for body in requests(new_talk(seed), dialect)
    ]
    first = [sent_upstream(deepcopy(body), dialect, seed) for body, dialect, seed in asked]
    random.Random(1).shuffle(order := [*range(len(asked))])
    for number in order:
        body, dialect, seed = asked[number]
        before = deepcopy(body)
        assert sent_upstream(body, dialect, seed) == first[number]
        assert body == before


@pytest.mark.slow
def test_a_process_with_another_hash_seed_sends_equal_bytes() -> None:
    """All workers and hosts send the same bytes."""
    code = "from tests.contract.test_c8_prefix import digest; print(digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest()
