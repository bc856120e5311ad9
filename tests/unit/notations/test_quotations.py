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
    return bool(scan([f"So: {text} and so on."], new_scanner(TOOLS)).calls)


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
            assert (found.calls, found.text) == ((), reply)


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
def test_a_quotation_that_does_not_end_directly_behind_a_call_is_none(name: str) -> None:
    """At the reply's end, with words between, with blanks without end: it is a call, the same at every cut."""
    before, after = WHOLE[name]
    before = before.rstrip(" ") if name == "a docstring" else before  # it would be indented code
    for rest in ("", "\n", " \n\n", " and" + after, "." + after, " " * 200 + after, "\n\nso" + after):
        for cut in all_cuts(f"{before}{CALL}{rest}"):
            found = scan(cut, new_scanner(TOOLS))
            assert found.parsed == FOUND
            assert found.text.strip() == f"{before}{rest}".strip()


@pytest.mark.parametrize("name", INLINE)
def test_a_quotation_that_began_in_another_paragraph_is_none(name: str) -> None:
    before, after = INLINE[name]
    for reply in (f"{before}so\n\n{CALL}{after}", f"{before}\n \nso {CALL}{after}"):
        for cut in all_cuts(reply):
            assert scan(cut, new_scanner(TOOLS)).parsed == FOUND


@pytest.mark.parametrize("name", INLINE)
def test_a_quotation_that_ends_in_another_paragraph_is_none(name: str) -> None:
    before, after = INLINE[name]
    assert scan([f"{before}{CALL}\n\n{after}"], new_scanner(TOOLS)).parsed == FOUND


@pytest.mark.slow
@pytest.mark.parametrize("form", STRONG)
def test_a_stray_mark_takes_no_format_s_call(form: str) -> None:
    lead = RENDERERS[form].lead
    behind = cycle(("", "\n", " and so on."))
    for text in STRONG[form]:
        for before, _ in WHOLE.values():
            reply = f"{before.rstrip(' ')}{text}{next(behind)}"
            assert scan([reply], new_scanner(TOOLS)).calls or not lead, reply


STRAY = {
    "inches": f'The 5" disk and the 3" one. {CALL}" he said.',
    "an apostrophe": f"It doesn't work. {CALL}' he said.",
    "a quotation that is over": f'It said "no". {CALL} "Yes" it says now.',
    "a quotation that begins behind it": f'It said "no, {CALL} "Yes" it says now.',
    "a single one that begins behind it": f"It said 'no, {CALL} 'Yes' it says now.",
    "French ones that are over": f"Il dit « non ». {CALL} » là.",
    "curly ones that are over": f"It said “no”. {CALL}” there.",
    "code that is over": f"Write <code>x</code> now: {CALL}</code> there.",
    "code that is none": f"The <codec> is {CALL}</code> there.",
    "pre that is over": f"<pre>x</pre>\n{CALL}</pre> there.",
    "a docstring that is over": f'"""x"""\n\n{CALL}\n\n"""\ny',
    "another docstring": f"\"\"\"x\n\n{CALL}\n\n'''",
    "a table that is over": f"| a |\n|---|\n| b |\n{CALL} | c",
    "a bar behind it alone": f"So: {CALL} | c",
    "a bar in the next line": f"| a: {CALL}\n| c",
    "another mark": f"It says \"{CALL}' there.",
    "another element": f"It says <code>{CALL}</pre> there.",
    "an element that is not closed": f"It says <code>{CALL}<code> there.",
    "indented in a paragraph": f"So:\n    {CALL}\nThat is it.",
    "indented at the beginning": f"    {CALL}\n\nThat is it.",
    "indented at the end": f"So:\n\n    {CALL}",
    "indented at the end, and blanks": f"So:\n\n    {CALL}\n\n",
    "indented and an end of turn": f"So:\n\n    {CALL}\n<|im_end|>",
    "three columns": f"So:\n\n   {CALL}\n\nThat is it.",
    "the text of a list item": f"1. So:\n\n    {CALL}\n\n2. That is it.",
    "the text of an item in an item": f"- So\n  - or so\n\n    {CALL}\n\n- That is it.",
    "the text of an item behind one in it": f"1. So\n\n   - or so\n\n   as:\n\n    {CALL}\n\n2. That is it.",
    "behind a fence": f"```\n\n```\n    {CALL}\nThat is it.",
    "behind a call": f"{CALL}\n\n    and",
}


@pytest.mark.parametrize("name", STRAY)
def test_what_only_looks_like_a_quotation_takes_no_call(name: str) -> None:
    for cut in all_cuts(STRAY[name]):
        assert scan(cut, new_scanner(TOOLS)).parsed == FOUND


def test_several_calls_that_are_merely_indented_are_calls() -> None:
    text = f"So:\n\n    {CALL}\n    {CALL}\n"
    for cut in all_cuts(text):
        assert scan(cut, new_scanner(TOOLS)).parsed == FOUND * 2
        assert scan([*cut, "\nThat is how."], new_scanner(TOOLS)).calls == ()


def test_a_call_is_taken_at_once_where_nothing_is_open() -> None:
    """C2."""
    for before in ("So: ", 'It said "no".\n\n', "It doesn't work: ", "A `b` c\n"):
        scanner = new_scanner(TOOLS)
        scanner.feed(f"{before}{CALL[:-1]}")
        (found,) = (piece for piece in scanner.feed(CALL[-1]) if piece.calls)
        assert len(found.calls) == 1


def test_where_a_quotation_is_open_a_few_bytes_behind_the_call_decide() -> None:
    """C2."""
    for after, made in (
        ("x", 1),
        (" ", None),
        (" x", 1),
        ('"', None),
        ('".', 0),
        ("<", None),
        ("<b", 1),
        ("</co", None),
    ):
        scanner = new_scanner(TOOLS)
        scanner.feed(f'Is it "so: {CALL}')
        assert scanner.held and scanner.confident
        pieces = scanner.feed(after)
        calls = sum(len(piece.calls or ()) for piece in pieces)
        assert (calls, bool(pieces)) == (made or 0, made is not None)


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
    assert (seen.text, seen.calls, seen.finish) == ('Is it "so:  "', [("find", '{"pattern": "a b"}')], "tool_calls")


def test_what_is_quoted_is_noted_with_the_reason() -> None:
    """C6."""
    for name, (before, after) in WHOLE.items():
        scanner = new_scanner(TOOLS)
        scan([f"{before.rstrip(' ')}{CALL}{after}"], scanner)
        assert scanner.refusals == {"quoted": 1}, name


@pytest.mark.parametrize("before", ["", "a", "It's", 'a "b" c', "«a»", "|\n", "<code></code>", "'a' 'b'", '"""a"""'])
def test_nothing_is_open_behind_these(before: str) -> None:
    assert scan([f"{before} {CALL}"], new_scanner(TOOLS)).parsed == FOUND


LONG = (('"', '"', 900, 0), ('"', '"', 1100, 1), ("<code>", "</code>", 1100, 0))


def test_a_quotation_that_began_long_ago_is_not_looked_for() -> None:
    """C7."""
    for mark, end, length, made in (("<pre>", "</pre>", 3000, 0), ("<pre>", "</pre>", 5000, 1), *LONG):
        reply = f"{mark}{'x' * length}\n{CALL}{end}."
        for cut in ([reply], list(reply), [reply[at : at + 700] for at in range(0, len(reply), 700)]):
            assert len(scan(cut, new_scanner(TOOLS)).calls) == made
