"""The examination of one server: its facts, the requests that several probes share, and the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proxy import SERVICE
from proxy.doctor.asking import Asker, Reply, key_refused, no_model, unreachable
from proxy.doctor.prompts import Fate, Prompts
from proxy.healing.families import Family, Parsers, family_of
from proxy.json import JsonObject, as_text
from proxy.notations.front import Reader
from proxy.notations.toolset import read_tools
from proxy.upstream.api import MODELS
from proxy.upstream.model_list import ModelCard, distinct_models, kind_of, loaded, read_about, read_cards

CALL = (
    "Write the text hello into the file doctor.txt. Use the tool write_file for it, in one call, "
    "and say nothing before it."
)
THINK = "What is 17 times 23? Think about it step by step, then give the number."
NAME = "write_file"
TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Write a text into a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}
# The call syntaxes of models, each with the marks that every such call contains. The first match counts.
SYNTAXES = {
    "Qwen3-Coder's XML": ("<function=", "<parameter="),
    "GLM's pairs": ("<tool_call>", "<arg_key>"),
    "Hermes' JSON": ("<tool_call>", "{"),
    "MiniMax' XML": ("<minimax:tool_call>",),
    "Mistral's list": ("[TOOL_CALLS]",),
    "Kimi's sections": ("<|tool_call_begin|>",),
    "DeepSeek's sections": ("<｜tool▁",),
    "gpt-oss' channels": ("<|channel|>",),
    "Llama's JSON": ('"parameters"',),
    "Python's calls": (f"{NAME}(",),
}

# Servers that accept template variables, and servers that accept `skip_special_tokens`.
_TAKES_KWARGS = ("vllm", "sglang", "llamacpp")
_TAKES_SPECIAL = ("vllm", "sglang")
# Token limit of a reply: a call is short, but a model that reasons anyway should be able to finish.
_MOST_TOKENS = 800
# Token limit of a forced call, which starts immediately.
_FORCED_TOKENS = 300
# The path and the key of each server kind's version.
_VERSIONS = {
    "vllm": ("/version", "version"),
    "llamacpp": ("/props", "build_info"),
    "sglang": ("/get_server_info", "version"),
}
# A list of models is fast: a server that has not answered by then hangs.
_FIRST_SECONDS = 10.0


class NoServerError(Exception):
    """There is no model server to examine; the message is one sentence."""


class NoModelError(NoServerError):
    """The server does not have the model."""


class Level(Enum):
    """The weight of a finding."""

    GOOD = "good"
    NOTE = "note"
    HARM = "harm"
    UNKNOWN = "unknown"


class Finding(Struct, frozen=True, omit_defaults=True):
    """One result of a probe. `kind` is the kind of call concerned, or "".

    `harm` is the effect on agents; `handled` means that the proxy already repairs it. `remedy` is the server flag or
    the rule that fixes it. The report proposes `rule` (a field of the model's entry in the rules, and its value) and
    `heal` (a healing).
    """

    id: str
    level: Level
    what: str
    harm: str = ""
    remedy: str = ""
    handled: bool = False
    rule: tuple[str, str] | None = None
    heal: str = ""
    kind: str = ""


_ROWS = msgspec.json.decode(Path(__file__).with_name("findings.json").read_bytes(), type=tuple[Finding, ...])
FINDINGS = {row.id: row for row in _ROWS}


def finding(id_: str, **words: object) -> Finding:
    """Return the finding with this id from `findings.json`. `words` fill the braces in its texts and its rule."""
    row = FINDINGS[id_]
    what, harm, remedy = (text.format(**words) for text in (row.what, row.harm, row.remedy))
    rule = row.rule and (row.rule[0], row.rule[1].format(**words))
    return replace(row, what=what, harm=harm, remedy=remedy, rule=rule)


def written_in(text: str) -> list[str]:
    """Return the syntax of each call of the doctor's tool that the proxy reads in a model's raw text; "" if unknown."""
    reader = Reader(read_tools([TOOL]), raw_text=True)
    sources = (piece.text for piece in (*reader.feed(text), *reader.finish()) for _ in piece.calls or ())
    return [
        next((name for name, marks in SYNTAXES.items() if all(mark in source for mark in marks)), "")
        for source in sources
    ]


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: its title, and the function that yields its findings."""

    title: str
    look: Callable[[Examination], Iterator[Finding]]


@dataclass(slots=True)
class Examination:
    """The facts about a server. Unknown values of `kind` and `version` are "", of `context` None.

    `named_family` is the family that the rules name for the model.
    """

    ask: Asker
    model: str
    cards: tuple[ModelCard, ...]
    # The prompts of the model's chat template.
    prompts: Prompts
    kind: str = ""
    version: str = ""
    context: int | None = None
    named_family: str = ""
    # The server's description of the loaded model, if the version request returned it.
    about: bytes = b""
    # The fate of each conversation shape, with the server's words if it was refused.
    fates: dict[str, tuple[Fate, str]] = field(default_factory=dict)
    _replies: dict[tuple[str, bool], Reply] = field(default_factory=dict)

    @property
    def family(self) -> Family | None:
        """The model's family by the rules, its name, or what the server reports."""
        seen = () if len(distinct_models(self.cards)) > 1 else read_about(self.about)
        return family_of(self.model, self.named_family, (*loaded(self.model, self.cards), *seen))

    @property
    def parsers(self) -> Parsers | None:
        """The server parsers for the model's family, or None if they are unknown."""
        family = self.family
        return None if family is None else family.parsers

    def plain(self, **more: object) -> Reply:
        """Return the reply to a minimal request with these additional fields."""
        body: JsonObject = {
            "model": self.model,
            "messages": [{"role": "user", "content": "Say yes."}],
            "max_tokens": 1,
            "stream": False,
        }
        fields: JsonObject = dict(more)  # type: ignore[arg-type]  # the values are JSON
        return self.ask.chat(body | fields)

    def reply(self, choice: str, *, stream: bool = False) -> Reply:
        """Return the reply to the request for one call under this `tool_choice`. All probes share one request."""
        if (choice, stream) not in self._replies:
            self._replies[choice, stream] = self.ask.chat(self._request(choice, stream=stream))
        return self._replies[choice, stream]

    def _request(self, choice: str, *, stream: bool) -> JsonObject:
        body: JsonObject = {
            "model": self.model,
            "messages": [{"role": "user", "content": CALL}],
            "tools": [TOOL],
            "tool_choice": choice,
            "max_tokens": _FORCED_TOKENS if choice == "required" else _MOST_TOKENS,
            "temperature": 0,
            "stream": stream,
        }
        if stream:
            body["stream_options"] = {"include_usage": True}
        if choice == "none" and self.kind in _TAKES_SPECIAL:
            # Ask for the whole text, including the special tokens of a call.
            body["skip_special_tokens"] = False
        family = self.family
        if family is not None and family.switch is not None and self.kind in _TAKES_KWARGS:
            # Only the call matters, so reasoning is switched off for a known family.
            body["chat_template_kwargs"] = {family.switch.name: family.switch.off}
        return body

    def raw(self) -> Reply:
        """Return the model's raw text, with the server's parser of calls switched off."""
        return self.reply("none")

    def written(self) -> list[str]:
        """Return the syntaxes of the calls in the model's raw text."""
        reply = self.raw()
        return written_in(reply.text) if reply.taken else []

    @property
    def syntax(self) -> str:
        """The syntax in which the model writes calls, "" if unknown."""
        return next(filter(None, self.written()), "")


def examine_server(ask: Asker, model: str) -> Examination:
    """Return the facts about a server and one model: the named one, or the server's first.

    Raises NoServerError if there is no model server, and NoModelError if it does not have the model.
    """
    cards = _cards(ask)
    ids = [card.id for card in cards]
    if model and model not in ids:
        raise NoModelError(no_model(model, ids))
    chosen = model or next((card.id for card in cards if not card.parent), cards[0].id)
    examination = Examination(ask, chosen, cards, Prompts(ask, chosen), kind_of(cards))
    _look_for_kind(examination)
    examination.context = next(card.max_len for card in cards if card.id == chosen)
    return examination


def _cards(ask: Asker) -> tuple[ModelCard, ...]:
    url, answer = ask.url, ask.request(MODELS, seconds=_FIRST_SECONDS)
    if answer.status == 0:
        why = f"{url} does not answer: {answer.trouble}" if answer.timed_out else unreachable(url)
        raise NoServerError(why or f"{url} is not a model server: {answer.trouble}")
    if answer.status in (401, 403):
        raise NoServerError(key_refused(answer.status, ask.key_from))
    if answer.status == 503:
        raise NoServerError(f"{url} is not ready (503): {answer.error[:100]}; wait until its model is loaded")
    if answer.status != 200:
        raise NoServerError(f"{url} is not a model server: it answers {MODELS} with {answer.status}")
    cards = read_cards(answer.body)
    if not cards:
        raise NoServerError(f"{url} is not a model server: its answer to {MODELS} is not a list of models")
    # A proxy lists its server's models and repairs the faults that the doctor looks for.
    if ask.request("/", seconds=_FIRST_SECONDS).json.get("service") == SERVICE:
        raise NoServerError(f"{url} is a {SERVICE}, not a model server; pass the server's URL with --upstream")
    return cards


def _look_for_kind(examination: Examination) -> None:
    """Request the version. If the model list does not reveal the kind, try each kind's path."""
    for kind in [examination.kind] if examination.kind else [*_VERSIONS]:
        if kind not in _VERSIONS:
            continue
        path, key = _VERSIONS[kind]
        answer = examination.ask.request(path)
        version = as_text(answer.json.get(key)) if answer.status == 200 else ""
        # Many servers have /version; only vLLM also reports the context of a model.
        proven = {
            "vllm": any(card.max_len for card in examination.cards),
            "sglang": "tool_call_parser" in answer.json,
            "llamacpp": True,
        }[kind]
        if version and (examination.kind or proven):
            examination.kind, examination.version = kind, version
            # The answers of SGLang and llama.cpp name the model's path.
            examination.about = answer.body
            return
