"""`make agents`, but for the agents themselves: rows, streams, checks, words, and the scripted server over HTTP."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.agents import (
    chat_replies,
    checks,
    inside,
    install,
    known,
    namespace,
    scripted_server,
    shape,
    texts,
    thoughts,
)
from tests.agents.__main__ import line, unexpected, verdict
from tests.agents.agent import FINAL, MODEL, THOUGHT, WROTE, Agent, Call
from tests.agents.claude import CLAUDE
from tests.agents.codex import CODEX, WITH_CATALOG
from tests.agents.opencode import OPENCODE
from tests.agents.outcome import Run, cell
from tests.agents.rows import BY_NAME, ROWS, Row
from tests.agents.scripted_server import FINALS, ScriptedServer
from tests.agents.tap import Tap, requests_in
from tests.real import llama
from tests.support import messages_checker
from tests.support.client_view import of_bytes
from tests.support.helpers import function, offered
from tests.support.scripted import PATIENCE

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
        streams = [row for row in ROWS if row.bodies]
        assert len({row.bodies["chat"](CLAUDE) for row in streams}) == len(streams)
        assert len(BY_NAME) == len(ROWS)

    def test_every_real_row_has_its_script(self) -> None:
        """And that ends with the words that the harness waits for."""
        scripts = llama.load_scripts()
        for row in ROWS:
            if row.script:
                agents = [agent.name for agent in known.AGENTS.values() if row.is_for(agent)]
                assert agents and all(scripts[f"{agent}_{row.script}"][1].endswith(FINAL) for agent in agents)

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

    def test_a_request_that_names_the_session_is_none_of_the_task(self) -> None:
        """It offers no tools; where none does all are."""
        offers = {**FIRST, "tools": [BASH]}
        assert checks.of_the_task([FIRST, offers]) == [offers]
        assert checks.of_the_task([FIRST, SECOND]) == [FIRST, SECOND]


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
        failed = Run(1, "stream disconnected", "", (None,), 1)
        assert "it does not say: ran out of room" in unexpected(CODEX, BY_NAME["context_overflow"], failed)
        assert (verdict([]), verdict([told])[:9]) == ("OK: as expected.", "FAILED: 1")

    def test_a_line_has_its_columns(self) -> None:
        """Names of rows leave a blank before the first cell."""
        assert max(len(row.name) for row in ROWS) < 18
        assert line(("ok", "TEXT/1", "ok/2")) == "ok                TEXT/1        ok/2"


class TestAgent:
    """The agents, as far as they can be looked at without them."""

    def test_its_command_and_environment_are_filled_in(self) -> None:
        """The base URL without `/v1`, and the prompt."""
        values = {"url": "http://127.0.0.1:1", "home": "/h", "prompt": "Do it."}
        program, *rest = CLAUDE.command(Path("/a"), **values)
        assert program.startswith("/a/node_modules/") and rest[:2] == ["-p", "Do it."]
        told = CLAUDE.variables(**values)
        assert (told["ANTHROPIC_BASE_URL"], told["CLAUDE_CONFIG_DIR"]) == ("http://127.0.0.1:1", "/h/.claude")
        assert "{" not in "".join(told.values())

    def test_codex_reads_where_to_from_its_file(self, tmp_path: Path) -> None:
        """And what it has to know of the model, where a row gives it that."""
        values = {"url": "http://127.0.0.1:1", "home": str(tmp_path), "prompt": "Do it."}
        CODEX.settle(tmp_path, **values)
        config = tomllib.loads((tmp_path / ".codex/config.toml").read_text())
        assert config["model_providers"]["local"]["base_url"] == "http://127.0.0.1:1/v1"
        assert "model_catalog_json" not in config
        replace(CODEX, files=WITH_CATALOG).settle(tmp_path, **values)
        config = tomllib.loads((tmp_path / ".codex/config.toml").read_text())
        (entry,) = json.loads(Path(config["model_catalog_json"]).read_text())["models"]
        assert (entry["slug"], entry["apply_patch_tool_type"]) == (MODEL, "freeform")

    def test_rows_of_one_agent_are_not_for_the_others(self) -> None:
        """Nor is what it makes of a fault."""
        own = [row.name for row in ROWS if row.is_for(CODEX) and not row.is_for(CLAUDE)]
        assert own == ["namespaced", "apply_patch", "context_overflow", "context_full", "compacted"]
        assert [row.name for row in ROWS if row.is_for(OPENCODE)] == ["llama.cpp think", "llama.cpp begun"]

    def test_its_files_are_written(self, tmp_path: Path) -> None:
        """With the URL in its place, and other braces as they are."""
        agent = type(CLAUDE)(**{**CLAUDE.__dict__, "files": {".a/config": 'url = "{url}" {}'}})
        agent.settle(tmp_path, url="http://x")
        assert (tmp_path / ".a/config").read_text() == 'url = "http://x" {}'

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
