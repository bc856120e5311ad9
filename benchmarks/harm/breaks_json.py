"""Breaks of JSON arguments: quotation marks, brackets, commas, comments, surrounding text."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from benchmarks.harm import marks
from benchmarks.harm.drafts import (
    Break,
    Broken,
    Draft,
    Inapplicable,
    Values,
    bare_arguments,
    in_json,
    strings,
    structured,
)
from benchmarks.harm.families import Body, Family
from benchmarks.harm.writing import JsonStyle, Path, Style, dump

Writer = Callable[[str], str]


def some_strings(writer: Writer, paths: Collection[Path]) -> JsonStyle:
    """Return a style that writes the strings at these paths with this writer."""
    return JsonStyle(string=lambda text, path: writer(text) if path in paths else dump(text))


def bare_marks(text: str) -> str:
    """Write a string without backslashes before its quotation marks."""
    return '"' + dump(text)[1:-1].replace('\\"', '"') + '"'


def bare_lines(text: str) -> str:
    """Write a string with unescaped quotation marks and line ends."""
    return '"' + _raw_lines(bare_marks(text)[1:-1]) + '"'


def _raw_lines(text: str) -> str:
    """Return the inside of a JSON string with raw line ends and tabs."""
    raw = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}
    return re.sub(r"\\.", lambda found: raw.get(found.group(), found.group()), text)


def _triple(text: str) -> str:
    return f'"""{bare_lines(text)[1:-1]}"""'


def by_rule(draft: Draft, style: JsonStyle, meant: Values | None = None) -> Broken:
    """Return the call in this style, with its readings by the rules. `meant` replaces the draft's values."""
    values = draft.values if meant is None else meant
    text = draft.family.arguments(values, Style(json=style))
    read = marks.read(text, draft.offer.schema)
    shown = any(_shows_closer(draft.family, string) for _, string in strings(values))
    one = read is not None and dump(read) == dump(values) and not shown
    return Broken(Style(json=style), one=one, also=[] if read is None else [read])


def _shows_closer(family: Family, text: str) -> bool:
    """Return whether a string contains the end of the call around it."""
    if family.structured:
        return False
    ends = [part for part in (family.closer.strip(), family.section[1].strip(), "```") if len(part) > 1]
    # Without a closer, the end of its object closes a call.
    closed = bool(family.closer or len(family.section[1]) > 1)
    return any(end in text for end in ends) or (not closed and re.search(r'"\s*\}', text) is not None)


def _with_marks(draft: Draft) -> list[Path]:
    paths = [path for path, text in draft.strings() if '"' in text]
    if not paths:
        raise Inapplicable
    return paths


def marks_one(draft: Draft) -> Broken:
    """The quotation marks in one string lack their backslashes."""
    return by_rule(draft, some_strings(bare_marks, [draft.rng.choice(_with_marks(draft))]))


def marks_all(draft: Draft) -> Broken:
    """The quotation marks in all strings lack their backslashes."""
    return by_rule(draft, some_strings(bare_marks, _with_marks(draft)))


def marks_lines(draft: Draft) -> Broken:
    """One string has unescaped quotation marks and line ends."""
    paths = [path for path, text in draft.strings() if '"' in text and re.search(r"[\n\t\r]", text)]
    if not paths:
        raise Inapplicable
    return by_rule(draft, some_strings(bare_lines, [draft.rng.choice(paths)]))


def triple_marks(draft: Draft) -> Broken:
    """One string has triple quotation marks, as in Python."""
    paths = [path for path, text in draft.strings() if '"""' not in text and text]
    if not paths:
        raise Inapplicable
    return by_rule(draft, some_strings(_triple, [draft.rng.choice(paths)]))


def raw_lines(draft: Draft) -> Broken:
    """Strings contain raw line ends and tabs."""
    if not any(re.search(r"[\n\t\r]", text) for _, text in draft.strings()):
        raise Inapplicable
    style = JsonStyle(string=lambda text, path: '"' + _raw_lines(dump(text)[1:-1]) + '"')
    return Broken(Style(json=style))


def python_literals(draft: Draft) -> Broken:
    """The object is a Python literal."""
    style = JsonStyle(
        string=lambda text, path: repr(text), key=lambda key, path: repr(key), words=("True", "False", "None")
    )
    return Broken(Style(json=style))


def single_marks(draft: Draft) -> Broken:
    """Strings have single quotation marks."""

    def single(text: str) -> str:
        inside = dump(text)[1:-1].replace('\\"', '"').replace("'", "\\'")
        return f"'{inside}'"

    style = JsonStyle(string=lambda text, path: single(text), key=lambda key, path: single(key))
    return Broken(Style(json=style))


def bare_keys(draft: Draft) -> Broken:
    """Keys are unquoted, as in JavaScript."""
    if not draft.values:
        raise Inapplicable
    return Broken(Style(json=JsonStyle(key=lambda key, path: key)))


def trailing_comma(draft: Draft) -> Broken:
    """There is a surplus comma before a closing bracket."""
    if not draft.values:
        raise Inapplicable
    return Broken(Style(json=JsonStyle(last=draft.rng.choice((",", ", ", ",\n")))))


def missing_comma(draft: Draft) -> Broken:
    """A comma between two arguments is missing. A quotation mark before it could also be an unescaped one."""
    if len(draft.values) < 2:
        raise Inapplicable
    lost = draft.rng.randint(1, len(draft.values) - 1)
    before = list(draft.values.values())[lost - 1]
    gap = draft.rng.choice((" ", "\n"))
    style = JsonStyle(between=lambda number, path: gap if not path and number == lost else ", ")
    return Broken(Style(json=style), one=not isinstance(before, str))


def missing_braces(draft: Draft) -> Broken:
    """Closing brackets are missing at the end of the call; the model ended the reply."""
    end = len(re.search(r"[\]}]*\Z", dump(draft.values)).group())  # type: ignore[union-attr]
    lost = draft.rng.randint(1, end)
    family = draft.family
    if family.foot.startswith("}"):
        # The object around the arguments lost its own brace first.
        text = None if draft.rng.random() < 0.4 else (lambda written: written[:-lost])
        return Broken(Style(text=text, without=frozenset(("foot",))), last=family.weak)
    return Broken(Style(text=lambda written: written[:-lost]), last=family.weak or not family.closer)


def no_opening_brace(draft: Draft) -> Broken:
    """The arguments' opening brace is missing."""
    if not draft.values:
        raise Inapplicable
    return Broken(Style(text=lambda written: written[1:]))


def comments(draft: Draft) -> Broken:
    """There are comments between the arguments."""
    if not draft.values:
        raise Inapplicable
    note = draft.rng.choice(("// the first\n", "/* note */ ", "/* a,\n b */", '// it is "quoted"\n'))
    where = draft.rng.choice(("first", "between", "last"))
    if where == "between" and len(draft.values) < 2:
        raise Inapplicable
    between = f", {note}" if where == "between" else ", "
    style = JsonStyle(
        between=lambda number, path: between if not path else ", ",
        first=note if where == "first" else "",
        last=f" {note}" if where == "last" else "",
    )
    return Broken(Style(json=style))


def typographic(draft: Draft) -> Broken:
    """Strings have typographic quotation marks."""

    def curly(text: str) -> str:
        return f"“{dump(text)[1:-1]}”"

    style = JsonStyle(string=lambda text, path: curly(text), key=lambda key, path: curly(key))
    one = not any(re.search(r'["“”„‟]', text) for _, text in draft.strings())
    return Broken(Style(json=style), one=one)


def double_encoded(draft: Draft) -> Broken:
    """The object is encoded as a JSON string."""
    return Broken(Style(text=dump))


def junk(draft: Draft) -> Broken:
    """There is text before or after the arguments."""
    before, after = draft.rng.choice(
        (
            ("json\n", ""),
            ("Here are the arguments: ", ""),
            ("```json\n", "\n```"),
            ("```\n", "\n```"),
            ("", "}"),
            ("", "</tool_call>"),
            ("", "\n```"),
            ("", "<|im_end|>"),
            (" \n", " \n"),
            ("arguments: ", "\n</tool_call>"),
        )
    )
    return Broken(Style(text=lambda written: f"{before}{written}{after}"))


def brace_too_many(draft: Draft) -> Broken:
    """There is a surplus closing brace. Without a wrapper, an object around the call may end there."""
    return Broken(Style(text=lambda written: written + "}"), one=not draft.family.weak)


def sent_twice(draft: Draft) -> Broken:
    """The object is doubled."""
    if not draft.values:
        raise Inapplicable
    gap = draft.rng.choice(("", "\n", " "))
    return Broken(Style(text=lambda written: f"{written}{gap}{written}"))


def single_inner(draft: Draft) -> Broken:
    """Strings have single quotation marks, unescaped in one string. The rules do not cover these."""
    paths = [path for path, text in draft.strings() if "'" in text]
    if not paths:
        raise Inapplicable
    chosen = draft.rng.choice(paths)
    style = JsonStyle(
        string=lambda text, path: f"'{dump(text)[1:-1]}'" if path == chosen else repr(text),
        key=lambda key, path: repr(key),
        words=("True", "False", "None"),
    )
    text = draft.family.arguments(draft.values, Style(json=style))
    return Broken(Style(json=style), one=False, also=_python_object(text))


def _python_object(text: str) -> list[Values]:
    """Return the object written by a Python literal, in a list; empty if it is invalid or has duplicate keys."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        value = ast.literal_eval(tree)
    except (ValueError, SyntaxError):
        return []
    keys = [ast.dump(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys if key]
    return [value] if isinstance(value, dict) and _count_keys(value) == len(keys) else []


def _count_keys(value: Any) -> int:
    """Return the number of keys in a value, at all depths."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def lost_mark(draft: Draft) -> Broken:
    """The opening or closing quotation mark of a string is missing; nothing may add it."""
    if not draft.strings():
        raise Inapplicable
    chosen = draft.rng.choice(draft.strings())[0]
    front = draft.rng.random() < 0.5
    style = some_strings(lambda text: dump(text)[1:] if front else dump(text)[:-1], [chosen])
    return replace(by_rule(draft, style), one=False)


def other_colon(draft: Draft) -> Broken:
    """Keys and values have another separator than a colon."""
    if not draft.values:
        raise Inapplicable
    return Broken(Style(json=JsonStyle(colon=draft.rng.choice((" = ", " => ", " ", "=")))), one=False)


def raw_backslashes(draft: Draft) -> Broken:
    r"""Backslashes are not doubled. Some, as in `C:\new`, look like escapes, so the intended value is ambiguous."""
    paths = [path for path, text in draft.strings() if "\\" in text]
    if not paths:
        raise Inapplicable
    style = some_strings(lambda text: dump(text).replace("\\\\", "\\"), paths)
    # If every backslash in a string forms an escape, the string is that other text.
    escaped = _mapped(draft.values, lambda text: _lenient(text) if "\\" in text else text)
    return Broken(Style(json=style), one=False, also=[] if escaped is None else [escaped])


def _lenient(text: str) -> str:
    """Decode the escapes in a string with undoubled backslashes; keep all other backslashes."""
    raw = dump(text).replace("\\\\", "\\")[1:-1]
    known = re.sub(
        r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\', lambda found: found.group() if len(found.group()) > 1 else "\\\\", raw
    )
    # A quotation mark after an escaped backslash lost its own backslash.
    known = re.sub(r'(\\.)|"', lambda found: found.group(1) or '\\"', known)
    try:
        value: str = json.loads(f'"{known}"')
    except ValueError:
        return text
    return value


def _mapped(value: Any, change: Writer) -> Any:
    """Return the value with each string changed; None if that is impossible."""
    try:
        if isinstance(value, dict):
            return {key: _mapped(inner, change) for key, inner in value.items()}
        if isinstance(value, list):
            return [_mapped(inner, change) for inner in value]
        return change(value) if isinstance(value, str) else value
    except ValueError:
        return None


def odd_numbers(draft: Draft) -> Broken:
    """Numbers are invalid in JSON: they have a surplus sign, zero or letter."""
    if not any(type(value) in (int, float) for value in draft.values.values()):
        raise Inapplicable
    form = draft.rng.choice(("+{}", "0{}", "{}L"))
    return Broken(Style(json=JsonStyle(number=lambda number: form.format(dump(number)))), one=False)


def python_marks(draft: Draft) -> Broken:
    """In a Python call, the quotation marks in one string lack their backslashes."""
    paths = [path for path, text in draft.strings() if len(path) == 1 and '"' in text]
    if not paths:
        raise Inapplicable
    chosen = draft.rng.choice(paths)
    style = JsonStyle(string=lambda text, path: bare_marks(text) if path == chosen else repr(text))
    text = str(draft.values[str(chosen[0])])
    # If nothing in the string looks like its end, there is one reading.
    return Broken(Style(json=style), one=re.search(r'"\s*[,)]', text) is None)


def json_words(draft: Draft) -> Broken:
    """A Python call contains JSON's `true`, `false` or `null`."""
    if not _holds_word(list(draft.values.values())):
        raise Inapplicable
    return Broken(Style(json=JsonStyle(words=("true", "false", "null"))))


def _holds_word(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds_word, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, bool)


def _in_python(family: Family) -> bool:
    return family.body is Body.PYTHON


BREAKS = (
    Break("marks_one", "inner quotation marks of one string unescaped", marks_one, in_json, 0.2),
    Break("marks_all", "inner quotation marks of all strings unescaped", marks_all, in_json, 0.2),
    Break("marks_lines", "inner marks and line ends of one string unescaped", marks_lines, in_json, 0.2),
    Break("triple_marks", "three quotation marks around a string", triple_marks, in_json, 0.2),
    Break("single_inner", "single marks, inner ones unescaped", single_inner, in_json, 0.2),
    Break("lost_mark", "the mark in front of a string or behind it missing", lost_mark, in_json, 0.2),
    Break("raw_backslashes", "backslashes unescaped", raw_backslashes, in_json),
    Break("other_colon", "something else for colons", other_colon, in_json, 0.2),
    Break("odd_numbers", "numbers that are none in JSON", odd_numbers, in_json, 0.2),
    Break("python_marks", "inner marks unescaped, in Python's calls", python_marks, _in_python),
    Break("json_words", "JSON's words in Python's calls", json_words, _in_python),
    Break("raw_lines", "line ends and tabs in strings unescaped", raw_lines, in_json, 0.2),
    Break("single_marks", "single quotation marks", single_marks, in_json, 0.2),
    Break("python_literals", "the object as Python writes it", python_literals, in_json, 0.2),
    Break("bare_keys", "keys without quotation marks", bare_keys, in_json, 0.2),
    Break("trailing_comma", "a comma too many", trailing_comma, in_json, 0.2),
    Break("missing_comma", "a comma missing", missing_comma, in_json, 0.2),
    Break("missing_braces", "closing brackets missing, natural stop", missing_braces, in_json, 0.2),
    Break("no_opening_brace", "the opening brace missing", no_opening_brace, bare_arguments, 0.2),
    Break("brace_too_many", "a closing brace too many", brace_too_many, in_json, 0.2),
    Break("comments", "comments", comments, in_json, 0.2),
    Break("typographic", "typographic quotation marks", typographic, in_json, 0.2),
    Break("double_encoded", "the object as a JSON string", double_encoded, in_json, 0.2),
    Break("junk", "junk before and behind the arguments", junk, structured, 0.2),
    Break("sent_twice", "the same object twice", sent_twice, structured, 0.2),
)
