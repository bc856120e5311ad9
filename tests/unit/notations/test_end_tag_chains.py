"""Raw values that show the closers of their call where the template writes none, other families' closers, and the
beginning of another call: none of it cuts the value, and no call is made of what it shows (contract C9).
"""

from __future__ import annotations

import pytest

from proxy.codec.json_text import JsonObject
from tests.support.helpers import all_cuts, function, new_scanner, offered, scan
from tests.support.renderers import RENDERERS, Call

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
TOOLS = offered(
    function(
        "edit_text",
        {"path": TEXT, "old": TEXT, "new": TEXT, "all": {"type": "boolean"}, "mode": TEXT},
        "path",
        "old",
        "new",
    ),
    function("other", {"what": TEXT}, "what"),
)
OTHER: Call = ("other", {"what": "x"})
INVOKES = ("minimax_m2", "anthropic")
WRAPPERS = {"minimax_m2": "minimax:tool_call", "anthropic": "function_calls"}
KEYS = pytest.mark.parametrize("key", ["path", "old", "new"])


def edit(**values: object) -> Call:
    given: JsonObject = {"path": "a.py", "old": "b", "new": "c", **values}  # type: ignore[dict-item]
    return "edit_text", given


def read(text: str) -> list[tuple[str, object]]:
    """The calls of a text, the same at every cut."""
    seen = [scan(cut, new_scanner(TOOLS)).parsed for cut in all_cuts(text, 4)]
    assert all(each == seen[0] for each in seen)
    return seen[0]


def shown_call(family: str, wrapped: bool = True) -> str:
    name = WRAPPERS[family]
    call = '<invoke name="other"><parameter name="what">x</parameter>\n</invoke>'
    return f"<{name}>{call}</{name}>" if wrapped else f"<{name}>{call}"


@KEYS
@pytest.mark.parametrize("family", INVOKES)
@pytest.mark.parametrize("rest", ['"a": "{}"\nz', "{}", "{} is what it writes\n", '"', "name: {}"])
def test_behind_closers_the_next_call_begins_where_the_template_writes_it(family: str, rest: str, key: str) -> None:
    shown = f'mix</parameter>\n</invoke><invoke name="edit_text">{rest.format(shown_call(family))}'
    calls = [edit(**{key: shown})]
    assert read(RENDERERS[family].render(calls)) in (calls, [])


@KEYS
@pytest.mark.parametrize("family", INVOKES)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("begins", ['<invoke name="edit_text">', '<invoke name="nope">', '<invoke name="other">"'])
@pytest.mark.parametrize("rest", ['"a": "{}"\nz', "{}\n{}", "{} is what it writes\n"])
def test_behind_a_value_that_may_be_cut_nothing_is_a_call(
    family: str, rest: str, begins: str, wrapped: bool, key: str
) -> None:
    """A call that begins as the template writes it, and is none."""
    shown = rest.replace("{}", shown_call(family, wrapped))
    calls = [edit(**{key: f"mix</parameter>\n</invoke>\n{begins}{shown}"})]
    assert read(RENDERERS[family].render(calls)) in (calls, [])


@pytest.mark.slow
@KEYS
@pytest.mark.parametrize("family", ["qwen3_coder", "seed_oss", *INVOKES])
@pytest.mark.parametrize("indent", ["    ", "\t", " "])
@pytest.mark.parametrize(
    "doc",
    [
        '"""Doc.\n{closers}\n\n{indent}"""\nx = 1',
        "{indent}<tool_call>\n{closers}\n\nend",
        "{closers}\n\nend",
        "a\n\n{closers}\n{indent}b",
    ],
)
def test_indented_closers_are_text_where_no_opener_is_indented(family: str, doc: str, indent: str, key: str) -> None:
    wrapper = WRAPPERS.get(family, "seed:tool_call" if family == "seed_oss" else "tool_call")
    call = "invoke" if family in INVOKES else "function"
    closers = "\n".join(f"{indent}</{name}>" for name in ("parameter", call, wrapper))
    text = doc.format(closers=closers, indent=indent)
    for calls in ([edit(**{key: text})], [edit(**{key: text}), OTHER], [OTHER, edit(**{key: text})]):
        assert read(RENDERERS[family].render(calls)) == calls


@pytest.mark.parametrize("indent", ["  ", "\t"])
def test_a_call_whose_tags_are_all_indented_is_one(indent: str) -> None:
    lines = (
        "<tool_call>", f"{indent}<function=other>", f"{indent * 2}<parameter=what>", "x", f"{indent * 2}</parameter>",
        f"{indent}</function>", "</tool_call>",
    )  # fmt: skip
    ((name, values),) = read("\n".join(lines))
    assert (name, list(values)) == ("other", ["what"])  # type: ignore[call-overload]
    calls = read("\n".join((*lines, *lines)))
    assert [name for name, _ in calls] == ["other", "other"]


@pytest.mark.parametrize("family", ["qwen3_coder", "seed_oss", *INVOKES])
def test_a_call_whose_end_tags_alone_are_indented_is_one(family: str) -> None:
    written = RENDERERS[family].render([edit(), edit(new="d")])
    indented = written.replace("</function>", "  </function>").replace("</invoke>", "  </invoke>")
    assert read(indented) == [edit(), edit(new="d")]


OPENERS = {"minimax_m2": '<parameter name="{}">', "anthropic": '<parameter name="{}">', "seed_oss": "<parameter={}>"}


@KEYS
@pytest.mark.parametrize("text", ["a </parameter> {} b", "a </parameter>{}", "a </parameter> {}true</parameter> b"])
@pytest.mark.parametrize("shown", ["all", "mode"])
@pytest.mark.parametrize("family", OPENERS)
def test_in_the_middle_of_a_line_no_key_begins_that_may_be_missing(
    family: str, shown: str, text: str, key: str
) -> None:
    calls = [edit(**{key: text.format(OPENERS[family].format(shown))})]
    assert read(RENDERERS[family].render(calls)) in (calls, [])


@pytest.mark.parametrize("between", ["", " "])
@pytest.mark.parametrize("family", OPENERS)
def test_in_the_middle_of_a_line_a_key_begins_that_must_be_there_or_whose_value_fits(
    family: str, between: str
) -> None:
    calls = [edit(all=True)]
    written = RENDERERS[family].render(calls)
    assert read(written.replace("</parameter>\n<parameter", f"</parameter>{between}<parameter")) == calls


@KEYS
@pytest.mark.parametrize("family", INVOKES)
@pytest.mark.parametrize("closer", ["</tool_call>", "</tool_calls>", "</minimax:tool_call>", "</function_calls>"])
@pytest.mark.parametrize("behind", ["\nb", '\nb</parameter>\n<parameter=why>\nx', "\n\n# more\n"])
def test_closers_of_another_wrapper_end_no_value_that_its_own_end(
    family: str, behind: str, closer: str, key: str
) -> None:
    if closer == f"</{WRAPPERS[family]}>":
        closer = "</dots_function_call>"
    calls = [edit(**{key: f"a</parameter>\n</invoke>\n{closer}{behind}"})]
    assert read(RENDERERS[family].render(calls)) == calls


@pytest.mark.parametrize("closer", ["</tool_call>", "</tool_calls>"])
@pytest.mark.parametrize("family", INVOKES)
def test_calls_may_be_closed_by_another_wrappers_end(family: str, closer: str) -> None:
    written = RENDERERS[family].render([edit()]).replace(f"</{WRAPPERS[family]}>", closer)
    assert read(written) == [edit()]
    assert read(f"{written}\n{written}") == [edit(), edit()]
    assert read(f"{written}\n\nNow I will see.") == [edit()]


@KEYS
@pytest.mark.parametrize("family", INVOKES)
@pytest.mark.parametrize("value", ["x", "x\n"])
@pytest.mark.parametrize("head", ["", "</invoke>\n", "see </invoke></tool_call>\n", "<invoke name=\"other\">\n"])
def test_no_undeclared_key_in_another_notation_follows_a_value(family: str, head: str, value: str, key: str) -> None:
    text = f"{head}a.py</parameter>\n<parameter=why>\n{value}"
    for calls in ([edit(**{key: text})], [edit(**{key: text}), OTHER]):
        assert read(RENDERERS[family].render(calls)) in (calls, [], [OTHER])
