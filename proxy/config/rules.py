"""rules.yaml as structs: the treatment of models, the needs of clients, the repairs of tools' calls.

The docstring of a struct describes its keys, for `docs/rules.schema.json`. `parse_rules` reads bytes and returns frozen
`Rules`, or raises one `RulesError` (`SOURCE:LINE: problem; remedy`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, structs

from proxy.config.settings import CLIENT_NAME, Setting, Settings, Url, read_settings
from proxy.config.yaml_nodes import compose, entries, nearest, node_error, read, shown
from proxy.healing.families import NAMES, Family, family_of
from proxy.healing.heal import ALL, IDS, HealPlan
from proxy.healing.parameters import OfferedTools, Sampling, Text
from proxy.healing.reasoning import SUFFIXES
from proxy.notations.signs import ROW_NAMES
from proxy.repair.policy import ITEMS, Action, Condition, Policy, ToolRule, applies_to_model

MAX_RULES = 1000
MAX_STEPS = 16
_MANY, _LONG = 512, 256
# The value of `key` for a model whose server gets the main server's key.
SAME_KEY = "same"

_KEY = r"(?:\\[.\[\\]|[^.\[\\])+"
_STEP = re.compile(rf"({_KEY})((?:\[\])*)(?:\.|\Z)")
# Keys that a condition or an action requires, and keys that it accepts.
NEEDED_KEYS: Mapping[str, str] = {
    "invalid_enum": "valid_values",
    "matches": "pattern",
    "set_default": "default_value",
    "rename_parameter": "to",
    "rename_tool": "to",
}
OPTIONAL_KEYS: Mapping[str, str] = {"parse_json_array": "fallback_value", "parse_json_object": "fallback_value"}
# Fields of responses that every client needs.
_NEEDED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "top": ("choices",),
    "choice": ("index", "message", "delta", "finish_reason"),
    "message": ("role", "content", "tool_calls"),
}

_Made = TypeVar("_Made")
Parse = Literal["auto", "server", "proxy"]
Transport = Literal["live", "whole"]
ServerKind = Literal["vllm", "sglang", "lmdeploy", "llamacpp", "litellm"]
Heartbeat = Literal["comment", "chunk"]
CallsAs = Literal["structured", "text"]
ReasoningField = Literal["as_is", "reasoning", "reasoning_content", "both"]
# What separates reasoning from the text: the proxy, the server, or whichever of them looks for calls.
Telling = Literal["auto", "split", "server"]
Thinking = Literal["none", "enable_thinking", "thinking", "reasoning_effort"]
ServerTools = Literal["refuse", "drop"]
BrokenCalls = Literal["auto", "retry", "text"]

Globs: TypeAlias = Annotated[tuple[Text, ...], Meta(min_length=1, title="a list of at least one glob")]
Fields: TypeAlias = tuple[
    Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$(?!\n)", title="the name of a field")], ...
]
if TYPE_CHECKING:
    HealingId: TypeAlias = str
    HealingOff: TypeAlias = str
    FormatName: TypeAlias = str
    FamilyName: TypeAlias = str
else:
    HealingId = Annotated[Literal[IDS], Meta(title="a healing of docs/what-it-does.md")]
    HealingOff = Annotated[Literal[(*IDS, ALL)], Meta(title="all, or a healing of docs/what-it-does.md")]
    FormatName = Annotated[Literal[tuple(sorted(ROW_NAMES))], Meta(title="a format that the command `parse` prints")]
    FamilyName = Literal[NAMES]


class Heal(Struct, frozen=True, omit_defaults=True):
    """Healings of requests (docs/what-it-does.md).

    on: Healings in addition to those that every model has.
    off: Healings that are turned off, or all.
    """

    on: tuple[HealingId, ...] = ()
    off: tuple[HealingOff, ...] = ()


class Formats(Struct, frozen=True, omit_defaults=True):
    """Text formats of calls.

    off: Formats that are not searched for calls, as `vllm-tool-proxy parse` prints them.
    """

    off: tuple[FormatName, ...] = ()


class Model(Struct, frozen=True, omit_defaults=True):
    """Treatment of the models that match a glob; the first entry that matches counts.

    match: A glob on the model's name; letter case counts.
    parse: What turns text into tool calls: server, proxy, or auto (server, until it shows that it cannot).
    upstream: live, or whole for servers whose streaming is broken.
    server: Kind of the model server; detected by default.
    url: Base URL of these models' server; default: the setting upstream.
    key: Key of the server at `url`: $NAME (a variable), the absolute path of a file, or same (the main server's key).
    formats: Text formats of calls.
    reasoning: What separates reasoning from text: split (the proxy), server, or auto; or the field of responses for it.
    thinking: Switch that the thinking settings of Messages and Responses clients are sent as.
    server_tools: Whether tools that only Anthropic's or OpenAI's servers have are refused or dropped.
    broken_calls: What happens to a call at the end of a reply that cannot be read: auto (ask servers that guide their
        decoding once more), retry (ask every server), or text.
    family: Model family, if neither the name nor the server shows it.
    heal: Healings of requests.
    sampling: Fields of the request body.
    tools: Tools of the request.
    """

    match: Text
    parse: Parse | None = None
    transport: Transport | None = msgspec.field(name="upstream", default=None)
    server_kind: ServerKind | None = msgspec.field(name="server", default=None)
    url: Url | None = None
    key: Annotated[
        str,
        Meta(
            pattern=rf"^(?:{SAME_KEY}|\$[A-Za-z_]\w*|/.+)$(?!\n)",
            max_length=200,
            title=f"$NAME (a variable), the absolute path of a file, or {SAME_KEY}",
            extra={"secret": True},
        ),
    ] = ""
    formats: Formats = Formats()
    reasoning: Telling | ReasoningField | None = None
    thinking: Thinking | None = None
    server_tools: ServerTools | None = None
    broken_calls: BrokenCalls | None = None
    family: FamilyName = ""
    heal: Heal = Heal()
    sampling: Sampling = Sampling()
    tools: OfferedTools = OfferedTools()


class StripFields(Struct, frozen=True, omit_defaults=True):
    """Fields that are removed from responses.

    top: Of the response and each chunk.
    choice: Of each choice.
    message: Of each message and delta.
    usage: Of the usage.
    """

    top: Fields = ()
    choice: Fields = ()
    message: Fields = ()
    usage: Fields = ()

    def __post_init__(self) -> None:
        for level, needed in _NEEDED_FIELDS.items():
            for name in getattr(self, level):
                if name in needed:
                    raise ValueError(level, f"{shown(name)} cannot be removed from responses; keep it")

    def __bool__(self) -> bool:
        return self != StripFields()


class Client(Struct, frozen=True, omit_defaults=True):
    """An agent's needs; they win over the model's entry.

    parse: As for a model.
    upstream: As for a model.
    heartbeat: comment, or chunk for agents whose idle timer ignores comments.
    calls: structured, or text for agents that read calls as <tool_call> in the text only.
    clean: Fields that are removed from responses.
    reasoning: The field of responses that holds reasoning.
    """

    parse: Parse | None = None
    transport: Transport | None = msgspec.field(name="upstream", default=None)
    heartbeat: Heartbeat | None = None
    calls: CallsAs | None = None
    clean: StripFields = StripFields()
    reasoning: ReasoningField | None = None


def _steps(path: str) -> tuple[str, ...]:
    r"""Split a path: `a.b[].c` is `a`, `b`, `[]`, `c`; a backslash makes a dot or a bracket part of a key.

    Raises ValueError for a path that is too long, and for a key `[]`.
    """
    steps: list[str] = []
    for key, brackets in _STEP.findall(path):
        if key == r"\[]":
            raise ValueError
        steps += [re.sub(r"\\(.)", r"\1", key), *[ITEMS] * (len(brackets) // 2)]
    if len(steps) > MAX_STEPS:
        raise ValueError
    return tuple(steps)


def _path(text: str) -> str:
    _steps(text)
    return text


class Fix(Struct, frozen=True, omit_defaults=True):
    r"""One repair: if `condition` holds for `parameter`, `action` is done.

    name: Name of the rule in the audit; default: the action.
    parameter: Path of an argument: keys with dots between them, [] after a list for its items, \. for a dot in a key.
    condition: When the rule acts.
    action: What the rule does.
    models: Globs on the names of models; they win over those of the tool.
    valid_values: For invalid_enum: the valid values.
    pattern: For matches: a case-sensitive glob on the whole text.
    default_value: For set_default: any JSON value.
    fallback_value: For parse_json_array and parse_json_object: the value if the text cannot be parsed.
    to: For rename_parameter: the new key; for rename_tool: the offered tool.
    description: Why the rule exists.
    """

    parameter: Annotated[
        str,
        Meta(
            pattern=rf"^{_KEY}(?:\[\])*(?:\.{_KEY}(?:\[\])*)*$(?!\n)",
            max_length=200,
            title=r"up to 16 keys with dots between them, [] after a list for its items, \. for a dot in a key",
            extra={"check": _path},
        ),
    ]
    condition: Condition
    action: Action
    name: Annotated[str, Meta(pattern=r"^[^\0-\x1f\x7f-\x9f]{1,200}$(?!\n)", title="a text of 1 to 200 characters")] = (
        ""
    )
    models: Globs = ()
    valid_values: Annotated[tuple[Any, ...], Meta(min_length=1, title="a list of at least one value")] = ()
    pattern: Text = ""
    default_value: Any = UNSET
    fallback_value: Any = UNSET
    to: Text = ""
    description: Annotated[str, Meta(max_length=1000, title="a text of up to 1000 characters")] = ""

    def __post_init__(self) -> None:
        words = (self.condition, self.action)
        needed = {NEEDED_KEYS[word]: word for word in words if word in NEEDED_KEYS}
        for key in dict.fromkeys((*NEEDED_KEYS.values(), *OPTIONAL_KEYS.values())):
            value = getattr(self, key)
            given = value is not UNSET if key.endswith("_value") else bool(value)
            if key in needed and not given:
                raise ValueError("", f"{needed[key]} needs {key}; add it")
            if given and key not in needed and key != OPTIONAL_KEYS.get(self.action):
                raise ValueError(key, f"{' and '.join(words)} ignore it; remove it")
        if self.action == "rename_parameter":
            new = _steps(self.to)
            if not re.fullmatch(_KEY, self.to) or _steps(self.parameter)[-1] in (ITEMS, *new):
                raise ValueError("to", "only one key can be renamed, to another one; write the new key")

    def rule(self, tool: str, models: tuple[str, ...]) -> ToolRule:
        """Return the rule for the calls of a tool; `models` are the tool's globs."""
        return ToolRule(
            name=self.name or self.action,
            tool=tool,
            parameter=_steps(self.parameter),
            condition=self.condition,
            action=self.action,
            models=self.models or models,
            default=() if self.default_value is UNSET else (self.default_value,),
            fallback=() if self.fallback_value is UNSET else (self.fallback_value,),
            valid=self.valid_values,
            pattern=self.pattern,
            to=_steps(self.to)[0] if self.action == "rename_parameter" else self.to,
            description=self.description,
        )


class Tool(Struct, frozen=True, omit_defaults=True):
    """Repairs of a tool's calls.

    models: Globs on the names of the models that the repairs are for; default: all.
    fixes: Repairs, in the order in which they are applied.
    """

    models: Globs = ()
    fixes: tuple[Fix, ...] = ()


class RulesFile(Struct, frozen=True):
    """Rules of vllm-tool-proxy. A section that the file lacks is taken from the built-in rules.

    settings: Settings; flags and environment variables win over them.
    tools: Repairs of a tool's calls, by the tool's name or a glob on it.
    models: Treatment of models; the first entry that matches counts.
    aliases: Globs on the model names that clients send, each with the name that is sent upstream; the first counts.
    clients: Needs of agents; they win over the model's entry.
    """

    settings: Settings = Settings()
    tools: dict[Text, Tool] = {}
    models: tuple[Model, ...] = ()
    aliases: dict[Text, Text] = {}
    clients: dict[
        Annotated[str, Meta(pattern=rf"^{CLIENT_NAME}$(?!\n)", title="lower-case letters, digits, ._-")], Client
    ] = {}


@dataclass(frozen=True, slots=True)
class Profile:
    """The treatment of one request, from the entries of its model and its client.

    `transport` (`upstream` in the rules) says whether the server is asked for a stream or a whole response.
    `server_kind` is "" if it must be detected. `reasoning` is the response field for reasoning. `telling` says what
    separates reasoning from text. `family` is the model family if the name does not show it.

    `thinking` and `server_tools` are for Messages and Responses clients (F94): the switch that their thinking settings
    are sent as, and what happens to tools that only Anthropic's or OpenAI's servers have (None: the dialect's default).
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
    broken_calls: BrokenCalls = "auto"
    family: str = ""
    calls: CallsAs = "structured"


@dataclass(frozen=True, slots=True)
class Rules:
    """The content of a rules file, with sections that it lacks taken from the built-in one.

    `settings` are those of the file, by setting name. `sha256` is the digest of the file, `source` its path or
    "built-in". `builtin_tools` are the built-in repairs, whether or not the file replaces them. `legacy_file`: the
    user's file has no section `models`, like those of an earlier system. `case_sensitive_tools` is the setting of that
    name (`config/load.py`).
    """

    settings: Mapping[str, Setting] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, Client] = field(default_factory=dict)
    sha256: str = ""
    source: str = ""
    builtin_tools: Mapping[str, Tool] = field(default_factory=dict)
    legacy_file: bool = False
    case_sensitive_tools: bool = False
    # Cached results: most requests are for the same few models and clients.
    _known: dict[tuple[str, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def urls(self) -> tuple[str, ...]:
        """The distinct URLs of model servers in the entries."""
        return tuple(dict.fromkeys(model.url for model in self.models if model.url))

    @property
    def key_sources(self) -> tuple[str, ...]:
        """The distinct variables (`$NAME`) and files of keys in the entries."""
        return tuple(dict.fromkeys(model.key for model in self.models if model.key not in ("", SAME_KEY)))

    def _once(self, key: tuple[str, ...], make: Callable[[], _Made]) -> _Made:
        """Return the cached result of `make` for this key. Clients choose the names, so long ones are not cached."""
        made: _Made = self._known[key] if key in self._known else make()
        if len(self._known) < _MANY and max(map(len, key)) <= _LONG:
            self._known[key] = made
        return made

    def entry(self, name: str) -> Model:
        """Return the first entry whose glob matches a model, or an empty entry."""
        return self._once(
            ("entry", name), lambda: next((each for each in self.models if fnmatchcase(name, each.match)), Model("*"))
        )

    def profile(self, model: str, client: str) -> Profile:
        """Return the profile of `model` for `client` ("" or unknown: no client). The client's entry wins."""

        def make() -> Profile:
            its, own = self.entry(model), self.clients.get(client, Client())
            said: dict[str, Any] = {
                name: word for entry in (its, own) for name in Profile.__slots__ if (word := getattr(entry, name, None))
            }
            # A model's `reasoning` is either what separates reasoning from text, or the response field for it.
            if its.reasoning in get_args(Telling):
                said |= {"telling": its.reasoning, "reasoning": own.reasoning or "as_is"}
            return Profile(**said)

        return self._once(("profile", model, client), make)

    def _alias(self, name: str) -> tuple[str, str]:
        """Return the first alias that matches, as its glob and the new name, or "" and the name itself."""
        return next((pair for pair in self.aliases.items() if fnmatchcase(name, pair[0])), ("", name))

    def alias(self, name: str) -> str:
        """Return the model that is requested upstream for `name`: the first alias that matches, else `name`.

        The new name is not looked up again.
        """
        return self._alias(name)[1]

    def has_alias(self, name: str) -> bool:
        """Return whether an alias matches, even if it is for the name itself."""
        return bool(self._alias(name)[0])

    def thinking_suffix(self, name: str) -> str:
        """Return the thinking suffix after the last colon of `name` (`qwen3:nothink`), if an alias has that colon."""
        glob, _ = self._alias(name)
        word = name.rpartition(":")[2]
        return word if ":" in glob and word in SUFFIXES else ""

    def policy(self, model: str, family: Family | None = None) -> Policy:
        """Return the engine's policy for the calls of `model`; `family` is as for `heal_plan`.

        Rules of the user's file act whenever their condition holds. Built-in rules, even in a copy of the built-in
        file, act only on invalid calls.
        """

        def make() -> Policy:
            tools = [rule for rule in _tool_rules(self.tools) if applies_to_model(rule, model)]
            builtin = [*_tool_rules(self.builtin_tools)]
            ids = self.heal_plan(model, family).ids
            return Policy(
                rules=tuple(rule for rule in tools if rule not in builtin),
                fallback_rules=tuple(rule for rule in tools if rule in builtin),
                case_sensitive=self.case_sensitive_tools,
                ids="kimi" if "kimi_ids" in ids else "mistral" if "mistral_ids" in ids else "openai",
                infer_from_legacy_table=self.legacy_file,
                disabled_formats=frozenset(self.entry(model).formats.off),
            )

        return self._once(("policy", model, *self._healings(model, family)), make)

    def heal_plan(self, model: str, family: Family | None = None) -> HealPlan:
        """Return the healings of requests for `model`: those of its family and those of its entry.

        `family` is the one that its server reveals; without it, the rules and the name decide.
        """
        healings = self._healings(model, family)

        def make() -> HealPlan:
            own = self.entry(model)
            return HealPlan(
                on=frozenset((*healings, *own.heal.on)),
                off=frozenset(own.heal.off),
                sampling=own.sampling,
                tools=own.tools,
            )

        return self._once(("heal", model, *healings), make)

    def _healings(self, model: str, family: Family | None) -> tuple[str, ...]:
        family = family or family_of(model, self.entry(model).family)
        return family.healings if family else ()


def _tool_rules(tools: Mapping[str, Tool]) -> Iterator[ToolRule]:
    return (fix.rule(name, tool.models) for name, tool in tools.items() for fix in tool.fixes)


def parse_rules(text: bytes, source: str, builtin: Rules | None = None) -> Rules:
    """Parse a rules file. A section that a user's file lacks is taken from `builtin`.

    Raises RulesError, with `source` and the line, for the first error.
    """
    base = Rules() if builtin is None else builtin
    root = compose(text, source)
    kinds = {each.name: each.type for each in structs.fields(RulesFile)}
    own: dict[str, Any] = {}
    for name, key, child in [] if root is None else entries(root, "the file"):
        if name not in kinds:
            raise node_error(key, f"there is no {shown(name)} in the file; use {nearest(name, kinds)}")
        own[name] = read_settings(child) if name == "settings" else read(child, kinds[name], name)
        if name == "tools" and sum(len(tool.fixes) for tool in own[name].values()) > MAX_RULES:
            raise node_error(key, f"there are over {MAX_RULES} rules for tools; remove some, or join them by globs")
    digest = hashlib.sha256(text).hexdigest()
    rules = replace(base, **own, sha256=digest, source=source, legacy_file=builtin is not None and "models" not in own)
    return rules if builtin is not None else replace(rules, builtin_tools=rules.tools)


def literal(name: str) -> str:
    """Return the glob that matches only this name."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def entry_text(entry: Struct | str) -> str:
    """Return an entry of a rules file as JSON, without keys that have their default values."""
    written = msgspec.to_builtins(entry)
    if isinstance(written, dict):
        written = {key: value for key, value in written.items() if value != {}}
    return json.dumps(written)


def entries_in_force(rules: Rules) -> dict[str, list[tuple[str, Struct | str]]]:
    """Return the entries by section, each with its title: the name or the glob that it is for."""
    return {
        "tools": [*rules.tools.items()],
        "models": [(model.match, model) for model in rules.models],
        "aliases": [*rules.aliases.items()],
        "clients": [*rules.clients.items()],
    }


def entry_with(model: Model, name: str, healings: Iterable[str]) -> str:
    """Return a line of a rules file: the entry for the model `name`, with these healings added."""
    heal = structs.replace(model.heal, on=tuple(dict.fromkeys((*model.heal.on, *healings))))
    return f"- {entry_text(structs.replace(model, match=literal(name), heal=heal))}"
