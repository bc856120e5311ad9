"""Whether a call was copied from the result of a tool: shown there as it is, behind prefixes alike, or escaped as a whole."""

from __future__ import annotations

import html
import json
import re

MIN_COPIED = 24
_ESCAPES = (
    lambda text: text,
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: json.dumps(text)[1:-1],
    lambda text: html.escape(text, quote=False),
    lambda text: html.escape(text, quote=True),
    lambda text: html.escape(text, quote=True).replace("&#x27;", "&#39;"),
    lambda text: repr(text)[1:-1],
    lambda text: text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t"),
    lambda text: json.dumps(text)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e"),
    lambda text: text.replace("\t", "^I").replace("\n", "$\n") + "$",
)


class Copies:
    """The results of the tools since the last user message."""

    def __init__(self, results) -> None:
        self.results = [result.replace("\r\n", "\n") for result in results]
        self.lines = [side for result in self.results for side in _sides(result.split("\n"))]

    def has(self, call: str) -> bool:
        """Whether one of them shows all lines of a call."""
        if not self.results:
            return False
        call = _without_fence(call.strip().replace("\r\n", "\n"))
        if sum(len(line.strip()) for line in call.split("\n")) < MIN_COPIED:
            return False
        forms = {each(call) for each in _ESCAPES}
        forms |= {outer(each) for each in [*forms] for outer in _ESCAPES[1:5]}
        return any(_shows(lines, form.split("\n")) for form in forms for lines in self.lines)


def _sides(lines: list[str]):
    """A text, and if it is a diff what it shows of either side."""
    yield lines
    if any(line.startswith("@@") for line in lines):
        for sign in "+-":
            yield [line[1:] for line in lines if line[:1] in (" ", sign)]


def _without_fence(call: str) -> str:
    lines = call.split("\n")
    if re.fullmatch(r"\s*`{3,}\w*\s*", lines[0]) and len(lines) > 2:
        lines = lines[1:-1] if lines[-1].strip().startswith("```") else lines[1:]
    return "\n".join(lines).strip()


def _shows(shown: list[str], lines: list[str]) -> bool:
    """Whether lines stand below each other, all behind the same shape of prefix and before the same end."""
    first = lines[0]
    for at, line in enumerate(shown):
        place = line.find(first)
        if place < 0:
            continue
        if len(lines) == 1:
            return True
        for gap in (1, 2):
            rest = shown[at + gap : at + gap * len(lines) : gap]
            if len(rest) == len(lines) - 1 and _alike(line[:place], line[place + len(first) :], lines[1:], rest):
                return True
    return False


def _alike(prefix: str, behind: str, lines: list[str], shown: list[str]) -> bool:
    shapes = set()
    for number, (line, there) in enumerate(zip(lines, shown)):
        last = number == len(lines) - 1
        if not line:
            continue
        place = (
            there.find(line)
            if last
            else there.rfind(line)
            if there.rstrip().endswith(line) or not behind
            else there.find(line)
        )
        if place < 0:
            return False
        end = there[place + len(line) :]
        if not last and end.rstrip() != behind.rstrip():
            return False
        shapes.add(_shape(there[:place]))
    if len(shapes) > 1:
        return False
    return (
        not shapes
        or _shape(prefix).startswith(min(shapes))
        or (_shape(prefix).endswith(min(shapes)) and (not min(shapes) or min(shapes).isspace()))
    )


def _shape(prefix: str) -> str:
    """A prefix without its numbers; the blanks before a number count up with it."""
    return re.sub(r"[ ]*\d+", "0", prefix)
