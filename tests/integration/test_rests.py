"""A stream of which nothing can leave yet is looked at less often; what becomes of it is the same."""

from __future__ import annotations

import json

import pytest

from proxy.exchange import attempt
from tests.conftest import Inside
from tests.support.scripted import DONE, LAST, ROLE, SSE, WRITE_FILE, Gate, Upstream, chat, chunked, finish, text

CALL = json.dumps({"name": "write_file", "arguments": {"path": "a.py", "content": "print(1)\n" * 20}})


@pytest.mark.parametrize(
    "said",
    [
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"So.\n<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>\n{CALL}",
        "<tool_call> is how a call begins, and this is none.",
        "<tool_call>",
        "Nothing is held of this.",
    ],
)
def test_what_becomes_of_a_stream_is_the_same_however_long_it_rests(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    usual = sent(inside, said, None)
    # What follows the role, and what follows the beginning of a call, comes once it is known that it will rest.
    awaited: list[Gate] = []
    rests: list[float] = []

    def rest(quiet: float, *, spoke: bool) -> float:
        if spoke:
            return 0.0
        rests.append(quiet)
        if awaited:
            awaited.pop(0).open()
        return 0.003

    monkeypatch.setattr(attempt, "rest_after", rest)
    assert sent(inside, said, awaited) == usual
    assert len(rests) >= 1 + said.startswith("<")
    assert not awaited


def sent(inside: Inside, said: str, awaited: list[Gate] | None) -> tuple[str, list[tuple[str, str]], list[str]]:
    """The text, the calls and the finish that a client gets of a model that says this in small pieces."""
    first, *others = [chunked(text(said[at : at + 5])) for at in range(0, len(said), 5)]
    with Upstream() as server:
        gates = [server.gate(), server.gate()]
        closed = gates if said.startswith("<") else gates[:1]
        if awaited is None:
            closed = []
        else:
            awaited += closed
        for gate in gates[len(closed) :]:
            gate.open()
        server.play([SSE + chunked(ROLE), gates[0], first, gates[1], *others, chunked(finish()), chunked(DONE), LAST])
        asked = chat(stream=True, tools=[WRITE_FILE])
        answer = inside(server.url).post("/v1/chat/completions", json=asked).get_data()
    events = [json.loads(line[6:]) for line in answer.split(b"\n\n") if line.startswith(b"data: {")]
    choices = [choice for event in events for choice in event["choices"]]
    words = "".join(choice["delta"].get("content") or "" for choice in choices)
    calls = [call["function"] for choice in choices for call in choice["delta"].get("tool_calls") or ()]
    names = [call["name"] for call in calls if call.get("name")]
    arguments = "".join(call.get("arguments") or "" for call in calls)
    return words, [(name, arguments) for name in names], [c["finish_reason"] for c in choices if c["finish_reason"]]
