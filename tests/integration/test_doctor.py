"""`doctor` on scripted servers: each finding is reported exactly where its cause is present."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from proxy.config.rules import Rules
from proxy.doctor.asking import Asker
from proxy.doctor.examination import THINK, Level, NoModelError, NoServerError
from proxy.doctor.probes import PROBES
from proxy.doctor.report import Report, as_json, examine, lines
from proxy.upstream.client import ModelServer as Upstream
from proxy.upstream.client import ServerOptions
from tests.support.model_server import Behaviour, Message, ModelServer, Refused, Result, ordinary, refusal
from tests.support.scripted import DONE, PATIENCE
from tests.support.worker_state import read_rules

HERMES = "Hermes' JSON"
CHAT = "/v1/chat/completions"


def builtin() -> Rules:
    return read_rules(None)


def report_of(behaviour: Behaviour, rules: Rules | None = None, seconds: float = PATIENCE, model: str = "") -> Report:
    with ModelServer(behaviour) as server:
        ask = Asker(Upstream(ServerOptions(server.url)), "", seconds)
        return examine(ask, model, builtin() if rules is None else rules, lambda text: None)


def bad(report: Report) -> set[str]:
    return {finding.id for finding in report.findings if finding.level is not Level.GOOD}


def chat_only(answer: Callable[[Message], Result | None]) -> Callable[[str, Message], Result | None]:
    return lambda path, body: answer(body) if path == CHAT else None


def without_role(role: str) -> Callable[[Sequence[Message]], str]:
    return lambda messages: ordinary([each for each in messages if each["role"] != role])


def template(refuses: Callable[[Sequence[Message]], bool], why: str) -> Callable[[Sequence[Message]], str]:
    def render(messages: Sequence[Message]) -> str:
        if refuses(messages):
            raise Refused(why)
        return ordinary(messages)

    return render


def in_a_row(*roles: str) -> Callable[[Sequence[Message]], bool]:
    def has(messages: Sequence[Message]) -> bool:
        said = [each["role"] for each in messages]
        return any(tuple(said[at : at + len(roles)]) == roles for at in range(len(said)))

    return has


def edited(change: Callable[[Message], Message | None]) -> Callable[[Sequence[Message]], str]:
    def render(messages: Sequence[Message]) -> str:
        ordinary(messages)
        return ordinary([each for each in map(change, messages) if each is not None])

    return render


def first_call(message: Message) -> Message:
    return {**message, "tool_calls": (message.get("tool_calls") or [])[:1]}


def no_text_beside(message: Message) -> Message:
    return {**message, "content": ""} if message.get("tool_calls") else message


def no_late_system(messages: Sequence[Message]) -> str:
    return ordinary([each for at, each in enumerate(messages) if each["role"] != "system" or at < 2])


def no_second_system(messages: Sequence[Message]) -> str:
    return ordinary([each for at, each in enumerate(messages) if each["role"] != "system" or at != 1])


def said_calls(arguments: str = "{}", ids: Sequence[str] = ("a", "b")) -> Callable[[Message], Message]:
    def change(chunk: Message) -> Message:
        for choice in chunk["choices"]:
            for number, call in enumerate(choice["delta"].get("tool_calls") or ()):
                call["function"]["arguments"] = arguments
                call["id"] = ids[number]
        return chunk

    return change


def each_chunk(change: Callable[[Message], Message]) -> Callable[[list[bytes]], list[bytes]]:
    def changed(events: list[bytes]) -> list[bytes]:
        return [
            each if each == DONE else b"data: " + json.dumps(change(json.loads(each[6:]))).encode() + b"\n\n"
            for each in events
        ]

    return changed


def no_tools(tools: Sequence[Message]) -> str:
    raise Refused("This model takes no tools.")


def no_index(chunk: Message) -> Message:
    for choice in chunk["choices"]:
        for call in choice["delta"].get("tool_calls") or ():
            del call["index"]
    return chunk


def no_calls(events: list[bytes]) -> list[bytes]:
    return [each for each in events if b'"tool_calls": [' not in each]


def broken_whole(body: Message) -> Result | None:
    if body.get("stream") or not body.get("tools") or body["tool_choice"] == "none":
        return None
    call = {"id": "a", "type": "function", "function": {"name": "write_file", "arguments": '{"path": "doc'}}
    choice = {"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    return 200, json.dumps({"choices": [choice]}).encode()


def forced(message: Message, finish: str = "stop") -> Callable[[str, Message], Result | None]:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    data = json.dumps({"choices": [choice]}).encode()
    return chat_only(lambda body: (200, data) if body.get("tool_choice") == "required" else None)


def when(cause: Callable[[Message], Any], result: Result) -> Callable[[str, Message], Result | None]:
    return chat_only(lambda body: result if cause(body) else None)


def always(status: int) -> Callable[[str, Message], Result | None]:
    return chat_only(lambda body: refusal("Oh no.", status))


def last_text(body: Message) -> str:
    return str(body["messages"][-1]["content"])


def sglang(**info: str) -> dict[str, Result]:
    return {"/get_server_info": (200, json.dumps({"version": "0.5", **info}).encode())}


FINE = Behaviour()
OK_YES = (
    200,
    json.dumps({"choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}]}).encode(),
)


@dataclass(frozen=True)
class Case:
    """A server, and its findings; a healthy server has none."""

    behaviour: Behaviour
    findings: frozenset[str]


def case(findings: str, **differs: Any) -> Case:
    """Return the case of a server that differs from a healthy server in these fields."""
    return Case(replace(FINE, **differs), frozenset(findings.split()))


def refusing(refuses: Callable[[Sequence[Message]], bool], why: str, findings: str) -> Case:
    """Return the case of a template that rejects some conversations."""
    return case(findings, template=template(refuses, why))


CASES: Mapping[str, Case] = {
    "no fault": case(""),
    "no kind in the model list": case("kind_unsaid", owner="me"),
    "unknown kind": case("kind_unknown overflow_unknown", owner="me", paths={"/version": (404, b"")}),
    "no context": case("context_unknown", max_len=None),
    "no parser": case("parser_missing forced_refused stream_unknown", reads=None),
    "another family's parser, text left": case("parser_leaves_text", reads=frozenset({HERMES})),
    "another family's parser, swallowed": case(
        "call_swallowed stream_unknown", reads=frozenset({HERMES}), unread="swallowed"
    ),
    "another family's parser, swallowed in streams": case(
        "parser_leaves_text stream_swallows", reads=frozenset({HERMES}), unread="in streams"
    ),
    "another family's parser, also with tool_choice none": case(
        "all_swallowed stream_unknown", reads=frozenset({HERMES}), unread="swallowed", under_none="swallowed"
    ),
    "a parser that fails": case("parser_fails stream_unknown", reads=frozenset(), unread="fails"),
    "a parser that fails, newer error message": case(
        "parser_fails stream_unknown",
        before=when(
            lambda body: body.get("tools") and body["tool_choice"] == "auto",
            refusal("The model produced output that does not match the expected peg-native format", 500),
        ),
    ),
    "calls are removed with tool_choice none too": case("none_takes_calls", under_none="swallowed"),
    "a model that does not call": case("call_unknown forced_ignored", calls=False),
    "no chat endpoint": case(
        "chat_unanswered forced_unknown stream_unknown reasoning_unknown overflow_unknown",
        before=chat_only(lambda body: (404, b'{"detail": "Not Found"}')),
    ),
    **{
        f"chat is always a {status}": case(
            "chat_unanswered forced_unknown stream_unknown reasoning_unknown overflow_unknown", before=always(status)
        )
        for status in (400, 401, 404, 422, 429, 500, 502, 503)
    },
    "arguments cut off": case("arguments_broken forced_broken", before=chat_only(broken_whole)),
    "a forced call becomes prose": case("forced_ignored", before=forced({"content": "I write it."})),
    "a forced call is cut off": case("forced_unknown", before=forced({"content": "I w"}, "length")),
    "calls lost in streams": case("stream_loses_calls", stream=no_calls),
    "arguments broken in streams": case("stream_misshapen", stream=each_chunk(said_calls('{"path": '))),
    "no index in streams": case("stream_misshapen", stream=each_chunk(no_index)),
    "no [DONE]": case("stream_misshapen", stream=lambda events: events[:-1]),
    "streams are refused": case(
        "stream_refused", before=when(lambda body: body.get("stream"), refusal("no streams here"))
    ),
    "streams break": case(
        "stream_breaks", stream=lambda events: [events[0], b'data: {"error": {"message": "gone"}}\n\n']
    ),
    "reasoning in a field": case("", thinks="Hm.", thought_field="reasoning_content"),
    "reasoning in the text": case("reasoning_in_text", thinks="<think>\nHm.\n</think>\n\n"),
    "reasoning cannot be requested": case(
        "reasoning_unknown", before=when(lambda body: last_text(body) == THINK, refusal("busy", 503))
    ),
    "a long prompt is refused, unknown error message": case(
        "overflow_words", before=when(lambda body: len(last_text(body)) > 5000, refusal("that is rather long"))
    ),
    "a long prompt is accepted": case("overflow_taken", before=when(lambda body: len(last_text(body)) > 5000, OK_YES)),
    "a late system message is lost": case("late_system_lost", template=no_late_system),
    "a late system message is lost, shown by token counts": case(
        "late_system_lost", template=no_late_system, paths={"/tokenize": (404, b"")}
    ),
    "a late system message is refused": refusing(
        in_a_row("assistant", "system"), "System message must be at the beginning.", "late_system_refused"
    ),
    "a second system message is lost": case("two_systems_lost", template=no_second_system),
    "a second system message is refused": refusing(
        in_a_row("system", "system"), "Only one system message.", "two_systems_refused"
    ),
    "the second call is lost": case("several_calls_lost", template=edited(first_call)),
    "two calls are refused": refusing(
        lambda said: any(len(each.get("tool_calls") or ()) > 1 for each in said),
        "This model only supports single tool-calls at once!",
        "several_calls_refused",
    ),
    "text with a call is lost": case("text_beside_call_lost", template=edited(no_text_beside)),
    "text with a call is refused": refusing(
        lambda said: any(each.get("tool_calls") and each["content"] for each in said),
        "both content and calls",
        "text_beside_call_refused",
    ),
    "tools are lost": case("tools_lost", offers=lambda tools: ""),
    "tools are refused": case(
        "tools_refused call_unknown forced_unknown stream_unknown results_unknown "
        "late_system_unknown two_systems_unknown several_calls_unknown text_beside_call_unknown "
        "user_behind_result_unknown two_users_unknown other_ids_unknown",
        offers=no_tools,
    ),
    "results are lost": case("results_lost", template=without_role("tool")),
    "results are refused": refusing(
        in_a_row("tool"),
        "Unknown role: tool",
        "results_refused several_calls_unknown text_beside_call_unknown user_behind_result_unknown other_ids_unknown",
    ),
    "a user message after a result is refused": refusing(
        in_a_row("tool", "user"), "Unexpected role 'user' after role 'tool'", "user_behind_result_refused"
    ),
    "a user message after a result is lost": case(
        "user_behind_result_lost",
        template=lambda said: ordinary(said[:-1] if [each["role"] for each in said[-2:]] == ["tool", "user"] else said),
    ),
    "two user messages are refused": refusing(
        in_a_row("user", "user"), "conversation roles must alternate", "two_users_refused"
    ),
    "the second of two user messages is lost": case(
        "two_users_lost",
        template=lambda said: ordinary(said[:1] if [each["role"] for each in said] == ["user"] * 2 else said),
    ),
    "ids are refused": refusing(
        lambda said: any(len(call["id"]) != 9 for each in said for call in each.get("tool_calls") or ()),
        "Tool call IDs should be alphanumeric strings with length 9!",
        "other_ids_refused",
    ),
    "calls with ids of others are lost": case(
        "other_ids_lost",
        template=edited(
            lambda each: None if any(len(call["id"]) != 9 for call in each.get("tool_calls") or ()) else each
        ),
    ),
    "nothing shows the prompt": case(
        "overflow_unknown tools_unknown late_system_unknown two_systems_unknown several_calls_unknown "
        "text_beside_call_unknown results_unknown user_behind_result_unknown two_users_unknown other_ids_unknown",
        before=lambda path, body: (404, b"") if path == "/tokenize" or body.get("max_tokens") == 1 else None,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_findings_match_the_server(name: str) -> None:
    chosen = CASES[name]
    report = report_of(chosen.behaviour)
    assert bad(report) == chosen.findings
    for finding in report.findings:
        assert bool(finding.harm) == bool(finding.remedy) == (finding.level in (Level.HARM, Level.NOTE)), finding.id


def test_an_unlisted_model_is_an_error() -> None:
    with pytest.raises(NoModelError, match=r"^no model 'x'; the server has: Qwen3-Coder$"):
        report_of(FINE, model="x")


def test_the_examination_stops_when_the_server_stops_answering() -> None:
    """After the model list every request times out: all other findings are unknown."""
    silent, over = threading.Event(), threading.Event()

    def hang(path: str, body: Message) -> Result | None:
        if silent.is_set():
            over.wait(PATIENCE)
        return None

    def step(title: str) -> None:
        silent.set()
        ask.seconds = 0.1

    with ModelServer(replace(FINE, before=hang)) as server:
        ask = Asker(Upstream(ServerOptions(server.url)), "", PATIENCE)
        report = examine(ask, "", builtin(), step)
        over.set()
    levels = {finding.id: finding.level for finding in report.findings}
    assert [id for id, level in levels.items() if level is Level.HARM] == ["chat_unanswered"] and report.entry == ""
    assert levels["forced_unknown"] is levels["late_system_unknown"] is Level.UNKNOWN


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, b"\x00what?"), "status 200: it is not a reply"),
        ((200, b'{"choices": []}'), "status 200: it is not a reply"),
        ((404, b'{"detail": "Not Found"}'), "status 404: Not Found"),
        ((405, b""), "status 405: the model server, or something before it, answered 405 Method Not Allowed"),
        ((500, b"Oh no"), "status 500: the model server answered 500 Internal Server Error: Oh no"),
    ],
)
def test_a_server_with_models_but_without_chat_is_unusable(answer: Result, why: str) -> None:
    """Otherwise it would be reported as a server without faults."""
    report = report_of(replace(FINE, before=chat_only(lambda body: answer)))
    harm = {finding.id: finding.what for finding in report.findings if finding.level is Level.HARM}
    assert harm == {"chat_unanswered": f"requests for chat are not answered: {why}"}
    assert report.entry == "" and report.verdict == "No agent can work with this server."


def test_the_report_shows_its_costs_and_the_server_is_unchanged() -> None:
    with ModelServer(FINE) as server:
        report = examine(Asker(Upstream(ServerOptions(server.url)), "", PATIENCE), "", builtin(), lambda text: None)
        paths = {path for path, _ in server.asked}
        assert report.examination.ask.spent.requests == len(server.asked) < 60
    assert paths == {"/", "/v1/models", "/version", "/tokenize", CHAT}
    spent = report.examination.ask.spent
    assert spent.prompt_tokens > 0 and spent.completion_tokens > 0 and report.seconds > 0


@pytest.mark.parametrize(
    ("behaviour", "verdict"),
    [
        (FINE, "Works with this proxy as it is."),
        (
            replace(FINE, reads=frozenset({HERMES})),
            "Works with this proxy as it is. Without it, 1 of 2 kinds of calls are lost.",
        ),
        (
            replace(FINE, stream=no_calls),
            "Works with this proxy and the entry below in its rules. Without it, 1 of 3 kinds of calls are lost.",
        ),
        (
            replace(FINE, before=forced({"content": "I write it."})),
            "Works with this proxy in part: see what does harm. Without it, 1 of 3 kinds of calls are lost.",
        ),
    ],
)
def test_the_first_line_is_the_verdict_and_the_last_line_the_next_command(behaviour: Behaviour, verdict: str) -> None:
    report = report_of(behaviour)
    first, *_, last = lines(report)
    assert first == verdict
    url = report.examination.ask.url
    command = f"doctor --upstream {url} --write" if report.entry else f"launch claude --upstream {url}"
    assert last == f"next: vllm-tool-proxy {command}"


def test_only_another_template_is_advised_if_the_template_drops_tools_and_calls() -> None:
    """SmolLM2-135M-Instruct's own template renders only the role and content of each message."""
    behaviour = replace(
        FINE,
        owner="llamacpp",
        calls=False,
        offers=lambda tools: "",
        template=lambda said: "".join(f"<|{each['role']}|>\n{each.get('content')}<|im_end|>\n" for each in said),
        paths={"/props": (200, b'{"build_info": "b1"}')},
    )
    report = report_of(behaviour)
    first, *rest = lines(report)
    assert first == (
        "The chat template leaves out the tools: the model never sees them; serve it with another template."
    )
    assert {"tools_lost", "several_calls_lost", "other_ids_lost", "forced_ignored"} <= bad(report)
    assert report.entry == "" and not any("heal:" in line or "--jinja" in line for line in rest)
    assert rest[-1] == f"next: vllm-tool-proxy doctor --upstream {report.examination.ask.url}"


def test_undecided_probes_are_reported_in_one_line() -> None:
    report = report_of(replace(FINE, calls=False))
    assert "kinds of calls" not in report.verdict, "an undecided kind cannot be counted"
    undecided = [line for line in lines(report) if line.startswith("not decided: ")]
    assert len(undecided) == 1 and "whether calls arrive (the model did not call" in undecided[0]


def test_the_report_is_available_as_text_and_as_json() -> None:
    report = report_of(replace(FINE, reads=frozenset({HERMES}), unread="swallowed"))
    text = "\n".join(lines(report))
    begin = f"{report.examination.ask.url}: vllm 0.32.0, model Qwen3-Coder\n\ndoes harm:\n"
    assert f"{begin}- the server swallows the model's call" in text
    assert "--enable-auto-tool-choice --tool-call-parser qwen3_xml" in " ".join(text.split())
    assert f"  {report.entry}\n" in text and "nothing was changed on the server" in text
    said = json.loads(json.dumps(as_json(report)))
    assert said["harm"] is True and said["model"] == "Qwen3-Coder" and said["context"] == 2000
    told = next(finding for finding in said["findings"] if finding["id"] == "call_swallowed")
    assert told["level"] == "harm" and told["handled"] is True and told["harm"] and told["remedy"]
    assert said["spent"]["requests"] == report.examination.ask.spent.requests


@pytest.mark.parametrize(
    ("behaviour", "entry"),
    [
        (FINE, {}),
        (replace(FINE, reads=None), {"parse": "proxy"}),
        (replace(FINE, reads=None, owner="sglang", version="", paths=sglang()), {}),
        (replace(FINE, reads=frozenset({HERMES})), {"parse": "proxy"}),
        (replace(FINE, under_none="swallowed"), {"parse": "server"}),
        (replace(FINE, owner="me"), {"server": "vllm"}),
        (replace(FINE, stream=no_calls), {"upstream": "whole"}),
        (replace(FINE, thinks="<think>\nHm.\n</think>\n\n"), {"reasoning": "split"}),
        (replace(FINE, template=edited(first_call)), {"heal": {"on": ["one_call"]}}),
        # Healing does not help if the template loses every call.
        (replace(FINE, template=edited(lambda each: {**each, "tool_calls": []})), {}),
        # Healings that apply to this model's family need no entry.
        (replace(FINE, name="Mistral-7B", template=no_late_system), {}),
    ],
)
def test_the_entry_contains_the_fix(behaviour: Behaviour, entry: dict[str, Any]) -> None:
    report = report_of(behaviour)
    if not entry:
        assert report.entry == ""
        return
    builtin_words = {"match": behaviour.name, "parse": "auto", "upstream": "live", "thinking": "enable_thinking"}
    assert json.loads(report.entry.removeprefix("- ")) == builtin_words | entry


@pytest.mark.parametrize(
    ("paths", "words_of"),
    [
        ({"/v1/models": (404, b"<html>")}, "is not a model server: it answers /v1/models with 404"),
        ({"/v1/models": (200, b"<html>")}, "is not a model server: its answer to /v1/models is not a list of models"),
        ({"/v1/models": (200, b'{"data": []}')}, "is not a model server: its answer to /v1/models is not a list"),
        ({"/v1/models": (401, b"{}")}, "the server wants a key (401); name its variable with --key-env"),
        ({"/v1/models": refusal("Loading model", 503)}, "is not ready (503): Loading model; wait until its model"),
    ],
)
def test_a_server_that_is_not_a_model_server_is_reported(paths: dict[str, Result], words_of: str) -> None:
    with pytest.raises(NoServerError) as told:
        report_of(replace(FINE, paths=paths))
    assert words_of in str(told.value) and "\n" not in str(told.value)


def test_a_refused_key_is_named_by_its_source() -> None:
    with ModelServer(replace(FINE, paths={"/v1/models": (401, b"{}")})) as server:
        ask = Asker(Upstream(ServerOptions(server.url)), "sk-x", PATIENCE, key_from="K")
        with pytest.raises(NoServerError, match=r"^the server refuses the key in K \(401\)$"):
            examine(ask, "", builtin(), lambda text: None)


def test_probes_after_the_time_limit_are_skipped() -> None:
    """A probe with a missing answer is skipped too: no finding is based on partial results."""
    ended = threading.Event()

    def wait(body: Message) -> None:
        ended.wait(PATIENCE)

    with ModelServer(replace(FINE, before=chat_only(wait))) as server:
        ask = Asker(Upstream(ServerOptions(server.url)), "", PATIENCE)

        def step(title: str) -> None:
            ask.budget = min(ask.budget, ask.spent.seconds + 0.2)

        report = examine(ask, "", builtin(), step)
        ended.set()
    assert [finding.id for finding in report.findings] == ["kind", *["not_examined"] * (len(PROBES) - 1)]
    assert (report.does_harm, report.entry, as_json(report)["unexamined"]) == (False, "", len(PROBES) - 1)


def test_the_family_follows_from_the_path_that_sglang_reports() -> None:
    about = sglang(model_path="/models/Qwen3-Coder-30B-A3B", tool_call_parser="hermes")
    family = report_of(replace(FINE, name="agent", owner="sglang", paths=about)).examination.family
    assert family is not None and family.name == "qwen3-coder"
