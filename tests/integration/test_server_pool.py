"""Several model servers: who gets a request, what happens when one is gone, and what /health says of them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
from flask.testing import FlaskClient

from proxy.config.settings import Settings
from proxy.errors import UpstreamBroken, UpstreamSlow, UpstreamUnreachable
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.load_balancing import PROBE_SECONDS
from proxy.upstream.server_pool import ServerCandidates, ServerPool
from proxy.worker.snapshot import make_snapshot
from tests.conftest import Inside, Start
from tests.integration.test_client import full_backlog
from tests.real.processes import free_port
from tests.support import scripted
from tests.support.scripted import (
    DONE,
    PATIENCE,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Client,
    Script,
    answer,
    chat,
    chunked,
    finish,
    stream,
    text,
)
from tests.support.worker_state import read_rules

pytestmark = pytest.mark.once

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"


def target(**more: Any) -> ServerOptions:
    return ServerOptions("", **more)


def nowhere() -> str:
    return f"http://127.0.0.1:{free_port()}"


def says(name: str, owner: str = "vllm") -> dict[str, Script]:
    """What a server answers, as often as it is asked."""
    return {
        CHAT: stream(ROLE, text(name), finish(), DONE),
        "/v1/models": [answer({"data": [{"id": "tiny", "owned_by": owner}]})],
        "/tokenize": [answer({"count": 7, "max_model_len": 99, "tokens": [], "name": name})],
        "/v1/completions": [answer({"name": name})],
        "/health": [answer({})],
    }


@pytest.fixture
def three() -> Iterator[list[scripted.Upstream]]:
    """Three servers, named 0, 1 and 2."""
    with ExitStack() as stack:
        servers = [stack.enter_context(scripted.Upstream()) for _ in range(3)]
        for number, server in enumerate(servers):
            server.paths = says(str(number))
        yield servers


def urls(servers: Sequence[scripted.Upstream]) -> str:
    return ",".join(server.url for server in servers)


def said(data: bytes) -> str:
    """Which server a stream came from."""
    chunks = [json.loads(line[6:]) for line in data.split(b"\n\n") if line.startswith(b"data: {")]
    return "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks)


def spoken(client: FlaskClient, number: int, **more: Any) -> str:
    """Which server a conversation goes to."""
    return said(client.post(CHAT, json=chat(f"task {number}", **more)).data)


def conversation_of(client: FlaskClient, name: str) -> int:
    """The number of a conversation that this server has."""
    return next(number for number in range(200) if spoken(client, number) == name)


# The way of one request.


def test_where_there_is_no_choice_nothing_is_looked_at() -> None:
    def never() -> bytes:
        raise AssertionError("the body was looked at")

    fleet = ServerPool(["http://a"], ["http://b"], target())
    assert fleet.way(key=never).server.target.url == "http://a"
    assert fleet.way(["http://b"], never).server.target.url == "http://b"
    assert not fleet.way(key=never).several and not fleet.way().move()


def test_without_a_conversation_the_first_is_the_one_with_the_fewest_open_calls() -> None:
    with scripted.Upstream([Act.EXPECT_CLOSE]) as one, scripted.Upstream([Act.EXPECT_CLOSE]) as two:
        fleet = ServerPool([one.url, two.url], [], target())
        first = fleet.way()
        with first.open("GET", "/x", {}):
            with fleet.way().open("GET", "/x", {}):
                assert [server["streams"] for server in fleet.shown() if isinstance(server, dict)] == [1, 1]
            assert {fleet.way().server.target.url for _ in range(20)} == {one.url, two.url} - {first.server.target.url}


def test_the_next_one_is_asked_where_no_connection_can_be_made() -> None:
    with scripted.Upstream([answer(b"a")]) as server:
        fleet = ServerPool([nowhere(), server.url], [], target())
        way = ServerCandidates([*fleet.servers.values()])
        with way.open("POST", "/x", {}, b"{}"):
            assert way.server.target.url == server.url
    gone, there = [each for each in fleet.shown() if isinstance(each, dict)]
    assert (gone["ejected"], there["ejected"]) == (True, False)


def test_each_is_asked_once_and_the_last_one_s_error_is_told() -> None:
    fleet = ServerPool([nowhere(), nowhere(), nowhere()], [], target())
    with pytest.raises(UpstreamUnreachable) as caught:
        fleet.way().open("GET", "/x", {})
    assert [server.load.failures for server in fleet.servers.values()] == [1, 1, 1]
    assert sum(url in caught.value.message for url in fleet.servers) == 1


@pytest.mark.parametrize("script", [[Act.CLOSE], [Act.RST], [answer({}, 503)], [answer({}, 429)], [answer({}, 500)]])
def test_what_reached_a_server_never_goes_to_another_and_puts_none_out(script: Script) -> None:
    """U4."""
    with scripted.Upstream(script) as one, scripted.Upstream() as two:
        fleet = ServerPool([one.url, two.url], [], target())
        way = ServerCandidates([*fleet.servers.values()])
        with way.open("POST", "/x", {}, b"{}") as call:
            one.wait()
            try:
                while not call.complete:
                    call.receive()
            except UpstreamBroken:
                pass
        assert (len(one.seen), len(two.seen)) == (1, 0)
        assert way.server.load.failures == 0 and way.server.load.streams == 0


def test_a_server_that_hangs_costs_one_request_the_whole_time_and_later_ones_less() -> None:
    """U2."""
    with full_backlog() as port, scripted.Upstream(*[[answer(b"a")]] * 3) as server:
        fleet = ServerPool([f"http://127.0.0.1:{port}", server.url], [], target(connect_timeout=PROBE_SECONDS + 1.5))
        hung, there = fleet.servers.values()
        began = time.monotonic()
        with ServerCandidates([hung, there]).open("GET", "/x", {}):
            assert time.monotonic() - began >= PROBE_SECONDS + 1.5
        assert fleet.way().server is there
        began = time.monotonic()
        with ServerCandidates([hung, there]).open("GET", "/x", {}):
            assert PROBE_SECONDS <= time.monotonic() - began < PROBE_SECONDS + 1.4
        alone = ServerPool([hung.target.url], [], target(connect_timeout=0.2))
        for _ in range(2):
            with pytest.raises(UpstreamSlow):
                alone.way().open("GET", "/x", {})
        assert alone.servers[hung.target.url].target.probe_timeout == 0


def test_a_call_counts_until_it_is_closed_and_once() -> None:
    with scripted.Upstream([Act.EXPECT_CLOSE], [Act.EXPECT_CLOSE]) as server:
        upstream = ModelServer(ServerOptions(server.url))
        one, two = upstream.open("GET", "/x", {}), upstream.open("GET", "/x", {})
        assert upstream.load.streams == 2
        one.close()
        one.close()
        assert upstream.load.streams == 1
        two.close()
    with pytest.raises(UpstreamUnreachable):
        upstream.open("GET", "/x", {})
    with pytest.raises(UpstreamBroken):
        upstream.open("GET", "/x", {"X": "a\nb"})
    assert (upstream.load.streams, upstream.load.failures) == (0, 1)


def test_a_reload_keeps_how_the_servers_stand_but_not_under_other_times() -> None:
    def generation(upstream: str, before: Any = None, **settings: Any) -> Any:
        return make_snapshot(Settings(upstream=upstream, **settings), read_rules(None), None, before)

    first = generation("http://a,http://b")
    again = generation("http://b,http://c", first)
    assert again.upstream.servers["http://b"] is first.upstream.servers["http://b"]
    assert again.upstream.servers.keys() == {"http://b", "http://c"}
    other = generation("http://b,http://c", again, connect_timeout=9.0)
    assert other.upstream.servers["http://b"] is not again.upstream.servers["http://b"]


def test_a_conversation_stays_although_others_have_fewer_streams() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(scripted.Upstream(*[[Act.EXPECT_CLOSE]] * 3)) for _ in range(2)]
        fleet = ServerPool([server.url for server in servers], [], target())
        own = fleet.way(key=lambda: b"k").server
        for _ in range(3):
            way = fleet.way(key=lambda: b"k")
            assert way.server is own
            stack.enter_context(way.open("GET", "/x", {}))


def test_a_server_whose_time_is_over_gets_one_request_of_those_that_come_at_once() -> None:
    fleet = ServerPool(["http://a", "http://b"], [], target())
    own = fleet.way(key=lambda: b"k").server
    past = time.monotonic() - 60
    own.load.failed(past, past)
    ways = [fleet.way(key=lambda: b"k").server for _ in range(5)]
    assert [server is own for server in ways] == [True, False, False, False, False]


def test_those_that_are_out_are_asked_for_their_health_last() -> None:
    fleet = ServerPool(["http://a", "http://b"], [], target())
    now = time.monotonic()
    fleet.servers["http://a"].load.failed(now, now)
    assert [server.target.url for server in fleet.by_health()] == ["http://b", "http://a"]


def test_many_that_wait_for_what_a_server_serves_do_not_all_try_it() -> None:
    with full_backlog() as port, scripted.Upstream() as server:
        server.paths = says("a")
        hung = f"http://127.0.0.1:{port}"
        known = make_snapshot(Settings(upstream=f"{hung},{server.url}", connect_timeout=0.3), read_rules(None))
        hanging, there = known.upstream.servers.values()
        ways = [ServerCandidates([hanging, there]) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            kinds = [*pool.map(lambda way: known.server_kind({}, way), ways)]
        assert kinds == ["vllm"] * 8 and all(way.server is there for way in ways)
        assert hanging.load.failures == 1 and server.asked == ["/v1/models"]


# The application.


def test_all_turns_of_a_conversation_go_to_one_server_and_conversations_to_all(
    inside: Inside, three: list[scripted.Upstream]
) -> None:
    client = inside(urls(three))
    shares = set()
    for number in range(30):
        name = spoken(client, number)
        more = [{"role": "assistant", "content": "I look."}, {"role": "user", "content": str(number)}]
        turn = chat(f"task {number}", stream=True)
        turn["messages"] += more
        assert said(client.post(CHAT, json=turn).data) == name
        asked = {"model": "tiny", "messages": turn["messages"]}
        assert client.post("/tokenize", json=asked).json["name"] == name
        shares.add(name)
    assert shares == {"0", "1", "2"}


def test_a_messages_conversation_and_the_count_of_its_tokens_go_to_one_server(
    inside: Inside, three: list[scripted.Upstream]
) -> None:
    client = inside(urls(three))
    asked = set()
    for number in range(20):
        body: dict[str, Any] = {"model": "claude-x", "max_tokens": 9, "system": "s"}
        body["messages"] = [{"role": "user", "content": str(number)}]
        for server in three:
            server.asked.clear()
        assert client.post(MESSAGES, json={**body, "stream": True}).status_code == 200
        turns = [*body["messages"], {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
        assert client.post(COUNT, json={**body, "messages": turns}).json == {"input_tokens": 7}
        reached = [server.url for server in three if {CHAT, "/tokenize"} & {*server.asked}]
        assert len(reached) == 1
        asked |= {*reached}
    assert len(asked) == 3


def test_a_model_with_servers_of_its_own_is_asked_of_those_in_every_dialect(
    inside: Inside, three: list[scripted.Upstream]
) -> None:
    rules = f"models: [{{match: own, servers: ['{three[2].url}/v1']}}]"
    client = inside(urls(three[:2]), rules)
    three[2].paths["/v1/models/own"] = [answer({"id": "own"})]
    assert {spoken(client, number, model="own") for number in range(9)} == {"2"}
    assert {spoken(client, number) for number in range(20)} == {"0", "1"}
    body = {"model": "own", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "a"}]}
    assert b'"2"' in client.post(MESSAGES, json=body).data
    assert client.post("/v1/completions", json={"model": "own", "prompt": "a"}).json["name"] == "2"
    assert client.post("/v1/completions", json={"model": "tiny", "prompt": "a"}).json["name"] in ("0", "1")
    assert client.post("/v1/completions", data=b"\x00 no json {").json["name"] in ("0", "1")
    assert client.get("/v1/models/own").json == {"id": "own"}


def test_the_plan_is_made_for_the_server_that_takes_the_request(inside: Inside) -> None:
    """vLLM is asked for the raw text; SGLang, which would drop the tools, is not."""
    kinds = {}
    with ExitStack() as stack:
        servers = [stack.enter_context(scripted.Upstream()) for _ in range(2)]
        client = inside(urls(servers), "models: [{match: '*', parse: proxy}]")
        for server, owner in zip(servers, ("vllm", "sglang"), strict=True):
            server.paths = {"/v1/models": says("", owner)["/v1/models"]}
            server._scripts = [stream(ROLE, text("a"), finish(), DONE)] * 20
        for number in range(20):
            client.post(CHAT, json=chat(f"task {number}", tools=[WRITE_FILE]))
        for server in servers:
            kinds[server.url] = {seen.json.get("tool_choice") for seen in server.seen}
    assert kinds == {servers[0].url: {"none"}, servers[1].url: {None}}


def test_a_request_that_goes_on_to_another_kind_of_server_is_planned_anew(inside: Inside) -> None:
    with scripted.Upstream() as other:
        with scripted.Upstream() as gone:
            gone.paths = says("gone")
            other.paths = says("other", "sglang")
            client = inside(f"{gone.url},{other.url}", "models: [{match: '*', parse: proxy}]")
            number = conversation_of(client, "gone")
            # Its kind is known by now, and it is asked for no more.
            client.post(CHAT, json=chat(f"task {number}", tools=[WRITE_FILE]))
        other.paths = {"/v1/models": other.paths["/v1/models"]}
        other._scripts = [stream(ROLE, text("a"), finish(), DONE)]
        assert client.post(CHAT, json=chat(f"task {number}", tools=[WRITE_FILE])).status_code == 200
        assert "tool_choice" not in other.seen[0].json and other.seen[0].json["tools"]


def test_a_second_try_of_auto_goes_to_the_same_server(inside: Inside) -> None:
    refused = [answer({"error": {"message": "'store' is not supported"}}, 400)]
    with scripted.Upstream() as one, scripted.Upstream() as two:
        client = inside(urls([one, two]))
        for number in range(10):
            for server in (one, two):
                server.play(refused, stream(ROLE, text("a"), finish(), DONE))
            assert client.post(CHAT, json=chat(f"task {number}", store=True)).status_code == 200
            assert sorted((len(one.seen), len(two.seen))) == [0, 2]


@pytest.mark.parametrize("rules", ["", "models: [{match: '*', parse: server}]"])
@pytest.mark.parametrize("observe", [False, True])
def test_a_request_goes_on_whoever_parses_and_is_sent_once(
    inside: Inside, caplog: pytest.LogCaptureFixture, rules: str, observe: bool
) -> None:
    caplog.set_level("INFO", "proxy")
    with scripted.Upstream() as server:
        server.paths = says("a")
        client = inside(f"{nowhere()},{server.url}", rules, observe=observe)
        for number in range(20):
            assert spoken(client, number) == "a"
        assert server.asked == [CHAT] * 20
        assert caplog.messages and not any("tries=" in line for line in caplog.messages)


@pytest.mark.parametrize("stream_", [True, False])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_if_none_can_be_reached_the_error_is_that_of_one(inside: Inside, path: str, stream_: bool) -> None:
    fleet = [nowhere(), nowhere(), nowhere()]
    client = inside(",".join(fleet))
    for _ in range(2):
        response = client.post(path, json={**chat(), "max_tokens": 9, "stream": stream_})
        assert (response.status_code, response.headers["Retry-After"]) == (502, "5")
        message = response.json["error"]["message"]
        assert message.startswith("the model server at http://") and sum(url in message for url in fleet) == 1


def test_a_server_that_comes_back_is_found_although_all_were_out(inside: Inside) -> None:
    """Also one of which nothing is known yet, by a client whose model's name is asked for there."""
    ports = [free_port(), free_port()]
    client = inside(",".join(f"http://127.0.0.1:{port}" for port in ports))
    body = {"model": "claude-x", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "a"}]}
    for _ in range(3):
        assert client.post(MESSAGES, json=body).status_code == 502
    with scripted.Upstream(port=ports[1]) as server:
        server.paths = says("back")
        assert b'"back"' in client.post(MESSAGES, json=body).data


def test_a_server_that_is_not_there_keeps_no_request_from_the_name_of_its_model(inside: Inside) -> None:
    with scripted.Upstream(*[stream(ROLE, text("a"), finish(), DONE)] * 10) as server:
        server.paths["/v1/models"] = says("a")["/v1/models"]
        client = inside(f"{nowhere()},{server.url}")
        for number in range(10):
            body = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": str(number)}]}
            assert client.post(MESSAGES, json={**body, "stream": True}).status_code == 200
        assert [seen.json["model"] for seen in server.seen] == ["tiny"] * 10
        assert server.asked == ["/v1/models"]


@pytest.mark.parametrize(("healths", "ready"), [((200, 503), True), ((503, 503), False), ((503, 404), True)])
def test_ready_is_true_as_long_as_one_is(inside: Inside, healths: tuple[int, ...], ready: bool) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(scripted.Upstream()) for _ in healths]
        for server, status in zip(servers, healths, strict=True):
            server.paths["/health"] = [answer({}, status)]
        client = inside(f"{nowhere()},{urls(servers)}")
        assert client.get("/_ready").status_code == (200 if ready else 503)
        assert inside(f"{nowhere()},{nowhere()}").get("/_ready").status_code == 503


def test_health_shows_all_of_them_and_how_they_stand(inside: Inside, three: list[scripted.Upstream]) -> None:
    gone, own = nowhere(), nowhere()
    client = inside(f"{gone},{urls(three)}", f"models: [{{match: own, servers: ['{own}']}}]")
    for number in range(20):
        spoken(client, number)
    health = client.get("/health").json
    assert health["vllm_url"] == health["target_host"] == f"{gone},{urls(three)}"
    assert [each["url"] for each in health["servers"]] == [gone, *(server.url for server in three), own]
    assert [each["ejected"] for each in health["servers"]] == [True, False, False, False, False]
    assert [each["streams"] for each in health["servers"]] == [0] * 5


# The real thing.


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


def asked(port: int, number: int, **more: Any) -> tuple[int, bytes]:
    with Client.post(port, chat(f"task {number}", **more)) as client, client.answer() as response:
        return response.status, response.read()


def test_one_of_three_is_lost_and_comes_back(proxy: Start, three: list[scripted.Upstream]) -> None:
    """Its stream ends in an error, all new requests go on, the others' conversations stay; then its own come back."""
    with ExitStack() as stack:
        lost = stack.enter_context(scripted.Upstream())
        lost.paths = says("0")
        front = proxy(lost.url, "--upstream", three[1].url, "--upstream", three[2].url)
        assert [each["url"] for each in front.health()["servers"]] == [lost.url, three[1].url, three[2].url]
        homes = _lose(front.port, lost, stack)
    for _ in range(2):
        for number, home in homes.items():
            status, data = asked(front.port, number)
            assert (status, said(data) in ("1", "2")) == (200, True)
            assert home == "0" or said(data) == home
    assert [each["ejected"] for each in front.health()["servers"]] == [True, False, False]
    own = next(number for number, home in homes.items() if home == "0")
    with scripted.Upstream(port=lost.port) as back:
        back.paths = says("0")
        until(lambda: said(asked(front.port, own)[1]) == "0")
        assert {number: said(asked(front.port, number)[1]) for number in homes} == homes
        assert not any(each["ejected"] for each in front.health()["servers"])
    assert front.idle()


def _lose(port: int, lost: scripted.Upstream, stack: ExitStack) -> dict[int, str]:
    """End the first server in the middle of a stream; which server each conversation had before."""
    homes = {number: said(asked(port, number)[1]) for number in range(24)}
    assert {*homes.values()} == {"0", "1", "2"}
    gate = lost.gate()
    lost.paths[CHAT] = [SSE, chunked(ROLE), chunked(text("half")), gate, Act.RST]
    own = next(number for number, name in homes.items() if name == "0")
    with Client.post(port, chat(f"task {own}")) as client, client.answer() as response:
        gate.wait()
        stack.close()
        data = response.read()
        assert b"half" in data and b'"error"' in data and b"[DONE]" not in data
    return homes


def test_streams_count_until_their_clients_are_gone_and_the_next_go_elsewhere(
    proxy: Start, three: list[scripted.Upstream]
) -> None:
    front = proxy(urls(three))

    def streams() -> list[int]:
        return [each["streams"] for each in front.health()["servers"]]

    for server in three:
        server.paths[CHAT] = [SSE, chunked(ROLE), chunked(text("a")), Act.EXPECT_CLOSE]
    with ExitStack() as stack:
        clients = [stack.enter_context(Client.post(front.port, chat("one and the same"))) for _ in range(18)]
        until(lambda: sum(streams()) == 18)
        # Up to four, and twice what the others have, stay together; then it is the others' turn.
        assert sorted(streams())[-1] < 18 and min(streams()) > 0
        for number, client in enumerate(clients):
            client.vanish(reset=bool(number % 2))
        until(lambda: streams() == [0, 0, 0])
    assert front.idle()


def test_a_reload_forgets_no_stream(proxy: Start, three: list[scripted.Upstream]) -> None:
    front = proxy(urls(three))
    for server in three:
        server.paths[CHAT] = [SSE, chunked(ROLE), chunked(text("a")), Act.EXPECT_CLOSE]
    with Client.post(front.port, chat()):
        until(lambda: sum(each["streams"] for each in front.health()["servers"]) == 1)
        with closing(http.client.HTTPConnection("127.0.0.1", front.port, timeout=PATIENCE)) as client:
            client.request("POST", "/_reload")
            assert client.getresponse().status == 200
        assert sum(each["streams"] for each in front.health()["servers"]) == 1
    until(lambda: sum(each["streams"] for each in front.health()["servers"]) == 0)


def test_one_that_hangs_is_left_after_the_first_request(proxy: Start, three: list[scripted.Upstream]) -> None:
    with full_backlog() as port:
        front = proxy(f"http://127.0.0.1:{port}", "--upstream", three[1].url, "--connect-timeout", "0.5")
        assert {said(asked(front.port, number)[1]) for number in range(20)} == {"1"}
        assert front.health()["servers"][0]["ejected"] is True
        assert front.get("/_ready")[0] == 200
        assert front.get("/v1/models")[0] == 200
