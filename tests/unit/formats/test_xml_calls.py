"""Calls in tags that name the tool, in the spellings of all families, typed by the schema (F3 to F5, F10 to F13)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.formats.xml_calls import parameters, tagged_call
from proxy.formats.xml_tags import SEPARATOR
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import Context, Cursor, NotACall
from proxy.tools.schema import literal
from tests.support.helpers import offered, outcome


def tags(name: str, *parameters: tuple[str, str]) -> str:
    """As Qwen3-Coder writes it."""
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<function={name}>\n{inside}</function>"


def dsml(name: str, *parameters: tuple[str, str, str]) -> str:
    """As DeepSeek writes it: each parameter says whether it is a string."""
    mark = "｜DSML｜"
    inside = "".join(
        f'<{mark}parameter name="{key}" string="{said}">{value}</{mark}parameter>\n' for key, said, value in parameters
    )
    return f'<{mark}invoke name="{name}">\n{inside}</{mark}invoke>'


LS = ("bash", {"command": "ls"})
BOTH = ("bash", {"command": "ls", "timeout": 5})
READ: dict[str, tuple[str, tuple[str, Any]]] = {
    "string": (tags("bash", ("command", "ls -l")), ("bash", {"command": "ls -l"})),
    "one line": ("<function=bash><parameter=command>ls</parameter></function>", ("bash", {"command": "ls"})),
    "no parameters": ("<function=now>\n</function>", ("now", {})),
    "no parameters, no line end": ("<function=now></function>", ("now", {})),
    "one line end of markup alone": (tags("bash", ("command", "\n\nls\n")), ("bash", {"command": "\n\nls\n"})),
    "blanks are the value's": (
        "<function=bash><parameter=command>  ls\t</parameter></function>",
        ("bash", {"command": "  ls\t"}),
    ),
    "empty": ("<function=bash><parameter=command></parameter></function>", ("bash", {"command": ""})),
    "empty in lines": (tags("bash", ("command", "")), ("bash", {"command": ""})),
    "integer": (tags("typed", ("count", "10")), ("typed", {"count": 10})),
    "number": (tags("typed", ("ratio", "1.5")), ("typed", {"ratio": 1.5})),
    "boolean": (tags("typed", ("flag", "true")), ("typed", {"flag": True})),
    "boolean as Python writes it": (tags("typed", ("flag", "True")), ("typed", {"flag": True})),
    "array": (tags("typed", ("items", '["a", "b"]')), ("typed", {"items": ["a", "b"]})),
    "array over lines": (tags("typed", ("items", '[\n  "a"\n]')), ("typed", {"items": ["a"]})),
    "object": (tags("typed", ("options", '{"a": {"b": 1}}')), ("typed", {"options": {"a": {"b": 1}}})),
    "nullable": (tags("typed", ("maybe", "null")), ("typed", {"maybe": None})),
    "nullable as Python writes it": (tags("typed", ("maybe", "None")), ("typed", {"maybe": None})),
    "nullable integer": (tags("typed", ("maybe", "5")), ("typed", {"maybe": 5})),
    "object as Python writes it": (tags("typed", ("options", "{'a': None}")), ("typed", {"options": {"a": None}})),
    "a string that looks like a number": (tags("typed", ("label", "10")), ("typed", {"label": "10"})),
    "either": (tags("typed", ("either", "10")), ("typed", {"either": 10})),
    "either, and no number": (tags("typed", ("either", "10 s")), ("typed", {"either": "10 s"})),
    "untyped": (tags("typed", ("free", "10")), ("typed", {"free": "10"})),
    "no number": (tags("typed", ("count", "ten")), ("typed", {"count": "ten"})),
    "several": (
        tags("bash", ("command", "ls"), ("timeout", "5"), ("background", "false")),
        ("bash", {"command": "ls", "timeout": 5, "background": False}),
    ),
    "less-than": (
        tags("bash", ("command", "if [ 1 < 2 ]; then <b>; fi")),
        ("bash", {"command": "if [ 1 < 2 ]; then <b>; fi"}),
    ),
    "a closer in the value": (
        tags("bash", ("command", "echo '</parameter>'")),
        ("bash", {"command": "echo '</parameter>'"}),
    ),
    "a closer and blanks in the value": (
        tags("bash", ("command", "</parameter>\n\n x")),
        ("bash", {"command": "</parameter>\n\n x"}),
    ),
    "a closer and many blanks": (
        tags("bash", ("command", "</parameter>" + " " * 300 + "x")),
        ("bash", {"command": "</parameter>" + " " * 300 + "x"}),
    ),
    "the end tag in the value": (tags("bash", ("command", "</function>")), ("bash", {"command": "</function>"})),
    "a wrapper in the value": (
        tags("bash", ("command", "<tool_call>\n{}\n</tool_call>")),
        ("bash", {"command": "<tool_call>\n{}\n</tool_call>"}),
    ),
    "an opener in the value": (tags("bash", ("command", "<parameter=x>")), ("bash", {"command": "<parameter=x>"})),
    "UTF-8": (tags("bash", ("command", "ï🙂｜▁")), ("bash", {"command": "ï🙂｜▁"})),
    "half a surrogate pair": (tags("bash", ("command", "\ud83d")), ("bash", {"command": "\ud83d"})),
    "quotes and backslashes": (tags("bash", ("command", '"\\n"\t')), ("bash", {"command": '"\\n"\t'})),
    "name by the ladder": (tags("Bash", ("command", "ls")), ("bash", {"command": "ls"})),
    "an unknown key": (tags("bash", ("cmd", "ls")), ("bash", {"cmd": "ls"})),
    "CRLF": ("<function=now>\r\n</function>", ("now", {})),
    "CRLF around values": (tags("bash", ("command", "ls")).replace("\n", "\r\n"), ("bash", {"command": "ls"})),
    "no line end behind the opening tag": (
        "<function=bash>\n<parameter=command>ls\n</parameter>\n</function>",
        ("bash", {"command": "ls\n"}),
    ),
    "a JSON body": ('<function=bash>{"command": "ls"}</function>', ("bash", {"command": "ls"})),
    "a value without its end tag": ("<function=bash>\n<parameter=command>\nls\n</function>", LS),
    "values without their end tags": (
        "<function=bash>\n<parameter=command>\nls\n<parameter=timeout>\n5\n</parameter>\n</function>",
        ("bash", {"command": "ls", "timeout": 5}),
    ),
    "the end tag of a number twice": (
        "<function=bash><parameter=command>ls</parameter><parameter=timeout>5</parameter></parameter></function>",
        BOTH,
    ),
    "in quotation marks": ("<function=\"bash\"><parameter='command'>ls</parameter></function>", LS),
    "as attributes": ('<function name="bash"><parameter name="command">ls</parameter></function>', LS),
    "glued": ('<functionname="bash"><parametername="command">ls</parametername></function>', LS),
    "invoke": ('<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>', LS),
    "invoke keeps line ends": (
        '<invoke name="bash">\n<parameter name="command">\nls\n</parameter>\n</invoke>',
        ("bash", {"command": "\nls\n"}),
    ),
    "invoke in a namespace": (
        "<atem:invoke name='bash'><atem:parameter name='command'>ls</atem:parameter></atem:invoke>",
        LS,
    ),
    "invoke without parameters": ('<invoke name="now"></invoke>', ("now", {})),
    "param": ('<function name="bash"><param name="command">a < b</param></function>', ("bash", {"command": "a < b"})),
    "param with character data": (
        '<function name="bash"><param name="command"><![CDATA[</param>]]></param></function>',
        ("bash", {"command": "</param>"}),
    ),
    "DSML says the type": (
        dsml("typed", ("count", "true", "3"), ("label", "false", "3")),
        ("typed", {"count": "3", "label": 3}),
    ),
    "DSML says what is none": (dsml("typed", ("label", "false", "x")), ("typed", {"label": "x"})),
    "elements": ('<invoke name="bash"><command>ls</command><timeout>5</timeout></invoke>', BOTH),
    "elements behind separators": (
        f'{SEPARATOR}<invoke name="bash">{SEPARATOR}<command>ls{SEPARATOR}</command>'
        f"{SEPARATOR}<timeout>5{SEPARATOR}</timeout>{SEPARATOR}</invoke>",
        BOTH,
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_call_is_read_at_every_cut(name: str) -> None:
    text, expected = READ[name]
    found = outcome(tagged_call, text)
    assert (found.calls, found.rest, found.weak) == ([expected], "", False)


REFUSED = {
    "the end tag of a text twice": "<function=bash><parameter=command>ls</parameter></parameter></function>",
    "name not offered": tags("nope", ("command", "ls")),
    "name one letter off": tags("bas", ("command", "ls")),
    "no name": "<function=>\n</function>",
    "the name does not end": "<function=bash\n</function>",
    "prose": "<function=bash> runs a command",
    "half a closer": "<function=bash>\n<parameter=command>\nls\n</parameter>\n</functio",
    "key twice": tags("bash", ("command", "ls"), ("command", "rm")),
    "no key": "<function=bash><parameter=>ls</parameter></function>",
    "an end tag": "</function>",
    "another tag": "<tool_call></tool_call>",
    "no tag": "bash",
    "nothing": "",
    "nothing behind the opening tag": "<function=now>",
    "a value that does not end": "<function=bash>\n<parameter=command>\nls",
    "a JSON body that is no object": '<function=bash>["ls"]</function>',
    "a JSON body and prose": '<function=bash>{"command": "ls"} and so on',
    "a tag that is no parameter": '<invoke name="bash"><cmd>ls</cmd></invoke>',
    "an element twice": '<invoke name="bash"><command>ls</command><command>ls</command></invoke>',
    "character data that does not end": '<function name="bash"><param name="command"><![CDATA[ls</param></function>',
    "character data and more": '<function name="bash"><param name="command"><![CDATA[a]]>b</param></function>',
    "too long a name": "<function=" + "x" * 300 + "></function>",
    "too many blanks": "<function=now>" + " " * 300 + "</function>",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused_at_every_cut(name: str) -> None:
    found = outcome(tagged_call, REFUSED[name])
    assert found.calls is None and found.why


WHERE: dict[str, tuple[str, str]] = {
    "its wrapper ends": ("<function=bash><parameter=command>ls</parameter></tool_call>", "</tool_call>"),
    "the next call begins": ("<function=bash><parameter=command>ls</parameter><function=now>", "<function=now>"),
    "the turn is over": ("<function=bash><parameter=command>ls</parameter><|im_end|>", "<|im_end|>"),
    "prose follows": ("<function=bash><parameter=command>ls</parameter></function> so", " so"),
    "another one follows": ('<invoke name="bash"><command>ls</command></invoke><invoke name="x">', '<invoke name="x">'),
}


@pytest.mark.parametrize("name", WHERE)
def test_a_call_ends_with_its_tag_or_where_it_must_be_over(name: str) -> None:
    """F3: what stands there is read by others."""
    text, rest = WHERE[name]
    found = outcome(tagged_call, text)
    assert (found.calls, found.rest, found.weak) == ([LS], rest, False)


@pytest.mark.parametrize(
    "text",
    [
        "<function=bash>\n<parameter=command>\nls\n</parameter>\n",
        '<invoke name="bash"><command>ls</command>',
        '<function=bash>{"command": "ls"}\n',
    ],
)
def test_without_its_end_tag_a_call_is_weak_and_needs_the_natural_end(text: str) -> None:
    """C3, C4."""
    found = outcome(tagged_call, text)
    assert (found.calls, found.rest, found.weak) == ([LS], "", True)
    assert outcome(tagged_call, text, stopped=False).calls is None


def test_parameters_may_stand_without_a_tag_around_them() -> None:
    """F4: as far as their wrapper."""
    tool = offered().resolve("bash")
    assert tool is not None
    text = "<parameter=command>\nls\n</parameter>\n<parameter=timeout>\n5\n</parameter>\n</tool_call>"
    found = outcome(lambda reader: parameters(reader, tool), text)
    assert (found.given, found.rest) == (BOTH[1], "</tool_call>")


@pytest.mark.parametrize(
    "text", ["<function=nope> x", "<function=...> x", "<function=bash> x", "<function=NAME\n", "<function=" + "x" * 300]
)
def test_prose_that_mentions_the_tag_is_let_go_at_once(text: str) -> None:
    """C2, F68."""
    with pytest.raises(NotACall):
        next(tagged_call(Cursor(TextBuffer(bytearray(text.encode())), 0, Context(offered()))))


@pytest.mark.parametrize("value", ["1e999", "-1e999"])
def test_the_arguments_are_json_whatever_the_number(value: str) -> None:
    """`Infinity` is no JSON: the client could not read the call."""
    assert outcome(tagged_call, tags("typed", ("ratio", value))).calls == [("typed", {"ratio": value})]


# What no renderer could write: a value that holds the very end of its parameter.
_TEXT = st.text(max_size=60).filter(lambda text: "</parameter>" not in text)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "count": st.integers(-(2**63), 2**63),
    "flag": st.booleans(),
    "items": st.lists(_JSON, max_size=4),
    "options": st.dictionaries(st.text(max_size=5), _JSON, max_size=3),
    "maybe": st.none() | st.integers(-9, 9),
    "either": _TEXT.filter(lambda text: isinstance(literal(text), str)),
    "label": _TEXT,
    "free": _TEXT,
}


@pytest.mark.slow
@settings(max_examples=120, derandomize=True)
@given(st.fixed_dictionaries({}, optional=_VALUES))
def test_what_is_rendered_is_read_again(values: dict[str, Any]) -> None:
    """The round trip over any values of the schema."""
    rendered = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    if any("</parameter>" in text for text in rendered.values()):
        return
    text = tags("typed", *rendered.items())
    assert outcome(tagged_call, text, cuts=6).calls == [("typed", values)]
