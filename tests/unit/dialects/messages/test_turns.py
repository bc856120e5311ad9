"""The turns of a conversation as chat messages (C8, F80, F82, F83, F89, F94, F95)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.codec.json_text import dump_request
from tests.support.helpers import function, new_scanner, offered, scan
from tests.support.messages_ask import (
    PICTURE,
    PICTURE_PART,
    ask,
    assistant,
    call,
    lost,
    messages,
    messages_of,
    refusal,
    result,
    sent,
    system,
    text,
    user,
)
from tests.support.translations import sources_of

HI = {"role": "user", "content": "hi"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
BILLING = "x-anthropic-billing-header: cc_version=2.1.197.aa1; cc_entrypoint=cli; cch=0f3a1;"


def reminder(said: str) -> str:
    return f"<system-reminder>\n{said}\n</system-reminder>"


def first(given: Any) -> str | None:
    """The system message that a `system` becomes."""
    found = messages_of(sent(ask(system=given)))
    assert found[-1] == HI
    return found[0]["content"] if found[0]["role"] == "system" else None


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ("a", "a"),
        ([text("a"), text("b")], "a\n\nb"),
        ([text("a"), text("")], "a"),
        ("", None),
        ([], None),
        (None, None),
        ([text("")], None),
    ],
)
def test_the_system_text_is_one_message(given: Any, out: str | None) -> None:
    assert first(given) == out


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ([text(BILLING), text("a")], "a"),
        (f"{BILLING}\na\nb", "a\nb"),
        (f"{BILLING}\n\na", "a"),
        ([text("a"), text(f"{BILLING}\nb")], "a\n\nb"),
        (BILLING, None),
    ],
)
def test_the_line_of_accounting_goes(given: Any, out: str | None) -> None:
    """F95: it is another one with each request."""
    assert first(given) == out
    record = sent(ask(system=given)).dropped[0]
    assert record.before == "x-anthropic-billing-header: 1"
    assert "cch=" not in repr(record)


@pytest.mark.parametrize("given", [f"a\n{BILLING}", f" {BILLING}", "x-anthropic-billing-headers", [text("a: b")]])
def test_what_only_mentions_it_stays(given: Any) -> None:
    assert first(given) == (given if isinstance(given, str) else "a: b")
    assert lost(sent(ask(system=given))) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (1, "system: must be a string or a list of blocks"),
        ([1], "system.0: must be an object"),
        ([PICTURE], "system.0.type: 'image' cannot stand here; this takes text"),
        ([{"type": "text"}], "system.0.text: Field required"),
    ],
)
def test_what_is_no_system_text(given: Any, words: str) -> None:
    assert refusal(ask(system=given)).startswith(words)


def test_a_system_message_stays_in_its_place_as_the_users() -> None:
    """F82, C8: templates take it only at the top, and there it would change what was read already."""
    both = reminder("b\n\nc")
    given = (system("a"), user("hi"), system(text("b"), text("c")), assistant("ok"), system("d"))
    assert sent(ask(*given, system="s")).body["messages"] == [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": f"{reminder('a')}\n\nhi\n\n{both}",
        },
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": reminder("d")},
    ]


@pytest.mark.parametrize("top", [None, "", [], [text(BILLING)]])
def test_the_very_first_system_message_stands_at_the_top(top: Any) -> None:
    """F82: nothing was read before it. All later ones stay in their places."""
    given = (system(text("a"), text("b")), system("c"), user("hi"))
    out = [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": f"{reminder('c')}\n\nhi"}]
    later = (*given, assistant("ok"), system("d"), user("go"))
    assert sent(ask(*given, system=top)).body["messages"] == out
    assert messages_of(sent(ask(*later, system=top)))[:2] == out
    found = sent(ask(user("hi"), system("a"), system=top)).body["messages"]
    assert found == [{"role": "user", "content": f"hi\n\n{reminder('a')}"}]


def test_a_system_message_without_words_of_the_users_is_the_users() -> None:
    """Templates want a first message of the user's."""
    assert messages(system("a")) == [{"role": "user", "content": reminder("a")}]
    assert messages(system("a"), assistant("b"), user("c"))[0] == {"role": "user", "content": reminder("a")}


def test_the_first_system_message_is_read_like_all_others() -> None:
    once = system("a", clear_at="next_user_message", output_config={"effort": "low"})
    translation = sent(ask(once, user("hi")))
    assert translation.body["messages"] == [HI]
    assert lost(translation) == {"messages[].output_config": 1}
    assert refusal(ask(system(PICTURE), user("hi"))).startswith("messages.0.content.0.type: 'image' cannot stand here")
    assert first(None) is None
    billed = sent(ask(system(f"{BILLING}\na"), user("hi")))
    assert billed.body["messages"] == [{"role": "system", "content": "a"}, HI]


def test_a_system_message_may_have_no_content() -> None:
    message = {"role": "system", "output_config": {"effort": "low"}}
    translation = sent(ask(user("hi"), message))
    assert translation.body["messages"] == [HI]
    assert lost(translation) == {"messages[].output_config": 1}


@pytest.mark.parametrize(
    ("later", "shown"), [((), True), ((assistant("a"),), True), ((user("b"),), False), ((user(result()),), False)]
)
def test_a_system_message_for_one_turn(later: tuple[Any, ...], shown: bool) -> None:
    """`clear_at`: it is there until the user's next message."""
    found = messages(user("hi"), system("now", clear_at="next_user_message"), *later)
    assert ("now" in str(found)) is shown
    assert "now" in str(messages(user("hi"), system("now", clear_at="never"), *later))


def test_messages_of_the_same_side_are_one_turn() -> None:
    """The API takes them so, and templates want turns to alternate."""
    given = [user("a"), user(text("b"), PICTURE), assistant("c"), assistant(text("d"), call()), user(result())]
    assert messages(*given, user("e")) == [
        {"role": "user", "content": [text("a"), text("b"), PICTURE_PART]},
        {
            "role": "assistant",
            "content": "c\n\nd",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "run", "arguments": '{"x":1}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "done"},
        {"role": "user", "content": "e"},
    ]


def test_results_of_a_turn_stand_before_all_its_texts() -> None:
    found = messages(
        user("hi"), assistant(call("a"), call("b")), user(text("x"), result("1", "a")), user(result("2", "b"))
    )
    assert [(message["role"], message["content"]) for message in found[2:]] == [
        *(("tool", "1"), ("tool", "2"), ("user", "x"))
    ]


def beside_results(*given: Any) -> list[tuple[str, Any]]:
    """The roles and contents of what follows two calls."""
    found = messages(user("hi"), assistant(call("toolu_a"), call("toolu_b")), *given)[2:]
    return [(message["role"], message["content"]) for message in found]


ONE, TWO = result("1", "toolu_a"), result("2", "toolu_b")
R, S = reminder("r"), reminder("s")


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ((user(ONE, TWO, text(R)),), [("tool", "1"), ("tool", f"2\n\n{R}")]),
        ((user(text(R), ONE, text(S), TWO),), [("tool", "1"), ("tool", f"2\n\n{R}\n\n{S}")]),
        ((user(ONE, result("", "toolu_b"), text(R)),), [("tool", "1"), ("tool", R)]),
        ((user(ONE, TWO), system("r")), [("tool", "1"), ("tool", f"2\n\n{R}")]),
        ((user(text(R), ONE), user(TWO, text(S))), [("tool", "1"), ("tool", f"2\n\n{R}\n\n{S}")]),
        ((user(ONE, text(f"\n{R}\n")),), [("tool", f"1\n\n\n{R}\n")]),
        ((user(ONE, text(R), text("no, wait")),), [("tool", f"1\n\n{R}"), ("user", "no, wait")]),
        ((user(ONE, text("no, wait")), system("r")), [("tool", f"1\n\n{R}"), ("user", "no, wait")]),
        ((user(ONE, text(f"{R}\nno, wait")),), [("tool", "1"), ("user", f"{R}\nno, wait")]),
        ((user(ONE, PICTURE, text(R)),), [("tool", f"1\n\n{R}"), ("user", [PICTURE_PART])]),
        (
            (user(result([PICTURE], "toolu_a"), text(R)),),
            [("tool", R), ("user", [text("From the result of the call a:"), PICTURE_PART])],
        ),
        ((user(text(R)),), [("user", R)]),
    ],
)
def test_what_clients_add_to_results_stands_in_the_last_of_them(given: Any, out: Any) -> None:
    """F82, C8: a message of the user's behind results is refused by Mistral's templates, and ends the task for Qwen3's,
    which then leave out the thinking before it.
    """
    assert beside_results(*given) == out
    assert beside_results(*given, assistant("ok"), user("go"))[: len(out)] == out


def said_by_assistant(*blocks: Any, **options: Any) -> Any:
    """The assistant's message for these blocks."""
    found = messages(user("hi"), assistant(*blocks), user("go"), **options)
    assert len(found) == 3
    return found[1]


def test_text_blocks_that_follow_each_other_are_one_text() -> None:
    """Citations cut sentences into blocks."""
    assert said_by_assistant(text("It is "), text("so"), text(".")) == {"role": "assistant", "content": "It is so."}
    assert said_by_assistant(text("a"), call(), text("b"))["content"] == "a\n\nb"


def test_calls_alone_have_no_text() -> None:
    message = said_by_assistant(text(""), call("toolu_1"), call("toolu_2", "walk", input={}))
    assert message["content"] is None
    assert [(entry["id"], entry["type"], entry["function"]) for entry in message["tool_calls"]] == [
        ("1", "function", {"name": "run", "arguments": '{"x":1}'}),
        ("2", "function", {"name": "walk", "arguments": "{}"}),
    ]


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ({"b": 1, "a": [1.5, True, None]}, '{"b":1,"a":[1.5,true,null]}'),
        ({"text": 'grüß 🦊 " \n'}, '{"text":"grüß 🦊 \\" \\n"}'),
        ({"n": 10**30}, '{"n":1000000000000000000000000000000}'),
        ({"half": "\ud83e"}, '{"half":"\ud83e"}'),
        ({}, "{}"),
        (None, "{}"),
    ],
)
def test_arguments_are_compact_json_of_an_object(given: Any, out: str) -> None:
    """F80: key order and letters as they are. A lone surrogate goes up escaped (dump_request)."""
    message = said_by_assistant(call(input=given))
    assert message["tool_calls"][0]["function"]["arguments"] == out


def test_a_call_without_input_has_no_arguments() -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "run"}
    assert said_by_assistant(block)["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thinking_goes_back_where_the_rules_say(field: str) -> None:
    blocks = [THOUGHT, text("a"), {**THOUGHT, "thinking": "so"}]
    assert said_by_assistant(*blocks, reasoning_history=field) == {
        "role": "assistant",
        "content": "a",
        field: "hm\n\nso",
    }
    assert said_by_assistant(THOUGHT, call(), reasoning_history=field)["content"] is None
    assert said_by_assistant(THOUGHT, reasoning_history=field) == {"role": "assistant", "content": "", field: "hm"}


def test_thinking_goes_without_a_field_for_it() -> None:
    translation = sent(ask(user("hi"), assistant(THOUGHT, THOUGHT, text("a")), user("go")))
    assert messages_of(translation)[1] == {"role": "assistant", "content": "a"}
    assert lost(translation) == {"messages[].content[] of type thinking": 2}


EMPTY = {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    "blocks", [(THOUGHT, {"type": "redacted_thinking", "data": "x"}, text("")), (THOUGHT,), (text(""),), ("",)]
)
def test_an_answer_of_which_nothing_is_left_is_an_empty_one(blocks: tuple[Any, ...]) -> None:
    """F82: templates refuse two messages of the user's in a row. One message of both would not begin with the bytes of
    the last request (C8).
    """
    given = [user("hi"), assistant(*blocks)]
    assert messages(*given, user("go")) == [HI, EMPTY, {"role": "user", "content": "go"}]
    assert messages(*given) == [HI], "an answer that begins with nothing is a new one"


@pytest.mark.parametrize("nothing", [user(""), user(text("")), {"role": "system"}, system("")])
def test_a_turn_of_the_users_without_content_is_an_empty_one(nothing: Any) -> None:
    """llama.cpp refuses two answers at the end, and would continue one behind which there is nothing."""
    given = [user("hi"), assistant("a"), nothing]
    out = [HI, {"role": "assistant", "content": "a"}, {"role": "user", "content": ""}]
    assert messages(*given) == out
    assert messages(*given, assistant("b"), user("go"))[:3] == out


@pytest.mark.parametrize(
    ("blocks", "server", "out"),
    [
        (("The answer is (",), "vllm", True),
        (("The answer is (",), "sglang", True),
        (("The answer is (",), "llamacpp", False),
        (("The answer is (",), "", False),
        ((text("a"), call()), "vllm", False),
        ((THOUGHT,), "vllm", False),
    ],
)
def test_the_beginning_of_an_answer_is_continued(blocks: tuple[Any, ...], server: str, out: bool) -> None:
    body = sent(ask(user("hi"), assistant(*blocks)), server_kind=server).body
    assert (body.get("continue_final_message"), body.get("add_generation_prompt")) == (
        (True, False) if out else (None, None)
    )


def test_what_the_answer_begins_with_is_told() -> None:
    """llama.cpp repeats it in whole answers."""
    assert sent(ask(user("hi"), assistant(text("The "), text("answer")))).prefill == "The answer"
    assert sent(ask(user("hi"), assistant(text("a"), call()))).prefill == ""
    assert sent(ask(user("hi"), assistant("a"), user("b"))).prefill == ""


def test_an_answer_that_is_over_is_not_continued() -> None:
    assert "continue_final_message" not in sent(ask(user("hi"), assistant("a"), user("b")), server_kind="vllm").body


DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "all of it"}}
FOUND = {"type": "search_result", "title": "A", "source": "s", "content": [text("found")]}


def test_calls_may_be_copied_from_all_results_and_all_that_the_user_or_the_client_says() -> None:
    """C3, F89: of the whole conversation, not of its last turn; a file that is named by @ arrives as a reminder."""
    told = (user("first"), assistant("so"), user(DOCUMENT, FOUND, text("why?")), assistant(call()))
    after = (user(result("old"), text(R)), system("now"), assistant(call("b")), user(result("new", "b"), text("do")))
    seen = "\n\n".join(sources_of(sent(ask(*told, *after, system="rules"))))
    for said in ("first", "all of it", "found", "why?", "old", R, "now", "new", "do"):
        assert said in seen
    assert "rules" not in seen and "so" not in seen.split()


QUOTED = '<tool_call>\n{"name": "run",\n "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize("mark", ["→", "\t", ":", ": "])
@pytest.mark.parametrize("before", ["", "Result of calling the Read tool:\n", "Done.\n\n"])
def test_a_call_that_is_quoted_with_line_numbers_is_no_call(mark: str, before: str) -> None:
    """F89: nobody quotes the numbers, and a call of several lines is not in the result word for word."""
    numbered = before + "\n".join(f"{at:6}{mark}{line}" for at, line in enumerate(QUOTED.split("\n"), start=9))
    called = (user("hi"), assistant(call()))
    tools = offered(function("run"))
    assert scan([QUOTED], new_scanner(tools)).calls
    for answered in (user(result(numbered)), user(result(), text(reminder(numbered))), user(numbered)):
        for later in ((), (assistant("ok"), user("go"))):
            sources = sources_of(sent(ask(*called, answered, *later)))
            assert not scan([QUOTED], new_scanner(tools, results=sources)).calls


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "messages: Field required"),
        ("hi", "messages: must be a list"),
        ([], "messages: at least one message is required"),
        (["hi"], "messages.0: must be an object"),
        ([{"content": "hi"}], "messages.0.role: Field required"),
        ([user("a"), {"role": "tool", "content": "b"}], "messages.1.role: 'tool' is none of user, assistant, system"),
        ([{"role": 1, "content": "b"}], "messages.0.role: must be a string"),
        ([{"role": "user"}], "messages.0.content: Field required"),
        ([{"role": "assistant"}], "messages.0.content: Field required"),
        ([{"role": "user", "content": 1}], "messages.0.content: must be a string or a list of blocks"),
        ([user("")], "messages: there is no content in them"),
        (
            [user("a"), assistant(result())],
            "messages.1.content.0.type: 'tool_result' cannot stand here; this takes text",
        ),
        ([user("a"), assistant(PICTURE)], "messages.1.content.0.type: 'image' cannot stand here"),
        ([user("a"), assistant({"type": "thinking"})], "messages.1.content.0.thinking: Field required"),
        ([user("a"), assistant(call(id_=""))], "messages.1.content.0.id: may not be empty"),
        ([user("a"), assistant(call(name=""))], "messages.1.content.0.name: may not be empty"),
        ([user("a"), assistant(call(input="{}"))], "messages.1.content.0.input: must be an object"),
        ([user("a"), assistant(call(input=[]))], "messages.1.content.0.input: must be an object"),
        ([user("a"), system(PICTURE)], "messages.1.content.0.type: 'image' cannot stand here; this takes text"),
    ],
)
def test_what_is_no_conversation(given: Any, words: str) -> None:
    assert refusal({**ask(), "messages": given}).startswith(words)


def test_arguments_that_no_server_could_read() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert refusal(ask(user("a"), assistant(call(input=deep)))).endswith("input: is nested too deeply")


def test_unknown_fields_of_messages_are_counted() -> None:
    """Clients send whole answers back."""
    back = {**assistant("a"), "id": "msg_1", "type": "message", "stop_reason": None, "usage": {"input_tokens": 1}}
    assert lost(sent(ask(user("hi"), back, user("go")))) == {
        "messages[].id": 1,
        "messages[].type": 1,
        "messages[].usage": 1,
    }


WORDS = st.sampled_from(["", "a", "b\n", reminder("x")])
IDS = st.sampled_from(["toolu_1", "toolu_b64-ZnVuY3Rpb25zLmJhc2g6MA", "call_2"])
TEXTS = st.builds(text, WORDS)
USERS = st.lists(TEXTS | st.just(PICTURE) | st.builds(result, WORDS | st.just([PICTURE]), IDS), min_size=1, max_size=3)
ANSWERS = st.lists(TEXTS | st.just(THOUGHT) | st.builds(call, IDS), max_size=3)
ASKED = st.lists(st.builds(lambda blocks: user(*blocks), USERS) | st.builds(system, WORDS), min_size=1, max_size=3)
ANSWERED = st.builds(lambda blocks: {"role": "assistant", "content": blocks}, ANSWERS)
EXCHANGES = st.lists(st.tuples(ASKED, ANSWERED), min_size=1, max_size=4)
# A task as an agent works on it: calls, and results beside which only the client says something.
ADDED = st.lists(st.just(text(reminder("x"))), max_size=2)
ROUNDS = st.builds(
    lambda answer, before, said, after, more: [
        *(assistant(*answer, call()), user(*before, result(said), *after)),
        *([system("now")] if more else []),
    ],
    *(st.lists(TEXTS | st.just(THOUGHT), max_size=2), ADDED, WORDS, ADDED, st.booleans()),
)
TASKS = st.builds(
    lambda rounds, answer: [user("go"), *(entry for given in rounds for entry in given), answer],
    st.lists(ROUNDS, max_size=3),
    st.builds(lambda blocks: {"role": "assistant", "content": blocks}, st.lists(TEXTS | st.just(THOUGHT), max_size=2)),
)


@given(EXCHANGES, ASKED, st.sampled_from(["drop", "reasoning"]))
def test_each_request_begins_with_the_bytes_of_the_one_before(
    exchanges: list[tuple[list[Any], Any]], last: list[Any], history: str
) -> None:
    """C8, for every conversation, whatever is left of its answers and stands beside its results."""
    given = [user("hi")]
    before = b""
    for asked, answer in [*exchanges, (last, None)]:
        given += asked
        now = dump_request(sent(ask(*given, system="s"), reasoning_history=history).body)
        assert now.startswith(before.removesuffix(b"]}"))
        before = now
        given += [answer] if answer else []


@given(EXCHANGES, ASKED)
def test_turns_are_as_templates_want_them(exchanges: list[tuple[list[Any], Any]], last: list[Any]) -> None:
    """F82, F83: no system message below the top, turns that alternate, results before the words of their turn, and
    behind results a message of the user's only for words of the user's own or pictures.
    """
    found = messages(user("hi"), *(entry for asked, answer in exchanges for entry in (*asked, answer)), *last)
    roles = [message["role"] for message in found]
    assert "system" not in roles
    assert not {("user", "tool"), ("user", "user"), ("assistant", "assistant")} & {*pairwise(roles)}
    for before, message in pairwise(found):
        if (before["role"], message["role"]) == ("tool", "user"):
            assert message["content"] and reminder("x") not in str(message["content"])
    for message in found:
        assert message["content"] != [] and message.get("tool_calls") != []
        assert isinstance(message["content"], str | list) or message["tool_calls"]


@given(st.lists(TASKS, min_size=1, max_size=3), st.sampled_from(["drop", "reasoning"]))
def test_a_task_is_as_mistrals_templates_want_it(tasks: list[list[Any]], history: str) -> None:
    """F82: behind the system message the user and the answer take turns, calls and their results aside; a message of
    the user's never follows results. An agent's task must not end because its client adds reminders.
    """
    asked = ask(*(entry for task in tasks for entry in task), user("go"), system="s")
    found = messages_of(sent(asked, reasoning_history=history))
    assert found[0] == {"role": "system", "content": "s"}
    roles = [message["role"] for message in found[1:]]
    assert ("tool", "user") not in pairwise(roles)
    talk = [entry["role"] for entry in found[1:] if entry["role"] != "tool" and "tool_calls" not in entry]
    assert talk == [*("user", "assistant") * len(tasks), "user"]
