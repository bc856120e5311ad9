"""Surroundings of a call: code, fences, quotations, comments, listings, containers.

`Prose` tracks the text before a call line by line. Its methods may also take the text after the call.
"""

from __future__ import annotations

import re

from proxy.notations.source import end_of

_FENCE = re.compile(r"^[ \t]*(?:>\s?)*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})[^\n]*$")
# Opening quotation marks, each with its possible closing marks.
_QUOTES = ('""', "''", "“”", "„“”", "‘’", "«»", "»«", "‹›", "「」", "『』", "””", "’’", "‚‘", "›‹")
QUOTES = {marks[0]: marks[1:] for marks in _QUOTES}
# Containers show the text up to their end, which must follow: elements, code blocks of LaTeX, Org, templates and
# forums, CDATA, here-documents, docstrings.
_ELEMENTS = "pre|code|textarea|samp|nowiki|xmp|kbd|script|style|syntaxhighlight|source|listing|blockquote|template"
# Comments that begin a line, and their ends.
_COMMENTS = {"/*": "*/", "{-": "-}", "(*": "*)", "<#": "#>", "{#": "#}", "{{!--": "--}}", "<%--": "--%>", "<#--": "-->"}
_COMMENTS |= {"%{": "%}", "#=": "=#", "/-": "-/", "/+": "+/"}
_COMMENT_OPENERS = "|".join(map(re.escape, sorted(_COMMENTS, key=len, reverse=True)))
_CONTAINER = re.compile(
    rf"<(?P<element>{_ELEMENTS}|[\w-]*examples?(?:-call)?|programlisting|screen|literallayout|tt|codeblock|expected|file"
    r"|tool_response|tool_result|artifact|create|function_results|stdout|stderr|output|result|document)\b[^<>]*>"
    r"|\[(?P<forum>code|noparse|quote|pre)(?:=[^\]\n]*)?\]"
    r"|\\begin\{(?P<latex>B?verbatim|lstlisting|minted|alltt|tcblisting|comment)\*?\}|(?P<cdata><!\[CDATA\[)"
    rf"|^[ \t]*(?P<block>{_COMMENT_OPENERS})|^[ \t]*(?P<delimiter>-{{4,}}|\.{{4,}}|={{4,}}|\+{{4,}})[ \t]*\Z"
    r"|^=(?P<pod>begin|pod)\b|^[ \t]*\#\+begin_(?P<org>\w+)"
    r"|\{%-?[ ]*(?P<template>raw|verbatim|highlight|comment)\b[^%]*%\}"
    r"|(?P<wiki>\{(?:noformat|code|quote))(?::[^}\n]*)?\}|(?P<docstring>\"{3}|'{3})"
    r"|^(?P<conflict><{7})(?=\s)"
    r"|(?<!<)<<<?[-~]?\s*[\"']?(?P<here>[A-Za-z_]\w*)[\"']?(?=[^\n]*$)",
    re.I,
)
# Only lines with a match can open a container. Every alternative begins with a literal, so that `re` skips all other
# characters.
_MAY_OPEN = re.compile(
    r"[-.=+]{4}|=[bp]|%\{|#[=+]|/[-+*]|\(\*|<[A-Za-z!<#%]|\[[A-Za-z]|\{[A-Za-z%#{-]|\\begin|\"\"\"|'''"
)
_ENDS = {
    "element": r"</{}\s*>",
    "forum": r"\[/{}\]",
    "latex": r"\\end\{{{}\*?\}}",
    "cdata": r"\]\]>",
    "org": r"^[ \t]*#\+end_{}",
    "pod": r"^=(?:end|cut)\b",
    "template": r"\{{%-?[ ]*end{}\b",
    "wiki": r"{}\}}",
    "docstring": r"{}",
    "delimiter": r"^[ \t]*{}[ \t]*$",
    "conflict": r"^>{{7}}(?=\s|\Z)",
    "here": r"^[ \t]*{}\b[;,)]*[ \t]*$",
}
_COMMENT = re.compile(r"<!--|-->")
# The prefix of a listing line: a sign, a comment mark, an author, a number, a file and a number.
_LISTED = re.compile(
    r"[ \t]*(?:(?P<sign>[+>|#*-]|[%;]{1,4}|//|/\*|--|[\w.]{1,20}>|\**(?i:user|human|assistant|model|agent|tool):\**)"
    r"(?=\s|\Z|<)[ \t]*"
    r"|(?P<number>(?:[\w./\\-]+[:(])?[L\[]?\d{1,7}(?:(?:[ ]?[:|)\].→\t-]|[ ]{2,})+|[ ]\Z))[ \t]*)"
)
# The opening delimiter of a raw string: `(` in C++, `[[` in Lua, `$raw$` in SQL.
_OPENS_STRING = re.compile(r"([(\[{]|\$\w{0,20}\$)\s*\Z")
_MAY_QUOTE = re.compile(rf"[{''.join(QUOTES)}<|]|{_OPENS_STRING.pattern}")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_DIFF = (" ", "+", "-", "\\")
_BLOCK_HEAD = re.compile(r":(?::|[ \t]*[|>][+-]?\d?(?:[ \t]+#.*)?)[ \t]*\Z")
_DIRECTIVE = re.compile(r"[ \t]*\.\. [\w-]+::[ \t]*[\w+-]{1,30}[ \t]*\Z")
_LIST_ITEM = re.compile(r"([ \t]*(?:[-*+]|\d+[.)])[ \t]+)\S")
_BETWEEN = re.compile(r"(?:\s|\\n|</[\w|:]+>|<\|[^<>|]+\|>)*")
_RUN = re.compile(r"`+")
_JSON_MARK = re.compile(r"\n[ \t]*\r?\n|\n|\"|\\\\.")
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")
MAX_PARAGRAPH = MAX_LINE = 4096


class Prose:
    """The text of a reply up to the current position."""

    def __init__(self) -> None:
        self.fence = ""
        # The current line, and the lines before it since the last blank line.
        self.line = ""
        self.paragraph = ""
        self.comment = False
        # The end of the open container.
        self.container: re.Pattern[str] | None = None
        self.list_indent = -1
        # Indentation of the head of a block scalar or literal block; -1 outside of one.
        self.block_indent = -1
        self.in_diff = False
        self.blank_before = True
        self.in_indented = False
        self.last_line = ""
        self.any = False
        # `json`: JSON that cannot be decoded has begun; it continues until a blank line. `in_string`: one of its
        # strings is open, until its closing mark or the end of its line. Calls in these strings do not count.
        self.json = self.in_string = False

    def feed(self, text: str) -> None:
        """Add text."""
        self.any = self.any or not text.isspace()
        if self.json:
            self._feed_json(text)
        *lines, self.line = (self.line + text).split("\n")
        for line in lines:
            self._end_line(line)
        if len(self.line) > MAX_LINE:
            self.line = self.line[:80] + self.line[-MAX_LINE // 2 :]

    def _feed_json(self, text: str) -> None:
        """Track the strings of undecodable JSON."""
        for found in _JSON_MARK.finditer(text):
            mark = found.group()
            if mark[-1] == '"' and (mark == '"' or not self.in_string):
                self.in_string = not self.in_string
            elif mark[0] == "\n":
                self.in_string = False
                if len(mark) > 1:
                    self.json = False
                    return

    def _end_line(self, line: str) -> None:
        if self.fence and self.fence not in line:
            return
        written = line.strip()
        if not written:
            self.in_diff = self.in_diff and line.startswith(_DIFF)
            self.paragraph, self.blank_before = "", True
            return
        indented = self._is_indented(line)
        found = None if indented else _FENCE.match(line)
        if self.fence:
            if found and found.group(1).startswith(self.fence) and not written.strip("`~> "):
                self.fence = ""
            return
        if found and "`" not in written[len(found.group(1)) :].replace(found.group(1), "", 1):
            self.fence, self.paragraph, self.last_line = found.group(1), "", line
            return
        if "--" in line:
            for mark in _COMMENT.findall(line):
                self.comment = mark == "<!--"
        if self.container or _MAY_OPEN.search(line):
            self.container = self._container_after(line)
        self.in_diff = line.startswith("@@ -") or (self.in_diff and line.startswith(_DIFF))
        if not self._in_block(line):
            begins_block = _BLOCK_HEAD.search(line) or _DIRECTIVE.match(line)
            self.block_indent = _indent(line) if begins_block else -1
        if (item := _LIST_ITEM.match(line)) and not indented:
            self.list_indent = item.end(1)
        elif line[:1] not in " \t":
            self.list_indent = -1
        self.in_indented = indented and (self.blank_before or self.in_indented) and self.any
        self.blank_before = False
        self.last_line = line
        self.paragraph = (self.paragraph + line + "\n")[-MAX_PARAGRAPH:]

    def _is_indented(self, line: str) -> bool:
        """Return whether a line is indented like code."""
        return line[:1] in " \t" and _indent(line.replace("\t", " " * 4)) >= max(self.list_indent, 0) + 4

    def _container_after(self, line: str) -> re.Pattern[str] | None:
        """Return the pattern of the end of the container left open by a line, or None."""
        pos, container = 0, self.container
        while True:
            if container is not None:
                found = container.search(line, pos)
                if found is None:
                    return container
                pos, container = found.end(), None
            found = _CONTAINER.search(line, pos)
            if found is None:
                return None
            pos, container = found.end(), _container(found)

    @property
    def before(self) -> str:
        """The paragraph up to the current position."""
        return self.paragraph + self.line

    def in_code(self) -> bool:
        """Return whether a call that begins here is in code, a block quotation or a comment."""
        if self.in_region() or self._in_block(self.line) or (self.in_diff and self.line.startswith(_DIFF)):
            return True
        if re.match(r"\s{0,3}>", self.line) and not self.line.startswith(">>>"):
            return True
        # The run of backticks that opened a code span still open.
        run = ""
        for each in _RUN.findall(self.before):
            if not run:
                run = each
            elif run == each:
                run = ""
        return run != ""

    def in_region(self) -> bool:
        """Return whether the position is in a fence or an HTML comment."""
        return bool(self.fence) or self.comment or self.line.rfind("<!--") > self.line.rfind("-->")

    def _in_block(self, line: str) -> bool:
        """Return whether the indentation of a line puts it in a block scalar or literal block."""
        return 0 <= self.block_indent < _indent(line)

    def open_container(self) -> re.Pattern[str] | None:
        """Return the pattern of the end of the container open at the current position, or None."""
        return self._container_after(self.line)

    def indented(self) -> bool:
        """Return whether the current line is indented like code."""
        return self.any and self._is_indented(self.line) and (self.blank_before or self.in_indented)

    def listed(self, follows: bool) -> bool:
        """Return whether the current line is part of a listing. `follows`: text follows the call."""
        mark = _listing_mark(self.line)
        if not self.last_line and mark.strip("*:").isalpha():
            return False  # a role before a reply, not in a transcript
        return bool(mark) and (follows or (not self.blank_before and _listing_mark(self.last_line) == mark))

    def may_be_shown(self) -> bool:
        """Return whether a call here may be quoted, in a sentence or in a listing, depending on the text after it."""
        return bool(self.line.strip() or self.container or _MAY_QUOTE.search(self.before))

    def quoted(self, behind: str) -> bool:
        """Return whether a quotation that began before the call ends directly after it."""
        before = self.before
        gap_end = end_of(_BETWEEN, behind, 0)
        gap, rest = behind[:gap_end], behind[gap_end:]
        if not rest or _BLANK_LINE.search(gap):
            return False
        if rest[0] == "|":
            return "\n" not in gap and "|" in self.line
        if rest[0] in "\"'" and rest[1:2].isalnum():
            return False
        if string := _OPENS_STRING.search(before):
            mark = string.group(1)
            if rest.startswith(_BRACKETS.get(mark, mark)):
                return True
        return any(rest[0] in QUOTES[mark] and _is_open(mark, rest[0], before) for mark in QUOTES)

    def behind_quote(self) -> bool:
        """Return whether the current line ends with an opening quotation mark."""
        return self.line.rstrip().endswith(tuple("\"'“„«‘「『`"))


def _container(found: re.Match[str]) -> re.Pattern[str]:
    """Return the pattern of the end of the container that was opened."""
    kind = str(found.lastgroup)
    name = found[kind]
    if kind == "block":
        return re.compile(re.escape(_COMMENTS[name]))
    return re.compile(_ENDS[kind].format(re.escape(name)), re.I | re.M)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _listing_mark(line: str) -> str:
    """Return the mark that the line shares with other lines of its listing; empty if it is not a listing line."""
    found = _LISTED.match(line)
    if found is None:
        return ""
    sign = found["sign"] or re.sub(r"\A\S*[a-zA-Z]\S*?(?=[:(])|\d+", "0", found["number"])
    return "±" if sign in "+-" else sign


def _is_open(mark: str, end: str, text: str) -> bool:
    """Return whether a quotation from `mark` to `end` is open after a text."""
    if mark == end:
        if any(mark in ends and other != mark and other in text for other, ends in QUOTES.items()):
            return False  # it closes another opening mark
        count = len(re.findall(rf"(?<!\w){re.escape(mark)}|{re.escape(mark)}(?!\w)", text))
        return count % 2 == 1 or text.endswith(mark)
    return text.rfind(mark) > text.rfind(end)
