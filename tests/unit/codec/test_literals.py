"""Literals as models write them: JSON and Python are read back, and more; what is none is a ValueError (F30)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.codec.literals import Also, missing_closers, read_literal
from proxy.limits import MAX_DEPTH
from tests.support.work import over_soon

READ: dict[str, tuple[str, Any]] = {
    "JSON": ('{"a": [1, -2.5, true, false, null, "b"]}', {"a": [1, -2.5, True, False, None, "b"]}),
    "Python": ("{'a': [1, True, False, None, 'b']}", {"a": [1, True, False, None, "b"]}),
    "both at once": ("{'a': true, \"b\": None}", {"a": True, "b": None}),
    "blanks around": (" \r\n\t[ 1 , 2 ]\n", [1, 2]),
    "a comma behind the last member": ('{"a": 1,}', {"a": 1}),
    "a comma behind the last item": ("[1, 2, ]", [1, 2]),
    "nothing in it": ("[{}, [], ()]", [{}, [], []]),
    "a tuple": ("('a', 1)", ["a", 1]),
    "raw line ends in a string": ('"a\nb\tc"', "a\nb\tc"),
    "the other quotation mark inside": ("""["it's", 'so "said"']""", ["it's", 'so "said"']),
    "escaped quotation marks": (r"""["\"", '\'', "\'"]""", ['"', "'", "'"]),
    "escapes of JSON": (r'"\\ \/ \b\f\n\r\t \u00e9"', "\\ / \b\f\n\r\t é"),
    "escapes of Python": (r"'\x41\a\v\0\U0001F600'", "A\a\v\0😀"),
    "a line that goes on": ("'a\\\nb'", "ab"),
    "a pair of surrogates": (r'"\ud83d\ude42"', "🙂"),
    "a lone surrogate": (r'"\ud83d!"', "\ud83d!"),
    "a backslash that escapes nothing": (r'"\d+\.\w \C:\q"', r"\d+\.\w \C:\q"),
    "half an escape": (r'"\u12 \xg0 \u"', r"\u12 \xg0 \u"),
    "an escape beyond all characters": (r"'\Uffffffff'", r"\Uffffffff"),
    "numbers that JSON has not": ("[5., .5, -0, -.5]", [5.0, 0.5, 0, -0.5]),
    "an exponent": ("[1e3, 1E-2]", [1000.0, 0.01]),
    "a huge integer": ("123456789012345678901234567890", 123456789012345678901234567890),
    "as deep as may be": ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
}


@pytest.mark.parametrize("name", READ)
def test_a_literal_is_read_for_what_it_says(name: str) -> None:
    text, expected = READ[name]
    found = read_literal(text)
    assert (found, type(found)) == (expected, type(expected)) or expected is None


REFUSED = {
    "nothing": "",
    "blanks": " \n",
    "a word": "ls",
    "a word of another language": "undefined",
    "no number": "1_000",
    "a number in hexadecimal": "0x10",
    "a number with leading zeros": "007",
    "not a number": "NaN",
    "infinity": "Infinity",
    "beyond a float": "1e999",
    "more digits than are read": "9" * 10_000,
    "two values": "1 2",
    "something behind it": '{"a": 1} x',
    "an open string": '"a',
    "an open string behind a backslash": '"a\\',
    "an open object": '{"a": 1',
    "an open list": "[1, 2",
    "two commas": "[1,, 2]",
    "a comma alone": "[,]",
    "no comma": "[1 2]",
    "no colon": '{"a" 1}',
    "no value": '{"a": }',
    "no key": "{: 1}",
    "a key twice": '{"a": 1, "a": 1}',
    "a key without quotation marks": "{path: 'a'}",
    "an equals sign for the colon": "{'path' = 'a'}",
    "brackets of two kinds": "[1)",
    "an expression": "1 + 2",
    "a call": "open('a')",
    "a set": "{1, 2}",
    "a string with a prefix": "b'a'",
    "two strings": "'a' 'b'",
    "a comment": "[1, # one\n2]",
    "deeper than may be": "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2),
    "far too deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_literal_is_refused_and_nothing_is_evaluated(name: str) -> None:
    with pytest.raises(ValueError):
        read_literal(REFUSED[name])


MARKS = ('<|"|>', "<escape>")
MARKED: dict[str, tuple[str, Any]] = {
    "a value": ('{a:<|"|>b<|"|>}', {"a": "b"}),
    "a key": ('{<|"|>a<|"|>:1}', {"a": 1}),
    "keys without any": ("{a:1, b-c : [true]}", {"a": 1, "b-c": [True]}),
    "escapes are none": (r'{a:<|"|>\n"\<|"|>}', {"a": r'\n"\ '.strip()}),
    "brackets inside": ("{a:<escape>}],{<escape>,b:[<escape><escape>]}", {"a": "}],{", "b": [""]}),
    "the other mark inside": ('{a:<escape><|"|><escape>}', {"a": '<|"|>'}),
}


@pytest.mark.parametrize("name", MARKED)
def test_strings_may_stand_in_marks_of_the_formats_own(name: str) -> None:
    """F15."""
    text, expected = MARKED[name]
    assert read_literal(text, marks=MARKS) == expected
    with pytest.raises(ValueError):
        read_literal(text)


def test_a_marked_string_that_does_not_end_is_refused() -> None:
    with pytest.raises(ValueError):
        read_literal('{a:<|"|>b}', marks=MARKS)


def test_the_brackets_of_an_array_may_be_lost_where_the_schema_wants_one() -> None:
    """F14: of the outermost object alone, and of objects alone."""
    text = '{"todos": {"a": 1}, {"a": 2}, "b": 3}'
    assert read_literal(text, lists=["todos"]) == {"todos": [{"a": 1}, {"a": 2}], "b": 3}
    assert read_literal('{"todos": {"a": 1}}', lists=["todos"]) == {"todos": [{"a": 1}]}
    assert read_literal('{"todos": [{"a": 1}]}', lists=["todos"]) == {"todos": [{"a": 1}]}
    for refused in (text.replace("todos", "other"), f'{{"x": {text}}}', '{"todos": 1, 2}'):
        with pytest.raises(ValueError):
            read_literal(refused, lists=["todos"])


@pytest.mark.parametrize(
    ("text", "closers"),
    [
        ("", ""),
        ("{}", ""),
        ("{", "}"),
        ("[{", "}]"),
        ('{"a": ["{[\\"', ""),
        ('{"a": ["{[\\""', "]}"),
        ("{'a': ['{'", "]}"),
        ("{'a': 'it\\'s", ""),
        ("{]", ""),
        ("}", ""),
        ('{"a": "\\\\"', "}"),
        ('{"' + "x" * 100_000, ""),
        ("[" * 1000, "]" * 1000),
    ],
)
def test_missing_closers_are_those_of_open_brackets_outside_strings(text: str, closers: str) -> None:
    """F21."""
    assert missing_closers(text) == closers


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@pytest.mark.slow
@settings(max_examples=300, derandomize=True)
@given(_VALUES, st.sampled_from([None, 1]), st.booleans())
def test_any_value_that_is_dumped_or_printed_is_read_back_equal(value: Any, indent: int | None, ascii_: bool) -> None:
    for text in (json.dumps(value, indent=indent, ensure_ascii=ascii_), repr(value)):
        found = read_literal(text, also=Also.PYTHON)
        assert (found, repr(found)) == (value, repr(value)), text
        assert missing_closers(text) == ""


_PIECES = st.sampled_from(
    [*"{}[]()\"'\\,:=-+.0 1e\n#<ü", "true", "None", "\\u", "\\x4", '<|"|>', "<escape>", "\ud83d", "a"]
)


@settings(max_examples=500, derandomize=True)
@given(st.text(max_size=40) | st.lists(_PIECES, max_size=24).map("".join))
def test_any_text_is_read_or_is_a_value_error(text: str) -> None:
    readers: list[Callable[[], object]] = [
        lambda: read_literal(text),
        lambda: read_literal(text, marks=MARKS, lists=["a"]),
    ]
    for read in readers:
        try:
            value = read()
        except ValueError:
            continue
        json.dumps(value, allow_nan=False)
    assert set(missing_closers(text)) <= set("]}")


def steps(work: Callable[[], object]) -> int:
    """Function calls, and matches of patterns, that a work takes."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    except ValueError:
        pass
    finally:
        sys.setprofile(None)
    return count


UNITS = [
    '"',
    "\\",
    '\\"',
    "'",
    "[",
    "{",
    "{}",
    "[1, ",
    '{"a": ',
    "1",
    "a",
    ", ",
    " ",
    '"a", ',
    "\\u00e9",
    '<|"|>',
    "{a:1},",
]
# Ten times what the longest takes; to go over it again from each of its 128 K places takes longer.
SEARCHED_SOON = 4.0
STARTS = ["", '"', "[", '{"a": ', '{"a": [', '{a:<|"|>']


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_twice_the_text_takes_about_twice_the_steps(unit: str, start: str) -> None:
    """C7: no text is gone over again."""
    works: list[Callable[[str], object]] = [
        lambda text: read_literal(text, marks=MARKS, lists=["a"]),
        missing_closers,
    ]
    for work in works:
        once, twice = (steps(partial(work, start + unit * times)) for times in (100, 200))
        assert twice < 3 * once


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_long_text_is_read_or_refused(unit: str) -> None:
    """C7: also what one search goes over, of which the steps say nothing."""
    text = unit * ((1 << 17) // len(unit))
    for start in STARTS:
        with over_soon(SEARCHED_SOON):
            missing_closers(start + text)
            with suppress(ValueError):
                read_literal(start + text, marks=MARKS, lists=["a"])


def test_c9_what_only_python_escapes_stays_as_it_is_in_the_quotation_marks_of_json() -> None:
    for text in ("\\033[1m", "\\0", "\\app", "\\vendor", "\\xadmin", "\\Users", "a \\\n b"):
        assert read_literal(f'{{"a": "{text}",}}') == {"a": text}
    assert read_literal("['\\033[1m', '\\x41']") == ["\033[1m", "A"]
    assert read_literal('["\\033[1m", "\\x41"]', also=Also.PYTHON) == ["\033[1m", "A"]
