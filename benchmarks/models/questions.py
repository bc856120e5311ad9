"""Questions, with the tools they offer and the calls that count as right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
CATEGORIES = {
    "one": "one tool, one call",
    "several": "five tools, one call",
    "parallel": "one tool, several calls",
    "several_parallel": "five tools, several calls",
    "none": "no tool fits",
    "agent": "a step of a coding agent",
}
MAX_TOKENS = 320

Json = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A conversation that waits for the model, the offered tools, and the expected calls.

    A call lists the accepted values of each argument; an empty string among them makes the argument optional.
    """

    id: str
    category: str
    messages: list[Json]
    tools: list[Json]
    calls: list[Json]

    def request(self, model: str, tool_choice: str, **options: object) -> Json:
        """Return a chat completion request whose reply is deterministic."""
        sampling = {"temperature": 0, "max_tokens": MAX_TOKENS}
        return {
            "model": model,
            "messages": self.messages,
            "tools": self.tools,
            "tool_choice": tool_choice,
            **sampling,
            **options,
        }


def load_questions() -> list[Question]:
    """Return all questions, grouped by the tools they offer.

    A server that caches the last prompt then reads only the text after the tools.
    """
    functions: dict[str, Json] = json.loads((FOLDER / "tools.json").read_text("utf-8"))
    rows = [json.loads(line) for line in (FOLDER / "questions.jsonl").read_text("utf-8").splitlines()]
    rows.sort(key=lambda row: row["tools"])
    return [
        Question(**{**row, "tools": [{"type": "function", "function": functions[name]} for name in row["tools"]]})
        for row in rows
    ]


def sample(questions: list[Question], size: int) -> list[Question]:
    """Return `size` questions, evenly distributed over the categories."""
    turns = [[question for question in questions if question.category == category] for category in CATEGORIES]
    mixed = [turn[place] for place in range(max(map(len, turns))) for turn in turns if place < len(turn)]
    chosen = {question.id for question in mixed[:size]}
    return [question for question in questions if question.id in chosen]
