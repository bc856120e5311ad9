"""`doctor` on servers that behave as they are told: each finding is there where its cause is, and nowhere else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from proxy.config.rules import Rules
from proxy.doctor import words
from proxy.doctor.ask import MAX_TIMEOUTS, Asker
from proxy.doctor.doctor import examine
from proxy.doctor.findings import Level
from proxy.doctor.report import Report, as_json, lines
from proxy.doctor.server import NoServerError
from proxy.doctor.syntaxes import SYNTAXES
from proxy.doctor.table import PROBES
from proxy.upstream.client import ModelServer as Upstream
from proxy.upstream.client import ServerOptions
from tests.support.model_server import Behaviour, Message, ModelServer, Refused, Result, ordinary, refusal
from tests.support.scripted import DONE, PATIENCE
from tests.support.worker_state import read_rules

HERMES, CODER = "Hermes' JSON", "Qwen3-Coder's XML"
CHAT = "/v1/chat/completions"
# What is found on a server without a fault.
HEALTHY = {"flags_unsaid", "options_refused", "no_thoughts", "poisoned_arguments_refused"}


def builtin() -> Rules:
    return read_rules(None)


def examined(behaviour: Behaviour, rules: Rules | None = None, seconds: float = PATIENCE, model: str = "") -> Report:
    """The report on a server that behaves so."""
    with ModelServer(behaviour) as server:
        ask = Asker(Upstream(ServerOptions(server.url)), "", seconds)
        return examine(ask, model, builtin() if rules is None else rules, lambda text: None)


def bad(report: Report) -> set[str]:
    """The ids of all that is not as it should be."""
    return {finding.id for finding in report.findings if finding.level is not Level.GOOD}


def chat_only(answer: Callable[[Message], Result | None]) -> Callable[[str, Message], Result | None]:
    """A hook for chat requests alone."""
    return lambda path, body: answer(body) if path == CHAT else None


def without_role(role: str) -> Callable[[Sequence[Message]], str]:
    """A template that leaves messages of a role out."""
    return lambda messages: ordinary([each for each in messages if each["role"] != role])


def template(refuses: Callable[[Sequence[Message]], bool], why: str) -> Callable[[Sequence[Message]], str]:
    """A template that refuses some conversations."""

    def render(messages: Sequence[Message]) -> str:
        if refuses(messages):
            raise Refused(why)
        return ordinary(messages)

    return render


def in_a_row(*roles: str) -> Callable[[Sequence[Message]], bool]:
    """True for conversations in which such messages follow each other."""

    def has(messages: Sequence[Message]) -> bool:
        said = [each["role"] for each in messages]
        return any(tuple(said[at : at + len(roles)]) == roles for at in range(len(said)))

    return has


def edited(change: Callable[[Message], Message | None]) -> Callable[[Sequence[Message]], str]:
    """A template that sees each message changed, or not at all."""

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


def opening(messages: Sequence[Message]) -> str:
    return f"{ordinary(messages)}<think>\n"


def said_calls(arguments: str = "{}", ids: Sequence[str] = ("a", "b")) -> Callable[[Message], Message]:
    """Changes the calls of a chunk."""

    def change(chunk: Message) -> Message:
        for choice in chunk["choices"]:
            for number, call in enumerate(choice["delta"].get("tool_calls") or ()):
                call["function"]["arguments"] = arguments
                call["id"] = ids[number]
        return chunk

    return change


def each_chunk(change: Callable[[Message], Message]) -> Callable[[list[bytes]], list[bytes]]:
    """Changes the chunks of a stream."""

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


def one_call(events: list[bytes]) -> list[bytes]:
    return [each for each in events if b'"index": 1' not in each]


def one_id(chunk: Message) -> Message:
    return said_calls('{"path": "a", "content": "b"}', ("a", "a"))(chunk)


def no_usage(events: list[bytes]) -> list[bytes]:
    return [each for each in events if b'"usage"' not in each]


def broken_whole(body: Message) -> Result | None:
    """The arguments of a whole answer are cut off."""
    if body.get("stream") or not body.get("tools") or body["tool_choice"] == "none":
        return None
    call = {"id": "a", "type": "function", "function": {"name": "write_file", "arguments": '{"path": "doc'}}
    choice = {"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    return 200, json.dumps({"choices": [choice]}).encode()


def forced(message: Message, finish: str = "stop") -> Callable[[str, Message], Result | None]:
    """What comes of a forced call."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    data = json.dumps({"choices": [choice]}).encode()
    return chat_only(lambda body: (200, data) if body.get("tool_choice") == "required" else None)


def when(cause: Callable[[Message], Any], result: Result) -> Callable[[str, Message], Result | None]:
    """This answer to the chat requests that have a cause."""
    return chat_only(lambda body: result if cause(body) else None)


def asked(body: Message) -> str:
    return str(body["messages"][-1]["content"])


WITH_TOOLS: Mapping[str, Any] = {"owner": "sglang", "version": ""}


def sglang(**info: str) -> dict[str, Result]:
    return {"/get_server_info": (200, json.dumps({"version": "0.5", **info}).encode())}


FINE = Behaviour()
PLAIN = '{"path": "a", "content": "b"}'
OK_YES = (
    200,
    json.dumps({"choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}]}).encode(),
)


@dataclass(frozen=True)
class Case:
    """A server, and what is found there beside what is found on a healthy one (`more`), and instead of it (`less`)."""

    behaviour: Behaviour
    more: frozenset[str]
    less: frozenset[str] = frozenset()


def case(behaviour: Behaviour, more: str, less: str = "") -> Case:
    return Case(behaviour, frozenset(more.split()), frozenset(less.split()))


CASES: Mapping[str, Case] = {
    "no fault": case(FINE, ""),
    "it names no kind": case(replace(FINE, owner="me"), "kind_unsaid"),
    "nothing tells the kind": case(
        replace(FINE, owner="me", paths={"/version": (404, b"")}),
        "kind_unknown overflow_untold",
    ),
    "no context": case(replace(FINE, max_len=None), "context_unknown overflow_untold"),
    "no parser": case(
        replace(FINE, reads=None),
        "parser_missing syntaxes_none forced_refused stream_untold parallel_untold",
    ),
    "another family's parser, text left": case(
        replace(FINE, reads=frozenset({HERMES})), "parser_leaves_text parser_wrong parallel_lost"
    ),
    "another family's parser, swallowed": case(
        replace(FINE, reads=frozenset({HERMES}), unread="swallowed"),
        "call_swallowed parser_wrong stream_untold parallel_lost",
    ),
    "another family's parser, swallowed in streams": case(
        replace(FINE, reads=frozenset({HERMES}), unread="in streams"),
        "parser_leaves_text parser_wrong stream_swallows parallel_lost",
    ),
    "another family's parser, under none too": case(
        replace(FINE, reads=frozenset({HERMES}), unread="swallowed", under_none="swallowed"),
        "all_swallowed syntaxes_untold stream_untold parallel_untold",
    ),
    "a parser that fails": case(
        replace(FINE, reads=frozenset(), unread="fails"),
        "parser_fails syntaxes_untold stream_untold parallel_untold",
    ),
    "a parser that fails, in the words of later ones": case(
        replace(
            FINE,
            before=when(
                lambda body: body.get("tools") and body["tool_choice"] == "auto",
                refusal("The model produced output that does not match the expected peg-native format", 500),
            ),
        ),
        "parser_fails syntaxes_untold stream_untold parallel_untold",
    ),
    "under none the calls are taken, too": case(
        replace(FINE, under_none="swallowed"), "none_takes_calls syntaxes_untold"
    ),
    "a model that does not call": case(replace(FINE, calls=False), "call_untold forced_ignored parallel_untold"),
    "there is no chat": case(
        replace(FINE, before=chat_only(lambda body: (404, b'{"detail": "Not Found"}'))),
        "chat_unanswered syntaxes_untold forced_untold stream_untold parallel_untold thoughts_untold special_untold "
        "usage_untold errors_untold overflow_untold",
        "no_thoughts options_refused",
    ),
    **{
        f"chat is always a {status}": case(
            replace(FINE, before=chat_only(lambda body, status=status: refusal("Oh no.", status))),  # type: ignore[misc]
            f"{harm} syntaxes_untold forced_untold stream_untold parallel_untold thoughts_untold special_untold "
            "usage_untold errors_untold overflow_untold",
            "no_thoughts options_refused",
        )
        for status, harm in (
            *((404, "chat_unanswered"), (500, "chat_unanswered"), (502, "chat_unanswered"), (503, "chat_unanswered")),
            *((400, "call_untold"), (401, "call_untold"), (422, "call_untold"), (429, "call_untold")),
        )
    },
    "arguments cut off": case(
        replace(FINE, before=chat_only(broken_whole)), "arguments_broken forced_broken syntaxes_untold parallel_lost"
    ),
    "a forced call is prose": case(replace(FINE, before=forced({"content": "I write it."})), "forced_ignored"),
    "a forced call is cut off": case(replace(FINE, before=forced({"content": "I w"}, "length")), "forced_untold"),
    "calls lost in streams": case(replace(FINE, stream=no_calls), "stream_loses_calls parallel_lost_in_stream"),
    "one of two calls in streams": case(replace(FINE, stream=one_call), "parallel_lost_in_stream"),
    "one id for two calls": case(replace(FINE, stream=each_chunk(one_id)), "parallel_one_id"),
    "arguments broken in streams": case(
        replace(FINE, stream=each_chunk(said_calls('{"path": '))), "stream_misshapen parallel_one_id"
    ),
    "no index in streams": case(replace(FINE, stream=each_chunk(no_index)), "stream_misshapen parallel_lost_in_stream"),
    "no [DONE]": case(replace(FINE, stream=lambda events: events[:-1]), "stream_without_done"),
    "streams are refused": case(
        replace(FINE, before=when(lambda body: body.get("stream"), refusal("no streams here"))),
        "stream_refused parallel_untold usage_untold",
    ),
    "streams break": case(
        replace(FINE, stream=lambda events: [events[0], b'data: {"error": {"message": "gone"}}\n\n']),
        "stream_breaks parallel_untold usage_untold",
    ),
    "thoughts in a field": case(replace(FINE, thinks="Hm.", thought_field="reasoning_content"), "", "no_thoughts"),
    "thoughts in the text": case(replace(FINE, thinks="<think>\nHm.\n</think>\n\n"), "thoughts_in_text", "no_thoughts"),
    "thoughts cannot be asked for": case(
        replace(FINE, before=when(lambda body: asked(body) == words.THINK, refusal("busy", 503))),
        "thoughts_untold",
        "no_thoughts",
    ),
    "the template opens a thought": case(replace(FINE, template=opening), "opened_unknown"),
    "the template opens a thought, and the family's does not": case(
        replace(FINE, template=opening, name="Qwen3-8B"), "opened_unknown"
    ),
    "the template opens a thought, and the family's does": case(replace(FINE, template=opening, name="Qwen3.5-4B"), ""),
    "the template opens none, and the family's does": case(replace(FINE, name="Qwen3.5-4B"), "opens_not"),
    "special tokens are refused": case(
        replace(FINE, before=when(lambda body: "skip_special_tokens" in body, refusal("extra fields not permitted"))),
        "special_refused syntaxes_untold",
    ),
    "special tokens fail": case(
        replace(FINE, before=when(lambda body: "skip_special_tokens" in body, refusal("oh", 500))),
        "special_untold syntaxes_untold",
    ),
    "no usage in streams": case(replace(FINE, stream=no_usage), "usage_missing"),
    "stream_options beside a whole answer are taken": case(
        replace(FINE, before=when(lambda body: body.get("stream_options") and not body.get("stream"), OK_YES)),
        "",
        "options_refused",
    ),
    "no counts": case(replace(FINE, paths={"/tokenize": (404, b"")}), "counts_missing opens_untold"),
    "any model": case(
        replace(FINE, before=when(lambda body: body["model"].endswith("not-there"), OK_YES)), "any_model"
    ),
    "a bad field is taken": case(
        replace(FINE, before=when(lambda body: body.get("temperature") == "hot", OK_YES)), "bad_field_taken"
    ),
    "errors of an odd shape": case(
        replace(FINE, before=when(lambda body: body["model"].endswith("not-there"), (404, b'{"detail":"No."}'))),
        "error_odd",
    ),
    "a long prompt is refused in other words": case(
        replace(FINE, before=when(lambda body: len(asked(body)) > 5000, refusal("that is rather long"))),
        "overflow_unknown",
    ),
    "a long prompt is taken": case(
        replace(FINE, before=when(lambda body: len(asked(body)) > 5000, OK_YES)), "overflow_taken"
    ),
    "developer is lost": case(replace(FINE, template=without_role("developer")), "developer_lost"),
    "developer is lost, as the counts say": case(
        replace(FINE, template=without_role("developer"), paths={"/tokenize": (404, b"")}),
        "developer_lost counts_missing opens_untold",
    ),
    "developer is refused": case(
        replace(FINE, template=template(in_a_row("developer"), "Unexpected message role.")), "developer_refused"
    ),
    "a late system message is lost": case(replace(FINE, template=no_late_system), "late_system_lost"),
    "a late system message is refused": case(
        replace(FINE, template=template(in_a_row("assistant", "system"), "System message must be at the beginning.")),
        "late_system_refused",
    ),
    "a second system message is lost": case(replace(FINE, template=no_second_system), "two_systems_lost"),
    "a second system message is refused": case(
        replace(FINE, template=template(in_a_row("system", "system"), "Only one system message.")),
        "two_systems_refused",
    ),
    "the second call is lost": case(replace(FINE, template=edited(first_call)), "several_calls_lost"),
    "two calls are refused": case(
        replace(
            FINE,
            template=template(
                lambda said: any(len(each.get("tool_calls") or ()) > 1 for each in said),
                "This model only supports single tool-calls at once!",
            ),
        ),
        "several_calls_refused",
    ),
    "text beside a call is lost": case(replace(FINE, template=edited(no_text_beside)), "text_beside_call_lost"),
    "text beside a call is refused": case(
        replace(
            FINE,
            template=template(
                lambda said: any(each.get("tool_calls") and each["content"] for each in said), "both content and calls"
            ),
        ),
        "text_beside_call_refused",
    ),
    "tools are lost": case(replace(FINE, offers=lambda tools: ""), "tools_lost"),
    "tools are refused": case(
        replace(FINE, offers=no_tools),
        "tools_refused call_untold syntaxes_untold forced_untold stream_untold parallel_untold results_untold "
        "developer_untold late_system_untold two_systems_untold several_calls_untold poisoned_arguments_untold "
        "text_beside_call_untold user_behind_result_untold two_users_untold other_ids_untold",
        "poisoned_arguments_refused",
    ),
    "results are lost": case(replace(FINE, template=without_role("tool")), "results_lost"),
    "results are refused": case(
        replace(FINE, template=template(in_a_row("tool"), "Unknown role: tool")),
        # Nothing more is known of what has a result in it.
        "results_refused several_calls_untold text_beside_call_untold user_behind_result_untold other_ids_untold "
        "poisoned_arguments_untold",
        "poisoned_arguments_refused",
    ),
    "a user behind a result is refused": case(
        replace(FINE, template=template(in_a_row("tool", "user"), "Unexpected role 'user' after role 'tool'")),
        "user_behind_result_refused",
    ),
    "a user behind a result is lost": case(
        replace(
            FINE,
            template=lambda said: ordinary(
                said[:-1] if [each["role"] for each in said[-2:]] == ["tool", "user"] else said
            ),
        ),
        "user_behind_result_lost",
    ),
    "two users are refused": case(
        replace(FINE, template=template(in_a_row("user", "user"), "conversation roles must alternate")),
        "two_users_refused",
    ),
    "the second of two users is lost": case(
        replace(
            FINE, template=lambda said: ordinary(said[:1] if [each["role"] for each in said] == ["user"] * 2 else said)
        ),
        "two_users_lost",
    ),
    "ids are refused": case(
        replace(
            FINE,
            template=template(
                lambda said: any(len(call["id"]) != 9 for each in said for call in each.get("tool_calls") or ()),
                "Tool call IDs should be alphanumeric strings with length 9!",
            ),
        ),
        "other_ids_refused",
    ),
    "calls with ids of others are lost": case(
        replace(
            FINE,
            template=edited(
                lambda each: None if any(len(call["id"]) != 9 for call in each.get("tool_calls") or ()) else each
            ),
        ),
        "other_ids_lost",
    ),
    "poisoned arguments are lost": case(
        replace(
            FINE,
            template=lambda said: ordinary(
                [
                    each
                    for each in said
                    if not any(not call["function"]["arguments"].endswith("}") for call in each.get("tool_calls") or ())
                ]
            ),
        ),
        "poisoned_arguments_lost",
        "poisoned_arguments_refused",
    ),
    "poisoned arguments are taken": case(
        replace(
            FINE,
            template=lambda said: "\n".join(
                [f"<|{each['role']}|>{each.get('content')}{each.get('tool_calls')}" for each in said]
            ),
        ),
        "",
        "poisoned_arguments_refused",
    ),
    "SGLang without a parser": case(replace(FINE, **WITH_TOOLS, paths=sglang()), "flag_missing", "flags_unsaid"),
    "SGLang with another parser": case(
        replace(FINE, **WITH_TOOLS, paths=sglang(tool_call_parser="llama3")), "flag_other", "flags_unsaid"
    ),
    "SGLang with the parser": case(
        replace(FINE, **WITH_TOOLS, paths=sglang(tool_call_parser="qwen3_coder")), "", "flags_unsaid"
    ),
    "nothing shows the prompt": case(
        replace(
            FINE, before=lambda path, body: (404, b"") if path == "/tokenize" or body.get("max_tokens") == 1 else None
        ),
        "opens_untold special_untold usage_untold counts_missing errors_untold overflow_untold developer_untold "
        "tools_untold "
        "late_system_untold two_systems_untold several_calls_untold poisoned_arguments_untold text_beside_call_untold "
        "results_untold user_behind_result_untold two_users_untold other_ids_untold",
        "options_refused poisoned_arguments_refused",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_is_found_is_what_is_there(name: str) -> None:
    chosen = CASES[name]
    report = examined(chosen.behaviour)
    assert bad(report) == (HEALTHY | chosen.more) - chosen.less


def test_each_finding_is_seen_where_it_is_and_where_it_is_not() -> None:
    """All that can be found and is not good is found in one case at least, and no case has all of them."""
    levels = {told.id: told.level for probe in PROBES for told in probe.tells}
    named = set().union(*(each.more for each in CASES.values())) | HEALTHY
    # These two have tests of their own.
    elsewhere = {"model_not_listed", "counts_untold"}
    assert {name for name, level in levels.items() if level is not Level.GOOD} == named | elsewhere


def test_a_model_that_is_not_listed_is_told() -> None:
    report = examined(replace(FINE, before=lambda path, body: refusal("no", 404) if path == CHAT else None), model="x")
    told = {finding.id: finding for finding in report.findings}["model_not_listed"]
    assert told.what == "the model x is not among those that the server lists: Qwen3-Coder"
    assert report.model == "x" and "model_not_listed" not in bad(examined(FINE))


def test_a_server_that_falls_silent_is_given_up() -> None:
    """After the list of models nothing is answered any more: what is left could not be told, and nothing is guessed."""
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
    assert levels["forced_untold"] is levels["counts_untold"] is levels["developer_untold"] is Level.UNTOLD
    # The list of models and the version, and as many as go unanswered before nothing more is asked.
    assert report.requests == 3 + MAX_TIMEOUTS


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, b"\x00what?"), "status 200: it is no reply"),
        ((200, b'{"choices": []}'), "status 200: it is no reply"),
        ((404, b'{"detail": "Not Found"}'), "status 404: Not Found"),
        ((405, b""), "status 405: an empty error"),
        ((500, b"Internal Server Error"), "status 500: Internal Server Error"),
    ],
)
def test_a_server_that_has_models_and_no_chat_is_of_no_use(answer: Result, why: str) -> None:
    """It would else be the one of which nothing bad is known."""
    report = examined(replace(FINE, before=chat_only(lambda body: answer)))
    harm = {finding.id: finding.what for finding in report.findings if finding.level is Level.HARM}
    assert harm.pop("chat_unanswered") == f"requests for chat are not answered: {why}"
    assert harm == {} and report.entry == ""


def test_it_says_what_it_spent_and_asks_nothing_that_changes_the_server() -> None:
    with ModelServer(FINE) as server:
        report = examine(Asker(Upstream(ServerOptions(server.url)), "", PATIENCE), "", builtin(), lambda text: None)
        paths = {path for path, _ in server.asked}
        assert report.requests == len(server.asked) < 60
    assert paths == {"/", "/v1/models", "/version", "/tokenize", "/v1/messages/count_tokens", CHAT}
    assert report.prompt_tokens > 0 and report.completion_tokens > 0 and report.seconds > 0


def test_every_harm_has_its_words() -> None:
    """What does harm says so, what the proxy does about it, and what mends it; ids are there once."""
    tells = [told for probe in PROBES for told in probe.tells]
    assert len({told.id for told in tells}) == len(tells)
    assert len({probe.id for probe in PROBES}) == len(PROBES)
    for told in tells:
        assert bool(told.harm) == bool(told.proxy) == bool(told.remedy), told.id
        if told.level is Level.HARM:
            assert told.harm, told.id


def test_the_report_is_for_people_and_for_programs() -> None:
    report = examined(replace(FINE, reads=frozenset({HERMES}), unread="swallowed"))
    text = "\n".join(lines(report))
    assert f"{report.url}: vllm 0.32.0, model Qwen3-Coder\n\ndoes harm:\n- the server swallows the model's call" in text
    assert "--enable-auto-tool-choice --tool-call-parser qwen3_xml" in " ".join(text.split())
    assert f"  {report.entry}\n" in text and "nothing was changed on the server" in text
    said = json.loads(json.dumps(as_json(report)))
    assert said["harm"] is True and said["model"] == "Qwen3-Coder" and said["context"] == 2000
    told = next(finding for finding in said["findings"] if finding["id"] == "call_swallowed")
    assert told["level"] == "harm" and told["harm"] and told["proxy"] and told["remedy"]
    assert said["spent"]["requests"] == report.requests


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
        # What every model is healed by needs no word, nor what this one's family is.
        (replace(FINE, template=without_role("developer")), {}),
        (replace(FINE, name="Mistral-7B", template=no_late_system), {}),
    ],
)
def test_the_entry_says_what_mends_it(behaviour: Behaviour, entry: dict[str, Any]) -> None:
    report = examined(behaviour)
    if not entry:
        assert report.entry == ""
        return
    builtin_words = {"match": behaviour.name, "parse": "auto", "upstream": "live", "thinking": "enable_thinking"}
    assert json.loads(report.entry.removeprefix("- ")) == builtin_words | entry


def test_the_family_is_that_of_the_rules(tmp_path: Path) -> None:
    """A name that says nothing is helped by `family`, which is then what is known of the template."""
    rules = tmp_path / "rules.yaml"
    begun = replace(FINE, name="My-Model", template=lambda messages: f"{ordinary(messages)}<think>")
    report = examined(begun)
    assert next(finding for finding in report.findings if finding.id == "opened_unknown").what.endswith(
        "no family of this model is known"
    )
    rules.write_text('models: [{match: "My-*", family: qwen3.5}]\n')
    assert "opened_known" in {finding.id for finding in examined(begun, read_rules(rules)).findings}
    opens_not = examined(replace(begun, template=ordinary), read_rules(rules))
    assert "opens_not" in {finding.id for finding in opens_not.findings}


def test_what_is_no_reply_is_told_as_that() -> None:
    """A server with a list of models whose chat answers nonsense: no sentence ends in nothing."""
    nonsense = replace(FINE, before=chat_only(lambda body: (200, b"{}")))
    told = [finding.what for finding in examined(nonsense).findings]
    assert not [what for what in told if what.rstrip().endswith((":", "(", "()"))]
    assert any("answered by what is no reply" in what for what in told)


@pytest.mark.parametrize(
    ("paths", "words_of"),
    [
        ({"/v1/models": (404, b"<html>")}, "is no model server: it answers /v1/models with 404"),
        ({"/v1/models": (200, b"<html>")}, "is no model server: what it answers to /v1/models is no list of models"),
        ({"/v1/models": (200, b'{"data": []}')}, "is no model server: what it answers to /v1/models is no list"),
        ({"/v1/models": (401, b"{}")}, "wants a key (401); name the variable that holds it with --key-env"),
        ({"/v1/models": refusal("Loading model", 503)}, "is not ready (503): Loading model; wait until its model"),
    ],
)
def test_what_is_no_model_server_is_told(paths: dict[str, Result], words_of: str) -> None:
    with pytest.raises(NoServerError) as told:
        examined(replace(FINE, paths=paths))
    assert words_of in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (FINE, {CODER: "read", HERMES: "unread", "Kimi's sections": "special", "GLM's pairs": "unlikely"}),
        (replace(FINE, reads=frozenset({CODER, HERMES})), {CODER: "read", HERMES: "read", "Llama's JSON": "unread"}),
        (replace(FINE, reads=None), {CODER: "no_parser", HERMES: "no_parser", "Mistral's list": "special"}),
        (replace(FINE, name="GLM-4.5"), {"GLM's pairs": "unread", "MiniMax' XML": "unlikely"}),
        (replace(FINE, name="Kimi-K3"), {"the model's own": "unknown", "DeepSeek's sections": "special"}),
        # The marks of these are special tokens: what the model writes by itself is the trial.
        *(
            (
                replace(FINE, name="my-model", writes=own, reads=frozenset({own if right else HERMES})),
                {own: "read" if right else "unread"},
            )
            for own in ("Mistral's list", "Kimi's sections", "DeepSeek's sections")
            for right in (True, False)
        ),
    ],
)
def test_of_each_syntax_it_is_said_what_became_of_it(behaviour: Behaviour, told: dict[str, str]) -> None:
    report = examined(behaviour)
    said = as_json(report)["syntaxes"]
    assert isinstance(said, dict) and said.items() >= told.items() and len(said) >= len(SYNTAXES)
    text = " ".join(" ".join(lines(report)).split())
    assert "a call in each syntax: - " in text
    assert "gpt-oss' channels: not tried: its marks are special tokens, which a model does not repeat" in text


def test_what_comes_behind_the_end_of_the_time_is_not_examined() -> None:
    """Nor is a probe of which one answer is missing: nothing is told of what was seen in part."""
    ended = threading.Event()

    def wait(body: Message) -> None:
        ended.wait(PATIENCE)

    with ModelServer(replace(FINE, before=chat_only(wait))) as server:
        ask = Asker(Upstream(ServerOptions(server.url)), "", PATIENCE)

        def step(title: str) -> None:
            ask.budget = min(ask.budget, ask.spent.seconds + 0.2)

        report = examine(ask, "", builtin(), step)
        ended.set()
    ids = [finding.id for finding in report.findings]
    assert ids == ["kind", "models", "flags_unsaid", *["not_examined"] * (len(PROBES) - 3)]
    assert (report.requests, report.does_harm, report.entry) == (4, False, "")
    text = "\n".join(lines(report))
    assert "- two calls in one answer: not examined, as the time was over\n" in text
    assert f"\nout of time: {report.unexamined} probes were not made\n" in text
    assert as_json(report)["syntaxes"] == {} and "in each syntax:" not in text
    assert "the rules need no entry" not in text and as_json(report)["unexamined"] == len(PROBES) - 3


# What is said of a server without a fault; of the shapes of conversations all but the arguments that are no JSON.
GOOD = {
    *("kind", "models", "parser_finds", "syntaxes", "forced", "stream_faithful", "parallel", "not_opened"),
    *("special_taken", "usage", "counts", "error_shape", "overflow"),
    *(f"{probe.id.removeprefix('template_')}_kept" for probe in PROBES if probe.id.startswith("template_")),
}


@pytest.mark.parametrize(
    ("name", "more", "less"),
    [
        ("no fault", set(), {"poisoned_arguments_kept"}),
        ("poisoned arguments are taken", set(), set()),
        (
            "another family's parser, text left",
            {"stream_same_text"},
            {"parser_finds", "syntaxes", "stream_faithful", "parallel", "poisoned_arguments_kept"},
        ),
        ("thoughts in a field", {"thoughts_in_field"}, {"poisoned_arguments_kept"}),
        (
            "the template opens a thought, and the family's does",
            {"opened_known"},
            {"not_opened", "poisoned_arguments_kept"},
        ),
        ("stream_options beside a whole answer are taken", {"options_taken"}, {"poisoned_arguments_kept"}),
        ("SGLang with the parser", {"flag"}, {"poisoned_arguments_kept"}),
    ],
)
def test_what_is_as_it_should_be_is_said(name: str, more: set[str], less: set[str]) -> None:
    good = {finding.id for finding in examined(CASES[name].behaviour).findings if finding.level is Level.GOOD}
    assert good == (GOOD | more) - less


def test_all_that_is_good_is_said_somewhere() -> None:
    elsewhere = {"stream_same_text", "thoughts_in_field", "opened_known", "options_taken", "flag"}
    assert {told.id for probe in PROBES for told in probe.tells if told.level is Level.GOOD} == GOOD | elsewhere


def test_what_is_healed_for_every_model_is_no_harm() -> None:
    """What needs an entry of the rules, or another template, is; the rest is to be known."""
    levels = {told.id: told.level for probe in PROBES for told in probe.tells}
    healed = {"developer_lost", "developer_refused", "poisoned_arguments_lost", "poisoned_arguments_refused"}
    fates = {name for name in levels if name.endswith(("_lost", "_refused"))}
    shapes = {name for name in fates if f"{name.rpartition('_')[0]}_kept" in levels}
    assert {name for name in shapes if levels[name] is Level.NOTE} == healed
    assert {levels[name] for name in shapes - healed} == {Level.HARM}
