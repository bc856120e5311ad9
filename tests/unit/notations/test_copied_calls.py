"""A call that stands in a tool result is a copy, however the result shows it (contract C3, F89)."""

from __future__ import annotations

import difflib
import html
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.helpers import (
    all_cuts,
    call_json,
    ends,
    function,
    new_engine,
    new_scanner,
    offered,
    run,
    says,
    scan,
    view,
)
from tests.support.renderers import RENDERERS, Call

pytestmark = pytest.mark.once

Decorate = Callable[[str], str]

TOOLS = offered(
    function("write_file", {"path": {"type": "string"}, "content": {"type": "string"}}, "path"),
    function("find", {"pattern": {"type": "string"}, "limit": {"type": "integer"}, "deep": {"type": "boolean"}}),
)
PATHS = ("src/a.py", "C:\\new\\table.txt", "docs/übersicht 🙂.md", "/etc/passwd")
TEXTS = (
    "one line",
    "def f(x):\n    return x < 1 and 'a' or \"b\"\n",
    "- a list\n- of two\n\n1. and\n2. more",
    "> quoted\n\tindented & <b>bold</b> &amp; done",
    "12: numbered\n13: lines\\n of text",
    "été 🙂 ｜▁｜",
    "a\rb\r\nc\n\rd",
)


def numbered(form: str) -> Decorate:
    """Each line behind its number."""
    return lambda text: "\n".join(form.format(at) + line for at, line in enumerate(text.split("\n"), start=8))


def behind(mark: str) -> Decorate:
    """Each line behind a mark."""
    return lambda text: "\n".join(mark + line for line in text.split("\n"))


def framed(form: str, step: int = 1) -> Decorate:
    """Each line in `form`: its number, a letter that only some lines have, an author and a commit that change."""
    authors = ("A. Body", "Jean-Luc van Damme", "dependabot[bot]", "李雷")
    commits = ("^1a2b3c4", "deadbeef", "00000000", "9f8e7d6c5b")

    def decorate(text: str) -> str:
        lines = []
        for at, line in enumerate(text.split("\n")):
            values = {"commit": commits[at % 4], "author": authors[at % 3], "second": at % 7, }
            values["mark"] = ">" if at % 3 == 2 and line.strip() else " "
            lines.append(form.format(line=line, number=8 + at * step, sign=":-"[at % 2], **values))
        return "\n".join(lines)

    return decorate


def cat_a(text: str, end: str = "") -> str:
    """What `cat -A` says of a text."""
    shown = []
    for byte in text.replace("\n", f"{end}\n").encode():
        meta, rest = ("M-", byte - 128) if byte > 127 else ("", byte)
        if byte == 10:
            shown.append("$\n")
        elif rest < 32 or rest == 127:
            shown.append(f"{meta}^{chr(rest ^ 64)}")
        else:
            shown.append(meta + chr(rest))
    return "".join(shown) + "$"


def diff(before: str, after: str) -> str:
    """What `diff -u` says."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), "a/x", "b/x", n=99, lineterm="")
    return "\n".join(lines)


def changed(text: str) -> str:
    """A diff in which every second line of the text is new."""
    old = [line if at % 2 else f"old {at}" for at, line in enumerate(text.split("\n"))]
    return diff("\n".join(["head", *old, "tail"]), f"head\n{text}\ntail")


def dumped(text: str, levels: int = 1, **options: Any) -> str:
    """The text in a string of JSON."""
    for _ in range(levels):
        text = json.dumps({"id": 1, "text": text}, **options)
    return text


DECORATIONS: dict[str, Decorate] = {
    "verbatim": lambda text: f"It says {text} and more.",
    "cat -n": numbered("{:6}\t"),
    "an arrow": numbered("{:5}→"),
    "an arrow and a blank": numbered("{:5}→ "),
    "a colon": numbered("{}:"),
    "a colon and a blank": numbered("{}: "),
    "a bar": numbered("{:4} | "),
    "a bar of a frame": numbered("{:4} │ "),
    "a dot": numbered("{}. "),
    "a bracket": numbered("{}) "),
    "nl": numbered("{:6}  "),
    "L12": numbered("L{}: "),
    "zeros": numbered("{:04}|"),
    "grep -n": numbered("src/proxy/a_b.py:{}:"),
    "grep -n -A": numbered("src/my-app/a.py-{}-"),
    "with columns": numbered("tests/test_a.py:{}:5: "),
    "grep": behind("docs/a-b.md:"),
    "git blame": numbered("1a2b3c4d (A. Body 2024-03-17 11:42:05 +0200 {}) "),
    "git blame by several": framed("{commit} ({author} 2024-03-17 11:42:5{second} +0200 {number}) {line}"),
    "git blame -s": framed("{commit} {number}) {line}"),
    "svn annotate": framed("{number:6}       body {line}"),
    "a path in brackets": numbered("src/[id]/page.tsx:{}:"),
    "a path in round brackets": numbered("src/(group)/a.tsx:{}:"),
    "a path in braces": numbered("src/{{x}}/a<T>.ts:{}:"),
    "a path of Windows": numbered("C:\\src\\new\\a.py:{}:"),
    "a path with blanks": numbered("my file.py:{}:"),
    "a path with marks": numbered("it's \"a\" file:{}:"),
    "a path with a number that grows": numbered("log.{0}/a.py:{0}: "),
    "a path with columns": numbered("a.py:{}:5: "),
    "square brackets": numbered("[{}] "),
    "round brackets": numbered("({}) "),
    "a number and >": numbered("{}> "),
    "a number and >, glued": numbered("{}>"),
    "a number and #": numbered("{}#"),
    "a number and ;": numbered("{};"),
    "a number and ,": numbered("{},"),
    "a number and =": numbered("{} = "),
    "a word": numbered("line 1{}: "),
    "a word and a bar": numbered("Line {} | "),
    "Zeile": numbered("Zeile {}: "),
    "MSVC": numbered("a.py({}): "),
    "MSVC with columns": numbered("a.py({},7): "),
    "nl -b a": numbered("{:6}\t"),
    "less -N": numbered("{:7} "),
    "zeros and a bar": numbered("{:05}| "),
    "grep -n -C": framed("{number}{sign}{line}"),
    "grep -Hn -C": framed("src/a-1.py{sign}{number}{sign}{line}"),
    "grep -n of some lines": framed("src/[id]/a.py:{number}:{line}", 3),
    "grep -n -b": framed("a.py:{number}:1{second}7:{line}", 3),
    "a heading of rg": lambda text: "src/[id]/a.tsx\n" + numbered("{}:")(text) + "\n\nsrc/b.tsx\n1:x",
    "Select-String": framed("{mark} a b.py:{number}:{line}"),
    "a code frame": framed("{mark} {number:4} | {line}"),
    "a debugger": framed("{number:3}  {mark}\t{line}"),
    "a traceback of pytest": framed("{mark}   {line}"),
    "a log": framed("2024-05-06T07:08:0{second}.12{second}Z web-1 stdout F {line}"),
    "docker compose": behind("web-1  | "),
    "a remote": behind("remote: "),
    "a path without numbers": behind("src/(a b)/[id].md:"),
    "commented as in SQL": behind("-- "),
    "commented as in Vim": behind('" '),
    "commented as in Batch": behind("REM "),
    "a frame": framed("│ {line:<90} │"),
    "colours": framed("\x1b[32m{number}\x1b[0m\x1b[36m:\x1b[0m{line}\x1b[K"),
    "cat -A": cat_a,
    "cat -A of CRLF": lambda text: cat_a(text, "\r"),
    "cat -An": lambda text: numbered("{:6}\t")(cat_a(text)),
    "cat -E": lambda text: text.replace("\n", "$\n") + "$",
    "indented": behind("    "),
    "indented by tabs": behind("\t\t"),
    "quoted": behind("> "),
    "quoted twice": behind(">> "),
    "quoted in a list": behind("  - > "),
    "commented": behind("# "),
    "commented as in C": behind(" * "),
    "a table": behind("| "),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "blanks at the end": lambda text: text.replace("\n", "  \n"),
    "blank lines between": lambda text: text.replace("\n", "\n\n"),
    "a fence": lambda text: f"```xml\n{text}\n```",
    "a new file": lambda text: diff("", text),
    "a file that went": lambda text: diff(text, ""),
    "a diff around it": lambda text: diff(f"a\n{text}\nb", f"A\n{text}\nB"),
    "a diff in it": changed,
    "a diff with numbers": lambda text: numbered("{:4} ")(changed(text)),
    "JSON": dumped,
    "JSON without ASCII": lambda text: dumped(text, ensure_ascii=False),
    "JSON in JSON": lambda text: dumped(text, 2),
    "JSON for HTML": lambda text: (
        dumped(text)
        .replace("&", "\\u0026")
        .replace("<", "\\u003c")
        .replace(">", "\\u003E")
        .replace("/", "\\/")
    ),
    "a string of Python": lambda text: repr([text]),
    "HTML": html.escape,
    "HTML twice": lambda text: html.escape(html.escape(text)),
    "HTML by numbers": lambda text: "".join(f"&#{ord(each)};" if each in "<>&\"'" else each for each in text),
    "HTML by hexadecimal numbers": lambda text: "".join(
        f"&#x{ord(each):X};" if each in "<>&\"'" else each for each in text
    ),
    "JSON of numbered lines": lambda text: dumped(numbered("{:5}→")(text)),
    "numbered lines of JSON": lambda text: numbered("{}: ")(f"a\n{dumped(text)}\nb"),
    "HTML in JSON": lambda text: dumped(html.escape(text)),
    "JSON in HTML": lambda text: html.escape(dumped(text)),
    "quoted and numbered and CRLF": lambda text: numbered("{:6}\t")(behind("> ")(text)).replace("\n", "\r\n"),
    "a diff in JSON": lambda text: dumped(changed(text)),
    "JSON of brackets": lambda text: dumped(numbered("src/[id]/a.tsx:{}:")(text), 2),
    "a line end by number": lambda text: html.escape(text).replace("\n", "&#10;"),
}


def is_copy(call: str, *results: str) -> bool:
    """Return whether a reply that is only this call makes none because of these results."""
    assert scan([call], new_scanner(TOOLS)).calls
    return not scan([call], new_scanner(TOOLS, results=results)).calls


def random_calls(form: str, count: int) -> Iterator[list[Call]]:
    """Calls that a model of this format can write."""
    rng = random.Random(form)
    renderer = RENDERERS[form]
    while count:
        path, text = rng.choice(PATHS), rng.choice(TEXTS)
        one: Call = ("write_file", {"path": path, "content": text})
        two: Call = ("find", {"pattern": rng.choice(TEXTS[:1] + PATHS), "limit": rng.randrange(99), "deep": True})
        calls = rng.choice(([one], [two], [one, two] if renderer.several else [one]))
        strings = [value for _, arguments in calls for value in arguments.values() if isinstance(value, str)]
        if not any(map(renderer.cannot, strings)):
            count -= 1
            yield calls


@pytest.mark.slow
@pytest.mark.parametrize("form", RENDERERS)
def test_a_copy_is_no_call_however_the_result_shows_it(form: str) -> None:
    rng = random.Random(form)
    for calls in random_calls(form, 1):
        text = RENDERERS[form].render(calls)
        assert [name for name, _ in scan([text], new_scanner(TOOLS)).calls] == [name for name, _ in calls]
        for name, decorate in DECORATIONS.items():
            result = f"Result:\n{decorate(text)}\nThat was it."
            at = rng.choice((0, rng.randrange(len(text))))
            found = scan([text[:at], text[at:]], new_scanner(TOOLS, results=("other", result)))
            # Of a message the token at the very end is no text, whatever the message is.
            assert (found.calls, found.text) == ((), text.removesuffix("<|call|>")), name


@pytest.mark.parametrize("name", DECORATIONS)
def test_a_copy_is_no_call_at_any_cut(name: str) -> None:
    for form in ("hermes", "qwen3_coder", "llama4_json", "mistral_v11"):
        text = RENDERERS[form].render([("find", {"pattern": "a b", "limit": 3})])
        result = f"{DECORATIONS[name](text)}\n"
        for cut in all_cuts(text):
            found = scan(cut, new_scanner(TOOLS, results=(result,)))
            assert (found.calls, found.text) == ((), text)


@pytest.mark.parametrize("name", DECORATIONS)
def test_a_copy_is_no_call_with_what_stood_before_its_lines_either(name: str) -> None:
    text = "<tool_call>\n<function=find>\n<parameter=pattern>\na\nb\n</parameter>\n</function>\n</tool_call>"
    shown = DECORATIONS[name](text)
    for reply in (shown, f"The file says:\n{shown}\nShall I?", f"```\n{shown}\n```"):
        assert scan([reply], new_scanner(TOOLS, results=(f"{shown}\n",))).calls == ()


@pytest.mark.parametrize("name", DECORATIONS)
def test_what_is_only_like_a_result_is_a_call(name: str) -> None:
    """The whole of its markup must stand there: not its values alone, not another call with more or other ones."""
    text = "<tool_call>\n<function=write_file>\n<parameter=path>\na/b.py\n</parameter>\n</function>\n</tool_call>"
    others = (
        text.replace("a/b.py", "a/c.py"),
        text.replace("a/b.py", "src/a/b.py"),
        text.replace("a/b.py", "/a/b.py"),
        text.replace("a/b.py", "9a/b.py"),
        text.replace("a/b.py", "9: a/b.py"),
        text.replace("a/b.py", "no a/b.py"),
        text.replace("a/b.py", "a/b.py2"),
        text.replace("a/b.py\n", ""),
        text.replace("a/b.py", "a/b.py\nc"),
        text.replace("a/b.py", "c\na/b.py"),
        text.replace("a/b.py", "7\na/b.py"),
        text.replace("write_file", "read_file"),
        text.replace("</parameter>", "</parameter>\n<parameter=content>\nx\n</parameter>"),
        text.replace("</tool_call>", "</tool_cal>"),
        text[len("<tool_call>") :],
        call_json("write_file", path="a/b.py"),
        "a/b.py",
        'path: "a/b.py"',
    )
    for other in others:
        results = (DECORATIONS[name](f"head\n{other}\ntail"),)
        assert scan([text], new_scanner(TOOLS, results=results)).parsed == [("write_file", {"path": "a/b.py"})]


def test_a_fence_in_the_reply_makes_a_copy_no_call() -> None:
    call = call_json("find", pattern="a")
    for reply in (f"```json\n{call}\n```", f"```\n{call}\n```", f"So:\n\n~~~\n{call}\n~~~\n"):
        assert scan([reply], new_scanner(TOOLS, results=(f"1: x\n2: {call}\n3: y",))).calls == ()


def test_the_call_s_own_lines_may_look_as_if_something_stood_before_them() -> None:
    content = "12: a\n> b\n- c\n+ d\n# e\n\n\n    f\nx.py:3:g\n@@ -1,2 +3,4 @@ h\n```\ni\n```"
    text = RENDERERS["hermes"].render([("write_file", {"path": "a", "content": content})])
    raw = RENDERERS["qwen3_coder"].render([("write_file", {"path": "a", "content": content})])
    for call in (text, raw):
        for name in ("cat -n", "quoted", "a new file", "JSON", "HTML"):
            assert is_copy(call, DECORATIONS[name](call)), name


@pytest.mark.parametrize("at", [0, 1, 2])
def test_each_of_the_results_counts(at: int) -> None:
    call = RENDERERS["hermes"].render([("find", {"pattern": "a b", "limit": 3})])
    results = ["", "<tool_call>", "find pattern arguments"]
    results[at] = DECORATIONS["cat -n"](call)
    assert is_copy(call, *results)


@pytest.mark.parametrize("edge", ["$", " |", "    │", " */", "  \t#"])
def test_what_ends_all_lines_is_no_part_of_them(edge: str) -> None:
    call = "<tool_call>\n<function=find>\n<parameter=pattern>\na b\n</parameter>\n</function>\n</tool_call>"
    shown = numbered("{}: ")(call).replace("\n", f"{edge}\n")
    assert is_copy(call, shown)
    assert is_copy(call, f"{shown}{edge}")
    assert not is_copy(call, shown.replace(f"a b{edge}", f"a b c{edge}"))


NASTY = ["\\", "\\n", "&", "&#", "&#9999999;", "&#xFFFFFF;", "\\ud83d", "\ud83d", "\\uD83D\\uDE42", "1:", "`", "@@ -"]


@pytest.mark.parametrize("nasty", NASTY)
def test_no_text_is_too_odd_to_be_looked_into(nasty: str) -> None:
    call = RENDERERS["qwen3_coder"].render([("write_file", {"path": "a.py", "content": f"a\n{nasty}\n{nasty * 9}"})])
    for result in (nasty * 50, f"{nasty}{html.escape(call)}{nasty}", f"> {call}", json.dumps(call)):
        scan([call], new_scanner(TOOLS, results=(result,)))
    assert is_copy(call, json.dumps(f"- {call} -"))


def test_the_engine_looks_into_results_once_for_all_its_choices() -> None:
    call = RENDERERS["hermes"].render([("find", {"pattern": "a b", "limit": 3})])
    for results, made in (((DECORATIONS["cat -n"](call),), 0), ((), 1)):
        engine = new_engine(TOOLS, sources=results)
        seen = view(run([says(call), says(call, choice=1), ends(), ends(choice=1)], engine))
        for choice in (0, 1):
            assert len(seen[choice].calls) == made
            assert seen[choice].text == ("" if made else call)


@pytest.mark.parametrize("name", ["cat -n", "quoted", "JSON in JSON", "HTML", "a diff in it"])
@pytest.mark.parametrize("length", range(2000, 2024, 3))
def test_a_long_call_is_looked_for_as_a_whole(name: str, length: int) -> None:
    """Its beginning chooses the results; wherever that is cut, in a word or in an entity."""
    content = "x" * length + " &quot;word&quot; \\n longer words\n" + "and so on\n" * 300
    text = RENDERERS["qwen3_coder"].render([("write_file", {"path": "a", "content": content})])
    result = DECORATIONS[name](f"head\n{text}\ntail")
    assert is_copy(text, result)
    assert not is_copy(text, result.replace("on", "in"))
    assert not is_copy(text.replace("on\n\n</parameter>", "in\n\n</parameter>"), result)
