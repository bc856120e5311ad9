"""The engine's policy for a model's calls, made of the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proxy.codec.json_text import Json

IdStyle = Literal["openai", "kimi", "mistral"]
Condition = Literal["is_string", "missing", "missing_or_empty", "exists", "invalid_enum", "matches"]
Action = Literal[
    "parse_json_array",
    "parse_json_object",
    "convert_string_to_boolean",
    "set_default",
    "remove_parameter",
    "convert_tool_to_write",
    "rename_parameter",
    "rename_tool",
    "unescape_html",
]


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One entry of `tools.<name>.fixes` in rules.yaml.

    `name` is what audit records call it; where the file gives none, the action. `tool` and `models` are globs on names;
    no models are all. `parameter` is the path to what is looked at, `("a", "b", "[]")` for `a.b[]`. `default` and
    `fallback` are one-tuples of the value, or empty where the file gives none; `valid` are the values that an enum has,
    `pattern` is a glob on text, `to` the new name of a tool or of a path's last key. Which of
    them a condition or an action needs is checked when the file is read.
    """

    name: str
    tool: str
    parameter: tuple[str, ...]
    condition: Condition
    action: Action
    models: tuple[str, ...] = ()
    default: tuple[Json, ...] = ()
    fallback: tuple[Json, ...] = ()
    valid: tuple[Json, ...] = ()
    pattern: str = ""
    to: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules for one model's calls.

    `rules` act whenever their condition holds; `fallback_rules`, the built-in ones, only where the offered schema finds
    a call invalid and they make it less so. `case_sensitive`: rules name their tools exactly.
    `infer_from_legacy_table`: a call without a name may be told by the earlier systems' table of keys.
    `disabled_formats` are those in which no call is looked for.
    """

    rules: tuple[ToolRule, ...] = ()
    fallback_rules: tuple[ToolRule, ...] = ()
    case_sensitive: bool = False
    ids: IdStyle = "openai"
    infer_from_legacy_table: bool = False
    disabled_formats: frozenset[str] = frozenset()
