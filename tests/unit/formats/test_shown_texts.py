"""What a tool result shows, as it was before it was escaped, and whether all of a call was escaped alike (F89)."""

from __future__ import annotations

import html
import json

import pytest

from proxy.formats.shown_lines import Comparisons
from proxy.formats.shown_texts import MAX_LEVELS, Reading, readings

CALL = ("<tool_call>", '{"name": "now", "say": "ü"}', "</tool_call>")
TEXT = "\n".join(CALL)


def read(result: str) -> tuple[Reading, ...]:
    return readings(result, Comparisons())


def shows(result: str, *call: str) -> bool:
    return any(reading.shows(call or CALL) for reading in read(result))


WAYS = {
    "as it is": TEXT,
    "JSON": json.dumps({"text": TEXT}),
    "JSON in JSON": json.dumps([json.dumps(TEXT)]),
    "HTML": html.escape(TEXT),
    "HTML twice": html.escape(html.escape(TEXT)),
    "HTML in JSON": json.dumps(html.escape(TEXT)),
    "JSON in HTML": html.escape(json.dumps(TEXT)),
    "carriage returns": TEXT.replace("\n", "\r\n"),
    "cat -A": TEXT.replace("ü", "M-CM-<").replace("\n", "$\n") + "$\n",
    "colours": "\n".join(f"\x1b[32m{at}\x1b[0m: {line}\x1b[K" for at, line in enumerate(CALL)),
    "a diff": "-old\n" + "\n".join(f"+{line}" for line in CALL),
    "a diff in JSON": json.dumps("-old\n" + "\n".join(f"+{line}" for line in CALL)),
    "a string of Python": repr([TEXT]),
    "each line in a string": json.dumps([f"{line}\n" for line in CALL], indent=1),
}


@pytest.mark.parametrize("result", WAYS.values(), ids=WAYS)
def test_a_call_is_shown_however_the_result_is_escaped(result: str) -> None:
    assert shows(result)
    assert not shows(result.replace("now", "then"))


UNLIKE = {
    "tags that stand as they are": ("<a>\nx &lt; y\n</a>", ("<a>", "x < y", "</a>")),
    "one tag that stands as it is": ("&lt;a&gt;\nx\n</a>", ("<a>", "x", "</a>")),
    "a mark that is not escaped": ('"<a>\\nx \\"y\\" "z"\\n</a>"', ("<a>", 'x "y" "z"', "</a>")),
    "a backslash of the call's own": ("<a>\ngrep \\\\d\n</a>", ("<a>", "grep \\d", "</a>")),
    "escapes in no string": ("<a>\\nx \\\\ y\\n", ("<a>", "x \\ y", "")),
}


@pytest.mark.parametrize(("result", "call"), UNLIKE.values(), ids=UNLIKE)
def test_what_was_not_all_escaped_alike_is_another_call(result: str, call: tuple[str, ...]) -> None:
    assert any(reading.text != result for reading in read(result))
    assert not shows(result, *call)


def test_the_result_itself_is_the_first_reading_and_each_is_there_once() -> None:
    texts = [reading.text for reading in read(WAYS["JSON in HTML"])]
    assert texts[0] == WAYS["JSON in HTML"]
    assert json.dumps(TEXT) in texts and f'"{TEXT}"' in texts
    assert len({*texts}) == len(texts)


@pytest.mark.parametrize("result", ["", "no escapes", "costs 5$", "a -- b", "+ a\n+ b"])
def test_what_nothing_escapes_is_one_reading(result: str) -> None:
    assert [reading.text for reading in read(result)] == [result]


def test_there_are_so_many_readings_and_no_more() -> None:
    """C7: the sides of diffs aside."""
    many = "x < y"
    for _ in range(2 * MAX_LEVELS):
        many = html.escape(many)
    assert len(read(many)) == MAX_LEVELS
    assert len(read(f"{json.dumps(many)}\r\n\x1b[K")) <= MAX_LEVELS


def test_lines_that_end_at_carriage_returns_are_told() -> None:
    """A call of the model's own that holds such is looked for once more, without them."""
    ended = {reading.text: reading.ends_at_carriage_returns for reading in read("a\\/b\r\nc")}
    assert ended == {"a\\/b\r\nc": False, "a/b\r\nc": False, "a\\/b\nc": True, "a/b\nc": True}


def test_a_mark_that_was_not_escaped_when_the_rest_was_delimited_a_string() -> None:
    result = '{"text": "say \\"x\\""}'
    (reading,) = [each for each in read(result) if each.text != result]
    told = {at: reading.is_delimiter(at) for at, sign in enumerate(reading.text) if sign == '"'}
    assert [told[at] for at in sorted(told)] == [True, True, True, False, False, True]


@pytest.mark.parametrize(("escaped", "said"), [("\\u00fc", "ü"), ("\\ud83d\\ude42", "\N{SLIGHTLY SMILING FACE}")])
def test_what_an_escape_means_may_be_longer_or_shorter(escaped: str, said: str) -> None:
    """Where the lines stood is found by what each escape means: the same place, before and behind it."""
    shown = f'"{escaped}\\n<a>\\n{escaped} \\"x\\"\\n</a>\\n{escaped}"'
    assert shows(shown, "<a>", f'{said} "x"', "</a>")
    assert not shows(shown, "<a>", f'{said}"x"', "</a>")
