"""Random strings as in models' calls: words, paths, code, documents, and text that looks like markup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

_WORDS = (
    "alpha",
    "read the file",
    "größer 🙂",
    "naïve café",
    "x",
    "it's done",
    "a, b and c",
    "日本語のテキスト",
    "note: later",
)
_PATHS = ("src/main.py", "/etc/hosts", "C:\\Users\\me\\notes.txt", "./a b/c.txt", "../lib/index.ts", "~/x.json")
_LITERALS = ("10", "-3.5", "true", "False", "null", "None", "[]", "{}", "0x1F", "1e5", "[1, 2]")
_QUOTED = (
    'say "hello"',
    '"quoted"',
    'a "b" c "d"',
    'node -e "f("x")"',
    '{"a": {"b": 1}}',
    'it\'s "both"',
    'x = {"a": "b"}; y',
    'print("a, b")',
    'key: "value", other: "value"',
    '"',
    '"end"',
    "echo 'single' \"double\" `tick`",
)
_CODE = (
    'def f(x):\n    """Doc."""\n    return {"x": x, \'y\': [1, 2]}\n',
    'if a < b:\n    print("</x>")\nelse:\n\tpass',
    'const a = {b: "c"};\nconsole.log(`${a.b}`, "\\n");\r\n// end',
    '#!/bin/sh\nfor f in *.txt; do\n  echo "$f" | sed -e \'s/"/\\"/g\'\ndone',
    'grep -rn "foo(\\"bar\\")" src/ | awk \'{print $1}\'',
    '<div class="a">\n  <p>one &amp; two</p>\n</div>',
    '<html><body onload="go()"></body></html>',
    "SELECT * FROM t WHERE name = 'x' AND note LIKE \"%y%\";",
    "line one\nline two\r\nline three\n\n\tindented",
    'import re\nP = re.compile(r\'\\d+\\s*"[^"]*"\')\n',
    "x = [\n    1,\n    2,\n]\nprint(x)  # done",
)
_MARKDOWN = (
    "# Title\n\n```python\nprint('hi')\n```\n\n- one\n- two",
    "Use `code` and **bold**.\n\n> quoted\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    '```json\n{"name": "x", "arguments": {"a": 1}}\n```',
    "Text\n\n~~~\nplain\n~~~\nend",
)
_DOCUMENTS = (
    {"name": "demo", "version": "1.0", "scripts": {"test": "jest"}},
    [1, {"a": [True, None]}, "b"],
    {"a": 'b "c" d', "e": {}},
    {"name": "pkg", "arguments": {"path": "x"}},
)


def words(rng: Random) -> str:
    """Return plain words."""
    return rng.choice(_WORDS)


def document(rng: Random) -> object:
    """Return a JSON document."""
    return rng.choice(_DOCUMENTS)


def members(rng: Random, keys: Sequence[str]) -> str:
    """Return text that looks like the end of a JSON string and the start of another member."""
    key = rng.choice((*keys, "zz", "foo", "x-y"))
    return rng.choice(
        (
            f'a", "{key}": "b',
            f'{{"{key}": "v", "other": 1}}',
            f'before ", "{key}": 5, "z": "after',
            f'"{key}": "v"',
            f'a",\n  "{key}": "b"',
            f"a', '{key}': 'b",
            f"{key}='x', y",
        )
    )


_KINDS = ("words", "path", "quoted", "code", "code", "literal", "document", "markdown", "members", "empty", "mixed")


def text(rng: Random, keys: Sequence[str]) -> str:
    """Return one string; `keys` are the tool's."""
    match rng.choice(_KINDS):
        case "words":
            return words(rng)
        case "path":
            return rng.choice(_PATHS)
        case "quoted":
            return rng.choice(_QUOTED)
        case "code":
            return rng.choice(_CODE)
        case "literal":
            return rng.choice(_LITERALS)
        case "document":
            return json.dumps(document(rng), ensure_ascii=False, indent=rng.choice((None, 2)))
        case "markdown":
            return rng.choice(_MARKDOWN)
        case "members":
            return members(rng, keys)
        case "empty":
            return ""
    parts = [rng.choice((*_WORDS, *_QUOTED, *_CODE, *_PATHS)) for _ in range(rng.randint(2, 4))]
    return rng.choice((" ", "\n", "\t")).join(parts)


def at_edge(rng: Random, snippet: str) -> str:
    """Return a text that begins or ends with markup."""
    return rng.choice((f"{snippet}\nand then more", f"{snippet} and more", f"before\n{snippet}", f"see {snippet}"))


def indented(snippet: str) -> str:
    """Return indented markup, as in a docstring."""
    return "\n".join(f"    {line}" for line in snippet.split("\n"))


def around(rng: Random, snippet: str) -> str:
    """Return markup as in a file: alone, inside a line, or on separate lines."""
    return rng.choice(
        (
            snippet,
            f"X = {json.dumps(snippet, ensure_ascii=False)}",
            f"before\n{snippet}\nafter",
            f"see {snippet} here",
            f"# Format\n\n{snippet}",
            f"{snippet}\nand then more",
            # Lines of a file of test cases, with and without backslashes.
            json.dumps({"text": snippet, "calls": [1]}, ensure_ascii=False) + "\n",
            f'{{"text": "{snippet}", "calls": [1]}}\n{{"text": "{snippet}", "calls": []}}',
            f'def f():\n    """Doc.\n\n{indented(snippet)}\n\n    """\n    return 1',
        )
    )
