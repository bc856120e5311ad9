"""Tags in all their spellings: which kind, which name, and what can end what they begin (F4, F5, F10, F12, F13)."""

from __future__ import annotations

import pytest

from proxy.formats.xml_tags import MAX_TAG, SEPARATOR, peek_tag, read_tag, tag
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import MAX_VOID, Context, Cursor
from proxy.tools.toolset import read_tools
from tests.support.helpers import outcome

# What stands between `<` and `>`: the kind, the name, and the end tag.
SPELLINGS: dict[str, tuple[str, str, str]] = {
    "parameter=path": ("parameter", "path", "</parameter>"),
    'parameter="path"': ("parameter", "path", "</parameter>"),
    "function = bash ": ("function", "bash", "</function>"),
    "function=": ("function", "", "</function>"),
    'parameter name="path"': ("parameter", "path", "</parameter>"),
    "parameter name='path'": ("parameter", "path", "</parameter>"),
    "parameter name=path": ("parameter", "path", "</parameter>"),
    'parameter name=""': ("parameter", "", "</parameter>"),
    'parameter  type="string" Name = "path"': ("parameter", "path", "</parameter>"),
    'invoke name="two words"': ("invoke", "two words", "</invoke>"),
    'atem:invoke name="bash"': ("invoke", "bash", "</atem:invoke>"),
    'rfl:param name="path"': ("param", "path", "</rfl:param>"),
    "minimax:tool_call": ("tool_call", "", "</minimax:tool_call>"),
    "ifm|arg_key": ("arg_key", "", "</ifm|arg_key>"),
    "arg_key:opensource": ("arg_key", "", "</arg_key:opensource>"),
    "tool_calls:0123abcd": ("tool_calls", "", "</tool_calls:0123abcd>"),
    "path": ("path", "", "</path>"),
    "br/": ("br", "", "</br>"),
    "x-y.z": ("x-y.z", "", "</x-y.z>"),
}


@pytest.mark.parametrize("inside", SPELLINGS)
def test_each_spelling_has_its_kind_its_name_and_its_end_tag(inside: str) -> None:
    found = read_tag(inside)
    assert found is not None
    assert (found.kind, found.name, found.ends[0]) == (*SPELLINGS[inside][:2], SPELLINGS[inside][2].encode())
    assert not found.closing and not found.marked


@pytest.mark.parametrize(("inside", "kind"), [("functionname=bash", "function"), ('invokename="bash"', "invoke")])
def test_a_blank_that_is_missing_before_the_name_changes_nothing(inside: str, kind: str) -> None:
    """F4: either end tag may follow."""
    found = read_tag(inside)
    assert found is not None
    assert (found.kind, found.name) == (kind, "bash")
    assert set(found.ends) == {f"</{kind}name>".encode(), f"</{kind}>".encode()}


@pytest.mark.parametrize("bars", ["｜", "｜｜", "|", "||", "‖", " | ", "| ", ""])
@pytest.mark.parametrize("word", ["DSML", "GCML"])
def test_the_marked_tags_are_known_in_all_bars(bars: str, word: str) -> None:
    """F10."""
    mark = f"{bars}{word}{bars}"
    opener = read_tag(f'{mark}parameter name="path" string="false"')
    assert opener is not None and opener.marked
    assert (opener.kind, opener.name, opener.attributes["string"]) == ("parameter", "path", "false")
    closers = {f"</{mark}parameter>".encode(), f"</{mark.replace(' ', '')}parameter>".encode()}
    assert set(opener.ends) <= closers | {f"</{mark.strip()}parameter>".encode()}
    end = read_tag(f"/{mark}parameter")
    assert end is not None and end.marked and end.closing and end.kind == "parameter"


def test_only_a_name_behind_the_kind_is_assigned() -> None:
    """A line end behind the opening tag is markup in this spelling alone."""
    for inside, assigned in (("parameter=path", True), ('parameter name="path"', False), ("path", False)):
        found = read_tag(inside)
        assert found is not None and found.assigned is assigned


@pytest.mark.parametrize("inside", ["/function", "/ function", "/function "])
def test_an_end_tag_is_told_from_its_opener(inside: str) -> None:
    found = read_tag(inside)
    assert found is not None and found.closing and found.kind == "function"


@pytest.mark.parametrize("inside", ["", "/", " ", "1", "=bash", "!-- a --", "?xml", '"path"', "｜DSML｜", "a<b", "a>b"])
def test_what_is_no_tag_is_none(inside: str) -> None:
    assert read_tag(inside) is None


STANDS: dict[str, tuple[str, str | None, str]] = {
    "a tag": ("<path>x", "path", "x"),
    "an end tag": ("</path> x", "path", " x"),
    "behind MiniMax's separator": (f"{SEPARATOR}<path>x", "path", "x"),
    "as long as may be": (f"<{'a' * MAX_TAG}>", "a" * MAX_TAG, ""),
    "longer": (f"<{'a' * (MAX_TAG + 1)}>", None, f"<{'a' * (MAX_TAG + 1)}>"),
    "over a line end": ("<pa\nth>", None, "<pa\nth>"),
    "another one begins": ("<a <b>", None, "<a <b>"),
    "nothing in it": ("<>", None, "<>"),
    "half of it": ("<path", None, "<path"),
    "half a separator": (SEPARATOR[:5], None, SEPARATOR[:5]),
    "a separator alone": (f"{SEPARATOR}path>", None, f"{SEPARATOR}path>"),
    "text": ("path>", None, "path>"),
    "nothing": ("", None, ""),
}


@pytest.mark.parametrize("name", STANDS)
def test_a_tag_is_read_or_nothing_is(name: str) -> None:
    text, kind, rest = STANDS[name]
    seen, read = outcome(peek_tag, text), outcome(tag, text)
    assert seen.rest == text
    assert (seen.given and seen.given.kind, read.given and read.given.kind) == (kind, kind)
    assert read.rest == rest
    assert bool(read.why) is (kind is None)


@pytest.mark.parametrize("name", STANDS)
def test_a_tag_that_comes_byte_by_byte_is_the_same(name: str) -> None:
    text, kind, rest = STANDS[name]
    buffer = TextBuffer()
    cursor = Cursor(buffer, 0, Context(read_tools([])))
    parsing = cursor.maybe(tag(cursor))
    given = None
    waiting = [*text.encode()]
    while True:
        try:
            next(parsing)
        except StopIteration as done:
            given = done.value
            break
        buffer.ended = not waiting
        buffer.data += bytes(waiting[:1])
        del waiting[:1]
    assert (given and given.kind) == kind
    assert cursor.pos == (len(text.encode()) - len(rest.encode()) if kind else 0)


def whole_or_in_pieces(since: int, whole: bool) -> object:
    """What is read of `<b>` at MAX_VOID in what is no call since a position."""
    text = b"x" * MAX_VOID + b"<b>x"
    buffer = TextBuffer(bytearray(text if whole else text[:-2]))
    cursor = Cursor(buffer, since, Context(read_tools([])))
    cursor.reject("no call")
    cursor.pos = MAX_VOID
    parsing = cursor.maybe(tag(cursor))
    try:
        next(parsing)
        buffer.data += text[-2:]
        next(parsing)
    except StopIteration as done:
        return done.value
    return "it waits"


@pytest.mark.parametrize("since", [0, 1, 2, 3, 4])
def test_what_is_no_call_is_read_no_further_in_one_piece_than_in_two(since: int) -> None:
    assert whole_or_in_pieces(since, True) == whole_or_in_pieces(since, False)


def test_behind_minimaxs_separator_the_end_tag_has_one_too() -> None:
    """F12."""
    found = outcome(tag, f"{SEPARATOR}<path>").given
    assert found is not None and found.ends == (f"{SEPARATOR}</path>".encode(),)
