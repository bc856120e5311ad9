"""A text in JSON that shows the closers of its own call, and whose quotation marks have no backslash."""

from __future__ import annotations

import json

import pytest

from tests.failures.test_failures_damage import broken
from tests.unit.notations.test_json_arguments import WRAPPERS, read

pytestmark = pytest.mark.once

# Behind these markers nothing closes a call.
OPEN = ("Mistral", "Mistral, before", "Llama")
CLOSED = [name for name in WRAPPERS if name not in OPEN]
SHOWN = ('X = "%s"', 'a "quoted" one: %s', 'say "%s and so on', 'f("%s")')


def closers(name: str) -> str:
    """What closes a call behind its last text, on one line."""
    _, _, behind = WRAPPERS[name]("write", '{"path": "\0"}').partition("\0")
    return behind.replace("\n", "")


def without_tokens(text: str) -> str:
    """The text without what ends a turn, which leaves no reply (F18)."""
    return text.replace("<|call|>", "")


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("name", CLOSED)
def test_where_a_text_shows_the_whole_closers_of_its_call_nothing_of_it_leaves(name: str, shown: str) -> None:
    content = shown % closers(name)
    for values in ({"path": "a", "content": content}, {"content": content, "path": "a"}):
        text = WRAPPERS[name]("write", broken(values))
        for reply in (text, f"{text}\nThat was it.", f"I do it.\n\n{text}"):
            calls, left = read(reply)
            assert calls in ([], [("write", values)])
            assert without_tokens(left) == without_tokens(reply) or calls


@pytest.mark.parametrize("name", CLOSED)
def test_legal_arguments_are_taken_whatever_stands_behind_their_call(name: str) -> None:
    values = {"path": "a", "content": f'X = "{closers(name)}"'}
    text = WRAPPERS[name]("write", json.dumps(values, ensure_ascii=False))
    for behind in ("", "\n", '\nIt says "done".'):
        calls, left = read(f"{text}{behind}")
        assert (calls, left.strip()) == ([("write", values)], behind.strip())


@pytest.mark.parametrize("name", CLOSED)
def test_calls_behind_each_other_are_calls(name: str) -> None:
    values = {"path": "a", "content": 'print("x")\ny'}
    text = WRAPPERS[name]("write", broken(values))
    other = WRAPPERS[name]("read", '{"path": "b"}')
    assert read(text + other)[0] == [("write", values), ("read", {"path": "b"})]


@pytest.mark.parametrize("name", CLOSED)
def test_a_call_that_lacks_a_key_is_one_where_nothing_more_can_be_of_it(name: str) -> None:
    text = WRAPPERS[name]("write", '{"path": "a"}')
    other = WRAPPERS[name]("read", '{"path": "b"}')
    assert read(f"{text}\nThat was it.")[0] == [("write", {"path": "a"})]
    assert read(f"{text}\n{other}")[0] == [("write", {"path": "a"}), ("read", {"path": "b"})]


def test_the_end_of_a_fence_may_be_in_a_line() -> None:
    """DeepSeek V3 writes it on a line of its own."""
    text = WRAPPERS["DeepSeek V3"]("read", '{"path": "a"}').replace("\n```<", "```<")
    assert read(text) == ([("read", {"path": "a"})], "")
    assert read(f"{text}\nThat was it.\n```\ncode\n```")[0] == [("read", {"path": "a"})]


BEHIND = ('"', '" and so on', '"\nand more')


@pytest.mark.parametrize("name", CLOSED)
def test_a_text_with_line_ends_that_shows_them_is_read_no_further_than_it_is_known(name: str) -> None:
    for behind in BEHIND:
        text = WRAPPERS[name]("write", f'{{"path": "a\n{closers(name)}{behind}", "content": "b"}}')
        calls, left = read(text)
        assert (calls, without_tokens(left)) == ([], without_tokens(text))


@pytest.mark.parametrize("line", ["", "\nafter", "\n\nand so on"])
# Behind what ends its turn harmony has nothing more to say.
@pytest.mark.parametrize("name", [name for name in CLOSED if name != "harmony"])
def test_what_a_call_lacks_may_stand_behind_the_closers_that_it_shows(name: str, line: str) -> None:
    """The text is legal JSON up to them, and no legal call."""
    text = WRAPPERS[name]("write", f'{{"path": "{closers(name)}{line}", "content": "b"}}')
    calls, left = read(text)
    assert (calls, without_tokens(left)) == ([], without_tokens(text))
