"""A call that is quoted is none: code, listings, quotation marks, tables, docstrings, tools that are only listed
(contract C3, F88); and a stray mark makes no call a quotation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle

import pytest

from tests.support.helpers import (
    all_cuts,
    call_json,
    ends,
    new_engine,
    new_scanner,
    run,
    says,
    scan,
    view,
)
from tests.support.renderers import RENDERERS
from tests.unit.notations.test_copied_calls import TOOLS, random_calls

pytestmark = pytest.mark.once

CALL = "<tool_call>" + call_json("find", pattern="a b") + "</tool_call>"
FOUND = [("find", {"pattern": "a b"})]

# What stands before a call and behind it; each of them quotes.
INLINE: dict[str, tuple[str, str]] = {
    "code": ("Write <code>", "</code> there."),
    "code with a class": ('Write <code class="xml">', "</code> there."),
    "code and blanks": ("Write <code>\n", "\n</code> there."),
    "code behind words": ("Write <CODE>this: ", " </CODE>"),
    "quotation marks": ('It says "', '" there.'),
    "quotation marks at the end": ('It says "', '"'),
    "a sentence": ('"I call ', '", it says.'),
    "a sentence and blanks": ('It says: "I call\n', '\n".'),
    "a sentence behind another": ('It said "no" and then "I call ', '" again.'),
    "behind a stray mark": ('A 5" disk. It says "', '" there.'),
    "low and high": ("Es sagt „", "“ dort."),
    "low and high marks of other kinds": ("Es sagt „so: ", "” dort."),
    "curly": ("It says “so: ", "” there."),
    "French": ("Il dit « ", " » là."),
    "German": ("Es sagt »so: ", "« dort."),
    "Japanese": ("「", "」と言う。"),
    "single": ("It says '", "' there."),
    "single behind an apostrophe": ("It doesn't say 'so ", "' there."),
    "single curly": ("It says ‘so: ", "’ there."),
    "a string of Python": ('text = "', '"\nprint(text)'),
    "a string with a line end": ('print("', '\\n")\n'),
    "a table": ("| a | b |\n|---|---|\n| x | ", " | y |\n"),
    "a table of one column": ("| ", " |\n|---|\n"),
    "a table without a frame": ("a | b\n--|--\nx | ", " | y\n"),
}
BLOCK: dict[str, tuple[str, str]] = {
    "pre": ("So:\n\n<pre>", "</pre>\nThat is it."),
    "pre and blank lines": ("So:\n<pre>\nFirst\n\n", "\n\n</pre>"),
    "pre and code": ('<pre><code class="xml">First\n\n', "</code></pre>\n"),
    "a docstring": ('def f():\n    """Calls.\n\n    ', '\n    """\n'),
    "a docstring alone": ('"""', '"""'),
    "a docstring behind another": ('"""a"""\n\n"""b\n\n', '\n\n"""'),
    "a docstring of single quotes": ("'''\n\n", "\n'''\nx = 1"),
}
WHOLE = INLINE | BLOCK


def behind(mark: str) -> Callable[[str], str]:
    """Each line behind a mark."""
    return lambda text: "\n".join(mark + line for line in text.split("\n"))


# What is done to all lines of a call, and what stands around it.
LINES: dict[str, tuple[str, Callable[[str], str], str]] = {
    "indented": ("So:\n\n", behind("    "), "\n\nThat is it."),
    "indented further": ("So:\n\n", behind("        "), "\nThat is it."),
    "indented by a tab": ("So:\n \n", behind("\t"), "\nThat is it."),
    "indented behind code": ("So:\n\n    first\n\n    then\n", behind("    "), "\n    and\n"),
    "indented in a list": ("1. So:\n\n", behind("        "), "\n\n2. That is it."),
    "indented behind a list": ("- So\n- or so\n\nas:\n\n", behind("    "), "\n\nThat is it."),
    "quoted": ("So:\n\n", behind("> "), "\n\nThat is it."),
    "quoted without a blank": ("", behind(">"), "\n\nThat is it."),
    "quoted twice": ("So:\n", behind(">> "), "\n"),
    "quoted in a list": ("- So:\n", behind("  > "), "\n"),
    "a fence of tildes": ("So:\n~~~\n", str, "\n~~~\nThat is it."),
    "a longer fence of tildes": ("So:\n\n~~~~xml\n", str, "\n~~~~\n"),
    "a fence of tildes to the end": ("So:\n~~~\n", str, ""),
    "a fence in a list": ("- So:\n\n  ````xml\n", behind("  "), "\n  ````\n- That is it."),
    "a comment": ("<!-- ", str, " -->"),
}


def is_strong(text: str) -> bool:
    """Whether a call counts wherever it stands."""
    return bool(scan([f"So:\n{text}\nand so on."], new_scanner(TOOLS)).calls)


CALLS = {form: [RENDERERS[form].render(calls).strip() for calls in random_calls(form, 2)] for form in RENDERERS}
STRONG = {form: texts for form, texts in CALLS.items() if all(map(is_strong, texts))}


def test_most_formats_have_a_wrapper_of_their_own() -> None:
    assert len(STRONG) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("form", RENDERERS)
def test_no_format_calls_from_within_a_quotation(form: str) -> None:
    """Cut once, or into small pieces, in turn."""
    rng = random.Random(form)
    for turn, text in enumerate(CALLS[form], start=list(RENDERERS).index(form)):
        replies = [f"{before}{text}{after}" for before, after in WHOLE.values()]
        replies += [f"{before}{decorate(text)}{after}" for before, decorate, after in LINES.values()]
        for number, reply in enumerate(replies, start=turn):
            at = rng.randrange(len(reply))
            cut = [reply[:at], reply[at:]]
            if number % 2:
                cut = [reply[place : place + 3] for place in range(0, len(reply), 3)]
            found = scan(cut, new_scanner(TOOLS))
            assert not found.calls
            # A token that ends the turn is no text.
            assert found.text in (reply, reply.removesuffix("<|message_sep|>\n"))


@pytest.mark.parametrize("name", WHOLE)
def test_a_quotation_is_one_at_every_cut(name: str) -> None:
    before, after = WHOLE[name]
    for text in (CALL, RENDERERS["qwen3_coder"].render([("find", {"pattern": "a b"})])):
        for cut in all_cuts(f"{before}{text}{after}"):
            assert scan(cut, new_scanner(TOOLS)).calls == ()


@pytest.mark.parametrize("name", LINES)
def test_quoted_lines_are_so_at_every_cut(name: str) -> None:
    before, decorate, after = LINES[name]
    for text in (CALL, RENDERERS["qwen3_coder"].render([("find", {"pattern": "a b"})])):
        for cut in all_cuts(f"{before}{decorate(text)}{after}"):
            assert scan(cut, new_scanner(TOOLS)).calls == ()


@pytest.mark.parametrize("name", WHOLE)
def test_a_quotation_that_never_ends_is_none(name: str) -> None:
    """It is a call, the same at every cut."""
    before, _ = WHOLE[name]
    before = before.rstrip(" ") if name == "a docstring" else before  # it would be indented code
    for rest in ("", "\n", " \n\n"):
        for cut in all_cuts(f"{before}{CALL}{rest}"):
            found = scan(cut, new_scanner(TOOLS))
            assert found.parsed == FOUND
            assert found.text.strip() == f"{before}{rest}".strip()


@pytest.mark.slow
@pytest.mark.parametrize("form", STRONG)
def test_a_stray_mark_takes_no_format_s_call(form: str) -> None:
    lead = RENDERERS[form].lead
    behind = cycle(("", "\n", "\nand so on."))
    for text in STRONG[form]:
        for name, (before, _) in WHOLE.items():
            if name in ("a table", "a table of one column"):
                continue  # a line that begins with a bar is shown where prose follows
            reply = f"{before.rstrip(' ')}{text}{next(behind)}"
            assert scan([reply], new_scanner(TOOLS)).calls or not lead, reply


# Marks that end where they began: code, tables and blocks may hold empty lines.
MARKED = [name for name in INLINE if not name.startswith(("code", "a table"))]


@pytest.mark.parametrize("name", MARKED)
def test_a_quotation_does_not_go_on_in_another_paragraph(name: str) -> None:
    before, after = INLINE[name]
    for reply in (f"{before}so\n\n{CALL}\n{after}", f"{before}{CALL}\n\n{after}"):
        for cut in all_cuts(reply):
            assert scan(cut, new_scanner(TOOLS)).parsed == FOUND


STRAY = {
    "inches": 'The 5" disk and the 3" one. {}\n" he said.',
    "an apostrophe": "It doesn't work. {}\n' he said.",
    "a quotation that is over": 'It said "no". {}\n"Yes" it says now.',
    "a quotation that begins after it": 'It said "no, {}\n\n"Yes" it says now.',
    "French ones that are over": "Il dit « non ». {}\n» là.",
    "curly ones that are over": "It said “no”. {}\n” there.",
    "code that is over": "Write <code>x</code> now: {}\n</code> there.",
    "code that is none": "The <codec> is {}\n</code> there.",
    "pre that is over": "<pre>x</pre>\n{}</pre> there.",
    "a docstring that is over": '"""x"""\n\n{}\n\n"""\ny',
    "another docstring": "\"\"\"x\n\n{}\n\n'''",
    "a table that is over": "| a |\n|---|\n| b |\n{} | c",
    "another mark": "It says \"{}\n' there.",
    "indented in a paragraph": "So:\n    {}\nThat is it.",
    "indented at the beginning": "    {}\n\nThat is it.",
    "indented at the end": "So:\n\n    {}",
    "indented at the end, and blanks": "So:\n\n    {}\n\n",
    "indented and an end of turn": "So:\n\n    {}\n<|im_end|>",
    "three columns": "So:\n\n   {}\n\nThat is it.",
    "the text of a list item": "1. So:\n\n    {}\n\n2. That is it.",
    "the text of an item in an item": "- So\n  - or so\n\n    {}\n\n- That is it.",
    "the text of an item after one in it": "1. So\n\n   - or so\n\n   as:\n\n    {}\n\n2. That is it.",
    "indented text after it": "{}\n\n    and",
}


@pytest.mark.parametrize("name", STRAY)
def test_what_only_looks_like_a_quotation_takes_no_call(name: str) -> None:
    for cut in all_cuts(STRAY[name].format(CALL)):
        assert scan(cut, new_scanner(TOOLS)).parsed == FOUND


SENTENCES = (
    *('The 5" disk and the 3" one. {}" he said.', "It doesn't work. {}' he said.", "So: {} | c", "I call {} now."),
    *("The <codec> is {}</code> there.", "It says <code>{}</pre> there.", "`x`: {}.", "- So: {} and so on."),
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_call_in_a_sentence_is_shown(sentence: str) -> None:
    """C3: with text before it and prose after it on its own line."""
    reply = sentence.format(CALL)
    for text in (reply, f"{reply}\nThat is it.", f"So.\n{reply}"):
        for cut in all_cuts(text):
            found = scan(cut, new_scanner(TOOLS))
            assert (found.calls, found.text) == ((), text)


def test_several_calls_that_are_merely_indented_are_calls() -> None:
    text = f"So:\n\n    {CALL}\n    {CALL}\n"
    for cut in all_cuts(text):
        assert scan(cut, new_scanner(TOOLS)).parsed == FOUND * 2
        assert scan([*cut, "\nThat is how."], new_scanner(TOOLS)).calls == ()


def test_a_call_is_taken_at_once_where_nothing_is_open() -> None:
    """C2."""
    for before in ("", "I do it.\n", 'It said "no".\n\n'):
        scanner = new_scanner(TOOLS)
        scanner.feed(f"{before}{CALL[:-1]}")
        (found,) = (piece for piece in scanner.feed(CALL[-1]) if piece.calls)
        assert len(found.calls or ()) == 1


def test_what_waits_for_the_end_of_a_quotation_is_a_call_when_it_waited_too_long() -> None:
    """C2: it is whole, and what is open before it may be a stray mark."""
    scanner = new_scanner(TOOLS)
    scanner.feed(f'Is it "so: {CALL} ')
    pieces = scanner.release()
    assert [len(piece.calls or ()) for piece in pieces] == [1, 0]
    assert not scanner.held and scanner.release() == []


def test_what_the_engine_lets_go_by_time_is_a_call_too() -> None:
    """C2, C4."""
    engine = new_engine(TOOLS)
    events = [*engine.feed(says(f'Is it "so: {CALL} ')), *engine.release()]
    seen = view([*events, *run([says('"'), ends()], engine)])[0]
    assert (seen.calls, seen.finish) == ([("find", '{"pattern": "a b"}')], "tool_calls")
    assert seen.text.split() == ["Is", "it", '"so:', '"']


def test_what_is_quoted_is_noted_with_the_reason() -> None:
    """C6."""
    for name, (before, after) in WHOLE.items():
        scanner = new_scanner(TOOLS)
        scan([f"{before.rstrip(' ')}{CALL}{after}"], scanner)
        assert scanner.refusals["quoted"] == 1, name


@pytest.mark.parametrize("before", ["", "a", "It's", 'a "b" c', "«a»", "|\n", "<code></code>", "'a' 'b'", '"""a"""'])
def test_nothing_is_open_behind_these(before: str) -> None:
    assert scan([f"{before} {CALL}"], new_scanner(TOOLS)).parsed == FOUND
