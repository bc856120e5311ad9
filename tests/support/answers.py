"""Conversion of whole answers to the client's dialect, whole or as a stream. A crash fails the test."""

from __future__ import annotations

from proxy.dialects.base import Writer
from proxy.engine.engine import Engine
from proxy.exchange.whole_answer import AnswerWriter, write_answer
from proxy.json import JsonObject


def answer_as_answer(body: bytes, answer: JsonObject, engine: Engine, writer: Writer) -> bytes:
    return write_answer(body, answer, engine, AnswerWriter(writer), _fail)


def answer_as_stream(answer: JsonObject, engine: Engine, writer: Writer) -> bytes:
    return write_answer(b"", answer, engine, writer, _fail)


def _fail(error: Exception) -> None:
    raise error
