"""`make vllm`'s table of agents, without a vLLM and without agents: its rows, its judge, and who does what."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agents import __main__ as harness
from tests.agents import chat_replies, inside, known, namespace, server_said, vllm_rows
from tests.agents.agent import FINAL, WROTE, Agent
from tests.agents.claude import CLAUDE
from tests.agents.codex import CODEX
from tests.agents.install import NotInstalledError
from tests.agents.outcome import Run, cell
from tests.agents.pi import PI
from tests.agents.results import END, VLLM, Results
from tests.agents.rows import BY_NAME, Row
from tests.agents.shape import exchanges
from tests.real import vllm, vllm_install
from tests.real.processes import NotStartedError
from tests.support.client_view import of_bytes
from tests.support.helpers import function, offered
from tests.vllm import __main__ as command_line
from tests.vllm import agents

pytestmark = pytest.mark.once

HERMES, MISTRAL = vllm_rows.BY_NAME["vLLM hermes"], vllm_rows.BY_NAME["vLLM mistral"]
GOOD = Run(0, f"{FINAL}\n", "", (WROTE,), 3)
CRASHED = Run(1, "", "400 status code", (None,), 1)
TYPES: Mapping[type, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    list: {"type": "array", "items": {"type": "string"}},
}


def written(row: Row, agent: Agent) -> str:
    """What the model says to the agent first."""
    assert row.written is not None
    return row.written(agent)


class TestRows:
    """What the model says."""

    @pytest.mark.parametrize("agent", known.AGENTS.values(), ids=known.AGENTS)
    @pytest.mark.parametrize("row", vllm_rows.ROWS, ids=lambda row: row.name)
    def test_the_engine_finds_what_the_model_meant(self, row: Row, agent: Agent) -> None:
        """In the notation of the row, with the schema of the agent's shell: no cell is wrong by the row's fault."""
        call = agent.call()
        shell = function(call.name, {key: TYPES[type(value)] for key, value in call.values.items()}, *call.values)
        got = of_bytes(chat_replies.text(written(row, agent)), tools=offered(shell))
        assert got.values == [(call.name, dict(call.values))]
        assert (got.finish, got.error) == ("tool_calls", "")

    @pytest.mark.parametrize(
        ("name", "marks"),
        [
            ("vLLM hermes", ('<tool_call>\n{"name": "bash", ', "}\n</tool_call>")),
            ("vLLM coder", ("<function=bash>\n<parameter=command>\n", "\n</parameter>\n</function>\n</tool_call>")),
            ("vLLM mistral", ('[TOOL_CALLS]bash[ARGS]{"command": ', "}")),
            ("vLLM glm", ("<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>")),
        ],
    )
    def test_each_is_a_notation_of_its_own(self, name: str, marks: tuple[str, str]) -> None:
        said = written(vllm_rows.BY_NAME[name], PI)
        assert marks[0] in said and said.endswith(marks[1])

    def test_all_notations_are_those_that_are_looked_at(self) -> None:
        assert [*vllm_rows.BY_NAME] == ["vLLM hermes", "vLLM coder", "vLLM mistral", "vLLM glm"]

    def test_an_agent_has_more_time_than_before_a_server_that_is_fast(self) -> None:
        """Of which the agent's own time-out is a part."""
        slow, fast = HERMES, BY_NAME["ok"]
        assert (slow.patience, fast.patience) == (160, 60)
        assert fast.patience < fast.seconds < slow.patience < slow.seconds

    def test_what_is_no_string_is_json_in_glms_values(self) -> None:
        glm = vllm_rows.BY_NAME["vLLM glm"]
        assert "<arg_value>false</arg_value>" in written(glm, known.AGENTS["qwen"])
        assert '<arg_value>["printf ' in written(glm, known.AGENTS["cline"])

    def test_every_agent_has_a_script_in_each(self) -> None:
        """Of its own: the prompt's marker picks it."""
        made = vllm_rows.scripts(known.AGENTS.values())
        assert len(made) == len(known.AGENTS) * len(vllm_rows.ROWS)
        for agent in known.AGENTS.values():
            for row in vllm_rows.ROWS:
                assert made[agent.script(row.script)] == [written(row, agent), FINAL]

    def test_they_are_no_rows_of_the_other_servers(self) -> None:
        """Which have none that all runs share."""
        assert not {*vllm_rows.BY_NAME} & {*BY_NAME}
        assert {*inside.ROWS} == {*vllm_rows.BY_NAME, *BY_NAME}
        assert max(len(row.name) for row in vllm_rows.ROWS) < harness.WIDTHS[0]

    @pytest.mark.parametrize("row", vllm_rows.ROWS, ids=lambda row: row.name)
    def test_both_sides_are_expected(self, row: Row) -> None:
        """Of every agent, so that no cell may be anything."""
        for agent in known.AGENTS.values():
            assert row.expects(agent) == f"ok/{3 + agent.extra}"
            assert row.expects(agent, "without") not in ("", "*") and not row.expects(agent, "without").startswith("ok")


def kept(folder: Path, side: str, *texts: str) -> Path:
    """The folder of a run in which these texts passed on a side, each in a stream of two pieces."""
    answers = []
    for text in texts:
        pieces = (text[:5], text[5:])
        chunks = [json.dumps({"choices": [{"delta": {"content": piece}}]}) for piece in pieces]
        data = "".join(f"data: {chunk}\n\n" for chunk in (*chunks, "[DONE]")).encode()
        answers.append(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(data) + data
        )
    sent = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n" * len(texts)
    (folder / f"{side}-0-sent.txt").write_bytes(sent)
    (folder / f"{side}-0-got.txt").write_bytes(b"".join(answers))
    return folder


class TestJudge:
    """What is held against what passed."""

    def test_the_model_servers_text_must_be_that_of_the_notation(self, tmp_path: Path) -> None:
        """To the byte, with its special tokens; on the agent's side it does not count."""
        meant = written(MISTRAL, PI)
        assert [*server_said.faults(kept(tmp_path, "server", meant, FINAL), meant)] == []
        without_tokens = meant.replace("[TOOL_CALLS]", "").replace("[ARGS]", "")
        kept(tmp_path, "agent", meant)
        (told,) = server_said.faults(kept(tmp_path, "server", without_tokens, FINAL), meant)
        assert f"never sent {meant!r}" in told and FINAL in told

    def test_a_side_has_its_own_exchanges(self, tmp_path: Path) -> None:
        kept(kept(tmp_path, "server", "a", "b"), "agent", "c")
        assert [len([*exchanges(tmp_path, side)]) for side in ("server", "agent")] == [2, 1]
        assert len([*exchanges(tmp_path)]) == 1

    def test_a_run_is_wrong_if_the_text_never_came(self, tmp_path: Path) -> None:
        """Beside what is wrong with any run; on both sides, and of every real server."""
        kept(tmp_path, "server", FINAL)
        for row in (HERMES, BY_NAME["llama.cpp tools"]):
            for through in (False, True):
                faults = [*inside.faults_upstream(PI, row, [], tmp_path, through=through)]
                assert ["of 1 calls" in faults[0], "never sent" in faults[1], len(faults)] == [True, True, 2]
        # What a scripted server sends is known.
        assert len([*inside.faults_upstream(PI, BY_NAME["tools_text"], [], tmp_path, through=True)]) == 1
        assert cell(replace(GOOD, upstream=faults[1])) == "upstream/3"

    def test_a_cell_without_the_proxy_can_be_wrong_too(self) -> None:
        """If the row says what it is; `told` is what an agent says of the proxy."""
        row = Row("a", without={"chat": "CRASH/*", "claude": "TEXT/1"}, told="ran out")
        assert [row.expects(agent, "without") for agent in (PI, CLAUDE, CODEX)] == ["CRASH/*", "TEXT/1", "*"]
        assert harness.unexpected(PI, row, CRASHED, "without") == ""
        assert harness.unexpected(CODEX, row, GOOD, "without") == ""
        told = harness.unexpected(CLAUDE, row, CRASHED, "without")
        assert "CRASH/1, but TEXT/1 is expected" in told and "--side without" in told


class TestSharedServer:
    """A model server that all runs have."""

    def test_a_run_starts_none(self) -> None:
        with inside.model_server(HERMES, PI, "http://127.0.0.1:9") as url:
            assert url == "http://127.0.0.1:9"

    def test_it_has_the_network_of_its_caller(self) -> None:
        """And a space of processes of its own."""
        alone = namespace.command(["python"], Path("/h"), True, network=False, TOOL_PROXY_VLLM="/v")
        assert "--net" not in alone and {"--pid", "--fork", "--mount-proc", "--kill-child"} <= {*alone}
        assert alone[-3:] == ["LANG=C.UTF-8", "TOOL_PROXY_VLLM=/v", "python"]

    @pytest.mark.parametrize("shared", ["", "http://127.0.0.1:9"])
    def test_a_run_is_told_of_it(self, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And has more time, as its row says."""
        asked: list[tuple[list[str], float]] = []

        def run(words: list[str], *, timeout: float = 0, **more: Any) -> subprocess.CompletedProcess[bytes]:
            asked.append((words, timeout))
            return subprocess.CompletedProcess(words, 3, b"", b"no vLLM")

        monkeypatch.setattr(subprocess, "run", run)
        with pytest.raises(namespace.NoRunError, match="no vLLM"):
            namespace.do(PI, HERMES, "with", Path("/p"), tmp_path, shared=shared)
        words, timeout = asked[-1]
        assert words[-1] == shared and words[-6:-3] == ["pi", "vLLM hermes", "with"]
        assert ("--net" in words) is not bool(shared)
        assert timeout == namespace.LIMIT + HERMES.seconds > namespace.LIMIT + BY_NAME["ok"].seconds

    @pytest.mark.parametrize("at_once", [1, harness.AT_ONCE])
    def test_its_runs_are_one_after_the_other(
        self, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The others are two at once; what is wrong is told of each side."""
        sizes, urls = list[int](), list[str]()

        def pool(workers: int) -> ThreadPoolExecutor:
            sizes.append(workers)
            return ThreadPoolExecutor(workers)

        def do(agent: Agent, row: Row, side: str, package: Path, keep: Path | None, *, shared: str) -> Run:
            urls.append(shared)
            return GOOD

        monkeypatch.setattr(harness, "ThreadPoolExecutor", pool)
        monkeypatch.setattr(namespace, "do", do)
        monkeypatch.setattr(harness, "installed", lambda agent: tmp_path)
        monkeypatch.setattr(harness, "prepared", lambda agent, rows: tmp_path)
        shared = "http://127.0.0.1:9" if at_once == 1 else ""
        rows = [replace(HERMES, without={"chat": "CRASH/*"}), replace(MISTRAL, without={}, expected="ok/2")]
        results = Results(tmp_path / "results.json")
        wrong = [*harness.matrix(PI, rows, harness.SIDES, None, results, shared=shared)]
        assert sizes == [at_once] and urls == [shared] * 4
        assert [text.splitlines()[0].partition(" (")[0] for text in wrong] == [
            "pi, vLLM hermes: ok/3, but CRASH/* is expected",
            "pi, vLLM mistral: ok/3, but ok/2 is expected",
        ]
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2:] == [
            "vLLM hermes       ok/3          ok/3   EXPECTED CRASH/* without",
            "vLLM mistral      ok/3          ok/3   EXPECTED ok/2 with",
        ]
        assert "| `vLLM hermes` | ok/3 > ok/3 |" in results.table([PI], rows, "vLLM").splitlines()


@pytest.fixture(name="no_vllm")
def _no_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The table's folder; its vLLM has a version, and agents are there."""
    monkeypatch.setattr(agents, "CACHE", tmp_path)
    monkeypatch.setattr(vllm, "version", lambda: "0.1")
    monkeypatch.setattr(agents, "installed", lambda agent: tmp_path)
    return tmp_path


class TestTable:
    """`python -m tests.vllm --agents`."""

    def test_it_comes_into_the_page(self, no_vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of all that is kept of this vLLM; nothing else of the page changes."""
        Results(no_vllm / "vllm-0.1.json").keep(PI, HERMES, "with", "ok/3")
        Results(no_vllm / "vllm-0.2.json").keep(PI, MISTRAL, "with", "ok/3")
        page = no_vllm / "page.md"
        page.write_text(f"a\n{END}\n{VLLM}\nold\n{END}\nb\n")
        monkeypatch.setattr(agents, "_alone", lambda *words: 3)
        assert agents.table([PI], [HERMES], harness.SIDES, None, page) == 3
        head, _, row = page.read_text().partition(f"{VLLM}\n\n")[2].partition(f"\n\n{END}\nb\n")[0].splitlines()
        assert head.startswith(f"| vLLM 0.1 | pi {PI.version} (20") and row == "| `vLLM hermes` | ? > ok/3 |"
        assert page.read_text().startswith(f"a\n{END}\n{VLLM}\n\n| vLLM")

    def test_the_page_of_the_docs_has_its_marks(self) -> None:
        page = Path("docs/agents.md").read_text(encoding="utf-8")
        assert page.count(VLLM) == 1 and END in page.partition(VLLM)[2]

    def test_agents_that_are_not_there_are_told(
        self, no_vllm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Before anything is started."""

        def missing(agent: Agent) -> Path:
            raise NotInstalledError("no npm here")

        monkeypatch.setattr(agents, "installed", missing)
        monkeypatch.setattr(agents, "_alone", never)
        assert agents.table([PI], [HERMES], harness.SIDES, None, None) == 1
        assert "no npm here" in capsys.readouterr().err

    def test_the_runs_are_another_process_alone_in_its_network(
        self, no_vllm: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """That knows where vLLM is, and what is to be done."""
        monkeypatch.setenv("TOOL_PROXY_VLLM", "/v")
        asked: list[list[str]] = []

        def run(words: list[str], **more: Any) -> subprocess.CompletedProcess[bytes]:
            asked.append(words)
            return subprocess.CompletedProcess(words, 4)

        monkeypatch.setattr(subprocess, "run", run)
        assert agents.table([PI, CLAUDE], [HERMES, MISTRAL], ["with"], Path("/k"), None) == 4
        (words,) = asked
        assert "--net" in words and "TOOL_PROXY_VLLM=/v" in words
        assert words[-5:] == ["tests.vllm.agents", "pi,claude", "vLLM hermes,vLLM mistral", "with", "/k"]

    @pytest.mark.parametrize(("faults", "status"), [((), 0), (("pi, vLLM hermes: SILENT/3",), 1)])
    def test_one_vllm_without_a_flag_is_that_of_all_runs(
        self,
        faults: Sequence[str],
        status: int,
        no_vllm: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """The result is that of the cells."""
        server = _Server()
        monkeypatch.setattr(vllm, "VllmServer", server)
        monkeypatch.setattr(agents, "loopback_up", lambda: None)
        done: list[tuple[object, ...]] = []

        def matrix(agent: Agent, rows: Sequence[Row], sides: Sequence[str], *more: Any, shared: str) -> Sequence[str]:
            done.append((agent.name, [row.name for row in rows], sides, shared))
            return faults if agent is PI else ()

        monkeypatch.setattr(agents, "matrix", matrix)
        assert agents.main("pi,claude", "vLLM hermes,vLLM mistral", "without,with", str(no_vllm / "keep")) == status
        rows = ["vLLM hermes", "vLLM mistral"]
        assert done == [(name, rows, ["without", "with"], server.url) for name in ("pi", "claude")]
        assert server.flags == () and server.given["names"] == ("test-model",)
        assert server.given["scripts"] == vllm_rows.scripts(known.AGENTS.values())
        assert server.given["log"].parent.is_dir()
        assert [each in capsys.readouterr().out for each in faults] == [True] * len(faults)

    @pytest.mark.parametrize("error", [NotStartedError, namespace.NoRunError])
    def test_a_vllm_that_does_not_start_is_told(
        self,
        error: type[Exception],
        no_vllm: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """And a run that could not be done at all."""
        monkeypatch.setattr(vllm, "VllmServer", _Server(error("no memory")))
        monkeypatch.setattr(agents, "loopback_up", lambda: None)
        assert agents.main("pi", "vLLM hermes", "with", "") == 1
        assert "did not come to its end: no memory" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "names", "rows"),
        [
            ((), [*known.AGENTS], [*vllm_rows.BY_NAME]),
            (("--row", "glm", "--row", "coder"), [*known.AGENTS], ["vLLM coder", "vLLM glm"]),
        ],
    )
    def test_the_command_line_chooses(
        self, words: tuple[str, ...], names: list[str], rows: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """AGENTS in the environment too."""
        monkeypatch.delenv("AGENTS", raising=False)
        assert self.asked(words, monkeypatch) == (names, rows, harness.SIDES, None, None)
        monkeypatch.setenv("AGENTS", "pi,codex")
        kept, page = Path("/k"), Path("/p.md")
        more = ("--keep", str(kept), "--table", str(page), "--side", "with")
        assert self.asked((*words, *more), monkeypatch) == (["pi", "codex"], rows, ["with"], kept, page)

    def test_a_row_that_there_is_not_is_an_error(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit, match="2"):
            self.asked(("--row", "llama"), monkeypatch)
        assert "vLLM hermes, vLLM coder" in capsys.readouterr().err

    def asked(self, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
        """What the table is asked for."""
        got: list[tuple[object, ...]] = []

        def table(several: Sequence[Agent], rows: Sequence[Row], *more: object) -> int:
            got.append(([each.name for each in several], [row.name for row in rows], *more))
            return 7

        monkeypatch.setattr(agents, "table", table)
        monkeypatch.setattr(vllm_install, "ensured", lambda: None)
        monkeypatch.setattr(vllm, "version", lambda: "0.1")
        monkeypatch.setattr(signal, "signal", lambda number, handler: None)
        monkeypatch.setattr("sys.argv", ["tests.vllm", "--agents", *words])
        assert command_line.main() == 7
        return got[0]


def never(*words: object) -> int:
    """What is not to be called."""
    raise AssertionError(words)


class _Server:
    """In place of a vLLM: it says what it was started with."""

    def __init__(self, error: Exception | None = None) -> None:
        self.url = "http://127.0.0.1:9"
        self.flags: tuple[str, ...] | None = None
        self.given: dict[str, Any] = {}
        self._error = error

    def __call__(self, *flags: str, **given: Any) -> _Server:
        """Start."""
        self.flags, self.given = flags, given
        return self

    def __enter__(self) -> _Server:
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to end."""
