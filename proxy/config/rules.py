"""rules.yaml -> frozen rules: how each model is treated, what each client needs, how a tool's calls are repaired.

Pure: bytes in, one frozen `Rules` out, or one `RulesError` whose line is `SOURCE:LINE: what is wrong; what to do`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar, get_args

from yaml.nodes import Node, ScalarNode, SequenceNode

from proxy.config.heal_rules import BrokenCallsAs, RequestRules, parse_request_rules
from proxy.config.known_names import first_match, keep
from proxy.config.server_url import ONE_SERVER, server_url
from proxy.config.tool_rules_parser import parse_tools
from proxy.config.yaml_nodes import choice, compose, is_null, mapping, node_error, scalar, sequence, shown, text_of
from proxy.healing.families import NAMES, Family, family_of
from proxy.healing.heal import HealPlan
from proxy.healing.switches import SUFFIXES
from proxy.repair.policy import IdStyle, Policy, ToolRule
from proxy.repair.rule_actions import applies_to_model

Parse = Literal["auto", "server", "proxy"]
Transport = Literal["live", "whole"]
Heartbeat = Literal["comment", "chunk"]
CallsAs = Literal["structured", "text"]
ReasoningField = Literal["as_is", "reasoning", "reasoning_content", "both"]
Thinking = Literal["none", "enable_thinking", "thinking", "reasoning_effort"]
# Who tells thoughts from the text: the proxy, the server, or whoever looks for the calls.
Telling = Literal["auto", "split", "server"]
ServerTools = Literal["refuse", "drop"]
# A model's name, and the healings of its family.
_PlanKey: TypeAlias = tuple[str, tuple[str, ...]]
Setting: TypeAlias = bool | int | float | str | tuple[str, ...]

CLIENT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

_PARSES: tuple[Parse, ...] = get_args(Parse)
_TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
_CALLS: tuple[CallsAs, ...] = get_args(CallsAs)
_HEARTBEATS: tuple[Heartbeat, ...] = get_args(Heartbeat)
_REASONING_FIELDS: tuple[ReasoningField, ...] = get_args(ReasoningField)
_TELLINGS: tuple[Telling, ...] = get_args(Telling)
_THINKINGS: tuple[Thinking, ...] = get_args(Thinking)
_SERVER_TOOLS: tuple[ServerTools, ...] = get_args(ServerTools)
_SERVERS = ("vllm", "sglang", "lmdeploy", "llamacpp", "litellm")
_SECTIONS = ("settings", "tools", "models", "aliases", "clients")
_MODEL_KEYS = (
    *("match", "parse", "upstream", "server", "url", "key", "key_env", "key_file"),
    *("formats", "reasoning", "thinking", "server_tools", "family"),
    *("heal", "sampling", "tools", "retry", "broken_calls", "repetition"),
)
_CLIENT_KEYS = ("parse", "upstream", "heartbeat", "clean", "reasoning", "calls")
# The value of `key` for an entry whose server gets the main server's key.
SAME_KEY = "same"
_KEY_SOURCES = {
    "key": re.compile(SAME_KEY),
    "key_env": re.compile("[A-Za-z_][A-Za-z0-9_]*"),
    "key_file": re.compile("/.+"),
}
_KEY_VALUES = {
    "key": "`same` (the key of the main server); use key_env or key_file for another key",
    "key_env": "the name of an environment variable that holds the key",
    "key_file": "the absolute path of a file that holds the key",
}
_FIELD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Without these an answer is none any more: to remove them is never what was meant.
_NEEDED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "top": frozenset({"choices"}),
        "choice": frozenset({"index", "message", "delta", "finish_reason"}),
        "message": frozenset({"role", "content", "tool_calls"}),
        "usage": frozenset(),
    }
)

_Word = TypeVar("_Word", bound=str)
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class StripFields:
    """The names of fields to remove from answers: at the top, in a choice, in a message, in the usage."""

    top: tuple[str, ...] = ()
    choice: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.top, self.choice, self.message, self.usage))


@dataclass(frozen=True, slots=True)
class Profile:
    """The treatment of one request, from the entries of its model and its client.

    `transport` says whether the model server is asked for a stream, or for a whole answer (`upstream` in the rules);
    `server_kind` is "" where it is to be found out (`server`). `reasoning` says which field of an answer holds the
    model's reasoning, `telling` who tells it from the text, and `family` which family of thinking models it is, if the
    name does not say so. Two are for Messages and Responses clients (F94): the switch by which what they say of
    thinking reaches the model, and what becomes of tools that only Anthropic's or OpenAI's servers have, None where
    each dialect does as it does. `retry` is how often a reply that says nothing is asked for once more, `broken_calls`
    what becomes of one that ends with a call that cannot be read; `repetition` the longest piece, and how often it may
    be repeated, at which a stream is ended.
    """

    parse: Parse = "auto"
    transport: Transport = "live"
    server_kind: str = ""
    heartbeat: Heartbeat = "comment"
    clean: StripFields = field(default_factory=StripFields)
    reasoning: ReasoningField = "as_is"
    telling: Telling = "auto"
    thinking: Thinking = "none"
    server_tools: ServerTools | None = None
    family: str = ""
    retry: int = 1
    broken_calls: BrokenCallsAs = "auto"
    repetition: tuple[int, int] | None = None
    calls: CallsAs = "structured"


@dataclass(frozen=True, slots=True)
class Model:
    """One entry of `models`; None or empty where it says nothing.

    `key` names the key for its server: "same" (the main server's), "$NAME" (a variable) or an absolute path. `off` are
    the formats that are off, `requests` is what is changed in its requests.
    """

    match: str
    parse: Parse | None = None
    transport: Transport | None = None
    server_kind: str = ""
    off: frozenset[str] = frozenset()
    reasoning: ReasoningField | None = None
    telling: Telling | None = None
    thinking: Thinking | None = None
    server_tools: ServerTools | None = None
    url: str = ""
    key: str = ""
    family: str = ""
    requests: RequestRules = field(default_factory=RequestRules)


@dataclass(frozen=True, slots=True)
class Client:
    """One entry of `clients`: what it says, None where nothing."""

    parse: Parse | None = None
    transport: Transport | None = None
    heartbeat: Heartbeat | None = None
    calls: CallsAs | None = None
    clean: StripFields = field(default_factory=StripFields)
    reasoning: ReasoningField | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """One rules file with its gaps filled from the built-in one. A request takes one of these and keeps it.

    `lines` are those of the settings, `sha256` is the digest of the file's bytes, `source` its path or "built-in".
    `builtin_tools` are the built-in file's rules for tools, wherever they stand now. `legacy_file`: the user's file
    says nothing of models, as those of an earlier system. `aliases` are globs on the names that clients ask for, each
    with the name that is asked for instead. The three behind `legacy_file` are what the settings say that bears on the
    calls; `config/load.py` fills them in.
    """

    settings: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    models: tuple[Model, ...] = ()
    clients: Mapping[str, Client] = field(default_factory=lambda: MappingProxyType({}))
    sha256: str = ""
    source: str = ""
    tools: tuple[ToolRule, ...] = ()
    builtin_tools: tuple[ToolRule, ...] = ()
    legacy_file: bool = False
    case_sensitive_tools: bool = False
    aliases: tuple[tuple[str, str], ...] = ()
    # What most requests ask again: they are for the same few models and clients.
    _policies: dict[_PlanKey, Policy] = field(default_factory=dict, init=False, repr=False, compare=False)
    _profiles: dict[tuple[str, str], Profile] = field(default_factory=dict, init=False, repr=False, compare=False)
    _plans: dict[_PlanKey, HealPlan] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def client_names(self) -> tuple[str, ...]:
        """The names of all clients, in the file's order."""
        return tuple(self.clients)

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of the model servers that are named for models, each once."""
        return tuple(dict.fromkeys(model.url for model in self.models if model.url))

    @property
    def key_sources(self) -> tuple[str, ...]:
        """The variables and files that entries name as the keys of their servers, each once."""
        return tuple(dict.fromkeys(model.key for model in self.models if model.key not in ("", SAME_KEY)))

    def profile(self, model: str, client: str) -> Profile:
        """The profile of `model` (the first glob that matches) for `client` ("" or unknown: none in particular).

        What the client's entry says wins over what the model's says.
        """
        profile = self._profiles.get((model, client))
        if profile is None:
            profile = self._profile(model, client)
            keep(self._profiles, (model, client), profile, model, client)
        return profile

    def _profile(self, model: str, client: str) -> Profile:
        its = self.entry(model)
        own = self.clients.get(client, Client())
        return Profile(
            parse=_first(own.parse, its.parse, "auto"),
            transport=_first(own.transport, its.transport, "live"),
            server_kind=its.server_kind,
            heartbeat=_first(own.heartbeat, "comment"),
            calls=_first(own.calls, "structured"),
            clean=own.clean,
            reasoning=_first(own.reasoning, its.reasoning, "as_is"),
            telling=_first(its.telling, "auto"),
            thinking=_first(its.thinking, "none"),
            server_tools=its.server_tools,
            family=its.family,
            retry=its.requests.retry,
            broken_calls=its.requests.broken_calls,
            repetition=its.requests.repetition,
        )

    def alias(self, name: str) -> str:
        """The name that the model server is asked for instead of `name`: the first alias that matches, else the same.

        One step: the new name is not looked up again.
        """
        at = first_match(name, self._alias_globs)
        return name if at is None else self.aliases[at][1]

    def thinking_suffix(self, name: str) -> str:
        """Return the word for thinking after the last colon of `name` (`qwen3:nothink`), if an alias has that colon."""
        at = first_match(name, self._alias_globs)
        glob = "" if at is None else self.aliases[at][0]
        word = name.rpartition(":")[2]
        return word if ":" in glob and word in SUFFIXES else ""

    def has_alias(self, name: str) -> bool:
        """True if the rules say what `name` stands for, be it itself."""
        return first_match(name, self._alias_globs) is not None

    @property
    def _alias_globs(self) -> tuple[str, ...]:
        return tuple([glob for glob, _ in self.aliases])

    def policy(self, model: str, family: Family | None = None) -> Policy:
        """The engine's policy for the calls of `model`: the rules for tools, the id style, the formats that are off.

        Rules of the user's file act as they say; the built-in ones only where a call is invalid without them.
        `family` is as in `heal_plan`.
        """
        key = model, self._healings(model, family)
        policy = self._policies.get(key)
        if policy is None:
            its = self.entry(model)
            tools = tuple(rule for rule in self.tools if applies_to_model(rule, model))
            policy = Policy(
                rules=tuple(rule for rule in tools if not self.is_fallback(rule)),
                fallback_rules=tuple(filter(self.is_fallback, tools)),
                case_sensitive=self.case_sensitive_tools,
                ids=_id_style(self.heal_plan(model, family)),
                infer_from_legacy_table=self.legacy_file,
                disabled_formats=its.off,
            )
            keep(self._policies, key, policy, model)
        return policy

    def heal_plan(self, model: str, family: Family | None = None) -> HealPlan:
        """The healings of requests for `model`: by its family and by its own entry.

        `family` is the model's as far as its server shows it; without it, the rules and the name decide.
        """
        key = model, self._healings(model, family)
        plan = self._plans.get(key)
        if plan is None:
            own = self.entry(model).requests
            on, off = frozenset((*key[1], *own.heal.on)), frozenset(own.heal.off)
            plan = HealPlan(on=on, off=off, sampling=own.sampling, tools=own.tools)
            keep(self._plans, key, plan, model)
        return plan

    def _healings(self, model: str, family: Family | None) -> tuple[str, ...]:
        family = family or family_of(model, self.entry(model).family)
        return () if family is None else family.healings

    def is_fallback(self, rule: ToolRule) -> bool:
        """True if it is a built-in rule, also in a copy of the built-in file: it acts only where a call is invalid."""
        return rule in self.builtin_tools

    def entry(self, name: str) -> Model:
        """The entry of a model: the first glob that matches; one that says nothing if none does."""
        at = first_match(name, tuple([entry.match for entry in self.models]))
        return Model("*") if at is None else self.models[at]


def parse_rules(
    text: bytes, source: str, builtin: Rules | None = None, formats: Collection[str] | None = None
) -> Rules:
    """Read the bytes of a rules file; a section that it lacks is taken from `builtin`, which a user's file comes with.

    `formats` are the names that `formats.off` may hold; None allows all. Raises RulesError, with `source` and the line,
    for anything that is not exactly as it should be.
    """
    base = Rules() if builtin is None else builtin
    root = compose(text, source)
    sections = {} if root is None else mapping(root, "the file", _SECTIONS)
    own = builtin is not None
    tools = _section(sections, "tools", parse_tools, base.tools)
    return Rules(
        settings=_section(sections, "settings", _settings, base.settings),
        lines=_section(sections, "settings", _lines, base.lines),
        models=_section(sections, "models", lambda node: _models(node, formats), base.models),
        clients=_section(sections, "clients", _clients, base.clients),
        sha256=hashlib.sha256(text).hexdigest(),
        source=source,
        tools=tools,
        builtin_tools=base.builtin_tools if own else tools,
        legacy_file=own and "models" not in sections,
        aliases=_section(sections, "aliases", _aliases, base.aliases),
    )


def _first(*words: _Word | None) -> _Word:
    """The first word that somebody says; the last one is the default."""
    return next(word for word in words if word)


def _id_style(plan: HealPlan) -> IdStyle:
    """Return the style of new ids: that to which ids of the history are healed for this model's template."""
    if "kimi_ids" in plan.ids:
        return "kimi"
    return "mistral" if "mistral_ids" in plan.ids else "openai"


def _option(keys: Mapping[str, Node], key: str, what: str, allowed: tuple[_Word, ...]) -> _Word | None:
    return choice(keys[key], f"{key} of {what}", allowed) if key in keys else None


def _section(sections: Mapping[str, Node], name: str, read: Callable[[Node], _Item], default: _Item) -> _Item:
    return read(sections[name]) if name in sections else default


def _settings(node: Node) -> Mapping[str, Setting]:
    pairs = mapping(node, "settings")
    return MappingProxyType({name: _setting(value, f"setting {name}") for name, value in pairs.items()})


def _lines(node: Node) -> Mapping[str, int]:
    """The line in which each setting stands."""
    pairs = mapping(node, "settings")
    return MappingProxyType({name: value.start_mark.line + 1 for name, value in pairs.items()})


def _setting(node: Node, what: str) -> Setting:
    if isinstance(node, SequenceNode):
        return sequence(node, what, text_of)
    if not isinstance(node, ScalarNode) or is_null(node):
        raise node_error(node, f"{what} has no value; give one or remove the line")
    return scalar(node)


def _models(node: Node, formats: Collection[str] | None) -> tuple[Model, ...]:
    return sequence(node, "models", lambda item, what: _model(item, what, formats))


def _model(node: Node, what: str, formats: Collection[str] | None) -> Model:
    keys = mapping(node, what, _MODEL_KEYS)
    if "match" not in keys:
        raise node_error(node, f'{what} has no match; give a name or a glob, as match: "Qwen*"')
    reasoning = _option(keys, "reasoning", what, (*_TELLINGS, *_REASONING_FIELDS))
    return Model(
        match=text_of(keys["match"], f"match of {what}"),
        parse=_option(keys, "parse", what, _PARSES),
        transport=_option(keys, "upstream", what, _TRANSPORTS),
        server_kind=_option(keys, "server", what, _SERVERS) or "",
        url=_url(keys["url"], f"url of {what}") if "url" in keys else "",
        key=_key(keys, what),
        off=_off(keys["formats"], f"formats of {what}", formats) if "formats" in keys else frozenset(),
        reasoning=next((word for word in _REASONING_FIELDS if word == reasoning), None),
        telling=next((word for word in _TELLINGS if word == reasoning), None),
        thinking=_option(keys, "thinking", what, _THINKINGS),
        server_tools=_option(keys, "server_tools", what, _SERVER_TOOLS),
        family=_family(keys["family"], f"family of {what}") if "family" in keys else "",
        requests=parse_request_rules(keys, what),
    )


def _family(node: Node, what: str) -> str:
    name = text_of(node, what)
    if name not in NAMES:
        near = ", ".join(map(shown, get_close_matches(name, NAMES))) or "one of docs/healing.md"
        raise node_error(node, f"there is no family {shown(name)}; use {near}")
    return name


def _url(node: Node, what: str) -> str:
    if isinstance(node, SequenceNode):
        raise node_error(node, f"{what} is a list; write {ONE_SERVER}")
    try:
        return server_url(text_of(node, what))
    except ValueError as needed:  # the value is not shown: there may be a password in it
        raise node_error(node, f"{what} must be {needed}; write one") from None


def _key(keys: Mapping[str, Node], what: str) -> str:
    """Return the source of an entry's key: `key: same`, `key_env: NAME` or `key_file: PATH`, at most one of them."""
    named = [key for key in _KEY_SOURCES if key in keys]
    if not named:
        return ""
    source, node = named[0], keys[named[0]]
    if len(named) > 1:
        raise node_error(node, f"{what} has {' and '.join(named)}; keep one of them")
    text = text_of(node, f"{source} of {what}")
    # The value is not shown: it may be the key itself.
    if not _KEY_SOURCES[source].fullmatch(text):
        raise node_error(node, f"{source} of {what} must be {_KEY_VALUES[source]}")
    return f"${text}" if source == "key_env" else text


def _off(node: Node, what: str, formats: Collection[str] | None) -> frozenset[str]:
    def name(item: Node, words: str) -> str:
        text = text_of(item, words)
        if formats is not None and text not in formats:
            near = ", ".join(map(shown, get_close_matches(text, formats))) or "a name that the command parse prints"
            raise node_error(item, f"there is no format {shown(text)}; use {near}")
        return text

    keys = mapping(node, what, ("off",))
    return frozenset(sequence(keys["off"], f"off of {what}", name)) if "off" in keys else frozenset()


def _aliases(node: Node) -> tuple[tuple[str, str], ...]:
    pairs = mapping(node, "aliases")
    return tuple((glob, text_of(name, f"alias {shown(glob)}")) for glob, name in pairs.items())


def _clients(node: Node) -> Mapping[str, Client]:
    clients: dict[str, Client] = {}
    for name, entry in mapping(node, "clients").items():
        if not CLIENT_NAME.fullmatch(name):
            raise node_error(entry, f"client {shown(name)} must match {CLIENT_NAME.pattern}; rename it")
        clients[name] = _client(entry, f"client {name}")
    return MappingProxyType(clients)


def _client(node: Node, what: str) -> Client:
    keys = mapping(node, what, _CLIENT_KEYS)
    return Client(
        parse=_option(keys, "parse", what, _PARSES),
        transport=_option(keys, "upstream", what, _TRANSPORTS),
        heartbeat=_option(keys, "heartbeat", what, _HEARTBEATS),
        calls=_option(keys, "calls", what, _CALLS),
        clean=_clean(keys["clean"], f"clean of {what}") if "clean" in keys else StripFields(),
        reasoning=_option(keys, "reasoning", what, _REASONING_FIELDS),
    )


def _clean(node: Node, what: str) -> StripFields:
    levels = mapping(node, what, _NEEDED)
    return StripFields(**{level: _fields(fields, level, what) for level, fields in levels.items()})


def _fields(node: Node, level: str, what: str) -> tuple[str, ...]:
    def name(item: Node, words: str) -> str:
        text = text_of(item, words)
        if not _FIELD.fullmatch(text) or text in _NEEDED[level]:
            raise node_error(item, f"{shown(text)} cannot be removed from answers; take it out of {level} of {what}")
        return text

    return tuple(dict.fromkeys(sequence(node, f"{level} of {what}", name)))
