"""Small coding agent: a model reads, edits and runs files in a temporary folder until it stops."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models.questions import FOLDER, MAX_TOKENS, Json
from benchmarks.models.replies import Reply

STEPS = 8
SECONDS = 10  # for one command
OUTPUT = 1500  # characters of a result that the model sees
MEMORY = 1 << 30
TOOLS = ("read_file", "write_file", "edit_file", "run_command")
SYSTEM = (
    "You are a coding agent. Work on the files of the current folder with the functions, one step at a time. "
    "Call a function in each reply until the task is done, then say that it is done."
)


@dataclass(frozen=True)
class Task:
    """A task: its initial files, the user's request, and a Python program that exits with 0 if it is solved."""

    id: str
    files: dict[str, str]
    prompt: str
    check: str


def load_tasks() -> list[Task]:
    """Return the tasks."""
    return [Task(**json.loads(line)) for line in (FOLDER / "tasks.jsonl").read_text("utf-8").splitlines()]


def work(task: Task, model: str, complete: Callable[[Json], Reply]) -> bool:
    """Let the model work on a task; return whether it was solved.

    `complete` answers a chat completion request. The loop ends when a reply has no calls, or after `STEPS` replies.
    """
    offered = json.loads((FOLDER / "tools.json").read_text("utf-8"))
    tools = [{"type": "function", "function": offered[name]} for name in TOOLS]
    messages: list[Json] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.prompt}]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in task.files.items():
            (folder / path).write_text(text, "utf-8")
        for _ in range(STEPS):
            request = {"model": model, "messages": messages, "tools": tools, "tool_choice": "auto"}
            reply = complete({**request, "temperature": 0, "max_tokens": MAX_TOKENS})
            if not reply.calls:
                break
            # A server's own ids differ from run to run, and the replies are kept by request.
            functions = [{"name": one, "arguments": text} for one, text in reply.calls]
            calls: list[Json] = [
                {"id": f"call_{len(messages)}_{place}", "type": "function", "function": function}
                for place, function in enumerate(functions)
            ]
            messages = [*messages, {"role": "assistant", "content": reply.text, "tool_calls": calls}]
            for call, (one, text) in zip(calls, reply.calls, strict=True):
                result = perform(folder, one, text)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return run(folder, [sys.executable, "-c", task.check])[0] == 0


def perform(folder: Path, name: str, arguments: str) -> str:
    """Execute a call in the folder and return the result for the model. Errors are returned as text."""
    try:
        given: dict[str, str] = json.loads(arguments)
        if name == "run_command":
            command = shlex.split(given["command"])
            if command[0] in ("python", "python3"):
                return run(folder, [sys.executable, *command[1:]])[1]
            return run(folder, command)[1] if command[0] in ("cat", "ls") else f"Error: {command[0]} is not installed"
        file = (folder / given["path"]).resolve()
        if not file.is_relative_to(folder.resolve()):
            return "Error: the file is outside of the folder"
        if name == "write_file":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(given["content"], "utf-8")
            return "The file was written."
        text = file.read_text("utf-8")
        if name == "read_file":
            return text[:OUTPUT]
        if text.count(given["old"]) != 1:
            return f"Error: the passage occurs {text.count(given['old'])} times"
        file.write_text(text.replace(given["old"], given["new"]), "utf-8")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"Error: {type(error).__name__}: {str(error).replace(str(folder), '.')}"
    return "The file was edited."


def run(folder: Path, command: list[str]) -> tuple[int, str]:
    """Run a command in the folder without a shell; return its exit status and output."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT * 1000, OUTPUT * 1000))

    environment = {"PATH": os.defpath, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        return 1, f"Error: no end after {SECONDS} seconds"
    output = done.stdout.decode(errors="replace").replace(str(folder.resolve()), ".")
    return done.returncode, output[-OUTPUT:] or f"exit status {done.returncode}, no output"
