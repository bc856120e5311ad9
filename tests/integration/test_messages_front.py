"""The Messages front from the client to a scripted model server and back: paths, replies, log and metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Front, Inside
from tests.support.dialects import DIALECTS, Dialect
from tests.support.log_lines import line
from tests.support.messages_checker import check_error
from tests.support.messages_client import (
    COUNT,
    HERMES,
    INPUT,
    MESSAGES,
    MODELS,
    TOOL,
    VERSION,
    ask,
    call,
    cards,
    message,
    reply,
    said,
    serving,
)
from tests.support.rows import rows
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    USAGE,
    Action,
    Client,
    answer,
    arguments,
    chunked,
    completion,
    delta,
    event,
    finish,
    opened,
    stream,
    text,
    whole_reply,
)

MODES = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
NOWHERE = "http://127.0.0.1:1"
WHOLE = 'models:\n  - {match: "*", upstream: whole}\n'
MINE = "clients:\n  mine: {}\n"


@pytest.mark.parametrize("path", ["/", "/for/mine/"])
def test_head_of_the_root_path_is_answered(front: Front, inside: Inside, path: str) -> None:
    """Claude Code uses it to check whether a server runs at the configured base URL."""
    response = inside(NOWHERE, MINE).head(path)
    assert (response.status_code, response.data) == (200, b"")
    if path == "/":
        with Client(front.proxy.port, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n") as client, client.answer() as real:
            assert real.status == 200


@rows(__file__, "method,path,status")
@pytest.mark.parametrize("headers", [{}, VERSION], ids=["no header", "header"])
def test_a_missing_path_returns_the_error_of_its_api(
    inside: Inside, method: str, path: str, status: int, headers: dict[str, str]
) -> None:
    with serving() as server:
        response = inside(server.url, MINE).open(path, method=method, json=ask(), headers=headers)
        assert server.seen == []
    assert response.status_code == status
    check_error(response.data, status)
    assert ("Allow" in response.headers) is (status == 405)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("POST", MODELS, 405)])
def test_on_other_paths_the_header_sets_the_error_format(inside: Inside, method: str, path: str, status: int) -> None:
    client = inside(NOWHERE)
    mine, theirs = (client.open(path, method=method, headers=headers) for headers in (VERSION, {}))
    assert mine.status_code == theirs.status_code == status
    check_error(mine.data, status)
    assert theirs.json is not None and [*theirs.json] == ["error"] and "code" in theirs.json["error"]


@MODES
def test_the_request_id_is_in_the_header_that_the_sdks_read(inside: Inside, streamed: bool) -> None:
    with serving(reply(streamed, "a")) as server:
        client = inside(server.url)
        headers = {"X-Request-Id": "r-1"}
        fine = client.post(MESSAGES, json=ask(stream=streamed), headers=headers)
        wrong = client.post(MESSAGES, json={}, headers=headers)
        assert server.seen[0].headers["X-Request-Id"] == "r-1"
    assert fine.headers["Request-Id"] == wrong.headers["Request-Id"] == "r-1"


@MODES
def test_thinking_precedes_the_text_and_calls_that_follow_from_it(inside: Inside, streamed: bool) -> None:
    calls = [call("call_1", json.dumps(INPUT))]
    for words, made_calls in (("So.", calls), ("", calls), (HERMES, []), (f"So.\n{HERMES}", [])):
        end = "tool_calls" if made_calls else "stop"
        with serving(reply(streamed, words, *made_calls, end=end, reasoning="hm")) as server:
            made = message(inside(server.url).post(MESSAGES, json=ask(tools=[TOOL], stream=streamed)))
        kinds = [kind for kind, _ in said(made)]
        assert kinds == ["thinking", *(["text"] if words.startswith("So") else []), "tool_use"]


@MODES
def test_reasoning_in_both_fields_is_sent_once(inside: Inside, streamed: bool) -> None:
    both = {"reasoning": "hm", "reasoning_content": "hm"}
    script = (
        stream(ROLE, delta(both), text("a"), finish(), DONE)
        if streamed
        else whole_reply({"role": "assistant", "content": "a", **both})
    )
    with serving(script) as server:
        made = message(inside(server.url).post(MESSAGES, json=ask(stream=streamed)))
    assert said(made) == [("thinking", "hm"), ("text", "a")]


@MODES
@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["no tools", "tools"])
@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
def test_the_stop_sequence_is_reported(inside: Inside, name: str, tools: list[Any], streamed: bool) -> None:
    def ended(stop: object) -> list[Any]:
        if streamed:
            last = {"index": 0, "delta": {"content": ""}, "finish_reason": "stop", name: stop}
            return [*stream(ROLE, text("a"), event({"id": "c-1", "choices": [last]}), USAGE, DONE)]
        whole = completion("a")
        whole["choices"] = [{**whole["choices"][0], name: stop}]
        return [answer(whole)]

    with serving(ended("END"), ended("other"), ended(128009)) as server:
        client = inside(server.url)
        body = ask(tools=tools, stream=streamed, stop_sequences=["END"])
        made = [message(client.post(MESSAGES, json=body)) for _ in range(3)]
    stops = [(each["stop_reason"], each["stop_sequence"]) for each in made]
    assert stops == [("stop_sequence", "END"), ("end_turn", None), ("end_turn", None)]


def test_token_counts_are_sent_from_the_start_if_the_server_reports_them(inside: Inside) -> None:
    """vLLM's continuous_usage_stats: `usage` is in every chunk, but cached tokens are only in the last one."""
    counts = [{"prompt_tokens": 100, "total_tokens": 100 + n, "completion_tokens": n} for n in range(3)]
    whole = {**counts[2], "prompt_tokens_details": {"cached_tokens": 64}}
    events = [
        delta({"role": "assistant", "content": ""}, usage=counts[0]),
        delta({"content": "Hel"}, usage=counts[1]),
        delta({"content": "lo"}, usage=counts[2]),
        delta({}, "stop", usage=counts[2]),
        event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": whole}),
        DONE,
    ]
    for tools in ([], [TOOL]):
        with serving(stream(*events)) as server:
            response = inside(server.url).post(MESSAGES, json=ask(tools=tools))
        made = message(response)
        start = json.loads(response.data.partition(b"data: ")[2].partition(b"\n")[0])["message"]
        assert (start["usage"]["input_tokens"], start["usage"]["output_tokens"]) in ((100, 0), (100, 1))
        usage = made["usage"]
        assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (36, 64, 2)


@pytest.mark.parametrize("words", ["Hello", HERMES])
def test_a_whole_upstream_answer_is_streamed_with_its_token_counts(inside: Inside, words: str) -> None:
    """F63 with `upstream: whole`, and U9 with a server that ignores `stream: true`."""
    for rules in (WHOLE, ""):
        with serving(whole_reply(words)) as server:
            response = inside(server.url, rules).post(MESSAGES, json=ask(tools=[TOOL]))
            up = server.seen[0].json
        assert up["stream"] is (not rules) and ("stream_options" in up) is (not rules)
        assert response.headers["Content-Type"].startswith("text/event-stream")
        made = message(response)
        assert said(made) == [("tool_use", INPUT) if words == HERMES else ("text", "Hello")]
        start = json.loads(response.data.partition(b"data: ")[2].partition(b"\n")[0])["message"]["usage"]
        assert (start["input_tokens"], made["usage"]["output_tokens"]) == (10, 7)


@pytest.mark.parametrize("id_", ["call_1", "chatcmpl-tool-0a1b", "functions.write_file:0", "é ü", "b64-x", "toolu_x"])
@MODES
def test_the_next_turn_uses_the_servers_own_call_id(inside: Inside, id_: str, streamed: bool) -> None:
    """F8, C8: for any server ids the client's are `toolu_...`, and the proxy keeps no state."""
    calling = reply(streamed, "", call(id_, json.dumps(INPUT)), end="tool_calls")
    with serving(calling, reply(streamed, "Done.")) as server:
        first = ask("go", tools=[TOOL], stream=streamed)
        # The test client would sort an object's keys.
        made = message(inside(server.url).post(MESSAGES, data=json.dumps(first)))
        (block,) = made["content"]
        turn = [
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}]},
        ]
        next_ = {**first, "messages": [*first["messages"], *turn]}
        message(inside(server.url).post(MESSAGES, data=json.dumps(next_)))
        one, two = server.seen
    (_, called, result) = two.json["messages"]
    assert (called["tool_calls"][0]["id"], result["tool_call_id"]) == (id_, id_)
    assert called["tool_calls"][0]["function"]["arguments"] == json.dumps(INPUT, separators=(",", ":"))
    assert two.body.startswith(one.body[:-2] + b",")


@MODES
def test_a_client_that_disables_parallel_calls_gets_one_call(inside: Inside, streamed: bool) -> None:
    """F52."""
    calls = [call(f"call_{number}", json.dumps({**INPUT, "path": f"{number}"})) for number in range(2)]
    with serving(reply(streamed, "", *calls, end="tool_calls")) as server:
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        made = message(inside(server.url).post(MESSAGES, json=ask(tools=[TOOL], tool_choice=choice, stream=streamed)))
        up = server.seen[0].json
    assert (up["parallel_tool_calls"], up["tool_choice"]) == (False, "auto")
    assert said(made) == [("tool_use", {**INPUT, "path": "0"})]


@MODES
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_an_empty_reply_is_valid(inside: Inside, dialect: Dialect, streamed: bool) -> None:
    """F93: `content: null` and empty lists crash clients."""
    with serving(reply(streamed, "")) as server:
        data = inside(server.url).post(dialect.path, json=dialect.ask(streamed=streamed, tools=False)).data
    told = (dialect.stream if streamed else dialect.whole)(data)
    assert (told.text, told.calls, told.finish) == ("", [], "stop")


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_text_and_arguments_are_streamed_as_they_arrive(front: Front, dialect: Dialect) -> None:
    """C2."""
    gates = [front.upstream.gate() for _ in range(3)]
    half = arguments(0, '{"path": "a.txt", "content": "h')
    script: list[Action] = [SSE + chunked(ROLE + text("Hel")), gates[0], chunked(text("lo")), gates[1]]
    script += [chunked(opened(0, "call_1", "write_file") + half), gates[2], chunked(arguments(0, 'i"}'))]
    front.upstream.play([*script, chunked(finish("tool_calls") + DONE), LAST])
    front.upstream.paths[MODELS] = cards("tiny")
    ask_, got = dialect.ask(streamed=True, tools=True), b""
    with Client.post(front.proxy.port, ask_, dialect.path) as client, client.answer() as response:
        for gate, word in zip(gates, (b"Hel", b'"lo"', b"a.txt"), strict=True):
            while word not in got:
                got += response.read1()
            gate.open()
        told = dialect.stream(got + response.read())
    assert (told.text, told.whole_calls, told.finish) == ("Hello", [("write_file", INPUT)], "calls")


@MODES
def test_calls_with_the_same_id_get_unique_ids(inside: Inside, streamed: bool) -> None:
    """C5, F48: within a reply, and across turns if the server numbers each turn from the start."""
    calls = [call("call_1", json.dumps({**INPUT, "path": path})) for path in "ab"]
    again = reply(streamed, "", calls[0], end="tool_calls")
    with serving(reply(streamed, "", *calls, end="tool_calls"), again) as server:
        first = ask("go", tools=[TOOL], stream=streamed)
        client = inside(server.url)
        made = message(client.post(MESSAGES, json=first))
        results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "ok"} for use in made["content"]]
        turn = [{"role": "assistant", "content": made["content"]}, {"role": "user", "content": results}]
        next_ = message(client.post(MESSAGES, json={**first, "messages": [*first["messages"], *turn]}))
        up = server.seen[1].json["messages"]
    ids = [block["id"] for block in (*made["content"], *next_["content"])]
    assert len(ids) == len(set(ids)) == 3
    assert [each["id"] for each in up[1]["tool_calls"]] == [each["tool_call_id"] for each in up[2:]]


DROPPED: dict[str, Any] = {"context_management": {}, "service_tier": "auto"}


@MODES
def test_dropped_fields_are_audited_and_counted(
    inside: Inside, tmp_path: Path, logged: pytest.LogCaptureFixture, streamed: bool
) -> None:
    """C6, F94: nothing is dropped silently, and a hundred turns do not report it a hundred times."""
    file = tmp_path / "audit.jsonl"
    with serving(reply(streamed, HERMES)) as server:
        client = inside(server.url, audit_file=str(file))
        body = {**ask(tools=[TOOL], stream=streamed), **DROPPED}
        response = client.post(MESSAGES, json=body)
        made = message(response)
        assert not DROPPED.keys() & server.seen[0].json.keys()
    assert said(made) == [("tool_use", INPUT)]
    records = [json.loads(each) for each in file.read_text().splitlines()]
    dropped = [each for each in records if each["fix"] == "dropped_field"]
    assert {each["before"].partition(":")[0] for each in dropped} == {*DROPPED}
    assert all(each["why"] for each in dropped) and [each["fix"] for each in records if each not in dropped]
    assert "dropped_field:2" in line(logged) and "text_call:1" in line(logged)
    told = [record.getMessage() for record in logged.records]
    assert not [each for each in told if "fix=dropped_field" in each]
    assert [each for each in told if "fix=text_call" in each]
    fixes = response.headers.get("X-Tool-Proxy-Fixes")
    assert fixes == (None if streamed else "dropped_field:2, text_call:1")


@MODES
def test_an_unknown_field_is_dropped_logged_and_audited(
    inside: Inside, tmp_path: Path, logged: pytest.LogCaptureFixture, streamed: bool
) -> None:
    """Fields of newer APIs are accepted. Neither the value nor an odd name is logged."""
    file = tmp_path / "audit.jsonl"
    unknown: dict[str, Any] = {"new_beta": {"key": "a value"}, "odd name": 1, "nothing": None}
    with serving(reply(streamed, "a")) as server:
        client = inside(server.url, audit_file=str(file))
        made = message(client.post(MESSAGES, json={**ask(stream=streamed), **unknown, **DROPPED}))
        assert not unknown.keys() & server.seen[0].json.keys()
    assert said(made) == [("text", "a")]
    records = [json.loads(each) for each in file.read_text().splitlines()]
    assert {(each["fix"], each["before"]) for each in records} >= {
        ("dropped_field", "new_beta: 1"),
        ("dropped_field", "(odd name): 1"),
    }
    told = [each.getMessage() for each in logged.records if "fix=dropped_field" in each.getMessage()]
    assert [each.partition("why=")[2] for each in told] == ['"new_beta: unknown field"', '"(odd name): unknown field"']
    assert "a value" not in logged.text


def test_many_unknown_fields_do_not_flood_the_log(inside: Inside, logged: pytest.LogCaptureFixture) -> None:
    """C7: the repairs of the reply come first, and the lines per request are limited."""
    unknown = {f"field_{index}": 1 for index in range(1000)}
    with serving(reply(False, HERMES)) as server:
        message(inside(server.url).post(MESSAGES, json={**ask(tools=[TOOL], stream=False), **unknown}))
    told = [each.getMessage() for each in logged.records if each.getMessage().startswith("repair ")]
    assert len(told) == 101 and "fix=text_call" in told[0] and "more=" in told[-1]


def test_a_client_that_leaves_during_a_count_frees_the_model_server(front: Front) -> None:
    gate = front.upstream.gate()
    front.upstream.play([gate])
    front.upstream.paths[MODELS] = cards("tiny")
    with Client.post(front.proxy.port, ask(), COUNT) as client:
        gate.wait()
        left = client.vanish(reset=False)
    assert front.upstream.seen[0].gone_after(left) and front.proxy.idle()
