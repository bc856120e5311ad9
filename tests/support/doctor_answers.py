"""What a model server answers to the doctor, reply by reply; and an examination of it that needs no socket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.codec.json_text import JsonObject
from proxy.doctor import words
from proxy.doctor.ask import Asker
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Finding, Probe, findings_of
from proxy.doctor.syntaxes import SYNTAXES
from proxy.upstream.model_list import read_cards
from proxy.upstream.paths import CHAT_COMPLETIONS
from tests.support.scripted import DONE, ROLE, completion, delta, event
from tests.support.socketless import Answers, Made, Socketless

CALL = {syntax.id: syntax.call for syntax in SYNTAXES}
GOOD = json.dumps({"path": "doctor.txt", "content": "hello"})
_ASKED = {words.CALL: "call", words.TWO_CALLS: "two", words.THINK: "think", "Say yes.": "plain"}


def whole(text: str = "", *calls: str, tokens: int = 20, finish: str = "", thoughts: str = "") -> Made:
    """A whole answer with a text, and calls with these arguments."""
    message = {"role": "assistant", "content": text, "tool_calls": _entries(calls), "reasoning_content": thoughts}
    usage = {"prompt_tokens": 9, "completion_tokens": tokens}
    said = {**completion(message, finish or ("tool_calls" if calls else "stop")), "usage": usage}
    return 200, json.dumps(said).encode()


def streamed(text: str = "", *calls: str, tokens: int = 20, finish: str = "", more: Sequence[bytes] = (DONE,)) -> Made:
    """The same as a stream, with `more` at its end."""
    entries = [{"index": number, **entry} for number, entry in enumerate(_entries(calls))]
    said = [delta({"content": text})] if text else []
    said += [delta({"tool_calls": [entry]}) for entry in entries]
    said.append(delta({}, finish or ("tool_calls" if calls else "stop"), usage={"completion_tokens": tokens}))
    return 200, b"".join((ROLE, *said, *more))


def events(*deltas: Mapping[str, Any], finish: str = "tool_calls") -> Made:
    """A stream of the entries of calls as they stand here."""
    said = [delta({"tool_calls": [each]}) for each in deltas]
    return 200, b"".join((ROLE, *said, delta({}, finish or None), DONE))


def error(message: str, status: int = 400) -> Made:
    """A refusal in OpenAI's shape."""
    return status, json.dumps({"error": {"message": message}}).encode()


def broken(message: str) -> Made:
    """A stream that ends in an error."""
    return 200, ROLE + event({"error": {"message": message}})


def _entries(calls: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{number}", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
        for number, arguments in enumerate(calls)
    ]


def said(table: Mapping[str, Made], paths: Mapping[str, Made] | None = None) -> Answers:
    """Answers chat requests by what is asked and how, such as `call auto` or `two none stream`; what is in neither
    table is not found.
    """

    def answer(path: str, body: JsonObject) -> Made:
        if path != CHAT_COMPLETIONS:
            return (paths or {}).get(path, (404, b'{"detail": "Not Found"}'))
        return table.get(_key(body), (404, b'{"detail": "Not Found"}'))

    return answer


def _key(body: Mapping[str, Any]) -> str:
    asked = _ASKED.get(body["messages"][-1]["content"], "echo")
    parts = (asked, body.get("tool_choice", ""), "stream" if body.get("stream") else "")
    return " ".join(filter(None, parts))


def examination(answers: Answers, model: str = "m", kind: str = "vllm") -> Examination:
    """Of a server that answers so."""
    cards = read_cards(json.dumps({"data": [{"id": model, "owned_by": kind}]}).encode())
    return Examination(Asker(Socketless(answers), "", 60.0), model, cards, kind)


def found(probes: Sequence[Probe], name: str, at: Examination) -> list[Finding]:
    """What the probe of that name finds."""
    (probe,) = (each for each in probes if each.id == name)
    return [*findings_of(probe, at)]


def ids(probes: Sequence[Probe], name: str, at: Examination) -> list[str]:
    """The same, as ids."""
    return [finding.id for finding in found(probes, name, at)]
