"""A model that answers the doctor by a script, on a real server: its chat template knows the doctor's words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from proxy.doctor.examination import CALL, THINK
from proxy.doctor.syntaxes import SYNTAXES

CALLS = {syntax.id: syntax.call for syntax in SYNTAXES}
THOUGHT = "<think>\nTimes.\n</think>\n\nIt is 391."


def scripts(writes: str, thinks: bool = False) -> dict[str, tuple[str, str]]:
    """By a name: what is asked, and what the model says to it. It writes calls in the syntax `writes`."""
    return {"call": (CALL, CALLS[writes]), "think": (THINK, THOUGHT if thinks else "It is 391.")}


def said(made: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    """The same as the scripts of a server: name -> what the model says."""
    return {name: [text] for name, (_, text) in made.items()}


def marked(made: Mapping[str, tuple[str, str]], template: str, mark: str) -> str:
    """A chat template that writes `mark`, with the script's name in it, behind the prompt if it knows what is asked."""
    tests = [
        f"{{%- if messages[-1].content is string and {json.dumps(asked)} in messages[-1].content -%}}"
        f"{mark.format(name)}{{%- endif -%}}"
        for name, (asked, _) in made.items()
    ]
    return template + "{%- if add_generation_prompt -%}" + "".join(tests) + "{%- endif -%}"


def instead(made: Mapping[str, tuple[str, str]], template: str, mark: str) -> str:
    """The same with the mark as the whole prompt: to one model nothing else counts (`tests.real.parrot`)."""
    tests = [
        f"{{%- {'if' if not at else 'elif'} messages[-1].content is string and add_generation_prompt "
        f"and {json.dumps(asked)} in messages[-1].content -%}}{mark.format(name)}"
        for at, (name, (asked, _)) in enumerate(made.items())
    ]
    return "".join(tests) + "{%- else -%}" + template + "{%- endif -%}"
