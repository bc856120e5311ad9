"""The log: one line per request, to standard error, that no client and no model can forge."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from proxy.requestlog import set_up_logging
from tests.conftest import Inside
from tests.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    finish,
    stream,
    text,
)

CHAT = "/v1/chat/completions"
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The messages of the proxy's logger so far."""
    caplog.set_level(logging.INFO, "proxy")
    yield caplog.messages
    assert all("\n" not in message for message in caplog.messages)


def facts(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split(" ") if "=" in word)


def test_a_stream_has_one_line_with_its_facts(inside: Inside, caplog: pytest.LogCaptureFixture, lines: object) -> None:
    with Upstream(stream(ROLE, text(HERMES), finish(), DONE)) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    (line,) = caplog.messages
    known = facts(line)
    assert (known["status"], known["model"], known["stream"], known["calls"]) == ("200", "tiny", "true", "1")
    assert known["bytes"] == str(len(data)) and "text_call:1" in known["fixes"]
    assert 0 <= float(known["ttfb_ms"]) <= float(known["ms"])
    assert "error" not in known and "client" not in known


def test_a_whole_answer_has_one_line(inside: Inside, caplog: pytest.LogCaptureFixture, lines: object) -> None:
    with Upstream([answer(completion("a"))]) as server:
        data = inside(server.url).post(CHAT, json=chat(stream=False)).data
    (line,) = caplog.messages
    assert (facts(line)["stream"], facts(line)["bytes"]) == ("false", str(len(data)))


@pytest.mark.parametrize("path,status", [("/health", 200), ("/nothing", 404), ("/for/nobody/v1/models", 404)])
def test_every_request_has_one_line(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object, path: str, status: int
) -> None:
    assert inside("http://127.0.0.1:1").get(path, headers={"X-Request-Id": "r1"}).status_code == status
    (line,) = caplog.messages
    assert (facts(line)["id"], facts(line)["status"]) == ("r1", str(status))


def test_a_client_with_a_name_is_named(inside: Inside, caplog: pytest.LogCaptureFixture, lines: object) -> None:
    with Upstream([answer({})]) as server:
        inside(server.url).get("/for/openclaw/v1/models")
    assert facts(caplog.messages[0])["client"] == "openclaw"


def test_a_stream_that_broke_off_has_one_line_that_says_so(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object
) -> None:
    """U11."""
    with Upstream([SSE, chunked(ROLE), chunked(text("a"))]) as server:
        inside(server.url).post(CHAT, json=chat())
    (line,) = caplog.messages
    assert 'error="the model server\'s answer broke off"' in line


@pytest.mark.parametrize("where", ["model", "error"])
def test_nothing_that_clients_or_servers_say_can_forge_a_line(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object, where: str
) -> None:
    evil = 'x\nINFO id=1 status=200 "\u2028' + "y" * 5000
    fine = stream(ROLE, text("a"), finish(), DONE)
    script = [answer({"error": {"message": evil}}, 400)] if where == "error" else fine
    with Upstream(script) as server:
        inside(server.url).post(CHAT, json=chat(model=evil if where == "model" else "tiny"))
    (line,) = caplog.messages
    assert "\n" not in line and "\u2028" not in line and len(line) < 1500


def test_keys_bodies_and_query_strings_never_get_into_the_log(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object
) -> None:
    caplog.set_level(logging.DEBUG)
    with Upstream(stream(ROLE, text("answer-word"), finish(), DONE)) as server:
        headers = {"Authorization": "Bearer key-word", "Cookie": "cookie-word"}
        inside(server.url).post(f"{CHAT}?query-word=1", json=chat("body-word"), headers=headers)
    for word in ("key-word", "cookie-word", "body-word", "answer-word", "query-word"):
        assert word not in caplog.text


@pytest.fixture
def fresh_logger() -> Iterator[logging.Logger]:
    """The proxy's logger without handlers, put back as it was."""
    log = logging.getLogger("proxy")
    before = (log.handlers[:], log.level, log.propagate, logging.raiseExceptions)
    log.handlers = []
    yield log
    log.handlers, log.level, log.propagate, logging.raiseExceptions = before


@pytest.mark.parametrize("verbose,level", [(False, logging.INFO), (True, logging.DEBUG)])
def test_the_log_goes_to_standard_error_once(
    fresh_logger: logging.Logger, capsys: pytest.CaptureFixture[str], verbose: bool, level: int
) -> None:
    for _ in range(2):
        set_up_logging(verbose=verbose)
    assert len(fresh_logger.handlers) == 1 and fresh_logger.level == level
    fresh_logger.info("hello")
    assert capsys.readouterr() == ("", "INFO hello\n")


def test_a_log_that_cannot_be_written_disturbs_no_request(
    fresh_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """P3: a full disk."""
    set_up_logging(verbose=False)

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    handler = fresh_logger.handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(Full())
    fresh_logger.info("lost")
    assert capsys.readouterr().err == ""


def test_the_last_part_of_a_stream_is_counted(
    inside: Inside, caplog: pytest.LogCaptureFixture, lines: object
) -> None:
    with Upstream([SSE, chunked(ROLE), chunked(text("a")), 0.03, chunked(finish()), chunked(DONE), LAST]) as server:
        data = inside(server.url).post(CHAT, json=chat()).data
    assert facts(caplog.messages[0])["bytes"] == str(len(data))
