"""`make agents`, but for the agents themselves: rows, streams, checks, words, and the scripted server over HTTP."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from proxy.cli.agent_files import SUFFIX
from proxy.cli.agents import AGENTS as SETUPS
from proxy.cli.merging import expected, merged, read
from tests.agents import (
    chat_replies,
    checks,
    inside,
    install,
    known,
    messages_replies,
    namespace,
    responses_replies,
    scripted_server,
    server_said,
    shape,
    texts,
    thoughts,
    vllm_rows,
)
from tests.agents.__main__ import chosen, line, unexpected, verdict
from tests.agents.agent import CONTEXT, FINAL, MODEL, THOUGHT, WROTE, Agent, Call
from tests.agents.claude import CLAUDE
from tests.agents.codex import CODEX
from tests.agents.openclaw import OPENCLAW
from tests.agents.opencode import OPENCODE
from tests.agents.outcome import Run, cell
from tests.agents.pi import PI
from tests.agents.results import BEGIN, END, VLLM, Page, Results, with_table
from tests.agents.rows import BY_NAME, ROWS, Row
from tests.agents.scripted_server import FINALS, ScriptedServer
from tests.agents.tap import Tap, requests_in
from tests.real import llama
from tests.real.processes import ROOT
from tests.support import messages_checker
from tests.support.client_view import of_bytes
from tests.support.helpers import function, offered
from tests.support.messages_client import MODELS, cards
from tests.support.scripted import PATIENCE, Upstream, answer

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
BASH = function(
    "Bash", {"command": TEXT, "description": TEXT, "timeout": {"type": "number"}}, "command", additionalProperties=False
)
EXEC = function("exec_command", {"cmd": TEXT, "workdir": TEXT}, "cmd", additionalProperties=False)
OFFERS = {"claude": BASH, "codex": EXEC}
STREAMS = [row for row in ROWS if row.bodies and not row.agents]
LOST = {"empty", "cut_mid"}
OWN = ("messages", "responses")
FIRST: dict[str, Any] = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Go on."}]}
CALLED = {"id": "a", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}
SECOND: dict[str, Any] = {
    **FIRST,
    "messages": [
        *FIRST["messages"],
        {"role": "assistant", "content": None, "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ],
}
GOOD = Run(0, f"{FINAL}\n", "", (WROTE,), 2)


class TestRows:
    """What the servers of the rows send."""

    @pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
    @pytest.mark.parametrize("row", [row for row in STREAMS if row.name not in LOST], ids=lambda row: row.name)
    def test_the_engine_finds_in_every_stream_what_the_model_meant(self, row: Row, agent: Agent) -> None:
        """So that a cell that is not `ok` with the proxy shows the front's fault and not the row's."""
        got = of_bytes(row.bodies["chat"](agent), tools=offered(OFFERS[agent.name]))
        meant = [agent.call(), agent.call(second=True)][: row.calls]
        assert got.values == [(call.name, dict(call.values)) for call in meant]
        assert (got.finish, got.error) == ("tool_calls", "")

    def test_of_the_others_no_call_is_left_that_could_be_run(self) -> None:
        """Nothing came, or half a call, which ends in an error (C4)."""
        empty = of_bytes(chat_replies.empty(CLAUDE), tools=offered(BASH))
        assert (empty.calls, empty.text, empty.finish, empty.error) == ([], "", "stop", "")
        cut = of_bytes(chat_replies.cut_mid(CLAUDE), tools=offered(BASH))
        assert (cut.error, cut.finish) == ("UpstreamBroken", None)

    @pytest.mark.parametrize(
        ("row", "dialect"), [(row, dialect) for row in STREAMS for dialect in OWN if dialect in row.bodies]
    )
    def test_a_stream_of_an_agents_own_dialect_has_its_own_fault_only(self, row: Row, dialect: str) -> None:
        """Every event says its type twice, and no two rows send the same."""
        body = row.bodies[dialect](CLAUDE)
        for event in body.decode().split("\n\n")[:-1]:
            name, data = event.split("\n")
            assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"
        same = [each for each in STREAMS if dialect in each.bodies and each.bodies[dialect](CLAUDE) == body]
        assert same == [row]

    def test_no_two_rows_send_the_same_chat_stream(self) -> None:
        """A row that is another by mistake would say nothing."""
        streams = [row for row in ROWS if row.bodies and row.name != "discovered"]
        assert len({row.bodies["chat"](CLAUDE) for row in streams}) == len(streams)
        assert len(BY_NAME) == len(ROWS)

    def test_every_real_row_has_its_script(self) -> None:
        """And that ends with the words that the harness waits for."""
        scripts = llama.load_scripts()
        for row in ROWS:
            if row.script:
                names = [agent.script(row.script) for agent in known.AGENTS.values() if row.is_for(agent)]
                assert names and all(scripts[name][1].endswith(FINAL) for name in names)

    def test_the_pieces_are_the_text(self) -> None:
        """However many there are."""
        assert ["".join(texts.in_pieces("printf ü", count)) for count in (1, 3, 8)] == ["printf ü"] * 3


class TestScriptedServer:
    """The server of a row, as a client sees it."""

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages?beta=true", "/v1/responses"])
    def test_the_first_turn_is_the_rows_and_the_second_the_last_words(self, path: str) -> None:
        """In all dialects, on one connection."""
        dialect = scripted_server.DIALECTS[path.partition("?")[0]]
        told = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]}
        output = {"type": "function_call_output", "call_id": "a", "output": "done"}
        second = {
            "chat": SECOND,
            "messages": {**FIRST, "messages": [*FIRST["messages"], told]},
            "responses": {"model": MODEL, "stream": True, "input": [output]},
        }[dialect]
        with ScriptedServer(BY_NAME["no_id"], CLAUDE) as server, requests.Session() as session:
            first = session.post(server.url + path, json=FIRST, timeout=PATIENCE)
            last = session.post(server.url + path, json=second, timeout=PATIENCE)
        assert first.content == BY_NAME["no_id"].bodies[dialect](CLAUDE)
        assert first.headers["content-type"] == "text/event-stream"
        assert last.content == FINALS[dialect](CLAUDE)

    def test_a_call_that_the_agent_did_not_know_is_no_success(self) -> None:
        """Codex runs the others and goes on: the last words are not said then."""
        told = {"role": "tool", "tool_call_id": "a", "content": f"{scripted_server.UNKNOWN}: close_agent"}
        with ScriptedServer(BY_NAME["ok"], CODEX) as server:
            body = {**SECOND, "messages": [*SECOND["messages"][:-1], told]}
            answer = requests.post(f"{server.url}/v1/chat/completions", json=body, timeout=PATIENCE)
        assert answer.content == chat_replies.text(scripted_server.GAVE_UP)

    def test_a_row_can_refuse(self) -> None:
        """With the status and the words of a real server."""
        with ScriptedServer(BY_NAME["context_overflow"], CODEX) as server:
            answer = requests.post(f"{server.url}/v1/chat/completions", json=FIRST, timeout=PATIENCE)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == chat_replies.OVERFLOW

    def test_a_reply_that_is_cut_ends_without_its_last_chunk(self) -> None:
        """As it is when a server dies: the client sees that something is missing."""
        with (
            ScriptedServer(BY_NAME["cut_mid"], CLAUDE) as server,
            pytest.raises(requests.exceptions.ChunkedEncodingError),
        ):
            requests.post(f"{server.url}/v1/chat/completions", json=FIRST, timeout=PATIENCE)

    @pytest.mark.parametrize(
        ("path", "change", "status"),
        [
            ("/v1/chat/completions", {"model": "other"}, 404),
            ("/v1/chat/completions", {"messages": [{"role": "developer", "content": "x"}]}, 400),
            ("/v1/messages/count_tokens", {}, 404),
        ],
    )
    def test_what_vllm_would_refuse_is_refused(self, path: str, change: dict[str, Any], status: int) -> None:
        """Another model, another role, a path that is not there."""
        with ScriptedServer(BY_NAME["ok"], CLAUDE) as server:
            answer = requests.post(server.url + path, json={**FIRST, **change}, timeout=PATIENCE)
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == status

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
    @pytest.mark.parametrize("row", ["index_null", "no_usage", "tools_text"])
    def test_without_a_stream_only_the_text_is_bad(self, row: str, path: str) -> None:
        """Agents ask so again when a stream failed: a server whose streaming is broken answers well then."""
        if not BY_NAME[row].says("chat" if "chat" in path else "messages"):
            path = "/v1/chat/completions"
        with ScriptedServer(BY_NAME[row], CLAUDE) as server:
            answer = requests.post(server.url + path, json={**FIRST, "stream": False}, timeout=PATIENCE).json()
        told = answer["choices"][0]["message"] if "choices" in answer else answer["content"][0]
        assert WROTE in json.dumps(told)
        assert ("<tools>" in json.dumps(told)) is (row == "tools_text")
        if "content" in answer:
            messages_checker.check_message(answer)

    def test_a_whole_answer_can_be_cut_too(self) -> None:
        """The length says more than what comes."""
        with (
            ScriptedServer(BY_NAME["cut_mid"], CLAUDE) as server,
            pytest.raises((requests.exceptions.ChunkedEncodingError, requests.exceptions.ConnectionError)),
        ):
            requests.post(f"{server.url}/v1/messages", json={**FIRST, "stream": False}, timeout=PATIENCE)

    def test_it_says_which_server_it_plays(self) -> None:
        """A proxy asks for the models, and for a sign of life."""
        with ScriptedServer(BY_NAME["ok"], CLAUDE) as server:
            (card,) = requests.get(f"{server.url}/v1/models", timeout=PATIENCE).json()["data"]
            alive = requests.get(f"{server.url}/health", timeout=PATIENCE).status_code
            head = requests.head(server.url, timeout=PATIENCE).status_code
        assert (card["id"], card["owned_by"], alive, head) == (MODEL, "vllm", 200, 405)

    def test_a_fault_that_a_dialect_cannot_say_is_not_served_there(self) -> None:
        """Chunks without an index exist in chat completions alone."""
        row = BY_NAME["index_null"]
        assert (row.says("chat"), row.says("messages")) == (True, False)
        with ScriptedServer(row, CLAUDE) as server:
            assert requests.post(f"{server.url}/v1/messages", json=FIRST, timeout=PATIENCE).status_code == 404


class TestChecks:
    """Translated requests, as a strict server reads them."""

    def test_a_good_request_has_no_fault(self) -> None:
        """Text, parts, a call, its result, a tool."""
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
        parts = {"role": "user", "content": [{"type": "text", "text": "See."}, image]}
        assert [*checks.faults({**SECOND, "messages": [*SECOND["messages"], parts], "tools": [BASH]})] == []

    @pytest.mark.parametrize(
        ("message", "said"),
        [
            ({"role": "developer", "content": "x"}, "no such role"),
            ({"role": "user"}, "no content"),
            ({"role": "user", "content": [{"type": "tool_result"}]}, "no part of chat"),
            ({"role": "user", "content": 7}, "neither text nor parts"),
            ({"role": "tool", "tool_call_id": "b", "content": "x"}, "the result of no call"),
            ({"role": "assistant", "tool_calls": [{**CALLED, "id": ""}]}, "an id"),
            (
                {"role": "assistant", "tool_calls": [{**CALLED, "function": {"name": "Bash", "arguments": {}}}]},
                "no JSON object",
            ),
        ],
    )
    def test_each_fault_is_said(self, message: dict[str, Any], said: str) -> None:
        """With its place."""
        (found,) = checks.faults({**FIRST, "messages": [message]})
        assert said in found and found.startswith("messages.0")

    def test_tools_and_options_are_looked_at_too(self) -> None:
        """A tool as Messages has it is none of chat."""
        assert [*checks.faults({**FIRST, "tools": [{"name": "Bash", "input_schema": {}}]})]
        assert [*checks.faults({**FIRST, "stream": False, "stream_options": {}})] == ["stream_options without a stream"]

    def test_the_prefix_is_kept_only_if_messages_and_tools_stay(self) -> None:
        """C8: also the order of keys counts, for it is in the bytes."""
        assert checks.keeps_the_prefix([FIRST, SECOND]) and checks.keeps_the_prefix([SECOND, FIRST, FIRST])
        turned = {**SECOND, "messages": [{"content": "Go on.", "role": "user"}, *SECOND["messages"][1:]]}
        assert not checks.keeps_the_prefix([FIRST, turned])
        assert not checks.keeps_the_prefix([FIRST, {**SECOND, "tools": [BASH]}])

    def test_a_prefix_that_the_agent_itself_gives_up_is_not_lost_here(self) -> None:
        """OpenClaw moves a message to the end of each request."""
        turned = {**SECOND, "messages": [{"content": "Go on.", "role": "user"}, *SECOND["messages"][1:]]}
        assert checks.costs_no_prefix([FIRST, SECOND], [])
        assert checks.costs_no_prefix([FIRST, turned], [FIRST, turned])
        assert not checks.costs_no_prefix([FIRST, turned], [FIRST, SECOND])
        assert not checks.costs_no_prefix([FIRST, turned], [])

    def test_a_request_that_names_the_session_is_none_of_the_task(self) -> None:
        """It offers no tools; where none does all are."""
        offers = {**FIRST, "tools": [BASH]}
        assert checks.of_the_task([FIRST, offers]) == [offers]
        assert checks.of_the_task([FIRST, SECOND]) == [FIRST, SECOND]


    def test_a_run_is_right_if_the_calls_result_went_up(self) -> None:
        """In requests that a strict server takes."""
        wrote = {"name": "Bash", "arguments": json.dumps({"command": f"printf {WROTE} > proof.txt"})}
        call = {**CALLED, "function": wrote}
        _, said, result = SECOND["messages"]
        done = {**SECOND, "messages": [*FIRST["messages"], {**said, "tool_calls": [call]}, result]}
        assert [*checks.of_the_run([FIRST, done], 1)] == []
        assert [*checks.of_the_run([FIRST, done], 2)] == ["of 2 calls that write a proof the results of 1 went up"]
        lost = {**done, "messages": done["messages"][:-1]}
        for bodies in ([], [FIRST], [SECOND], [lost]):
            assert [*checks.of_the_run(bodies, 1)] == ["of 1 calls that write a proof the results of 0 went up"]
        bad = {**done, "messages": [*done["messages"], {"role": "developer", "content": "x"}]}
        assert [*checks.of_the_run([FIRST, bad], 1)] == ["request 1: messages.3: no such role: 'developer'"]


    def test_its_result_is_found_in_each_dialect(self) -> None:
        """What an agent sends without a proxy is judged by that alone: its dialect's rules are not chat's."""
        values = {"command": f"printf {WROTE} > proof.txt"}
        used, result = {"type": "tool_use", "id": "a", "input": values}, {"type": "tool_result", "tool_use_id": "a"}
        turns = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": [used]}]
        messages = {"messages": [*turns, {"role": "user", "content": [result]}]}
        assert [*checks.of_the_run([messages], 1, "messages")] == []
        assert len([*checks.of_the_run([{"messages": turns}], 1, "messages")]) == 1
        for kind, key in (("function_call", "arguments"), ("custom_tool_call", "input")):
            called = {"type": kind, "call_id": "a", "id": "x", key: json.dumps(values)}
            done = {"type": f"{kind}_output", "call_id": "a", "output": "done"}
            assert [*checks.of_the_run([{"input": [called, done]}], 1, "responses")] == []
            assert len([*checks.of_the_run([{"input": [called]}], 1, "responses")]) == 1
            assert len([*checks.of_the_run([{"input": [called, {**done, "call_id": "b"}]}], 1, "responses")]) == 1
        assert len([*checks.of_the_run([{"input": "Go on."}], 1, "responses")]) == 1


REPLIES = {"chat": chat_replies, "messages": messages_replies, "responses": responses_replies}


class TestServerSaid:
    """What a real server said, beside what its model wrote."""

    @pytest.mark.parametrize("dialect", REPLIES)
    def test_a_stream_is_read_in_each_dialect(self, dialect: str) -> None:
        """Its text, and the calls that the server found itself."""
        replies = REPLIES[dialect]
        written = texts.tools_text(PI)
        assert server_said.said(shape.Answer(200, "text/event-stream", replies.text(written))) == (written, [])
        found = server_said.said(shape.Answer(200, "text/event-stream", replies.two_ok(PI)))
        calls = [PI.call(), PI.call(second=True)]
        assert [(name, json.loads(arguments)) for name, arguments in found.calls] == [
            (call.name, dict(call.values)) for call in calls
        ]

    @pytest.mark.parametrize("dialect", REPLIES)
    def test_so_is_a_whole_answer(self, dialect: str) -> None:
        for words, call in (("Hi.", None), ("", PI.call())):
            found = server_said.said(shape.Answer(200, "application/json", REPLIES[dialect].whole(words, call)))
            assert found.text == words
            assert [name for name, _ in found.calls] == ([] if call is None else [call.name])
        assert server_said.said(shape.Answer(502, "text/html", b"<html>")) == ("", [])

    @pytest.mark.parametrize(
        ("reply", "written", "right"),
        [
            (chat_replies.text(texts.tool_call_text(PI)), texts.tool_call_text(PI), True),
            (chat_replies.ok(PI), texts.tool_call_text(PI), True),
            (chat_replies.ok(PI), texts.tool_call_text(PI).removeprefix(texts.LEAD), False),
            (chat_replies.ok(PI), texts.coder_xml(PI), False),
            (chat_replies.two_ok(PI), texts.tool_call_text(PI), False),
            (chat_replies.args_trunc(PI), texts.tool_call_text(PI), False),
            (chat_replies.ok(CLAUDE), texts.tool_call_text(PI), False),
            (chat_replies.text(texts.tools_text(PI)), texts.tool_call_text(PI), False),
        ],
        ids=["its text", "its call", "no lead", "no JSON", "two calls", "half a call", "another call", "another text"],
    )
    def test_it_is_what_the_model_wrote_or_what_the_server_reads_in_it(
        self, tmp_path: Path, reply: bytes, written: str, right: bool
    ) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(reply)
        (tmp_path / "server-0-sent.txt").write_bytes(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n")
        (tmp_path / "server-0-got.txt").write_bytes(head + reply)
        found = [*server_said.faults(tmp_path, written)]
        assert (found == []) is right
        assert right or "the model server never sent" in found[0]

    def test_every_real_row_says_what_its_model_writes(self) -> None:
        """In the words of its script."""
        scripts = llama.load_scripts()
        for row in ROWS:
            if row.script:
                assert row.written is not None
                for agent in known.AGENTS.values():
                    if row.is_for(agent):
                        assert row.written(agent) == scripts[agent.script(row.script)][0]


class TestTap:
    """What passes between a client and a server."""

    def test_what_passes_is_what_was_sent_and_it_is_kept(self, tmp_path: Path) -> None:
        """A stream arrives unchanged; only requests that ask the model something are counted."""
        with ScriptedServer(BY_NAME["ok"], CLAUDE) as server, Tap(server.url) as tap, requests.Session() as session:
            session.get(f"{tap.url}/v1/models", timeout=PATIENCE)
            answer = session.post(f"{tap.url}/v1/messages?beta=true", json=FIRST, timeout=PATIENCE)
            session.post(f"{tap.url}/v1/messages/count_tokens", json=FIRST, timeout=PATIENCE)
            assert tap.bodies() == [FIRST]
        assert answer.content == BY_NAME["ok"].bodies["messages"](CLAUDE)
        tap.write(tmp_path, "server")
        assert b"GET /v1/models" in (tmp_path / "server-0-sent.txt").read_bytes()
        assert b"message_stop" in (tmp_path / "server-0-got.txt").read_bytes()

    def test_a_cut_goes_through(self) -> None:
        """The client of the tap sees the same end as without it."""
        with (
            ScriptedServer(BY_NAME["cut_mid"], CLAUDE) as server,
            Tap(server.url) as tap,
            pytest.raises(requests.exceptions.ChunkedEncodingError),
        ):
            requests.post(f"{tap.url}/v1/messages", json=FIRST, timeout=PATIENCE)

    def test_requests_are_told_apart_by_their_lengths(self) -> None:
        """Whatever stands in a body; one that is not whole yet has what there is."""
        body = b'{"a": "POST /v1/messages HTTP/1.1"}'
        one = b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        found = [*requests_in(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + one + one[:-2])]
        assert found == [("HEAD", "/", b""), ("POST", "/v1/messages", body), ("POST", "/v1/messages", body[:-2])]


class TestThoughts:
    """A thought of the model's, on its way to the agent and back."""

    def kept(self, folder: Path, *deltas: dict[str, Any]) -> Path:
        """The folder of a run in which the agent got these deltas."""
        data = "".join(f"data: {json.dumps({'choices': [{'delta': each}]})}\n\n" for each in deltas).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(data)
        (folder / "agent-0-sent.txt").write_bytes(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n")
        (folder / "agent-0-got.txt").write_bytes(head + data)
        return folder

    @pytest.mark.parametrize(
        ("deltas", "prompt", "count"),
        [
            ([{"reasoning_content": THOUGHT}, {"content": "Hi."}], thoughts.PLACE, 0),
            ([{"reasoning_content": THOUGHT[:3]}, {"reasoning_content": THOUGHT[3:]}], thoughts.PLACE, 0),
            ([{"reasoning_content": THOUGHT}], THOUGHT, 1),
            ([{"content": f"<think>{THOUGHT}</think>"}], thoughts.PLACE, 2),
            ([{"reasoning_content": f"{THOUGHT}\n</think>"}], "", 2),
            ([{"content": "Hi."}], thoughts.PLACE, 1),
        ],
    )
    def test_what_became_of_it_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deltas: list[Any], prompt: str, count: int
    ) -> None:
        """It must come as a thought and not as text, and stand in its place in the next prompt."""
        monkeypatch.setattr(thoughts, "rendered", lambda body, server: prompt)
        found = [*thoughts.faults(self.kept(tmp_path, *deltas), [FIRST, SECOND], "")]
        assert len(found) == count

    def test_blocks_of_messages_are_read_too(self) -> None:
        """They are deltas as well."""
        data = b'data: {"delta": {"thinking": "a"}}\n\ndata: {"delta": {"text": "b"}}\n\ndata: [DONE]\n\n'
        assert thoughts.said(thoughts.events(data)) == ("a", "b")


class TestShape:
    """What an agent got, by the rules of its dialect."""

    def kept(self, folder: Path, row: str, **change: Any) -> list[str]:
        """The faults of what the row's server sends to an agent directly."""
        folder.mkdir(exist_ok=True)
        with ScriptedServer(BY_NAME[row], CLAUDE) as server, Tap(server.url) as tap, requests.Session() as session:
            session.head(tap.url, timeout=PATIENCE)
            for _ in range(2):
                with contextlib.suppress(requests.RequestException):
                    session.post(f"{tap.url}/v1/messages?beta=true", json={**FIRST, **change}, timeout=PATIENCE)
        tap.write(folder, "agent")
        return [*shape.faults(folder, "messages")]

    @pytest.mark.parametrize("row", ["ok", "two_ok", "tools_text", "reason_call", "empty"])
    def test_a_good_stream_has_no_fault(self, tmp_path: Path, row: str) -> None:
        """Nor have two of them behind an answer without a body, on one connection."""
        assert self.kept(tmp_path, row) == []

    @pytest.mark.parametrize("row", ["no_id", "no_index", "no_usage", "args_trunc", "no_done", "finish_missing"])
    def test_a_bad_one_is_found(self, tmp_path: Path, row: str) -> None:
        """Each time, with the path."""
        found = self.kept(tmp_path, row)
        assert len(found) == 2 and all(each.startswith("POST /v1/messages: ") for each in found)

    def test_whole_answers_and_errors_are_read_too(self, tmp_path: Path) -> None:
        """A good one, one that is cut, and an error that is none of the API's."""
        assert self.kept(tmp_path / "good", "ok", stream=False) == []
        assert self.kept(tmp_path / "cut", "cut_mid", stream=False)
        assert self.kept(tmp_path / "error", "ok", model="other")

    def test_an_agent_may_close_behind_the_last_event(self, tmp_path: Path) -> None:
        """Codex does, before the chunk that ends the body; in the middle of a stream it is a fault."""
        self.kept(tmp_path, "ok")
        request, answer = next(each for each in shape.exchanges(tmp_path) if each[0].method == "POST")
        rules, half = shape.RULES["messages"], answer.body[: len(answer.body) // 2]
        assert shape.fault_of(rules, request, answer._replace(whole=False)) == ""
        assert shape.fault_of(rules, request, answer._replace(whole=False, body=half)) != ""

    def test_a_connection_that_ended_first_has_no_answer(self) -> None:
        """What is not there breaks no rule."""
        assert [*shape.answers_in(b"", ["POST"])] == []


class TestWords:
    """What a run is called."""

    @pytest.mark.parametrize(
        ("run", "expected"),
        [
            (GOOD, "ok/2"),
            (Run(0, FINAL, "", (WROTE, WROTE), 3), "ok/3"),
            (Run(0, FINAL, "", (WROTE, None), 2), "lost-call/2"),
            (Run(0, FINAL, "", (WROTE,), 2, prefix=False), "prefix/2"),
            (Run(0, "Done.", "", (WROTE,), 2), "ran,no-final/2"),
            (Run(0, f"<tools>printf {WROTE}</tools>", "", (None,), 1), "TEXT/1"),
            (Run(0, "", "", (None,), 1), "SILENT/1"),
            (Run(0, FINAL, "", (None,), 2), "toolerr/2"),
            (Run(0, FINAL, "", ("made-by",), 2), "wrong-file/2"),
            (Run(1, "API Error", "", (None,), 1), "CRASH/1"),
            (Run(1, "API Error", "", (WROTE,), 1), "CRASH,ran/1"),
            (Run(None, "", "", (None,), 8), "HANG/8"),
            (Run(0, FINAL, "", (WROTE,), 2, shape="event 3: two blocks are open"), "shape/2"),
            (Run(0, FINAL, "", (WROTE,), 2, thought="the agent got no thought"), "thought/2"),
            (Run(0, FINAL, "", (WROTE,), 2, upstream="request 0: no content"), "upstream/2"),
        ],
    )
    def test_each_has_its_word(self, run: Run, expected: str) -> None:
        """And the number of requests."""
        assert cell(run) == expected

    def test_a_cell_that_is_not_as_expected_is_told(self) -> None:
        """With what the agent printed, and how to look at it."""
        assert unexpected(CLAUDE, BY_NAME["ok"], GOOD) == ""
        told = unexpected(CLAUDE, BY_NAME["empty"], Run(1, "API Error: 502", "", (None,), 1))
        assert "CRASH/1, but SILENT/4" in told and "API Error: 502" in told and "--row 'empty'" in told
        again = Run(1, "", "", (None,), 7)
        assert unexpected(OPENCLAW, BY_NAME["cut_mid"], again) == ""
        assert "CRASH/7, but CRASH/1" in unexpected(PI, BY_NAME["cut_mid"], again)
        failed = Run(1, "stream disconnected", "", (None,), 1)
        assert "it does not say: ran out of room" in unexpected(CODEX, BY_NAME["context_overflow"], failed)
        assert (verdict([]), verdict([told])[:9]) == ("OK: as expected.", "FAILED: 1")

    def test_a_line_has_its_columns(self) -> None:
        """Names of rows leave a blank before the first cell."""
        assert max(len(row.name) for row in ROWS) < 18
        assert line(("ok", "TEXT/1", "ok/2")) == "ok                TEXT/1        ok/2"


class TestResults:
    """What is kept of runs, and the table in the docs."""

    def test_a_table_has_what_was_kept_of_each_version(self, tmp_path: Path) -> None:
        """From one call to the next."""
        path = tmp_path / "agents/results.json"
        Results(path).keep(PI, BY_NAME["ok"], "with", "ok/2")
        Results(path).keep(PI, BY_NAME["ok"], "without", "TEXT/1")
        Results(path).keep(OPENCODE, BY_NAME["empty"], "with", "SILENT/3")
        first, _, *lines = Results(path).table([PI, CLAUDE, OPENCODE], [BY_NAME["empty"], BY_NAME["ok"]]).splitlines()
        assert first.startswith(f"|  | pi {PI.version} (20") and f"| OpenCode {OPENCODE.version} (20" in first
        assert lines == ["| `empty` | ? | ? > SILENT/3 |", "| `ok` | TEXT/1 > ok/2 | ? |"]
        Results(path).keep(OPENCODE, BY_NAME["llama.cpp think"], "with", "ok/3")
        assert "| `llama.cpp think` |  | ? > ok/3 |" in Results(path).table([PI, OPENCODE], ROWS).splitlines()
        other = replace(PI, setup=replace(PI.setup, version="9"))
        Results(path).keep(other, BY_NAME["empty"], "with", "ok/2")
        assert "TEXT/1" not in Results(path).table([other], ROWS)

    def test_what_the_page_shows_of_the_same_version_and_is_not_kept_stays(self, tmp_path: Path) -> None:
        """A fresh clone runs one agent, or one side of a row, and loses nothing of the others."""
        rows = [BY_NAME[name] for name in ("llama.cpp think", "empty", "ok")]
        old = (
            f"|  | pi {PI.version} (2026-01-02) | OpenCode 0.1 (2026-01-02) |"
            f" Claude Code {CLAUDE.version} (2026-01-02) |\n"
            "| --- | --- | --- | --- |\n"
            "| `llama.cpp think` |  | ok/3 > ok/3 | ok/2 > ok/2 |\n"
            "| `empty` | SILENT/1 > ? | ? | CRASH/1 > SILENT/4 |\n"
            "| `ok` | ok/2 > CRASH/1 | ok/3 > ok/3 | - > ok/2 |"
        )
        page = Page(f"a\n{BEGIN}\n\n{old}\n\n{END}\nb\n", BEGIN)
        results = Results(tmp_path / "results.json")
        head, _, *lines = results.table([PI, OPENCODE, CLAUDE], rows, page=page).splitlines()
        assert head == f"|  | pi {PI.version} (2026-01-02) | Claude Code {CLAUDE.version} (2026-01-02) |"
        assert lines[1:] == ["| `empty` | SILENT/1 > ? | CRASH/1 > SILENT/4 |", "| `ok` | ok/2 > CRASH/1 | - > ok/2 |"]
        results.keep(PI, BY_NAME["ok"], "with", "ok/2")
        head, _, *lines = results.table([PI, OPENCODE, CLAUDE], rows, page=page).splitlines()
        assert f"pi {PI.version} (2026-01-02)" not in head and "OpenCode" not in head, "its day is that of the last run"
        assert lines == [
            "| `llama.cpp think` |  | ok/2 > ok/2 |",
            "| `empty` | SILENT/1 > ? | CRASH/1 > SILENT/4 |",
            "| `ok` | ok/2 > ok/2 | - > ok/2 |",
        ]
        # A table of another server, or of another version of it, is another one.
        assert "Claude" not in results.table([PI, CLAUDE], rows, "vLLM 9", page)
        assert "Claude" not in results.table([PI, CLAUDE], rows, page=Page(page.text, VLLM))

    def test_the_table_of_the_docs_stays_as_it_is_where_nothing_was_run(self, tmp_path: Path) -> None:
        """Both of them."""
        page = Path("docs/agents.md").read_text(encoding="utf-8")
        nothing = Results(tmp_path / "results.json")
        agents, title = known.AGENTS.values(), re.findall(r"^\| (vLLM [\d.]+) \|", page, re.MULTILINE)[0]
        assert with_table(page, nothing.table(agents, ROWS, page=Page(page, BEGIN))) == page
        made = nothing.table(agents, vllm_rows.ROWS, title, Page(page, VLLM))
        assert with_table(page, made, VLLM) == page

    @pytest.mark.parametrize("target", ["agents", "vllm"])
    @pytest.mark.parametrize("chosen", [{}, {"AGENTS": "pi"}, {"ROWS": "ok"}], ids=["all", "an agent", "a row"])
    def test_make_writes_the_page_where_all_are_run(self, target: str, chosen: dict[str, str]) -> None:
        environment = {name: text for name, text in os.environ.items() if name not in ("AGENTS", "ROWS", "MAKEFLAGS")}
        done = subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            env={**environment, **chosen},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        table = re.compile(r"-m tests\.(agents(?!\.)|vllm --agents)")
        (line,) = [line for line in done.stdout.splitlines() if table.search(line)]
        assert line.rstrip().endswith("--table docs/agents.md") is not bool(chosen)

    def test_it_comes_between_its_marks(self) -> None:
        """And nothing else of the page changes."""
        page = f"a\n{BEGIN}\nold\n{END}\nb\n"
        assert with_table(page, "| new |") == f"a\n{BEGIN}\n\n| new |\n\n{END}\nb\n"
        with pytest.raises(ValueError, match="substring"):
            with_table("a", "| new |")

    def test_the_page_has_its_marks(self) -> None:
        """So that the command can write it."""
        page = Path("docs/agents.md").read_text(encoding="utf-8")
        assert page.count(BEGIN) == page.partition(BEGIN)[2].partition("\n## ")[0].count(END) == 1


class TestChoice:
    """AGENTS and ROWS in the environment."""

    def test_names_are_listed_with_commas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Blanks do not matter; one that is not known is an error."""
        parser = argparse.ArgumentParser()
        monkeypatch.setenv("AGENTS", "pi, claude,")
        assert chosen(parser, "AGENTS", known.AGENTS) == ["pi", "claude"]
        monkeypatch.delenv("AGENTS")
        assert chosen(parser, "AGENTS", known.AGENTS) == []
        monkeypatch.setenv("ROWS", "ok,emacs")
        with pytest.raises(SystemExit):
            chosen(parser, "ROWS", BY_NAME)


def settings(home: Path) -> dict[str, str]:
    """The environment of a run in this home, where Cline's own program would be on PATH."""
    return {"HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def settled(agent: Agent, server: inside.Server, home: Path) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """What an agent is started with after it was told of a server: its command, the variables that this adds, and what
    is in its home then, by the place, with the home's own path left out.
    """
    program = home / "bin/cline"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\nmkdir -p "$HOME/.cline/data/settings" && echo "$*" > "$HOME/.cline/data/settings/providers.json"\n'
    )
    program.chmod(0o755)
    before = settings(home)
    environment = dict(before)
    command = inside.prepare(agent, BY_NAME["ok"], server, environment)
    # The records of what was written, and the copies of what was there before, are not for the agent.
    kept = [
        path
        for path in home.rglob("*")
        if path.is_file() and not path.match("setup-*.json") and not path.name.endswith(SUFFIX)
    ]
    files = {str(path.relative_to(home)): path.read_text().replace(str(home), "HOME") for path in kept}
    added = {name: value.replace(str(home), "HOME") for name, value in environment.items() if name not in before}
    return command, added, files


class TestAgent:
    """The agents, as far as they can be looked at without them."""

    @pytest.mark.slow
    @pytest.mark.parametrize("agent", known.AGENTS.values(), ids=known.AGENTS)
    def test_what_it_is_told_is_what_setup_says(self, agent: Agent, tmp_path: Path) -> None:
        """A server without a proxy is told of in the very files and variables that the command makes for one."""
        with Upstream() as server:
            server.paths = {
                **{"/": [answer({"service": "vllm-tool-proxy"})], "/_ready": [answer({})]},
                MODELS: cards(MODEL, max_model_len=CONTEXT),
            }
            command, variables, files = settled(agent, inside.Server(server.url, through=True), tmp_path / "a")
            same = settled(agent, inside.Server(server.url, through=False), tmp_path / "b")
            printed = subprocess.run(
                inside.vllm_tool_proxy("setup", agent, server.url),
                env=settings(tmp_path / "b"),
                capture_output=True,
                text=True,
                check=True,
                timeout=PATIENCE,
            ).stdout
        assert (command, variables, files) == same
        told = [*files.values(), *variables.values()]
        assert any(server.url in each for each in told) and any(MODEL in each for each in [*told, *command])
        # What the command prints is no third thing.
        assert [*variables] == [name for name in variables if f"\nexport {name}=" in printed]
        assert shlex.join(command) in printed.splitlines()

    @pytest.mark.parametrize("agent", known.AGENTS.values(), ids=known.AGENTS)
    def test_its_words_programs_and_variables_are_filled_in(self, agent: Agent) -> None:
        told = {"home": "/h", "project": "/p", "prompt": "Do it.", "patience": "60"}
        words = agent.words(("--more",), **told)
        assert "Do it." in words and words[1] == "--more"
        assert agent.path(Path("/a")).startswith("/a/node_modules/")
        assert "{" not in "".join((*words, *agent.variables(**told).values(), agent.path(Path("/a"))))

    def test_all_that_are_run_are_set_up(self) -> None:
        """And the other way round."""
        assert [*known.AGENTS] == [name for name, setup in SETUPS.items() if setup.version]

    @pytest.mark.parametrize("agent", known.AGENTS.values(), ids=known.AGENTS)
    def test_a_users_own_files_are_those_that_setup_merges_into(self, agent: Agent, tmp_path: Path) -> None:
        """They are there before, and what they say is still said then."""
        agent.settle(tmp_path)
        files = {Path(file.path): file for file in agent.told("http://127.0.0.1:1", str(tmp_path)).files}
        for name, text in agent.files.items():
            file = files[tmp_path / name]
            assert (tmp_path / name).read_text() == text
            said = read(merged(text, file), file.format)
            assert said == expected(read(text, file.format), file.content) != read(text, file.format)

    def test_rows_of_one_agent_are_not_for_the_others(self) -> None:
        """Nor is what it makes of a fault."""
        own = [row.name for row in ROWS if row.is_for(CODEX) and not row.is_for(CLAUDE)]
        assert own == ["namespaced", "apply_patch", "context_overflow", "context_full"]
        assert [row.name for row in ROWS if not row.is_for(OPENCODE)] == ["discovered", *own]
        only = ["llama.cpp think", "llama.cpp begun", "discovered", *own]
        assert [row.name for row in ROWS if not row.is_for(PI)] == only

    def test_one_that_has_its_session_named_asks_once_more(self) -> None:
        """In every row but those that say otherwise."""
        row = replace(BY_NAME["ok"], expected="ok/2", others={"pi": "CRASH/1"})
        assert [row.expects(agent) for agent in (CLAUDE, OPENCODE, PI)] == ["ok/2", "ok/3", "CRASH/1"]

    def test_the_call_is_one_of_its_shell(self) -> None:
        """Run by a shell it makes the proof."""
        call = CLAUDE.call()
        assert json.loads(call.json) == {"name": "Bash", "arguments": json.loads(call.arguments)}
        assert texts.other_case("Bash") == "bash" and texts.other_case("bash") == "Bash"
        assert Call("x", {"a": "b"}).arguments == '{"a": "b"}'

    def test_the_shells_command_makes_the_proof(self, tmp_path: Path) -> None:
        """In the folder in which it is run."""
        subprocess.run(["sh", "-c", CLAUDE.call().values["command"]], cwd=tmp_path, check=True)
        assert (tmp_path / "proof.txt").read_text() == WROTE

    def test_what_is_there_is_not_fetched_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another version is; without npm that is an error with its reason."""
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(install.NotInstalledError, match="no npm"):
            install.installed(CLAUDE, tmp_path)
        (tmp_path / "claude").mkdir()
        (tmp_path / "claude" / f"installed-{CLAUDE.version}").touch()
        assert install.installed(CLAUDE, tmp_path) == tmp_path / "claude"

    @pytest.mark.parametrize("root", [True, False])
    def test_a_run_is_alone(self, root: bool) -> None:
        """No network, no variable of this environment; who is not root maps himself."""
        command = namespace.command(["python"], Path("/h"), root)
        assert {"--net", "--pid", "--kill-child"} <= {*command}
        assert ("--map-root-user" in command) is not root
        given = command[command.index("-i") + 1 : -1]
        assert [name.partition("=")[0] for name in given] == ["PATH", "HOME", "LANG"]

    @pytest.mark.slow
    def test_the_proxy_is_started_as_a_user_does(self, tmp_path: Path) -> None:
        """It answers in front of the row's server, and its log is kept."""
        with (
            ScriptedServer(BY_NAME["tools_text"], CLAUDE) as server,
            inside.proxy(server.url, tmp_path) as url,
        ):
            body = {**FIRST, "tools": [BASH]}
            answer = requests.post(f"{url}/v1/chat/completions", json=body, timeout=PATIENCE)
        assert '"tool_calls"' in answer.text and "<tools>" not in answer.text
        assert "chat/completions" in (tmp_path / "proxy.log").read_text()
