"""The prompt that a server's template renders, found by each available method."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from proxy.doctor.asking import Asker
from proxy.doctor.prompts import APPLY_TEMPLATE, Fate, Prompts, PromptSource
from proxy.json import JsonObject, as_text, objects_in
from proxy.upstream.api import CHAT_COMPLETIONS, TOKENIZE
from tests.support.model_server import refusal as error
from tests.support.socketless import Made, Socketless

MARK = "mkmark"
Answer = Callable[[JsonObject], Made]


def shape(text: str) -> JsonObject:
    """Return a conversation that contains the text."""
    return {"messages": [{"role": "user", "content": text}]}


def said(body: JsonObject) -> str:
    """Return the prompt of a template that joins the message texts."""
    return " ".join(as_text(message.get("content")) for message in objects_in(body["messages"]))


def tokenized(body: JsonObject) -> Made:
    return 200, json.dumps({"token_strs": [*said(body).replace(" ", "Ġ")]}).encode()


def applied(body: JsonObject) -> Made:
    return 200, json.dumps({"prompt": said(body)}).encode()


def count(number: int) -> Made:
    choices = [{"index": 0, "message": {"content": "a"}}]
    return 200, json.dumps({"choices": choices, "usage": {"prompt_tokens": number}}).encode()


def counted(body: JsonObject) -> Made:
    return count(len(said(body).split()) + 7)


def prompts(**ways: Answer) -> tuple[Prompts, Socketless]:
    """Return the prompts of a server that supports these methods: `tokenize`, `apply`, `chat`."""
    paths = {TOKENIZE: "tokenize", APPLY_TEMPLATE: "apply", CHAT_COMPLETIONS: "chat"}

    def answer(path: str, body: JsonObject) -> Made:
        name = paths[path]
        return ways[name](body) if name in ways else (404, b"")

    server = Socketless(answer)
    return Prompts(Asker(server, "", 60.0), "m"), server


WAYS: dict[str, tuple[dict[str, Answer], PromptSource]] = {
    "tokens": ({"tokenize": tokenized, "apply": applied, "chat": counted}, PromptSource.TOKENIZE),
    "template": ({"apply": applied, "chat": counted}, PromptSource.APPLY_TEMPLATE),
    "count": ({"chat": counted}, PromptSource.COUNTED),
}
EACH = pytest.mark.parametrize(("ways", "way"), WAYS.values(), ids=WAYS)


@EACH
def test_the_best_available_method_is_used_and_detected_once(ways: dict[str, Answer], way: PromptSource) -> None:
    found, server = prompts(**ways)
    assert found.source is way
    asked = len(server.asked)
    assert found.source is way and len(server.asked) == asked
    assert all(body["model"] == "m" for _, _, body in server.asked)


@EACH
def test_text_in_the_prompt_is_kept_and_missing_text_is_lost(ways: dict[str, Answer], way: PromptSource) -> None:
    found, _ = prompts(**ways)
    assert found.fate(shape, MARK) == (Fate.KEPT, "")
    assert found.fate(lambda text: shape("something else"), MARK) == (Fate.LOST, "")


@EACH
@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_refusal_is_reported_with_the_servers_words(ways: dict[str, Answer], way: PromptSource, status: int) -> None:
    def but(answer: Answer) -> Answer:
        return lambda body: error("no such role", status) if MARK in said(body) else answer(body)

    found, _ = prompts(**{name: but(answer) for name, answer in ways.items()})
    assert found.fate(shape, MARK) == (Fate.REFUSED, "no such role")


@EACH
@pytest.mark.parametrize("status", [401, 404, 503])
def test_an_unrelated_error_leaves_the_result_unknown(ways: dict[str, Answer], way: PromptSource, status: int) -> None:
    def but(answer: Answer) -> Answer:
        return lambda body: error("busy", status) if MARK in said(body) else answer(body)

    found, _ = prompts(**{name: but(answer) for name, answer in ways.items()})
    assert found.fate(shape, MARK) == (Fate.UNKNOWN, "")


@pytest.mark.parametrize(
    "ways",
    [
        {},
        {"tokenize": lambda body: (200, b'{"count": 3}'), "apply": lambda body: (200, b'{"prompt": ""}')},
        {"tokenize": lambda body: (200, b'{"token_strs": ["other"]}')},
        {"chat": lambda body: count(9)},
        {"chat": lambda body: (200, b'{"choices": [{"index": 0, "message": {"content": "a"}}]}')},
    ],
    ids=["nothing", "no text", "another prompt", "one count for all", "no count"],
)
def test_without_a_visible_prompt_the_result_is_unknown(ways: dict[str, Answer]) -> None:
    found, _ = prompts(**ways)
    assert found.source is PromptSource.NONE
    assert found.fate(shape, MARK) == (Fate.UNKNOWN, "")


def test_a_slightly_higher_token_count_leaves_the_result_unknown() -> None:
    """The additional tokens may be another text."""

    def answer(body: JsonObject) -> Made:
        words = said(body).split()
        return count(7 + (len(words) // 10 if MARK in words else len(words)))

    assert prompts(chat=answer)[0].fate(shape, MARK) == (Fate.UNKNOWN, "")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [(["▁mkbaseline", "ĊĊ", "Ġa", "ĉb"], " mkbaseline\n\n a\tb"), (["mk", "base", "line", None], "mkbaseline")],
    ids=["marks", "no text"],
)
def test_tokens_are_joined_to_the_prompt(pieces: list[str | None], text: str) -> None:
    found, _ = prompts(tokenize=lambda body: (200, json.dumps({"token_strs": pieces}).encode()))
    assert found.fate(lambda text: shape("a"), text) == (Fate.KEPT, "")
