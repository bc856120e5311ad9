"""What stands around a call: code, quotations, comments, sentences, listings of tools, copies of results."""

from __future__ import annotations

import re

FENCE_LINE = re.compile(r"^[ \t]{0,3}(?:>\s?)*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})[^\n]*$", re.M)
FENCE_ANYWHERE = re.compile(FENCE_LINE.pattern.replace("{0,3}", "*", 1), re.M)
QUOTES = {
    '"': '"',
    "'": "'",
    "“": "”",
    "„": "“”",
    "‘": "’",
    "«": "»",
    "»": "«",
    "‹": "›",
    "「": "」",
    "『": "』",
    "”": "”",
    "’": "’",
    "‚": "‘",
    "›": "‹",
}
_RUN = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")
MAX_PARAGRAPH = MAX_LINE = 4096


class Prose:
    """The prose of a reply up to some place: whether code, a comment or a quotation is open there."""

    def __init__(self) -> None:
        self.fence = ""
        self.line = ""  # the line that has begun
        self.paragraph = ""  # the lines before it since the last blank one
        self.comment = self.pre = False
        self.docstring = ""
        self.list_item = False
        self.blank_before = True
        self.any = False

    def feed(self, text: str) -> None:
        """Take prose along, line by line."""
        if not text:
            return
        self.any = self.any or not text.isspace()
        parts = text.split("\n")
        parts[0] = self.line + parts[0]
        for line in parts[:-1]:
            self._end_line(line)
        self.line = parts[-1]
        if len(self.line) > MAX_LINE:  # its beginning, and what stands before the place
            self.line = self.line[:80] + self.line[-MAX_LINE // 2 :]

    def _end_line(self, line: str) -> None:
        found = (FENCE_ANYWHERE if self.list_item else FENCE_LINE).match(line)
        if self.fence:
            if (
                found
                and found.group(1)[0] == self.fence[0]
                and len(found.group(1)) >= len(self.fence)
                and not line.strip().strip("`~> ")
            ):
                self.fence = ""
            return
        if found and "`" not in line.strip()[len(found.group(1)) :].replace(found.group(1), "", 1):
            self.fence, self.paragraph = found.group(1), ""
            return
        self._marks(line)
        if not line.strip():
            self.paragraph, self.blank_before = "", True
            return
        self.list_item = bool(re.match(r"\s*(?:[-*+]|\d+[.)])\s", line)) or (self.list_item and line[:1] in " \t")
        self.blank_before = False
        self.paragraph = (self.paragraph + line + "\n")[-MAX_PARAGRAPH:]

    def _marks(self, line: str) -> None:
        for mark in re.findall(r"<!--|-->|<pre\b[^<>]*>|</pre>|\"{3}|'{3}", line):
            if mark == "<!--":
                self.comment = True
            elif mark == "-->":
                self.comment = False
            elif mark[0] == "<":
                self.pre = mark[1] != "/"
            else:
                self.docstring = "" if self.docstring == mark else self.docstring or mark

    @property
    def before(self) -> str:
        return self.paragraph + self.line

    def in_code(self) -> bool:
        """Whether a call that begins here stands in code, a block quote or a comment."""
        if self.fence:
            return True
        if re.match(r"\s{0,3}>", self.line) and not self.line.startswith(">>>"):
            return True
        comment = self.comment or self.line.rfind("<!--") > self.line.rfind("-->")
        return comment or bool(open_run(self.before))

    def indented(self) -> bool:
        """Whether it is indented as code is."""
        return self.blank_before and self.any and not self.list_item and bool(re.match(r"\t| {4}", self.line))

    def quoted(self, behind: str) -> bool:
        """Whether a quotation that began before the call ends directly behind it."""
        before = self.before
        found = re.match(r"(?:\s|\\n|</[\w|:]+>|<\|[^<>|]+\|>)*", behind)
        gap, rest = found.group(), behind[found.end() :]
        if tail := re.match(r"</(pre|code)>", behind.lstrip(), re.I):
            rest, gap = behind.lstrip(), ""
        if not rest:
            return False
        if tail := re.match(r"</(pre|code)>", rest, re.I):
            opens = len(re.findall(rf"<{tail.group(1)}\b", before, re.I)) > len(
                re.findall(rf"</{tail.group(1)}", before, re.I)
            )
            return opens or self.pre
        if rest[:3] in ('"""', "'''"):
            return self.docstring == rest[:3] or before.count(rest[:3]) % 2 == 1
        if _BLANK_LINE.search(gap):
            return False
        if rest[0] == "|":
            return "\n" not in gap and "|" in self.line
        if rest[0] in "\"'" and rest[1:2].isalnum():
            return False
        return any(rest[0] in QUOTES[mark] and self._open(mark, rest[0], before) for mark in QUOTES)

    @staticmethod
    def _open(mark: str, end: str, text: str) -> bool:
        if mark == end:
            count = len(re.findall(rf"(?<!\w){re.escape(mark)}|{re.escape(mark)}(?!\w)", text))
            return count % 2 == 1 or text.endswith(mark)
        return text.rfind(mark) > text.rfind(end)

    def behind_quote(self) -> bool:
        return bool(self.line) and self.line.rstrip()[-1:] in "\"'“„«‘「『`" and self.line.rstrip() != ""


def open_run(text: str) -> str:
    """The run of backticks that begins a code span which is still open."""
    open_ = ""
    for run in _RUN.findall(text):
        if not open_:
            open_ = run
        elif run == open_:
            open_ = ""
    return open_


def is_listing(arguments: dict, tool) -> bool:
    """Whether arguments are a JSON Schema of some, or a description of parameters."""
    if not isinstance(arguments, dict):
        return True
    own = set(tool.properties) if tool else set()
    if "properties" in arguments and isinstance(arguments["properties"], dict) and "properties" not in own:
        return True
    if arguments.get("type") == "object" and "type" not in own:
        return True
    described = [
        value
        for key, value in arguments.items()
        if isinstance(value, dict)
        and value.keys() <= SCHEMA_WORDS
        and (tool is None or key not in own or "object" not in tool.parameter(key).types)
    ]
    return bool(arguments) and len(described) == len(arguments)


SCHEMA_WORDS = frozenset(
    (
        "type",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "default",
        "title",
        "format",
        "minimum",
        "maximum",
        "examples",
    )
)
