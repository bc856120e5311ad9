"""Stands where an agent would: it has its model call a tool, as its configuration says, and prints what came."""

import json
import os
import sys
import urllib.request
from pathlib import Path

PROMPT = "List the files."
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def main() -> None:
    """Ask as Claude Code does. Another agent prints what it was given, and which files are in its home."""
    name = Path(sys.argv[0]).name
    if name == "claude":
        variables, given = settings(sys.argv[1:])
        print(name, *given, claude({**os.environ, **variables}))
    else:
        files = [path for path in sorted(Path.home().glob(".[!l]*/**/*.*")) if path.is_file()]
        told = [str(path.relative_to(Path.home())) for path in files]
        given = [os.environ.get(each, "") for each in ("OPENCODE_CONFIG_CONTENT", "OPENAI_BASE_URL")]
        private = [Path(word).read_text() for word in sys.argv[1:] if word.startswith("/") and Path(word).is_file()]
        print(name, *sys.argv[1:], *given, *private, json.dumps(told))


def settings(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The variables that `--settings` sets over those of the environment, and the other words."""
    at = words.index("--settings")
    told: dict[str, str] = json.loads(words[at + 1])["env"]
    return told, [*words[:at], *words[at + 2 :]]


def claude(variables: dict[str, str]) -> str:
    """A Messages request by the variables of Claude Code; the calls of the answer."""
    body = {
        "model": variables["ANTHROPIC_MODEL"],
        "max_tokens": 512,
        "messages": [{"role": "user", "content": PROMPT}],
        "tools": [{"name": "exec", "description": "Runs a command.", "input_schema": COMMAND}],
    }
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {variables['ANTHROPIC_AUTH_TOKEN']}",
        "anthropic-version": "2023-06-01",
    }
    request = urllib.request.Request(
        variables["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(), headers
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as response:
        answer = json.load(response)
    return json.dumps([[block["name"], block["input"]] for block in answer["content"] if block["type"] == "tool_use"])


main()
