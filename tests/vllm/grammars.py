"""Whether the input of a custom tool that must be called keeps to the tool's grammar. The model says what its weights
want, which is noise: what fits the grammar all the same was kept to it by vLLM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from tests.support.responses_checker import check_response, check_stream
from tests.vllm.ask import PATHS, Side, session

NAME = "say"
_SECONDS = 120


def keeps(syntax: str, definition: str, fits: str) -> Callable[[Side], str]:
    """Ask for the input by Responses, whole and streamed: `kept` for each that is all of the pattern `fits`."""
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    tool = {"type": "custom", "name": NAME, "description": "Says it.", "format": form}

    def do(side: Side) -> str:
        return " ".join(_word(side, tool, fits, streamed=streamed) for streamed in (False, True))

    return do


def _word(side: Side, tool: Mapping[str, object], fits: str, *, streamed: bool) -> str:
    choice = {"type": "custom", "name": NAME}
    body = {"model": side.model, "input": "Go on.", "tools": [tool], "tool_choice": choice, "stream": streamed}
    with session() as client:
        answer = client.post(side.url + PATHS["responses"], json=body, timeout=_SECONDS)
    if answer.status_code != 200:
        return str(answer.status_code)
    response = check_stream(answer.content) if streamed else check_response(answer.content)
    calls = [item for item in response["output"] if item["type"] == "custom_tool_call"]
    found = [call["input"] for call in calls if call["name"] == NAME]
    if len(found) == 1 and re.fullmatch(fits, found[0]):
        return "kept"
    return f"wrong {json.dumps(response['output'])}"
