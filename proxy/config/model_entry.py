"""An entry of `models` as a line for the rules file: JSON, which is YAML too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from proxy.codec.json_text import JsonObject, dump_json, load_json
from proxy.config.rules import SAME_KEY, Model

# The keys of an entry whose attribute has another name.
_ATTRIBUTES = {"upstream": "transport", "server": "server_kind"}
_GLOB = re.compile(r"([*?\[])")
_WORDS = (
    *("parse", "upstream", "server", "url", "reasoning", "thinking", "server_tools", "family"),
)


def entry_with(model: Model, name: str, healings: Iterable[str]) -> str:
    """The line for the model of this name: what its entry says now, and these healings. It goes before that entry."""
    entry: JsonObject = {"match": literal(name)}
    for key in _WORDS:
        word = getattr(model, _ATTRIBUTES.get(key, key))
        if word:
            entry[key] = word
    if model.key:
        source = "key" if model.key == SAME_KEY else "key_env" if model.key.startswith("$") else "key_file"
        entry[source] = model.key.removeprefix("$")
    if model.telling:
        entry["reasoning"] = model.telling
    entry |= _entry_words("formats", off=sorted(model.off))
    own = model.requests
    if not own.retry:
        entry["retry"] = 0
    if own.broken_calls != "auto":
        entry["broken_calls"] = own.broken_calls
    if own.repetition is not None:
        entry |= _entry_words("repetition", longest=own.repetition[0], times=own.repetition[1])
    entry |= _entry_words("heal", on=[*dict.fromkeys((*own.heal.on, *healings))], off=own.heal.off)
    sampling = own.sampling
    entry |= _entry_words(
        "sampling", set=sampling.set, default=sampling.default, strip=sampling.strip, at_most=sampling.at_most
    )
    tools = own.tools
    entry |= _entry_words(
        "tools", drop=tools.drop, describe=tools.describe, polls=tools.polls, most_repeats=tools.most_repeats
    )
    return f"- {json.dumps(entry)}"


def literal(name: str) -> str:
    """The glob that matches this name alone."""
    return _GLOB.sub(r"[\1]", name)


def _entry_words(key: str, **words: object) -> JsonObject:
    """An object with this one key and the words that are not empty; {} if all are."""
    set_words = {name: word for name, word in words.items() if word}
    if not set_words:
        return {}
    return {key: load_json(dump_json(set_words))}
