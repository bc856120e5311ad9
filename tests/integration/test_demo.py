"""The demo and what it stands on: the scripted model, the real server, the replay, and the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.demo import table
from tests.demo.agents import OPENCLAW, QWEN_CODE
from tests.demo.cases import CASES, Case
from tests.demo.client import Call, Reply, ask, gather
from tests.real import llama, parrot, processes
from tests.real.replay import RECORDINGS, ReplayServer, events, recording, script_of
from tests.support.scripted import PATIENCE

SCRIPTS = llama.load_scripts()
FORMS = [case.script for case in CASES]


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    """A real llama.cpp server that says the project's scripts."""
    with llama.LlamaServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def replay() -> Iterator[str]:
    """A server that replays what the real one sent to the demo's agents."""
    with ReplayServer() as server:
        yield server.url


def post(url: str, body: dict[str, object]) -> requests.Response:
    """Send a chat request."""
    return requests.post(f"{url}/v1/chat/completions", json=body, timeout=PATIENCE)


def chat(script: str, *more: dict[str, object]) -> dict[str, object]:
    """Return a chat request that picks `script`."""
    return {"messages": [{"role": "user", "content": f"Go on. [[script:{script}]]"}, *more]}


def delta(call: bytes) -> bytes:
    """Return the line of an event with one delta of a tool call."""
    return b'data: {"choices":[{"delta":{"tool_calls":[%b]}}]}' % call


class TestParrot:
    """The model says its scripts and nothing else."""

    def test_every_turn_of_every_script_is_said(self) -> None:
        """The chain of tokens after a start token is the text of that turn."""
        words = parrot.vocabulary(SCRIPTS)
        said = {name: [words.said(name, turn) for turn in range(len(SCRIPTS[name]))] for name in SCRIPTS}
        assert said == SCRIPTS

    def test_no_token_is_there_twice(self) -> None:
        """A token that two scripts share, other than in a common tail, would lead one into the other."""
        tokens = parrot.vocabulary(SCRIPTS).tokens
        assert len(tokens) == len(set(tokens))

    def test_no_piece_ends_with_a_tag(self) -> None:
        """llama.cpp's grammar meets what follows `<tool_call>` in the token that ends it."""
        pieces, _ = parrot.cut(SCRIPTS["coder"][0], set(), {""})
        assert not [piece for piece in pieces[:-1] if piece.endswith(">")]

    def test_a_script_within_another_is_refused(self) -> None:
        """Where a text cannot be cut into tokens of its own, nothing is built."""
        with pytest.raises(ValueError, match="a piece of another"):
            parrot.cut("abc", {"abc"}, {""})

    def test_the_file_is_built_once(self, tmp_path: Path) -> None:
        """The same scripts find the model that is there; other scripts get their own."""
        first = llama.model({"one": ["Hello there."]}, tmp_path)
        written = first.stat().st_mtime_ns
        assert first.read_bytes()[:4] == b"GGUF"
        assert llama.model({"one": ["Hello there."]}, tmp_path) == first
        assert first.stat().st_mtime_ns == written
        assert llama.model({"one": ["Good bye."]}, tmp_path) != first


class TestRealServer:
    """llama.cpp's server, with the parrot in it."""

    def test_it_is_installed(self) -> None:
        """`make test` installs the extra `real`, so nothing here is ever skipped."""
        assert llama.available()

    @pytest.mark.parametrize("name", SCRIPTS)
    def test_it_says_the_script(self, real: str, name: str) -> None:
        """Without tools the server passes on the model's text as it is."""
        answer = post(real, chat(name)).json()
        assert answer["choices"][0]["message"]["content"] == SCRIPTS[name][0]

    def test_a_tool_result_brings_the_next_turn(self, real: str) -> None:
        """The results after the marker count the turns."""
        call = {"id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": "{}"}}
        history: list[dict[str, object]] = [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "written"},
        ]
        answer = post(real, chat("hermes", *history)).json()
        assert answer["choices"][0]["message"]["content"] == SCRIPTS["hermes"][1]

    @pytest.mark.parametrize("case", CASES, ids=FORMS)
    def test_the_recordings_are_what_it_sends(self, real: str, replay: str, case: Case) -> None:
        """But for ids and times, the replay tells an agent what the server tells it today."""
        now, recorded = ask(real, case.agent, case.script), ask(replay, case.agent, case.script)
        assert (now.text, now.finish) == (recorded.text, recorded.finish)
        assert [(call.name, call.arguments) for call in now.calls] == [
            (call.name, call.arguments) for call in recorded.calls
        ]
        assert now.error.partition(":")[0] == recorded.error.partition(":")[0]

    @pytest.mark.parametrize("script", [name for name in FORMS if name.endswith("_xml")])
    def test_xml_makes_it_fail(self, real: str, script: str) -> None:
        """The XML cases show the proxy's second request: the server answers the first with an error."""
        case = next(case for case in CASES if case.script == script)
        assert "empty grammar stack" in ask(real, case.agent, script).error


class TestReplay:
    """Recorded bytes over HTTP."""

    @pytest.mark.parametrize("case", CASES, ids=FORMS)
    @pytest.mark.parametrize("choice", ["auto", "none"])
    def test_the_bytes_are_the_recorded_ones(self, replay: str, case: Case, choice: str) -> None:
        """What arrives is the file of that script and tool choice, byte for byte."""
        suffix = "-none" if choice == "none" else ""
        path = RECORDINGS / "llama-server-agents" / f"{case.script}-chat-stream{suffix}-200.txt"
        answer = post(replay, {**case.agent.request(case.script), "tool_choice": choice})
        assert answer.content == path.read_bytes()
        assert answer.headers["content-type"] == "text/event-stream"

    @pytest.mark.parametrize("stream", [True, False])
    def test_the_status_is_the_recorded_one(self, stream: bool) -> None:
        """A refusal is replayed as a refusal, for a stream too."""
        with ReplayServer("vllm-0.32.0-none") as server:
            answer = post(server.url, {**chat("hermes"), "stream": stream})
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "BadRequestError"

    def test_without_a_recording_there_is_an_error(self, replay: str) -> None:
        """A script that was never recorded is named in a 404."""
        answer = post(replay, chat("nowhere"))
        assert answer.status_code == 404
        assert "nowhere" in answer.json()["error"]["message"]

    def test_health_and_models_on_one_connection(self, replay: str) -> None:
        """A connection serves many requests, and unknown paths do not end it."""
        with requests.Session() as session:
            assert session.get(f"{replay}/health", timeout=PATIENCE).json() == {"status": "ok"}
            assert session.get(f"{replay}/elsewhere", timeout=PATIENCE).status_code == 404
            models = session.get(f"{replay}/v1/models", timeout=PATIENCE).json()
        assert models["data"][0]["owned_by"] == "llamacpp"

    def test_the_last_marker_counts(self) -> None:
        """Later messages win, parts are read like text, messages without a marker do not matter."""
        parts = [{"type": "text", "text": "[[script:two]]"}]
        messages: list[dict[str, Any]] = [
            {"content": "[[script:one]]"},
            {"content": parts},
            {"content": None},
            {"content": "on"},
        ]
        assert script_of(messages) == "two"
        assert script_of(messages[2:]) == ""

    def test_an_ordinary_request_never_gets_a_recording_made_with_none(self) -> None:
        """And with `none` the ordinary one serves where nothing else was recorded."""
        folder = RECORDINGS / "llama-server-xllamacpp"
        ordinary = recording(folder, chat("fence"))
        assert ordinary is not None
        assert ordinary == recording(folder, {**chat("fence"), "tool_choice": "none"})

    def test_events_are_cut_without_loss(self) -> None:
        """Each chunk is one event with its blank line; a rest without one is sent too."""
        assert list(events(b"data: 1\n\ndata: 2\n\n\n")) == [b"data: 1\n\n", b"data: 2\n\n", b"\n"]


class TestTable:
    """What the demo expects and how it is shown."""

    def test_a_reply_is_gathered_from_its_chunks(self) -> None:
        """Text, the deltas of two calls, and the finish; nothing after `[DONE]` counts."""
        reply = gather(
            (
                b": alive",
                b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}',
                delta(b'{"index":0,"id":"a","function":{"name":"x"}}'),
                delta(b'{"index":0,"function":{"arguments":"{}"}}'),
                delta(b'{"index":1,"id":"b","function":{"name":"y"}}'),
                b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
                b'data: {"choices":[],"usage":{"total_tokens":3}}',
                b"data: [DONE]",
                b"data: nonsense",
            )
        )
        assert reply == Reply("Hi", [Call("a", "x", "{}"), Call("b", "y", "")], "tool_calls")

    @pytest.mark.parametrize(
        "reply",
        [
            Reply(calls=[Call("a", "exec", '{"command": "ls"}')], finish="stop"),
            Reply(calls=[Call("", "exec", '{"command": "ls"}')], finish="tool_calls"),
            Reply(calls=[Call("a", "exec", '{"command": "ls"')], finish="tool_calls"),
            Reply(calls=[Call("a", "exec", '{"command": "l"}')], finish="tool_calls"),
            Reply(calls=[Call("a", "bash", '{"command": "ls"}')], finish="tool_calls"),
            Reply(calls=[Call("a", "exec", '{"command": "ls"}')] * 2, finish="tool_calls"),
            Reply("</tools>", [Call("a", "exec", '{"command": "ls"}')], "tool_calls"),
            Reply(error="502"),
            Reply(),
        ],
    )
    def test_a_reply_with_a_fault_does_not_pass(self, reply: Reply) -> None:
        """Wrong finish, no id, broken or other arguments, another name, a call too many, markup, an error."""
        case = Case(OPENCLAW, "", "", (("exec", {"command": "ls"}),))
        assert not case.faults(Reply("\n", [Call("a", "exec", '{"command":"ls"}')], "tool_calls"))
        assert case.faults(reply)

    def test_plain_text_must_be_the_same(self) -> None:
        """In a reply without calls not one blank may change."""
        case = Case(QWEN_CODE, "", "", text="Just text.")
        assert not case.faults(Reply("Just text.", finish="stop"))
        assert case.faults(Reply("Just text. ", finish="stop"))

    def test_no_line_is_wider_than_a_terminal(self) -> None:
        """Long cells wrap within 100 columns."""
        cells = ("Qwen Code", "word " * 20, "x" * 100, "a\nb")
        lines = [*table.header(), table.rule(), *table.row(cells)]
        assert max(len(line) for line in lines) == 100


class TestProcesses:
    """Servers as child processes."""

    def test_one_that_ends_at_once_is_reported(self) -> None:
        """The error holds what it wrote."""
        command = [sys.executable, "-c", "raise SystemExit('no such model')"]
        with (
            pytest.raises(processes.NotStartedError, match="no such model"),
            processes.running(command, "http://127.0.0.1:1/health", timeout=PATIENCE),
        ):
            pass


class TestThroughTheProxy:
    """The whole demo, as `make demo` runs it."""

    @pytest.mark.slow
    @pytest.mark.parametrize("upstream", ["real", "replay"])
    def test_every_agent_gets_what_its_model_meant(self, upstream: str) -> None:
        """It ends well and in time, and names the server it stands on."""
        command = [sys.executable, "-m", "tests.demo", "--upstream", upstream]
        done = subprocess.run(
            command, cwd=processes.ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert upstream.upper() in done.stdout.partition("\n")[0]
