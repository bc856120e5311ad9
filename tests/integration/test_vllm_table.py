"""What `make vllm` stands on, without a vLLM: its readers of answers, its rows, its scripts."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.real import vllm
from tests.real.vllm_install import requirements
from tests.support.helpers import RECORDINGS
from tests.vllm.__main__ import fault_of
from tests.vllm.ask import bodies, cell, is_one_of, misshapen
from tests.vllm.reply import read
from tests.vllm.rows import ROWS, SAID, SERVERS, WRITTEN, Row, scripts

MEANT = [("write_file", WRITTEN)]
HERMES = RECORDINGS / "vllm-0.32.0-hermes"
SILENT = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def recorded(dialect: str, script: str, way: str) -> bytes:
    """What vLLM with hermes' parser answered."""
    folder = HERMES if dialect == "chat" else RECORDINGS / "messages" / HERMES.name
    return (folder / f"{script}-{dialect}-{way}-200.txt").read_bytes()


@pytest.mark.parametrize("way", ["stream", "plain"])
@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_a_recorded_call_is_read(dialect: str, way: str) -> None:
    assert cell(read(dialect, 200, recorded(dialect, "hermes", way)), MEANT) == "call"
    assert cell(read(dialect, 200, recorded(dialect, "plain", way)), MEANT) == "TEXT"
    assert cell(read(dialect, 200, recorded(dialect, "two", way)), MEANT).startswith("wrong call [")
    assert cell(read(dialect, 200, recorded(dialect, "two", way)), SAID["two"].calls) == "call"


def response(*items: dict[str, Any]) -> dict[str, Any]:
    """A response of the Responses API."""
    return {"output": [*items], "status": "completed"}


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([{"type": "function_call", "name": "write_file", "arguments": json.dumps(WRITTEN)}], "call"),
        ([{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}], "TEXT"),
        ([{"type": "reasoning", "summary": [{"text": "Hm."}]}], "thought"),
        ([{"type": "reasoning", "content": [{"text": "Hm."}]}], "thought"),
        ([], "SILENT"),
    ],
)
def test_a_response_is_read(items: list[dict[str, Any]], told: str) -> None:
    whole = json.dumps(response(*items)).encode()
    assert cell(read("responses", 200, whole), MEANT) == told
    event = {"type": "response.completed", "response": response(*items)}
    streamed = b"event: response.completed\ndata: " + json.dumps(event).encode() + b"\n\n"
    assert cell(read("responses", 200, streamed), MEANT) == told


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (SILENT, "SILENT"),
        (SILENT.replace(b"{},", b'{"content":" "},'), "SILENT"),
        (SILENT.replace(b"{},", b'{"reasoning":"Hm."},'), "thought"),
        (SILENT.replace(b"{},", b'{"content":"Hi"},'), "TEXT"),
        (b'data: {"error": {"message": "no"}}\n\n' + SILENT, "ERROR"),
        (SILENT.replace(b":0", b":1") + SILENT, "SILENT+SILENT"),
        (b"", "SILENT"),
    ],
)
def test_a_chat_stream_is_told_in_a_word(data: bytes, told: str) -> None:
    assert cell(read("chat", 200, data), MEANT) == told


def test_a_refusal_is_its_status() -> None:
    assert cell(read("messages", 400, b"no"), MEANT) == "400"


def test_log_probabilities_are_counted_by_token() -> None:
    data = (HERMES / "hermes-chat-stream-logprobs-200.txt").read_bytes()
    reply = read("chat", 200, data)
    assert cell(reply, MEANT) == "call" and reply.choice().logprobs == 38


def test_what_breaks_a_rule_of_the_dialect_is_told() -> None:
    """vLLM's own Messages do; of chat nothing is said, and nothing of a refusal."""
    data = recorded("messages", "hermes", "stream")
    assert "id" in misshapen("messages", read("messages", 200, data))
    assert misshapen("messages", read("messages", 400, data)) == ""
    assert misshapen("chat", read("chat", 200, SILENT)) == ""


def test_the_bodies_of_a_connection_are_told_apart() -> None:
    got = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno"
    got += b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nHe\r\n3\r\nllo\r\n0\r\n\r\n"
    assert bodies(got) == [b"no", b"Hello"]
    assert bodies(b"") == []


def test_events_of_two_choices_may_pass_each_other_by() -> None:
    one = [b'data: {"choices":[{"index":%d,"delta":{"content":"%d"}}]}\n\n' % (at % 2, at) for at in range(4)]
    sent = b"".join(one)
    assert is_one_of([b"", sent], sent)
    assert is_one_of([sent], b"".join((one[1], one[0], one[3], one[2])))
    assert not is_one_of([sent], b"".join((one[2], one[1], one[0], one[3])))
    assert not is_one_of([sent], b"".join(one[:3]))
    assert not is_one_of([], sent)


def test_a_row_is_one_of_a_server_and_a_script_that_there_are() -> None:
    assert {row.on for row in ROWS} == SERVERS.keys()
    assert [row for row in ROWS if row.do is None and row.says not in SAID] == []
    assert {row.says for row in ROWS if row.do is None} <= scripts().keys()
    assert [name for name, count in Counter((row.on, row.name) for row in ROWS).items() if count > 1] == []


def test_what_is_not_as_expected_is_told() -> None:
    row = Row("a", "hermes", "400/1", "call/2")
    assert fault_of(row, "400/1", "call/2") == ""
    assert fault_of(row, "400/2", "call/2") == "EXPECTED 400/1 directly"
    assert fault_of(row, "TEXT/1", "TEXT/1") == "EXPECTED 400/1 directly, EXPECTED call/2 through the proxy"


def test_what_the_wheel_asks_for_is_taken_without_extras_and_pytorch() -> None:
    kept = ["six>=1.16.0", "ijson", "mistral-common[image]>=1.8", "torch-c-dlpack-ext"]
    asked = ["torch==2.13.0+cpu; platform_machine == 'x86_64'", "torchvision", 'boto; extra == "s3"', *kept]
    assert requirements(asked) == kept


def test_a_metric_is_summed_over_its_labels() -> None:
    text = '# HELP a_total x\na_total{m="1"} 2.0\na_total{m="2"} 1.0\na_total_more{m="1"} 9.0\nb 4\n'
    assert (vllm.total(text, "a_total"), vllm.total(text, "b"), vllm.total(text, "c")) == (3, 4, 0)


def test_the_environment_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOL_PROXY_VLLM", str(tmp_path))
    assert vllm.environment() == tmp_path and not vllm.available()
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "bin").mkdir()
    vllm.python().touch()
    assert vllm.available()
    monkeypatch.delenv("TOOL_PROXY_VLLM")
    assert vllm.environment().parts[-2:] == (".venv", "vllm")


class _Letters:
    """A tokenizer whose tokens are letters."""

    eos_token_id = 0

    def decode(self, tokens: list[int]) -> str:
        """Their text."""
        return "".join(map(chr, tokens))

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """Its tokens."""
        return [*map(ord, text)]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What vLLM is given to choose tokens by, with this tokenizer and two scripts."""
    base = ModuleType("vllm.v1.sample.logits_processor")
    base.LogitsProcessor = object  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.v1", "vllm.v1.sample"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, base.__name__, base)
    transformers = ModuleType("transformers")
    transformers.AutoTokenizer = SimpleNamespace(from_pretrained=lambda _: _Letters())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.delitem(sys.modules, "tests.real.vllm_script", raising=False)
    path = tmp_path / "scripts.json"
    path.write_text('{"ab": ["ab", "z"], "c": ["c"]}')
    monkeypatch.setenv("VLLM_SCRIPTS", str(path))
    module = importlib.import_module("tests.real.vllm_script")
    monkeypatch.delitem(sys.modules, "tests.real.vllm_script")
    return module.Scripted(SimpleNamespace(model_config=SimpleNamespace(tokenizer="")), None, False)


class _Row:
    """The chances of a hundred and more tokens."""

    def __init__(self) -> None:
        self.chances: dict[int, float] = {}

    def fill_(self, value: float) -> None:
        """All alike."""
        self.chances = dict.fromkeys(range(128), value)

    def __setitem__(self, token: int, value: float) -> None:
        self.chances[token] = value


def chosen(processor: Any, rows: int) -> str:
    """The letters that are left to choose, one for each row of the batch; `-` where all are, `$` for the end."""
    logits = {number: _Row() for number in range(rows)}
    changed = {}

    class Logits:
        def __getitem__(self, at: Any) -> Any:
            return logits[at]

        def __setitem__(self, at: tuple[int, int], value: float) -> None:
            changed[at[0]] = at[1]

    processor.apply(Logits())
    return "".join("-" if at not in changed else chr(changed[at]) if changed[at] else "$" for at in range(rows))


def came(*added: tuple[int, str, list[int]], removed: tuple[int, ...] = (), moved: tuple[Any, ...] = ()) -> Any:
    """A change of the batch."""
    rows = [(index, None, [*map(ord, prompt)], said) for index, prompt, said in added]
    return SimpleNamespace(added=rows, removed=removed, moved=moved)


def test_a_script_is_said_to_its_end(scripted: Any) -> None:
    said: list[int] = []
    scripted.update_state(came((0, "Go [[script:c]] [[script:ab]]", said), (1, "Go", []), (2, "[[script:none]]", [])))
    for letter in "ab$$":
        scripted.update_state(None)
        assert chosen(scripted, 3) == f"{letter}--"
        said.append(0)
    assert scripted.is_argmax_invariant() is False


@pytest.mark.parametrize("result", ["<tool_response>", "[TOOL_RESULTS]"])
def test_results_behind_the_marker_count_the_turns(scripted: Any, result: str) -> None:
    asked = "[[script:ab]]"
    prompts = [f"{result}{asked}", f"{asked}{result}", f"{asked}{result}{result}", f"[[script:c]]{result}"]
    scripted.update_state(came(*((at, prompt, []) for at, prompt in enumerate(prompts))))
    assert chosen(scripted, 4) == "azzc"


def test_rows_leave_move_and_swap(scripted: Any) -> None:
    scripted.update_state(came((0, "[[script:ab]]", []), (1, "[[script:c]]", []), (2, "Go", [])))
    swap, move = SimpleNamespace(name="SWAP"), SimpleNamespace(name="UNIDIRECTIONAL")
    scripted.update_state(came(moved=((0, 1, swap),)))
    assert chosen(scripted, 3) == "ca-"
    scripted.update_state(came(moved=((0, 2, swap),)))
    assert chosen(scripted, 3) == "-ac"
    scripted.update_state(came(removed=(1,), moved=((2, 1, move),)))
    assert chosen(scripted, 3) == "-c-"
    scripted.update_state(came((1, "Go", [])))
    assert chosen(scripted, 3) == "---"
