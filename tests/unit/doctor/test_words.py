"""What the doctor asks a model: each wants one thing, and names the tool and the values."""

from __future__ import annotations

import pytest

from proxy.doctor import words
from proxy.doctor.syntaxes import ARGUMENTS, NAME, SYNTAXES, Syntax, written_in


def test_a_call_is_asked_for_with_the_tool_and_the_arguments_that_are_looked_for() -> None:
    assert all(str(part) in words.CALL for part in (NAME, *ARGUMENTS.values()))
    assert all(part in words.TWO_CALLS for part in (NAME, "twice", "first.txt", "second.txt", "hello"))


@pytest.mark.parametrize("text", [words.CALL, words.TWO_CALLS, words.THINK], ids=["a call", "two", "a thought"])
def test_a_request_holds_no_call_that_could_be_taken_for_the_models(text: str) -> None:
    assert written_in(text) == []


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.id)
def test_a_call_to_be_repeated_stands_there_as_it_is(syntax: Syntax) -> None:
    asked = words.echo(syntax.call)
    assert asked.count(syntax.call) == 1
    before, _, behind = asked.partition(syntax.call)
    assert before.endswith("\n-----\n") and behind == "\n-----"


def test_braces_in_a_text_are_no_fields() -> None:
    assert "{0} {a} {{" in words.echo("{0} {a} {{")
