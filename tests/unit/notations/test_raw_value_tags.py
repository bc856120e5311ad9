"""Raw values that show the opening tags of values: what is no next value is text, and where two readings are left, none
is taken (contract C9). Each class in the families that have it, at every cut.
"""

from __future__ import annotations

import pytest

from proxy.codec.json_text import JsonObject
from tests.support.helpers import all_cuts, function, new_scanner, offered, scan
from tests.support.renderers import RENDERERS, Call

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
TOOLS = offered(
    function("edit_text", {"path": TEXT, "old": TEXT, "new": TEXT, "count": {"type": "integer"}}, "path", "old", "new"),
    function("other", {"what": TEXT}, "what"),
)
INVOKES = ("minimax_m2", "anthropic")
# The opening tags stand on lines of their own, and behind them the values.
LINED = (*INVOKES, "seed_oss")
OTHER: Call = ("other", {"what": "x"})
SHOWN_KEYS = (
    '\'{"a": "see </parameter> <parameter=zz>", "b": 5}\',',
    "say </parameter><parameter=zz> and go on",
    "</parameter><parameter=zz>",
    'X = "</parameter> <parameter=command>ls</parameter>"\nY = 2',
    "both </parameter> <parameter=aa> and </parameter>\t<parameter=bb>.",
)
SHOWN_PAIRS = (
    '"text": "lost</arg_value><arg_key>limit</arg_key><arg_value>4</arg_value>", "more": 1',
    "see </arg_value> <arg_key>zz</arg_key><arg_value>4</arg_value> here",
)


def found(text: str, expected: list[Call], left: str = "") -> None:
    for cut in all_cuts(text, 4):
        seen = scan(cut, new_scanner(TOOLS))
        assert (seen.parsed, seen.text.strip()) == (expected, left.strip())


def edit(**values: str) -> Call:
    given: JsonObject = {"path": "a.py", "old": "b", "new": "c", **values}
    return "edit_text", given


@pytest.mark.parametrize("key", ["path", "old", "new"])
@pytest.mark.parametrize("text", SHOWN_KEYS)
@pytest.mark.parametrize("family", LINED)
def test_in_the_middle_of_a_line_no_undeclared_key_begins(family: str, text: str, key: str) -> None:
    for calls in ([edit(**{key: text})], [edit(**{key: text}), OTHER], [OTHER, edit(**{key: text})]):
        found(RENDERERS[family].render(calls), calls)


@pytest.mark.parametrize("key", ["path", "old", "new"])
@pytest.mark.parametrize("text", ["say </parameter> <parameter=zz> and go on", "a </parameter>\t<parameter=zz>b"])
def test_behind_a_blank_no_undeclared_key_begins_where_none_is_written(text: str, key: str) -> None:
    for calls in ([edit(**{key: text})], [edit(**{key: text}), OTHER]):
        found(RENDERERS["mimo"].render(calls), calls)


@pytest.mark.parametrize("key", ["path", "old", "new"])
@pytest.mark.parametrize("text", SHOWN_PAIRS)
@pytest.mark.parametrize("family", ["glm45", "hy_v3"])
def test_in_the_middle_of_a_line_no_undeclared_pair_begins(family: str, text: str, key: str) -> None:
    for calls in ([edit(**{key: text})], [edit(**{key: text}), OTHER], [OTHER, edit(**{key: text})]):
        found(RENDERERS[family].render(calls), calls)


@pytest.mark.parametrize("key", ["path", "old", "new"])
@pytest.mark.parametrize("value", ["x", "two\nlines", ""])
@pytest.mark.parametrize("family", INVOKES)
def test_in_another_notation_no_undeclared_key_begins(family: str, value: str, key: str) -> None:
    text = f"a.py</parameter>\n<parameter=why>\n{value}\nand more"
    calls = [edit(**{key: text}), OTHER]
    found(RENDERERS[family].render(calls), calls)


@pytest.mark.parametrize("family", [*LINED, "mimo", "qwen3_coder", "glm45", "hy_v3", "deepseek_v32"])
def test_an_undeclared_key_where_the_template_writes_one_is_a_key(family: str) -> None:
    calls: list[Call] = [edit(), ("other", {"what": "x", "why": "y"})]
    found(RENDERERS[family].render(calls), calls)


@pytest.mark.parametrize(
    "text",
    [
        'f"{HEAD}\n<parameter=path>\na.py{end}"\nx',
        "one\n<parameter=path>\ntwo\n<parameter=path>\nthree",
        "<parameter=path>\nb.py\nand more",
    ],
)
@pytest.mark.parametrize("family", [*LINED, "qwen3_coder"])
def test_where_the_opening_tag_of_a_key_stands_twice_there_is_no_call(family: str, text: str) -> None:
    """The first one may be shown, or the end tag before it be missing."""
    values: JsonObject = {"old": text, "path": "a.py", "new": "c"}
    calls: list[Call] = [("edit_text", values)]
    written = RENDERERS[family].render(calls)
    for cut in all_cuts(written, 4):
        seen = scan(cut, new_scanner(TOOLS))
        assert seen.parsed in ([], calls)


@pytest.mark.parametrize(
    "text",
    ["say <parameter=zz>a</parameter>, or", "`<parameter=a>b`", "such as `<parameter=new>` is `a`."],
)
@pytest.mark.parametrize("behind", ["d <parameter=a>x</parameter></parameter> e", "d </parameter> e", "d"])
@pytest.mark.parametrize("family", [*LINED, "mimo"])
def test_no_value_takes_a_required_one_along(family: str, text: str, behind: str) -> None:
    calls = [edit(old=text, new=behind)]
    written = RENDERERS[family].render(calls)
    for cut in all_cuts(written, 4):
        assert scan(cut, new_scanner(TOOLS)).parsed in ([], calls)


@pytest.mark.parametrize("key", ["path", "old", "new"])
@pytest.mark.parametrize("shown", ["op op", "op eo", "op ox", "eo op", "o op op", "ox eo op"])
@pytest.mark.parametrize("family", INVOKES)
def test_what_a_value_shows_behind_a_call_with_two_readings_is_no_call(family: str, shown: str, key: str) -> None:
    """Lines of JSON without backslashes, as in a file of cases: which of the end tags is the value's cannot be told,
    and so all that follows may be in it.
    """
    render = RENDERERS[family].render
    half: Call = ("edit_text", {"path": "p", "old": "q"})
    again: Call = ("other", {"what": "y"})
    examples = {
        "o": render([OTHER]),
        "op": render([OTHER, again]),
        "eo": render([half, OTHER]),
        "ox": f"{render([OTHER])}\n\n{render([again])}",
    }
    text = "\n".join(f'{{"text": "{examples[each]}", "calls": [1]}}' for each in shown.split())
    calls = [edit(**{key: text})]
    written = RENDERERS[family].render(calls)
    for cut in all_cuts(written, 2):
        assert scan(cut, new_scanner(TOOLS)).parsed in ([], calls)


def test_a_carriage_return_alone_behind_an_opening_tag_ends_no_call() -> None:
    """Where the reply ends it is no half of a line end that a value may begin with."""
    begun = "<tool_call>\n<function=edit_text>\n<parameter=old>\n<parameter=path>\n\r\n</function>"
    for end in ("", "\r", "\n", "\r\n", " "):
        found(text := f"{begun}<parameter=x><parameter=y>{end}", [], text)
