"""The doctor's prompts for a model. Each is short, wants one thing, and names the tool and the values."""

from __future__ import annotations

CALL = (
    "Write the text hello into the file doctor.txt. Use the tool write_file for it, in one call, "
    "and say nothing before it."
)
TWO_CALLS = (
    "Write the text hello into the file first.txt, and the same text into the file second.txt. "
    "Use the tool write_file twice, with both calls in this one answer, and say nothing before them."
)
THINK = "What is 17 times 23? Think about it step by step, then give the number."
_ECHO = (
    "Repeat the text between the two rows of dashes exactly as it stands, every character of it, "
    "and write nothing else.\n-----\n{}\n-----"
)


def echo(text: str) -> str:
    """The request to repeat a text."""
    return _ECHO.format(text)
