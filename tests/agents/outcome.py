"""The result of a run: one word, and the number of requests that reached the model server."""

from __future__ import annotations

from dataclasses import dataclass

from tests.agents.agent import FINAL, WROTE


@dataclass(frozen=True)
class Run:
    """The results of a run: the agent's exit status (None after a timeout), its output, the contents of the proof files
    (None without a file), and the number of requests that reached the model server. `prefix`: each request began with
    the previous one. `shape`, `thought` and `upstream` have a line for each fault of the proxy's answers, of reasoning
    that was lost, and of the requests that reached the model server.
    """

    status: int | None
    output: str
    errors: str
    files: tuple[str | None, ...]
    requests: int
    prefix: bool = True
    shape: str = ""
    thought: str = ""
    upstream: str = ""


def cell(run: Run) -> str:
    """Return the cell of a run: its word and its number."""
    return f"{word(run)}/{run.requests}"


def word(run: Run) -> str:
    """Return the word for a run. `__main__` explains them."""
    made, told = [text == WROTE for text in run.files], FINAL in run.output
    if run.shape:
        return "shape"
    if run.status is None:
        return "HANG"
    if any(text not in (None, WROTE) for text in run.files):
        return "wrong-file"
    if run.status:
        return "CRASH,ran" if any(made) else "CRASH"
    if not any(made):
        return "TEXT" if WROTE in run.output else "toolerr" if told else "SILENT"
    if not all(made):
        return "lost-call"
    if not told:
        return "ran,no-final"
    if run.thought:
        return "thought"
    if run.upstream:
        return "upstream"
    return "ok" if run.prefix else "prefix"
