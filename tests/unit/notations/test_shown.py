"""Calls that a reply only shows are no calls (C3), and what merely looks shown is one."""

from __future__ import annotations

import pytest

from tests.support.helpers import call_json, offered
from tests.support.notations_reading import SIZES, read

TOOLS = offered()
CALL = "<tool_call>" + call_json("bash", command="ls") + "</tool_call>"
LINES = f"<tool_call>\n{call_json('bash', command='ls')}\n</tool_call>"
MESSAGE = '<|start|>assistant to=functions.bash<|channel|>commentary json<|message|>{"command": "ls"}<|call|>'
MADE = [("bash", {"command": "ls"})]

SHOWN = {
    "a sentence": f"Qwen writes {CALL} when it wants to look.",
    "code": f"Write `{CALL}` there.",
    "a fence": f"So:\n\n```xml\n{LINES}\n```\nThat is it.",
    "a quotation": f'It says "{CALL}".',
    "a quotation of lines that goes on": f"> {LINES}",
    "a span with blank lines": "Write `" + LINES.replace("\n", "\n\n"),
    "a list of notations": f"- Hermes: {CALL}\n- Mistral: [TOOL_CALLS]bash[ARGS]{{}}\nBoth work.",
    "an added line": f"+{CALL}\n+{CALL}\n",
    "a removed line before": f"-old\n+{CALL}\n context",
    "a numbered listing": f"11: x = 1\n12: {CALL}\n13: y = 2",
    "a listing of a file": f"a.py:12: {CALL}\na.py:13: y",
    "a comment": f"# {CALL}\n# and so on\n",
    "a comment before code": f"// {CALL}\nint main() {{}}\n",
    "a comment of SQL": f"-- {CALL}\nSELECT 1;\n",
    "a comment of LaTeX": f"% {CALL}\n\\section{{x}}\n",
    "a comment of C": f"/*\n * {CALL}\n */\n",
    "a table": f"| call | {CALL} |\n|---|---|\n",
    "a here-document": f"cat > a.txt <<'EOF'\n{LINES}\nEOF\n",
    "a block scalar": f"text: |\n  {CALL}\n  more\nb: 1\n",
    "a literal block": f"So it is written::\n\n    {CALL}\n\nThat is it.",
    "LaTeX": f"\\begin{{verbatim}}\n{LINES}\n\\end{{verbatim}}\n",
    "a listing of AsciiDoc": f"[source]\n----\n{LINES}\n----\n",
    "a forum": f"[code]\n{LINES}\n[/code]\nbye",
    "CDATA": f"<![CDATA[\n{LINES}\n]]>\n",
    "a text area": f"<textarea>\n{LINES}\n</textarea>\n",
    "a sample": f"<samp>\n{LINES}\n</samp>\n",
    "a wiki": f"<nowiki>\n{LINES}\n</nowiki>\n",
    "HTML": f"<pre>\n{LINES}\n</pre>\n",
    "several in a quotation": f'It says "{CALL}\n{CALL}" there.',
    "several in a sentence": f"Qwen writes {CALL} {CALL} when it wants to look twice.",
    "several in a table": f"| call | {CALL}\n{CALL} |\n|---|---|\n",
    "messages in code": "<code>" + MESSAGE * 2 + "</code> there.",
    "an indented message": f"So:\n\n    to=functions.bash{MESSAGE.partition('bash')[2]}\n\nThat is it.",
    "the middle of a docstring": f'text = """\nSo:\n{LINES}\nThat is it.\n"""\n',
    "the middle of a block scalar": f"text: |\n  Answer so:\n  {CALL}\nb: 1\n",
    "a here-document of PHP": f"$x = <<<'CALL'\n{LINES}\nCALL;\n",
    "a block of Org": f"#+begin_example\n{LINES}\n#+end_example\n",
    "a macro of Jira": f"{{noformat}}\n{LINES}\n{{noformat}}\nbye",
    "a template": f"{{% raw %}}\n{LINES}\n{{% endraw %}}\n",
    "a long string": f"x = [[\n{LINES}\n]]\ny = 1\n",
    "a context line of a diff": f"@@ -1,2 +1,3 @@\n {CALL}\n+{CALL}\n x\n",
    "a number alone before it": f"3 {CALL}\n  ~~~\n4 export\n",
    "a comment of HTML": f"<!--\n{LINES}\n-->\n",
}


UNREADABLE = {
    "a string of another tool": f'<tool_call>{{"name": "no", "arguments": {{"x": "" </tool_call>\n{CALL}"}}',
    "a string without a wrapper": f'{{"name": "bash", "arguments": {{"command": "echo "x"\n{CALL}\nend"}}}} so.',
    "a string in a row": f'{{"name": "bash", "arguments": {{"command": "x"\n{CALL}"}}}} and so on',
    "a string before Mistral's word": '[TOOL_CALLS]no[ARGS]{"x": "y" \n[TOOL_CALLS]bash[ARGS]{"command": "ls"}"}',
    "a string behind a comma": '[TOOL_CALLS]bash[ARGS]{"command": "a",}b", "timeout": 1}',
    "a wrapper that holds prose": f"<tool_call>\n{call_json('bash', command='ls')}\nok\n</tool_call>",
    "a name apart from its brackets": "```json\nbash (command='ls')\n```",
    "code with a mark too many": '```json\nbash(command="echo "x"")\n```',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=[*UNREADABLE])
def test_nothing_in_a_call_that_cannot_be_read_is_a_call(text: str) -> None:
    for size in SIZES:
        found = read(text, TOOLS, size)
        assert (found.calls, found.text) == ([], text)


@pytest.mark.parametrize("text", SHOWN.values(), ids=[*SHOWN])
def test_shown_code_is_no_call(text: str) -> None:
    for size in SIZES:
        found = read(text, TOOLS, size)
        assert (found.calls, found.text) == ([], text)


REAL = {
    "alone": CALL,
    "behind prose": f"I look.\n{LINES}",
    "behind prose on its line": f"I look: {CALL}",
    "before prose": f"{LINES}\nThat lists the files.",
    "in an item of a list, at the end": f"I will:\n- {CALL}",
    "behind a fence": f"```\nx\n```\n{LINES}",
    "behind HTML that is closed": f"<pre>x</pre>\n{LINES}",
    "in an open docstring": f'Write """ there.\n{LINES}\n\nThat is it.',
    "behind the end of a block scalar": f"a: |\n  b\nc: 1\n\n{LINES}",
    "behind a diff": f"@@ -1 +1 @@\n-a\n+b\n\n{LINES}",
    "behind a tag that is only mentioned": f"A <pre> element keeps blanks.\n{LINES}",
    "behind an apostrophe": f"I don't know.\n{LINES}",
}


@pytest.mark.parametrize("text", REAL.values(), ids=[*REAL])
def test_what_is_not_shown_is_a_call(text: str) -> None:
    for size in SIZES:
        assert read(text, TOOLS, size).calls == MADE


def test_behind_a_call_whose_brackets_are_missing_another_one_counts() -> None:
    for size in SIZES:
        found = read(f"{LINES.replace('}}', '}')}\n\nI try again.\n\n{LINES}", TOOLS, size)
        assert found.calls == MADE * 2
