"""The first thing of a reply: residues of stripped tokens, bare names, cut openers (F3, F8, F11, F14, F18)."""

from __future__ import annotations

import pytest

from tests.support.helpers import call_json, scan

LS = '{"command": "ls"}'
CALL = call_json("bash", command="ls")
FENCED = f"```json\n{LS}\n```"


READ: dict[str, str] = {
    "a format of its own": CALL,
    "blanks before it": f" \n\n{CALL}",
    "a name": f"bash{LS}",
    "a name on its line": f"bash\n{LS}",
    "a name and the word of a marker": f"bash json{LS}",
    "a name and a marker": f"bash[ARGS]{LS}",
    "a namespace": f"functions.bash{LS}",
    "Kimi's counter": f"functions.bash:0{LS}",
    "Kimi's counter and marker": f"functions.bash:0<|tool_call_argument_begin|>{LS}",
    "DeepSeek's word": f"functionbash\n{FENCED}",
    "pairs": "bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>",
    "functools": f"functools[{CALL}]",
    "GigaChat's words": f"function call\n{CALL}",
    "a header": f"to=functions.bash<|channel|>commentary json<|message|>{LS}<|call|>",
    "a stripped header": f"commentary to=functions.bash json{LS}",
    "a stripped header behind analysis": f"assistantcommentary to=functions.bash json{LS}",
    "half an opener": f"ool_call>\n{CALL}\n</tool_call>",
    "an end of turn behind it": f"bash{LS}<|im_end|>",
}


@pytest.mark.parametrize("name", [name for name in READ if name not in ("a header", "an end of turn behind it")])
def test_with_anything_behind_it_or_cut_off_it_is_none(name: str) -> None:
    text = READ[name]
    for reply, stopped in ((f"{text}\nand so on.", True), (text, False), (f"{text}\nx", True)):
        for cut in ([reply], [*reply]):
            found = scan(cut, stopped=stopped)
            assert (found.calls, found.text) == ((), reply)
