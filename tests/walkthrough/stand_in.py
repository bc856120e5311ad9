"""Stand-in for an agent: it sends a request as configured, and prints the model's call."""

import json
import os
import sys
import urllib.request
from pathlib import Path

PROMPT = "List the files."
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def main() -> None:
    """Send a request as Claude Code. For other agents, print the configuration and the files in the home folder."""
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
    """Return the variables in `--settings`, which override the environment, and the other words."""
    at = words.index("--settings")
    told: dict[str, str] = json.loads(words[at + 1])["env"]
    return told, [*words[:at], *words[at + 2 :]]


def claude(variables: dict[str, str]) -> str:
    """Send a Messages request by Claude Code's variables, and return the calls of the answer."""
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
