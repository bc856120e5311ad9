"""A rules file in words: a line for each rule, each entry of a model and each client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from proxy.codec.display import cut
from proxy.codec.json_text import Json
from proxy.config.heal_rules import RequestRules
from proxy.config.rules import Client, Model, Rules
from proxy.repair.policy import Action, ToolRule
from proxy.repair.rule_actions import ITEMS

_SHOWN = 80
_FALLBACK = " (only where the schema finds the call invalid)"
_TABLE = "names: where the offered tools leave open which one a call without a name means, its usual arguments tell"
_ACTIONS: Mapping[Action, str] = {
    "parse_json_array": "read it as a JSON array",
    "parse_json_object": "read it as a JSON object",
    "convert_string_to_boolean": "make it true or false",
    "remove_parameter": "remove it",
    "convert_tool_to_write": "make the call of read one of write",
    "wrap_in_array": "wrap it in an array",
    "to_string": "make it a text",
    "strip_markup": "strip the tags of calls from its ends",
    "unescape_html": "decode its HTML entities",
}


def summary(rules: Rules) -> Iterator[str]:
    """Lines that say what the rules do; each is safe to print."""
    for rule in rules.tools:
        line = f"tools {_plain(rule.tool)}: {_rule(rule)}"
        yield line + _FALLBACK if rules.is_fallback(rule) else line
    if rules.policy("").infer_from_legacy_table:
        yield _TABLE
    for model in rules.models:
        yield f"models {_plain(model.match)}: {', '.join(_model(model)) or 'all by default'}"
    for glob, other in rules.aliases:
        yield f"aliases {_plain(glob)}: asked for as {_plain(other)}"
    for name, client in rules.clients.items():
        yield f"clients {name}: {', '.join(_client(client)) or 'as the model'}"


def _rule(rule: ToolRule) -> str:
    line = f"if {_path(rule.parameter)} {_condition(rule)}, {_action(rule)}"
    if not rule.models:
        return line
    return f"{line}, for models {', '.join(map(_plain, rule.models))}"


def _condition(rule: ToolRule) -> str:
    match rule.condition:
        case "missing":
            return "is missing"
        case "missing_or_empty":
            return "is missing or empty"
        case "exists":
            return "is there"
        case "is_string":
            return "is a text"
        case "invalid_enum":
            return f"is none of {_cut(', '.join(map(_value, rule.valid)))}"
        case "matches":
            return f"matches {_value(rule.pattern)}"
        case "is_type":
            return f"is of type {rule.type}"


def _action(rule: ToolRule) -> str:
    match rule.action:
        case "set_default":
            return f"set it to {_value(rule.default[0])}"
        case "rename_parameter":
            return f"rename it to {_plain(rule.to)}"
        case "rename_tool":
            return f"make it a call of {_plain(rule.to)}"
        case action:
            if not rule.fallback:
                return _ACTIONS[action]
            return f"{_ACTIONS[action]}, or else set it to {_value(rule.fallback[0])}"


def _path(steps: tuple[str, ...]) -> str:
    """The path as the file has it."""
    keys = (step if step == ITEMS else f".{_escaped(step)}" for step in steps)
    return _plain("".join(keys).removeprefix("."))


def _escaped(key: str) -> str:
    for mark in ("\\", ".", "["):
        key = key.replace(mark, f"\\{mark}")
    return key


def _model(model: Model) -> Iterator[str]:
    words = {
        "parse": model.parse,
        "upstream": model.transport,
        "server": model.server_kind,
        "reasoning": model.reasoning or model.telling,
        "family": model.family,
        "thinking": model.thinking,
        "server_tools": model.server_tools,
    }
    yield from (f"{key} {word}" for key, word in words.items() if word)
    if model.url:
        yield f"at {_cut(model.url)}"
    if model.key:
        yield f"key {_plain(model.key)}"
    yield from _requests(model.requests)
    if model.off:
        yield f"no calls in {_cut(', '.join(map(_plain, sorted(model.off))))}"


def _requests(requests: RequestRules) -> Iterator[str]:
    """The changes in the requests for a model, in words."""
    sampling = requests.sampling
    names = {
        "healed": requests.heal.on,
        "not healed": requests.heal.off,
        "set": [*sampling.set],
        "by default": [*sampling.default],
        "limited": [*sampling.at_most],
        "without": sampling.strip,
        "without the tools": requests.tools.drop,
        "polling with": requests.tools.polls,
    }
    yield from (f"{key} {_cut(' '.join(map(_plain, words)))}" for key, words in names.items() if words)
    if requests.tools.most_repeats:
        yield f"at most {requests.tools.most_repeats} times the same call"
    if requests.repetition is not None:
        yield f"ended where {requests.repetition[0]} characters repeat {requests.repetition[1]} times"
    if not requests.retry:
        yield "no second try"
    if requests.broken_calls == "retry":
        yield "calls that cannot be read are asked for again, whatever the server is"
    if requests.broken_calls == "text":
        yield "calls that cannot be read stay text"
    if requests.tools.describe:
        yield f"descriptions of {requests.tools.describe} characters"


def _client(client: Client) -> Iterator[str]:
    words = {
        "parse": client.parse,
        "upstream": client.transport,
        "heartbeat": client.heartbeat,
        "reasoning": client.reasoning,
        "calls": client.calls,
    }
    yield from (f"{key} {word}" for key, word in words.items() if word)
    clean = client.clean
    places = {"top": clean.top, "choice": clean.choice, "message": clean.message, "usage": clean.usage}
    yield from (f"without {_cut(' '.join(names))} in {place}" for place, names in places.items() if names)


def _value(value: Json) -> str:
    return _cut(json.dumps(value))


def _plain(text: str) -> str:
    # A terminal may know no more than ASCII, and a reload is not to fail for it.
    if text.isascii() and text.isprintable():
        return _cut(text)
    return _value(text)


def _cut(text: str) -> str:
    return cut(text, _SHOWN)
