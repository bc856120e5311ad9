"""Live streaming (contract C2): text and reasoning are released as they arrive. Held text can still become a call, is
bounded in size and time, and is released once it cannot. Strings of a structured call are streamed as they arrive.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.config.rules import StripFields
from proxy.dialects.base import Writer
from proxy.dialects.chat.answer import ChatOptions
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.events import Chunk
from proxy.exchange.reply_stream import StreamReply
from tests.support.dialects import events
from tests.support.helpers import calls, chunk, delta, ends, function, new_engine, offered, piece, random_cut, says
from tests.support.random_schemas import LOOKALIKES
from tests.support.renderers import RENDERERS
from tests.support.translated import TRANSLATING

pytestmark = pytest.mark.slow

QUICK = settings(max_examples=40, derandomize=True)
# Text without the start of a marker.
PROSE = st.text("abcdefghijklmnopqrsxyzBDEGIJMNUWéßжд日本🙂0123456789 .,;:!?…'\n-", min_size=1, max_size=12)
# The number of characters that may be held after a text cannot be a call (64, or an eighth), plus a marker.
MAX_MARKER = 128
# Held text is released within this many characters after it cannot become a call.
SOON = 64
# A unit of a JSON string. A surrogate pair is one unit.
UNIT = re.compile(r"\\ud[89ab]..\\ud[c-f]..|\\u[0-9a-f]{4}|\\.|[^\\]")
WORDS = "some words that are of no tool, and go on for a while until nothing of them can be held any more"
DIALECTS = ("chat", *(each.name for each in TRANSLATING))
_TEXT = {"type": "string"}
# Strings, and values that are held until they are complete.
MAKE = offered(
    function(
        "make",
        {
            **dict.fromkeys(("a", "b", "c"), _TEXT),
            **{"n": {"type": "integer"}, "yes": {"type": "boolean"}},
            **{"many": {"type": "array", "items": _TEXT}, "deep": {"type": "object"}},
        },
    )
)
# Messages and Responses have no lone surrogates.
LONG = (st.sampled_from([each for each in LOOKALIKES if "\ud83d" not in each]) | PROSE).map(lambda said: said * 5)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("a", "b", "c"), LONG),
    **{"n": st.integers(), "yes": st.booleans()},
    **{"many": st.lists(LONG, max_size=2), "deep": st.dictionaries(PROSE, LONG, max_size=2)},
}
ARGUMENTS = st.lists(st.sampled_from(sorted(VALUES)), min_size=1, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: VALUES[key] for key in keys})
)


def crashed(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


def writer(dialect: str) -> Writer:
    for each in TRANSLATING:
        if each.name == dialect:
            return each.writer()
    return ChatWriter(ChatOptions("m", usage=True, clean=StripFields(), parsed=True))


@dataclass
class Client:
    """A client of any dialect, and the reply it has received so far."""

    dialect: str = "chat"
    engine: Engine = field(default_factory=new_engine)
    text: str = ""
    reasoning: str = ""
    arguments: str = ""

    def __post_init__(self) -> None:
        self.reply = StreamReply(self.engine, writer(self.dialect), crashed)

    def feed(self, one: Chunk) -> None:
        """Feed the next upstream event."""
        self.take(self.reply.receive(one.raw))

    def finish(self, reason: str = "stop") -> None:
        """Feed the end of the upstream's body."""
        self.feed(ends(reason))
        self.take(self.reply.receive(b"data: [DONE]\n\n") + self.reply.finish())

    def take(self, given: bytes) -> None:
        """Read the pieces in events."""
        bodies: list[Any] = [json.loads(said) for said in events(given) if said != "[DONE]"]
        for body in bodies:
            said: Any = body["choices"][0]["delta"] if body.get("choices") else body.get("delta")
            pieces: dict[str, Any] = {body["type"]: said} if isinstance(said, str) else said or {}
            for key, value in pieces.items():
                match key:
                    case "content" | "text" | "response.output_text.delta":
                        self.text += value
                    case "reasoning" | "reasoning_content" | "thinking" | "response.reasoning_text.delta":
                        self.reasoning += value
                    case "partial_json" | "response.function_call_arguments.delta":
                        self.arguments += value
                    case "tool_calls":
                        for call in value:
                            self.arguments += call["function"].get("arguments", "")


def rendered(form: str, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """Return the prose before a call, if its format allows any, and the call."""
    return "So it is.\n" if RENDERERS[form].lead else "", RENDERERS[form].render([(name, arguments)])


@pytest.mark.parametrize("dialect", DIALECTS)
@QUICK
@given(parts=st.lists(PROSE, min_size=1, max_size=20), thoughts=st.lists(PROSE, max_size=9), name=st.booleans())
def test_text_and_reasoning_are_never_delayed(dialect: str, parts: list[str], thoughts: list[str], name: bool) -> None:
    client = Client(dialect)
    thoughts, parts = ["Hm, ", *thoughts], ["So, ", *parts]
    for number, part in enumerate(thoughts, 1):
        client.feed(chunk(delta(reasoning=part) if name else delta(reasoning_content=part)))
        assert client.reasoning == "".join(thoughts[:number])
    for number, part in enumerate(parts, 1):
        client.feed(says(part))
        assert client.text == "".join(parts[:number])
        assert not client.reply.held


@pytest.mark.parametrize("form", RENDERERS)
def test_prose_before_a_call_is_sent_immediately(form: str) -> None:
    """The client receives no other text at the end."""
    lead, call = rendered(form, "bash", {"command": "ls"})
    client = Client()
    for number, each in enumerate(lead, 1):
        client.feed(says(each))
        assert number - len(client.text) <= 1
    for each in call:
        client.feed(says(each))
        assert client.text == lead
    client.finish()
    assert (client.text, json.loads(client.arguments)) == (lead, {"command": "ls"})


@pytest.mark.parametrize("form", RENDERERS)
def test_a_call_of_an_unknown_tool_is_released(form: str) -> None:
    """Soon after its first value begins, only a possible start of another marker is held."""
    text = "".join(rendered(form, "get_weather", {"zz": WORDS * 3}))
    client = Client()
    for number, each in enumerate(text, 1):
        client.feed(says(each))
        if text.index(WORDS) + SOON < number <= text.index(WORDS) + 3 * len(WORDS):
            assert number - len(client.text) <= MAX_MARKER
    client.finish()
    assert text.removesuffix("<|call|>") == client.text.removesuffix("<|call|>")


@pytest.mark.parametrize("form", RENDERERS)
def test_held_text_is_bounded_in_size(form: str) -> None:
    """Above the bound it is released unchanged as text."""
    text = "".join(rendered(form, "bash", {"command": "x y " * 100}))
    client, bound, size = Client(engine=new_engine(max_held=200)), 200, 7
    for end in range(size, len(text) + size, size):
        client.feed(says(text[end - size : end]))
        assert end - len(client.text) <= bound + size
    client.finish()
    assert text.removesuffix("<|call|>") == client.text.removesuffix("<|call|>")
    assert not client.arguments


@pytest.mark.parametrize("form", RENDERERS)
def test_all_held_text_is_released_at_the_deadline(form: str) -> None:
    """The reply reports that it holds text, and at the deadline it releases all of it unchanged."""
    lead, call = rendered(form, "bash", {"command": "ls -l"})
    rng = random.Random(len(form) + len(call))
    for end in rng.sample(range(1, len(call)), min(8, len(call) - 1)):
        client = Client()
        for part in filter(None, random_cut(lead + call[:end], rng)):
            client.feed(says(part))
        assert client.reply.held or client.arguments or client.text == lead + call[:end]
        client.take(client.reply.release())
        assert not client.reply.held
        assert client.text == (lead if client.arguments else lead + call[:end])


def places(arguments: dict[str, Any]) -> tuple[str, set[int], list[int]]:
    """Return the arguments as text, the lengths at which it ends in a string, and the most to send at each length."""
    text, inside, most = "{", set[int](), [0]
    for key, value in arguments.items():
        end = len(text)
        text += f"{', ' if most[1:] else ''}{json.dumps(key)}: "
        # The previous value is complete at this key's colon.
        most += [most[-1]] * (len(text) - 1 - len(most)) + [end if end > 1 else 0] * 2
        start, whole = len(text), json.dumps(value)
        text += whole
        if isinstance(value, str):
            most += [*range(start + 1, len(text)), len(text) - 1]
            inside |= {start + found.end() for found in UNIT.finditer(whole, 1, len(whole) - 1)}
        else:
            most += [most[-1]] * len(whole)
    return text, inside, most


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
@QUICK
@given(arguments=ARGUMENTS, rng=st.randoms(use_true_random=False), single=st.booleans())
def test_strings_of_a_call_are_streamed_and_other_values_are_held_until_complete(
    dialect: str, arguments: dict[str, Any], rng: random.Random, single: bool
) -> None:
    """The output is a prefix of the input, and complete where a chunk ends within a string."""
    text, inside, most = places(arguments)
    client = Client(dialect, new_engine(MAKE))
    client.feed(calls(piece(0, "", name="make", id="call_1")))
    came = 0
    for part in [*text] if single else random_cut(text, rng):
        client.feed(calls(piece(0, part)))
        came += len(part)
        assert text.startswith(client.arguments)
        assert len(client.arguments) <= most[came]
        assert len(client.arguments) == came or came not in inside
    client.feed(calls(piece(0, "}")))
    client.finish("tool_calls")
    assert client.arguments == f"{text}}}"
