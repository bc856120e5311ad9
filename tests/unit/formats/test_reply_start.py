"""The first thing of a reply: residues of stripped tokens, bare names, cut openers (F3, F8, F11, F14, F18)."""

from __future__ import annotations

import pytest

from proxy.formats.json_calls import json_object
from proxy.formats.markers import BEFORE_TEXT, CUT_OPENERS
from proxy.formats.reply_start import ReplyStart, functionary, tool_calls_word
from proxy.formats.unwrapped import unwrapped
from proxy.parsing.cursor import Cursor, Parsing, RawCall
from tests.support.each_case import each_case
from tests.support.helpers import call_json, new_scanner, outcome, scan

LS = '{"command": "ls"}'
CALL = call_json("bash", command="ls")
ONE = [("bash", {"command": "ls"})]
FENCED = f"```json\n{LS}\n```"


def first(reader: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """With one format whose opener says more than what counts only here."""
    return ReplyStart({b"{": ("json", b'"', unwrapped)}, residues=True)(reader)


READ: dict[str, str] = {
    "a format of its own": CALL,
    "blanks before it": f" \n\n{CALL}",
    "a name": f"bash{LS}",
    "a name on its line": f"bash\n{LS}",
    "a name and the word of a marker": f"bash json{LS}",
    "a name and a marker": f"bash[ARGS]{LS}",
    "a namespace": f"functions.bash{LS}",
    "Kimi's counter": f"functions.bash:0{LS}",
    "Kimi's counter and marker": f"functions.bash:0<|tool_call_argument_begin|>{LS}",
    "DeepSeek's word": f"functionbash\n{FENCED}",
    "pairs": "bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>",
    "functools": f"functools[{CALL}]",
    "GigaChat's words": f"function call\n{CALL}",
    "a header": f"to=functions.bash<|channel|>commentary json<|message|>{LS}<|call|>",
    "a stripped header": f"commentary to=functions.bash json{LS}",
    "a stripped header behind analysis": f"assistantcommentary to=functions.bash json{LS}",
    "half an opener": f"ool_call>\n{CALL}\n</tool_call>",
    "an end of turn behind it": f"bash{LS}<|im_end|>",
}


@pytest.mark.parametrize("name", READ)
def test_what_counts_only_at_the_beginning_is_read_there(name: str) -> None:
    """C3: weak evidence, which must be the whole reply."""
    text = READ[name]
    assert outcome(first, text).calls == ONE
    for cut in ([text], [*text]):
        found = scan(cut)
        assert (found.parsed, found.text) == (ONE, "")
        assert scan(cut, new_scanner(json_reply=True)).calls == ()
    # JSON on a line of its own may be the last part of a reply.
    assert scan([f"Well, {text}"]).calls == () or f"\n{CALL}" in text


@pytest.mark.parametrize("name", [name for name in READ if name not in ("a header", "an end of turn behind it")])
def test_with_anything_behind_it_or_cut_off_it_is_none(name: str) -> None:
    text = READ[name]
    for reply, stopped in ((f"{text}\nand so on.", True), (text, False), (f"{text}\nx", True)):
        for cut in ([reply], [*reply]):
            found = scan(cut, stopped=stopped)
            assert (found.calls, found.text) == ((), reply)


@each_case("rest", CUT_OPENERS)
def test_each_opener_may_lack_its_first_bytes(rest: str) -> None:
    """F3: a server or a template cut them off."""
    inside = (
        "<Function>bash</Function><Parameters><command>ls</command></Parameters>" if rest.endswith("all>") else CALL
    )
    for body in (inside, CALL):
        if outcome(first, f"{rest}{body}", cuts=3).calls == ONE:
            return
    raise AssertionError(rest)


@pytest.mark.parametrize("token", BEFORE_TEXT)
def test_what_leaks_at_the_beginning_is_no_text(token: str) -> None:
    """F18."""
    found = outcome(first, f"{token}Hi")
    assert (found.given, found.rest) == ((), "Hi")
    for behind, text, calls in ((f"bash{LS}", "", ONE), ("Hello.", "Hello.", [])):
        for cut in ([token + behind], [*(token + behind)]):
            assert (scan(cut).text, scan(cut).parsed) == (text, calls)


REFUSED = {
    "a name alone": "bash",
    "a name and prose": "bash is a shell",
    "a name and a blank": f"bash {LS}",
    "a name and a sentence in braces": "read {this} first",
    "a name and a fence": f"bash\n{FENCED}",
    "a longer name": f"bashful{LS}",
    "a name that was not offered": f"nope{LS}",
    "too much between": f"bash one two three four five{LS}",
    "an unknown key": 'bash{"cmd": "ls"}',
    "a required argument missing": "bash{}",
    "functools and prose": "functools is a module",
    "a header of no tool": f"to=all<|message|>{LS}",
    "another language": "function bash() { ls; }",
    "text": "Hello",
    "a bracket of the wrong kind": "{'a': 1}",
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_at_the_beginning_is_text(name: str) -> None:
    """C3."""
    found = outcome(first, REFUSED[name])
    assert found.calls is None and found.why
    for cut in ([REFUSED[name]], [*REFUSED[name]]):
        assert (scan(cut).calls, scan(cut).text) == ((), REFUSED[name])


def test_without_residues_the_formats_alone_count() -> None:
    """C3: a reply in JSON."""

    def only(reader: Cursor) -> Parsing[tuple[RawCall, ...]]:
        return ReplyStart({b"{": ("json", b'"', json_object)}, residues=False)(reader)

    assert outcome(only, CALL).calls == ONE
    for name in ("a name", "functools", "half an opener"):
        assert outcome(only, READ[name]).calls is None


GLUED = {
    "functionary's": (functionary, f">>>bash\n{LS}"),
    "two of functionary's": (functionary, f">>>bash\n{LS}\n>>>bash\n{LS}"),
    "Mistral's word": (tool_calls_word, f"TOOL_CALLSbash{LS}"),
    "Mistral's word and marker": (tool_calls_word, f"TOOL_CALLSbash[ARGS]{LS}"),
}


@pytest.mark.parametrize("name", GLUED)
def test_a_name_glued_to_its_lead_is_read_with_json_alone(name: str) -> None:
    """F14."""
    parse, text = GLUED[name]
    found = outcome(parse, text)
    assert found.calls is not None and {*map(str, found.calls)} == {str(ONE[0])}
    assert found.weak and not found.rest
    for refused in (
        text.replace("bash", "nope"),
        text.replace(LS, "ls"),
        text.replace(LS, "(command='ls')"),
        f"{text} so",
    ):
        assert outcome(parse, refused).calls is None
