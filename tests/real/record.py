"""`python -m tests.real.record`: record the real llama.cpp server's answers to the demo's agents.

Each script is recorded into `tests/recordings` twice: with the agent's request, and with `tool_choice: "none"`.
"""

from __future__ import annotations

from pathlib import Path

import requests

from tests.demo.cases import CASES, Case
from tests.real.llama import LlamaServer
from tests.real.replay import DEFAULT_FOLDER, RECORDINGS
from tests.support.scripted import PATIENCE


def record(url: str, case: Case, folder: Path, *, none: bool) -> Path:
    """Send the request of `case` to the server at `url`, and write the answer's bytes into `folder`."""
    body = case.agent.request(case.script)
    if none:
        body["tool_choice"] = "none"
    answer = requests.post(f"{url}/v1/chat/completions", json=body, headers=dict(case.agent.headers), timeout=PATIENCE)
    shape = f"{case.script}-chat-{'stream' if body['stream'] else 'plain'}{'-none' if none else ''}"
    path = folder / f"{shape}-{answer.status_code}.txt"
    path.write_bytes(answer.content)
    return path


def main() -> None:
    """Record every case of the demo, twice."""
    folder = RECORDINGS / DEFAULT_FOLDER
    folder.mkdir(exist_ok=True)
    with LlamaServer() as server:
        for case in CASES:
            for none in (False, True):
                print(record(server.url, case, folder, none=none).name)


if __name__ == "__main__":
    main()
