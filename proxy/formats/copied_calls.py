"""What stands in the results of tools: a call that was copied from there is none (contract C3, F89).

    12→<tool_call>{"name": "now"}</tool_call>
    + "<tool_call>{\\"name\\": \\"now\\"}</tool_call>\\n"

A result may show a call with line numbers, as a diff, quoted, indented, escaped as JSON or as HTML. What shows it and
what quotes it are brought to one form, in which nothing of that is left, and the whole of the call's markup must stand
there. The same is taken away from both, so it does not matter whether the model wrote it along.
"""

from __future__ import annotations

import html
import re

# A call of this length that stands in a tool result was copied from there.
MIN_COPIED = 24
# Characters of all results, the newest first, that are brought to the form; beyond them a copy is only found verbatim.
MAX_PLAIN = 1024 * 1024
# Characters at the beginning of a call in which words are looked for, by which results are chosen.
_MAX_BEGINNING = 2048
_MAX_WORDS = 8
# A backslash and what it stands for, and an entity. How many backslashes stand there, or `amp;`, is how often the text
# was escaped, which says nothing here.
_ESCAPED = re.compile(r"(?<!\\)\\+(u[0-9a-fA-F]{4}|[^\\])?", re.S)
_ESCAPED_ONCE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_CONTROLS = {"n": "\n", "r": "\n", "t": "\t"}
_ENTITY = re.compile(r"&(?:amp;|#38;|#[xX]26;)*(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_SURROGATE = re.compile("[\ud800-\udfff]")
# A line end and what stands before the next line's own text: indentation, the marks of quotes, lists, comments, diffs
# and tables; `12→`, `12:`, `12 |`, `L12:`; a hunk's header; a fence; `src/a.py:12:`, `src/a.py-12-`, `src/a.py:12:5:`,
# `src/a.py:`; what `git blame` writes.
_LINE_START = re.compile(
    r"\n(?:[\s>+|│┃¦→»•#*/;%-]"
    r"|L?[0-9]{1,7}(?=[\s→:|│┃¦)=.+-])[:)=.]?"
    r"|@@ -[0-9,]{1,16} \+[0-9,]{1,16} @@[^\r\n]*"
    r"|(?:`{3}|~{3})[`~]{0,8}\w{0,32}(?=\s)"
    r"|[^\s:<>{}\[\]()\"']{1,200}?(?:[:-][0-9]{1,7}|\.[A-Za-z]{1,8})[:-]"
    r"|\^?[0-9a-f]{7,40} [^\r\n()]{0,80}\([^\r\n()]{1,120}[0-9]\)"
    r")*+"
)
_LINE_END = re.compile(r"(?<![\s|│┃])[ \t|│┃]+(?=\n)")
# Lines that only the one or the other side of a diff has, with the line numbers that some tools write before the sign.
_OLD, _NEW = (re.compile(rf"^(?:[ \t]*[0-9]{{1,7}}[ \t:|]){{0,2}}[{sign}][^\r\n]*", re.M) for sign in "-+")
# Nothing escapes or parts a word, so each one of a call stands in any text that shows the call. What a backslash or an
# ampersand begins may be written otherwise.
_WORD = re.compile(r"(?<![\\&#A-Za-z0-9_])[A-Za-z_]{4,}")


class Copies:
    """The texts of tool results, and whether a call was copied from one of them."""

    def __init__(self, results: tuple[str, ...] = ()) -> None:
        self._results = results
        self._plain: dict[int, tuple[str, ...]] = {}
        self._room = MAX_PLAIN

    def hold(self, call: str) -> bool:
        """True if the whole text of this call stands in one of the results, however that shows it."""
        if len(call) < MIN_COPIED or not self._results:
            return False
        if any(call in result for result in self._results):
            return True
        near = self._with_words(_words(call[:_MAX_BEGINNING]))
        if not near:
            return False
        form = _bare_lines(_unescape(call))
        if len(form) < MIN_COPIED:
            return False
        return any(form in text for number in near for text in self._forms(number))

    def _with_words(self, words: list[str]) -> list[int]:
        """The results, by number, in which all these words stand."""
        return [number for number, result in enumerate(self._results) if all(word in result for word in words)]

    def _forms(self, number: int) -> tuple[str, ...]:
        """A result in the form in which it is searched, and the two sides of what may be a diff."""
        if number not in self._plain:
            written = self._results[number][: self._room]
            self._room -= len(written)
            # A diff may be escaped as a whole, and in a string of a call may stand what looks like a line of one.
            levels = dict.fromkeys((written, _ESCAPED_ONCE.sub(_unescaped, written), _unescape(written)))
            texts = (written, *(side for level in levels for side in _sides(level)))
            self._plain[number] = tuple(dict.fromkeys(_bare_lines(_unescape(text)) for text in texts))
        return self._plain[number]


def _words(text: str) -> list[str]:
    """The longest words of a text that are a part of it however it is shown: a fence's language is none."""
    form = _bare_lines(_unescape(text))
    return sorted((word for word in dict.fromkeys(_WORD.findall(text)) if word in form), key=len)[-_MAX_WORDS:]


def _sides(text: str) -> tuple[str, ...]:
    """What a diff leaves of a text, and what it made of it."""
    if not _OLD.search(text) or not _NEW.search(text):
        return ()
    return _NEW.sub("", text), _OLD.sub("", text)


def _unescape(text: str) -> str:
    """The text as it was before it was escaped as JSON or as HTML, however often."""
    if "\\" in text:
        text = _ESCAPED.sub(_unescaped, text)
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _ENTITY.sub(_character, text) if "&" in text else text


def _bare_lines(text: str) -> str:
    """The lines without what stands before and behind them, and without those in which nothing is left."""
    lines = f"\n{text}\n".replace("\r", "\n")
    return _LINE_START.sub("\n", _LINE_END.sub("", lines)).strip()


def _unescaped(found: re.Match[str]) -> str:
    escaped = found.group(1) or ""
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _CONTROLS.get(escaped, escaped)


def _character(found: re.Match[str]) -> str:
    return html.unescape(f"&{found.group(1)};")
