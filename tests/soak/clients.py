"""The clients of the soak: each behaves in its own way, and judges its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import time
from dataclasses import dataclass, field, replace

from tests.faults.bench import Answer, request
from tests.soak.plans import EVENT, LEFT, OK, Leave, Plan, status

# At least twice the duration of any planned request.
LIMIT = 30.0
_RESET = struct.pack("ii", 1, 0)


@dataclass
class Result:
    """The result of a request: the name of the outcome, and why it is unexpected.

    `again`: it was sent twice, because the connection was stale.
    """

    outcome: str
    why: str = ""
    began: float = field(default_factory=time.monotonic)
    left_at: float = 0.0
    again: bool = False


class Line:
    """A client's connections: one is kept for the next request if both sides allow it."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self._port, self._rng = port, rng
        self._kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.reused = self.stale = 0

    async def run(self, plan: Plan) -> Result:
        began = time.monotonic()
        try:
            async with asyncio.timeout(LIMIT):
                result = await self._run(plan)
        except TimeoutError:
            result = Result("hung", f"no more data within {LIMIT:g} s")
        except (OSError, EOFError) as error:
            result = Result("cut", f"the connection broke: {error!r}")
        result.began = began
        if result.outcome in ("hung", "cut"):
            self.close()
        return result

    def close(self, *, reset: bool = False) -> None:
        if self._kept is not None:
            _end(self._kept[1], reset=reset)
            self._kept = None

    async def _run(self, plan: Plan) -> Result:
        body = json.dumps(plan.dialect.ask(streamed=plan.streamed, tools=plan.tools)).encode()
        match plan.leave:
            case Leave.BAD:
                body = body[:-5]
            case Leave.LARGE:
                body = body[:-1] + b" " * 1_200_000 + b"}"
        data = request(plan.dialect, body, plan.id)
        if plan.leave in (Leave.HALF_BODY, Leave.HALF_BODY_RESET):
            return await self._half(plan, data)
        reader, writer = await self._connected()
        reused, self._kept = self._kept is not None, (reader, writer)
        self.reused += reused
        writer.write(data)
        if plan.leave in (Leave.CLOSE, Leave.RESET):
            return await self._leave(plan, reader)
        try:
            answer, keep = await _read(plan, reader)
        except _Stale:
            self.close()
            if not reused:
                raise
            self.stale += 1  # the other side has closed it: every client retries
            return replace(await self._run(plan), again=True)
        if not keep or self._rng.random() < 0.3:
            self.close()
        return judge(plan, answer)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._kept is not None and not self._kept[0].at_eof():
            return self._kept
        self.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**16)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return reader, writer

    async def _leave(self, plan: Plan, reader: asyncio.StreamReader) -> Result:
        """Leave at a random moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(plan.after):
                while await reader.read(65536):
                    pass
        self.close(reset=plan.leave is Leave.RESET)
        return Result(LEFT, left_at=time.monotonic())

    async def _half(self, plan: Plan, data: bytes) -> Result:
        """Send half a request."""
        self.close()
        self._kept = reader, writer = await self._connected()
        writer.write(data[:-20])
        await asyncio.sleep(plan.after / 5)
        if plan.leave is Leave.HALF_BODY_RESET:
            self.close(reset=True)
            return Result(LEFT, left_at=time.monotonic())
        writer.write_eof()
        answer, _ = await _read(plan, reader)
        self.close()
        return judge(plan, answer)


class _Stale(EOFError):
    """The connection ended without a byte of an answer."""


def _end(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()
    else:
        writer.close()


async def _read(plan: Plan, reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    """Return the answer, and whether the connection may be kept."""
    try:
        top = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        raise (EOFError("in the head") if cut.partial else _Stale) from None
    except ConnectionError:
        raise _Stale from None
    first, *lines = top[:-4].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    slow = plan.leave is Leave.SLOW
    parts: list[bytes] = []
    ended = True
    try:
        if "chunked" in headers.get("transfer-encoding", ""):
            await _chunks(reader, parts, slow=slow)
        else:
            parts.append(await reader.readexactly(int(headers["content-length"])))
    except (asyncio.IncompleteReadError, ConnectionError) as cut:
        parts.append(getattr(cut, "partial", b""))
        ended = False
    number = int(first.split()[1])
    answer = Answer(plan.dialect, plan.streamed, plan.id, number, headers, b"".join(parts), ended)
    return answer, ended and headers.get("connection", "").lower() != "close"


async def _chunks(reader: asyncio.StreamReader, parts: list[bytes], *, slow: bool) -> None:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        left = size
        while left:
            if slow:
                await asyncio.sleep(0.01)
            parts.append(await reader.readexactly(min(left, 20_000)))
            left -= len(parts[-1])
        await reader.readexactly(2)
    await reader.readexactly(2)


def judge(plan: Plan, answer: Answer) -> Result:
    """Return a strict client's result of an answer; unreadable ones have the outcome "wrong"."""
    try:
        outcome = _outcome(plan, answer)
        return Result(outcome, "" if outcome in plan.expected else f"{answer.status} {answer.data[-500:]!r}")
    except Exception as wrong:  # any error means an unreadable answer
        return Result("wrong", f"{wrong!r}: {answer.status} {answer.data[-2000:]!r}")


def _outcome(plan: Plan, answer: Answer) -> str:
    if not answer.ended:
        return "cut"
    told = answer.told
    if answer.status != 200:
        for number in (400, 401, 404, 413, 429, 500, 502, 503, 504):
            if plan.dialect.status(number) == answer.status and status(number) in plan.expected:
                return status(number)
        return status(answer.status)
    if told.error:
        assert told.failed, "both an error and a finish"
        assert plan.said.text.startswith(told.text.strip()), f"the text is {told.text!r}"
        assert not told.whole_calls or plan.fault not in HALF_CALLS, f"a partial call looks complete: {told.calls}"
        return EVENT
    text = plan.said.words
    assert told.text.strip() == text.strip(), f"the text is {told.text[:300]!r}, not {text[:300]!r}"
    assert told.whole_calls == plan.calls, f"the calls are {told.calls}"
    assert told.finish == ("calls" if plan.calls else "stop"), f"the finish is {told.finish!r}"
    return OK


# Faults with which a call is never complete.
HALF_CALLS = frozenset(("stalls", "RST", "FIN", "a bad chunk", "no finish", "half an event", "an error event"))
