"""One request of the soak: the model server's script, the client's behaviour, and the possible outcomes.

Everything random about a request is decided here, before it is sent, so that its outcome can be judged.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tests.faults.scripts import CHUNKED, HALF, HERMES, INPUT, JSON
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    USAGE,
    Act,
    Action,
    answer,
    arguments,
    chunked,
    completion,
    event,
    finish,
    head,
    opened,
    text,
)


class Leave(Enum):
    """Behaviours of a client."""

    STAYS = "stays to the end"
    SLOW = "reads slowly"
    CLOSE = "leaves, FIN"
    RESET = "leaves, RST"
    HALF_BODY = "sends half a body, FIN"
    HALF_BODY_RESET = "sends half a body, RST"
    BAD = "sends invalid JSON"
    LARGE = "sends too much"


Script: TypeAlias = "Callable[[Said, random.Random], list[Action]]"
# Outcomes of a request; an error has the status of chat clients.
OK, EVENT, LEFT = "ok", "error event", "left"


@dataclass
class Said:
    """The model's reply: words, and perhaps a call, in the text or structured."""

    words: str
    call: str = ""

    @property
    def text(self) -> str:
        """All of the text that the model server sends."""
        return f"{self.words}\n{HERMES}" if self.call == "text" else self.words


@dataclass
class Plan:
    id: str
    dialect: Dialect
    streamed: bool
    tools: bool
    fault: str
    leave: Leave
    said: Said
    steps: list[Action] = field(repr=False)
    expected: frozenset[str]
    after: float = 0.0

    @property
    def calls(self) -> list[tuple[str, object]]:
        """Return the calls of a successful reply."""
        return [("write_file", INPUT)] if self.said.call else []


def status(number: int) -> str:
    """Return the outcome for an error of this status."""
    return f"status {number}"


BROKEN = frozenset((EVENT, status(502)))


@dataclass(frozen=True)
class Fault:
    """One kind: its scripts for streamed and whole requests, their outcomes, and its weight.

    If `whole` is None, a stream is always requested; if `streamed` is None, never.
    """

    streamed: Script | None
    whole: Script | None
    of_stream: frozenset[str]
    of_whole: frozenset[str]
    weight: int = 2


def events(said: Said) -> list[bytes]:
    found = [ROLE, *(text(said.text[at : at + 9]) for at in range(0, len(said.text), 9))]
    if said.call == "structured":
        body = json.dumps(INPUT)
        found += [
            opened(0, "call_1", "write_file"),
            *(arguments(0, body[at : at + 7]) for at in range(0, len(body), 7)),
        ]
    return [*found, finish("tool_calls" if said.call == "structured" else "stop"), USAGE, DONE]


def whole(said: Said) -> bytes:
    function = {"name": "write_file", "arguments": json.dumps(INPUT)}
    call = {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    message = {"role": "assistant", "content": said.text, **(call if said.call == "structured" else {})}
    return json.dumps(completion(message, "tool_calls" if said.call == "structured" else "stop")).encode()


def stream(parts: list[bytes], rng: random.Random, pause: float = 0.0) -> list[Action]:
    """Return a stream with a random pause of at most `pause` seconds after each part."""
    steps: list[Action] = [SSE]
    for part in parts:
        steps.append(chunked(part))
        if pause:
            steps.append(rng.random() * pause)
    return [*steps, LAST]


def slow_whole(said: Said, rng: random.Random) -> list[Action]:
    data = answer(whole(said))
    cut = rng.randrange(len(data))
    return [rng.random() * 1.5, data[:cut], rng.random(), data[cut:]]


def pieces(said: Said, rng: random.Random) -> list[Action]:
    """Return a stream that is cut into random pieces."""
    data = b"".join(events(said))
    places = sorted(rng.randrange(len(data)) for _ in range(15))
    return stream([data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b], rng, 0.01)


def huge(said: Said, rng: random.Random) -> list[Action]:
    """Return a stream with an additional event of 300 kB of text."""
    said.words += "x" * 300_000
    return stream([ROLE, text(said.text), finish(), DONE], rng)


def huge_whole(said: Said, rng: random.Random) -> list[Action]:
    said.words += "x" * 2_000_000
    return [answer(whole(said))]


def over(said: Said, rng: random.Random) -> list[Action]:
    """Return a stream with an event over the limit of 1 MiB."""
    return [*begun(said, rng), chunked(text("x" * 1_200_000)), Act.EXPECT_CLOSE]


def begun(said: Said, rng: random.Random) -> list[Action]:
    """Return a stream that ends early in its text, in a structured call, or in a call held as text."""
    parts: list[Action] = [SSE, chunked(ROLE), chunked(text(said.words))]
    if said.call == "structured":
        parts += HALF
    elif said.call == "text":
        parts.append(chunked(text(f"\n{HERMES[:60]}")))
    return [*parts, rng.random() * 0.2]


def half(said: Said, rng: random.Random) -> list[Action]:
    """Return half of a whole answer."""
    data = whole(said)
    return [head(200, {**JSON, "Content-Length": str(len(data))}) + data[: rng.randrange(len(data))], 0.02]


def ends(
    *last: Action,
) -> tuple[Script, Script]:
    """Return a stream and a whole answer that end in the middle with these steps."""
    return (lambda said, rng: [*begun(said, rng), *last], lambda said, rng: [*half(said, rng), *last])


def always(*steps: Action) -> Script:
    """Return a script of these steps after a short pause."""
    return lambda said, rng: [rng.random() * 0.2, *steps]


def later(*steps: Action) -> Script:
    """Return a script of these steps, after a pause in which a stream's client gets heartbeats."""
    return lambda said, rng: [1.0 + rng.random(), *steps]


def _error(number: int, **headers: str) -> bytes:
    return answer({"error": {"message": "told", "type": "told", "param": None, "code": number}}, number, headers)


def _same(script: Script, *outcomes: str, weight: int = 2) -> Fault:
    """Return a fault with one script for streams and whole answers. A stream may have begun."""
    return Fault(script, script, frozenset((*outcomes, EVENT)), frozenset(outcomes), weight)


def _broken(last: tuple[Script, Script], number: int = 502) -> Fault:
    return Fault(*last, frozenset((EVENT, status(number))), frozenset((status(number),)))


def _good(said: Said, rng: random.Random) -> list[Action]:
    return stream(events(said), rng)


def _good_whole(said: Said, rng: random.Random) -> list[Action]:
    return [rng.random() * 0.3, answer(whole(said))]


_FINE = frozenset((OK,))
_DIED = event({"error": {"message": "died", "type": "told", "param": None, "code": 500}})
FAULTS: Mapping[str, Fault] = {
    "none": Fault(_good, _good_whole, _FINE, _FINE, 40),
    "slow": Fault(lambda said, rng: stream(events(said), rng, 0.2), slow_whole, _FINE, _FINE, 15),
    "cut anywhere": Fault(pieces, None, _FINE, _FINE, 6),
    # Unknown events are forwarded or dropped.
    "odd events": Fault(
        lambda said, rng: stream([part for each in events(said) for part in (b": x\n\n", each)], rng),
        None,
        _FINE,
        _FINE,
    ),
    "no [DONE]": Fault(lambda said, rng: stream(events(said)[:-1], rng), None, _FINE, _FINE),
    "open after [DONE]": Fault(
        lambda said, rng: [*stream(events(said), rng)[:-1], Act.EXPECT_CLOSE], None, _FINE, _FINE, 1
    ),
    "JSON for a stream": Fault(_good_whole, None, _FINE, _FINE),
    "huge": Fault(huge, huge_whole, _FINE, _FINE, 1),
    "an event over the limit": Fault(over, None, BROKEN, BROKEN, 1),
    **{f"immediate {n}": _same(always(_error(n)), status(n), weight=1) for n in (400, 401, 404, 500)},
    **{f"immediate {n}": _same(always(_error(n, **{"Retry-After": "1"})), status(n)) for n in (429, 503)},
    **{f"{n} late": _same(later(_error(n)), status(n), weight=1) for n in (429, 500, 503)},
    "a page": _same(always(answer(b"<html>Bad Gateway", 502, {"Content-Type": "text/html"})), status(502)),
    "a page with 200": _same(always(answer(b"<html>Hello", 200, {"Content-Type": "text/html"})), status(502), weight=1),
    "a huge error": _same(always(answer(b"x" * 1_000_000, 500)), status(500), weight=1),
    "a redirect": _same(always(answer(b"", 307, {"Location": "http://127.0.0.1:1/"})), status(502), weight=1),
    "noise": _same(always(b"\x00\xff\r\n\r\n"), status(502), weight=1),
    "immediate FIN": _same(always(), status(502)),
    "immediate RST": _same(always(Act.RST), status(502)),
    "half a head": _same(always(b"HTTP/1.1 200 OK\r\nContent-Ty"), status(502), weight=1),
    "never answers": _same(always(Act.EXPECT_CLOSE), status(504)),
    "stalls": _broken(ends(Act.EXPECT_CLOSE), 504),
    "RST": _broken(ends(Act.RST)),
    "FIN": _broken(ends()),
    "a bad chunk": Fault(ends(b"zz\r\n")[0], None, BROKEN, BROKEN),
    "no finish": Fault(ends(LAST)[0], None, BROKEN, BROKEN),
    "half an event": Fault(ends(chunked(b'data: {"choi'), LAST)[0], None, BROKEN, BROKEN),
    "an error event": Fault(ends(chunked(_DIED), chunked(DONE), LAST)[0], None, frozenset((EVENT,)), BROKEN),
    "an error event first": Fault(
        always(SSE, chunked(_DIED), chunked(DONE), LAST), None, frozenset((EVENT, status(500))), BROKEN
    ),
    "a stream for JSON": Fault(None, _good, BROKEN, frozenset((status(502),)), 1),
    "a short length": Fault(
        None, lambda said, rng: [answer(whole(said), headers={"Content-Length": "9999999"})], BROKEN, BROKEN, 1
    ),
    "incomplete chunks": Fault(
        None, lambda said, rng: [head(200, {**JSON, **CHUNKED}), chunked(whole(said)[:50])], BROKEN, BROKEN, 1
    ),
}
_KINDS, _WEIGHTS = [*FAULTS], [fault.weight for fault in FAULTS.values()]
_LEAVES, _OFTEN = [*Leave], [78, 5, 6, 6, 1, 1, 2, 1]
_REFUSED = {Leave.BAD: 400, Leave.LARGE: 413, Leave.HALF_BODY: 400}


def make(number: int, rng: random.Random) -> Plan:
    kind = rng.choices(_KINDS, _WEIGHTS)[0]
    fault = FAULTS[kind]
    streamed = fault.whole is None or (fault.streamed is not None and rng.random() < 0.7)
    tools = rng.random() < 0.7
    call = rng.choice(("", "text", "structured")) if tools and kind != "huge" else ""
    said = Said(" ".join(rng.choice(("so", "we", "now", "<b>", "it's", "{x}", "é", "🙂")) for _ in range(12)), call)
    script = fault.streamed if streamed else fault.whole
    assert script is not None
    leave = rng.choices(_LEAVES, _OFTEN)[0]
    expected = fault.of_stream if streamed else fault.of_whole
    if leave in _REFUSED:
        expected = frozenset((status(_REFUSED[leave]),))
    elif leave in (Leave.CLOSE, Leave.RESET, Leave.HALF_BODY_RESET):
        expected = frozenset((LEFT,))
    return Plan(
        id=f"soak-{number}",
        dialect=rng.choice([*DIALECTS.values()]),
        streamed=streamed,
        tools=tools,
        fault=kind,
        leave=leave,
        said=said,
        steps=script(said, rng),
        expected=expected,
        after=rng.random() ** 2 * 1.5,
    )
