"""An entry of `models` as a line for the rules file: JSON, which is YAML too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from proxy.codec.json_text import JsonObject
from proxy.config.rules import Model

_GLOB = re.compile(r"([*?\[])")
_WORDS = (
    *("parse", "upstream", "server", "url", "ids", "arguments", "reasoning"),
    *("thinking", "reasoning_history", "server_tools"),
)


def entry_with(model: Model, name: str, healings: Iterable[str]) -> str:
    """The line for the model of this name: what its entry says now, and these healings. It goes before that entry."""
    entry: JsonObject = {"match": _GLOB.sub(r"[\1]", name)}
    for key in _WORDS:
        word = getattr(model, key)
        if word:
            entry[key] = word
    entry |= _said("formats", off=sorted(model.off))
    own = model.requests
    if not own.retry:
        entry["retry"] = 0
    if own.repetition is not None:
        entry |= _said("repetition", longest=own.repetition[0], times=own.repetition[1])
    entry |= _said("heal", on=[*dict.fromkeys((*own.heal.on, *healings))], off=own.heal.off)
    sampling = own.sampling
    entry |= _said(
        "sampling", set=sampling.set, default=sampling.default, strip=sampling.strip, at_most=sampling.at_most
    )
    tools = own.tools
    entry |= _said(
        "tools", drop=tools.drop, describe=tools.describe, polls=tools.polls, most_repeats=tools.most_repeats
    )
    return f"- {json.dumps(entry)}"


def _said(key: str, **words: object) -> JsonObject:
    """What is said under a key, if anything is."""
    said = {name: word for name, word in words.items() if word}
    if not said:
        return {}
    value: JsonObject = json.loads(json.dumps(said))
    return {key: value}
