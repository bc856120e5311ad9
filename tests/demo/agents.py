"""The agents of the demo: requests in the shape that each really sends, in the project's own words.

Layout, headers, the names of tools and of parameters are the agents' own; prompts and descriptions are not.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

MARKER = "@@script@@"
MODEL = "parrot"
DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
TASK = f"Create the file proof.txt. [[script:{MARKER}]]"


@dataclass(frozen=True)
class Agent:
    """A coding agent: its name, its headers, and its first request with a place for the script's name."""

    name: str
    headers: Mapping[str, str]
    body: Json

    def request(self, script: str) -> Json:
        """Return the request of a turn in which the model will say `script`."""
        body = copy.deepcopy(self.body)
        for message in body["messages"]:
            message["content"] = _fill(message["content"], script)
        return body


def _fill(content: Any, script: str) -> Any:
    """Return a message's content with the script's name in its place; parts are filled one by one."""
    if isinstance(content, str):
        return content.replace(MARKER, script)
    return [{**part, "text": part["text"].replace(MARKER, script)} for part in content]


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _number(description: str, kind: str = "number") -> Json:
    return {"type": kind, "description": description}


def _flag(description: str) -> Json:
    return {"type": "boolean", "description": description}


def _list(description: str, items: Json) -> Json:
    return {"type": "array", "items": items, "description": description}


def _tool(name: str, description: str, required: str, properties: Json, **extra: Any) -> Json:
    """Return a function tool; `required` names the required parameters, blank-separated."""
    schema = {**extra, "type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _parts(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


OPENCLAW = Agent(
    name="OpenClaw",
    headers={
        "accept": "application/json",
        "authorization": "Bearer local",
        "user-agent": "OpenAI/JS 7.15.0",
        "x-stainless-lang": "js",
        "x-stainless-retry-count": "0",
        "x-stainless-runtime": "node",
    },
    body={
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "You help one person.\n## Tools\nUse the names as given."},
            {"role": "user", "content": f"[Sat 09:00] {TASK}"},
            {"role": "user", "content": _parts("Background (facts, no orders):\nno open sessions")},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            _tool(
                "edit",
                "Replace passages of a file, each found once.",
                "path edits",
                {
                    "path": _text("The file."),
                    "edits": _list(
                        "What to replace, in order.",
                        {
                            "type": "object",
                            "required": ["oldText", "newText"],
                            "properties": {
                                "oldText": _text("The passage now."),
                                "newText": _text("And then."),
                            },
                        },
                    ),
                },
            ),
            _tool(
                "exec",
                "Run a command in the shell and return what it printed.",
                "command",
                {
                    "title": {**_text("What the command is for, in a few words."), "maxLength": 120},
                    "command": _text("The command line."),
                    "workdir": _text("The folder to run in; the session's own if left out."),
                    "env": {"type": "object", "patternProperties": {"^.*$": {"type": "string"}}},
                    "background": _flag("Return at once and go on in the background."),
                    "timeoutSeconds": _number("How long the command may take; 0 for any time."),
                    "host": {"type": "string", "enum": ["auto", "sandbox", "gateway", "node"]},
                },
            ),
            _tool("ls", "List a folder.", "", {"path": _text("The folder."), "limit": _number("Most entries.")}),
            _tool(
                "process",
                "Look after commands in the background.",
                "action",
                {"action": _text("list, poll, write or kill."), "sessionId": _text("Which command.")},
            ),
            _tool(
                "read",
                "Read a file.",
                "path",
                {
                    "path": _text("The file."),
                    "offset": _number("First line."),
                    "limit": _number("Most lines."),
                },
            ),
            _tool(
                "write",
                "Write a file.",
                "path content",
                {"path": _text("The file."), "content": _text("Its text.")},
            ),
        ],
        "tool_choice": "auto",
        "max_completion_tokens": 8192,
    },
)

OPENCODE = Agent(
    name="OpenCode",
    headers={
        "Accept": "*/*",
        "Authorization": "Bearer local",
        "User-Agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14",
        "x-session-id": "ses_demo",
    },
    body={
        "model": MODEL,
        "max_tokens": 8192,
        "messages": [
            {"role": "system", "content": "You work in a terminal. Keep answers short."},
            {"role": "user", "content": f'"{TASK}"'},
        ],
        "tools": [
            _tool(
                "bash",
                "Run a command in a shell that stays open.",
                "command",
                {
                    "command": _text("The command line."),
                    "description": _text("What the command does, in a few words."),
                    "timeout": {**_number("Milliseconds at most.", "integer"), "exclusiveMinimum": 0},
                    "workdir": _text("The folder to run in."),
                },
                **DRAFT,
            ),
            _tool(
                "edit",
                "Replace a passage of a file that was read before.",
                "filePath oldString newString",
                {
                    "filePath": _text("The file, by its whole path."),
                    "oldString": _text("The passage now."),
                    "newString": _text("And then."),
                    "replaceAll": _flag("Every place where it stands."),
                },
                **DRAFT,
            ),
            _tool("glob", "Find files by a pattern.", "pattern", {"pattern": _text("Such as *.py.")}, **DRAFT),
            _tool(
                "grep",
                "Find lines by a regular expression.",
                "pattern",
                {
                    "pattern": _text("The expression."),
                    "path": _text("Where."),
                    "include": _text("In which files."),
                },
                **DRAFT,
            ),
            _tool(
                "read",
                "Read a file or list a folder.",
                "filePath",
                {
                    "filePath": _text("The file, by its whole path."),
                    "offset": _number("First line.", "integer"),
                    "limit": _number("Most lines.", "integer"),
                },
                **DRAFT,
            ),
            _tool(
                "write",
                "Write a file.",
                "content filePath",
                {"content": _text("Its text."), "filePath": _text("The file, by its whole path.")},
                **DRAFT,
            ),
        ],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    },
)

QWEN_CODE = Agent(
    name="Qwen Code",
    headers={
        "Accept": "application/json",
        "authorization": "Bearer local",
        "User-Agent": "QwenCode/0.15.10 (linux; x64)",
        "X-Stainless-Lang": "js",
        "X-Stainless-Retry-Count": "0",
        "X-Stainless-Runtime": "node",
    },
    body={
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "You work on a project with the tools below."},
            {"role": "user", "content": _parts("Before we begin: it is Saturday, and the folder is empty.")},
            {"role": "assistant", "content": "Understood."},
            {"role": "user", "content": _parts(TASK)},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            _tool("list_directory", "List a folder.", "path", {"path": _text("The folder.")}),
            _tool(
                "read_file",
                "Read a file.",
                "file_path",
                {
                    "file_path": _text("The file."),
                    "offset": _number("First line."),
                    "limit": _number("Most lines."),
                },
            ),
            _tool(
                "edit",
                "Replace a passage of a file.",
                "file_path old_string new_string",
                {
                    "file_path": _text("The file."),
                    "old_string": _text("The passage now."),
                    "new_string": _text("And then."),
                    "replace_all": _flag("Every place where it stands."),
                },
            ),
            _tool(
                "write_file",
                "Write a file.",
                "file_path content",
                {"file_path": _text("The file."), "content": _text("Its text.")},
            ),
            _tool(
                "run_shell_command",
                "Run a command with bash.",
                "command",
                {
                    "command": _text("The command line."),
                    "is_background": _flag("Whether to go on without waiting for its end."),
                    "timeout": _number("Milliseconds at most."),
                    "description": _text("What the command does, in a sentence."),
                    "directory": _text("The folder to run in."),
                },
            ),
            _tool(
                "todo_write",
                "Keep the list of what is to do.",
                "todos",
                {"todos": _list("The whole list.", {"type": "object", "properties": {"content": _text("A task.")}})},
                **DRAFT,
            ),
        ],
        "max_tokens": 8000,
    },
)
