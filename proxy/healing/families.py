"""The table of model families, `families.json`, and the lookup of a model's family.

A row holds everything known about a family: the names of its models, the healings that its chat template needs, how its
reasoning is marked, switched and sent back, and the tool parsers that model servers have for it. `family_of` finds the
row by the rules, the served name, and what the model server reports about the model, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proxy.notations import thoughts as reasoning
from proxy.notations.thoughts import ReasoningMarkers

# Clients choose the names, and names are cached: of a longer one, only the end counts.
_LONG_NAME = 256
_SLASHES = re.compile(r"[/\\]+")
# One word of a quantization or format: `gguf`, `q4` in `Q4_K_M`, `fp8`.
_FORMAT = (
    r"(?:[it]?q\d|(?:nv|mx|b)?fp?\d+|int\d|\dbit|w\d+a\d+|gguf|ggml|safetensors"
    r"|awq|gptq|exl\d|mlx|onnx|hqq|bnb|marlin)"
)
_MORE = rf"(?:[-_.](?:{_FORMAT}|model|of|\d+|[klms]|x+[sl]|nl|dynamic))*"
# Parts of a path that do not name a model, in lower case: a revision, a quantization or format, a weights file.
# `snapshots`, `0123abc`, `q4_k_m`, `awq-4bit`, `model-00001-of-00002.safetensors`
_NAMELESS = re.compile(
    rf"snapshots|main|weights|checkpoint-\d+|[0-9a-f]{{7,64}}|(?:ud-)?{_FORMAT}{_MORE}"
    rf"|(?:model|weights|pytorch|consolidated|ggml){_MORE}\.(?:gguf|safetensors|bin|pth?|onnx)"
)
_DIGIT = re.compile(r"\d")
# Reasoning as content parts: `{"type": "thinking", "thinking": "…"}`.
PARTS = "parts"


class Opens(Enum):
    """Whether the prompt ends with the opening mark of reasoning."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Prompt(Struct, frozen=True):
    """Whether the prompt opens reasoning if the request turns it on, turns it off, or does not mention it."""

    on: Opens = Opens.NO
    off: Opens = Opens.NO
    unsaid: Opens = Opens.NO


class Switch(Struct, frozen=True):
    """The template variable that switches thinking, its two values, and its other names."""

    name: str
    on: bool | str = True
    off: bool | str = False
    also: tuple[str, ...] = ()


class Efforts(Struct, frozen=True):
    """The template variable for the effort, and its word for each word of the clients.

    An effort without a word turns thinking off. `top`: servers read the effort from this top-level field of the
    request.
    """

    name: str
    words: Mapping[str, str] = {}
    top: bool = False


class Parsers(Struct, frozen=True):
    """The call syntax that a family was trained on, and its parsers in vLLM and SGLang; "" if unknown."""

    syntax: str
    vllm: str
    sglang: str = ""


class Family(Struct, frozen=True, dict=True):
    """One family.

    `match`: globs on lower-case model names. `template`: texts that must all be in the chat template (without white
    space). `healings`: healings in addition to those for every model. `signs`: its reasoning markers, or their names in
    `notations.thoughts`; if empty, its reasoning is unknown. `fields`: the fields in which its template reads earlier
    reasoning, best first.
    """

    name: str = ""
    match: tuple[str, ...] = ()
    signs: tuple[str | ReasoningMarkers, ...] = ("THINK",)
    prompt: Prompt = Prompt()
    switch: Switch | None = None
    efforts: Efforts | None = None
    fields: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    healings: tuple[str, ...] = ()
    parsers: Parsers | None = None

    @cached_property
    def markers(self) -> tuple[ReasoningMarkers, ...]:
        """The opening and closing marks of its reasoning, the most common first."""
        found = (getattr(reasoning, sign) if isinstance(sign, str) else sign for sign in self.signs)
        return tuple(chain.from_iterable(each if isinstance(each, tuple) else (each,) for each in found))


class Shown(Struct, frozen=True):
    """One fact reported by a model server: the name or path of the loaded model, or its chat template."""

    name: str = ""
    template: str = ""


# Parsers are named as in vLLM 0.32 and SGLang.
FAMILIES = msgspec.json.decode(Path(__file__).with_name("families.json").read_bytes(), type=tuple[Family, ...])
NAMES = tuple(family.name for family in FAMILIES)


def family_of(model: str, named: str = "", shown: Iterable[Shown] = ()) -> Family | None:
    """Return the family of a model, or None if it is unknown.

    The order is: the family named by the rules (`named`), the served name, then the facts in `shown`, in the given
    order. `shown` is read only until the reasoning is known, so reading it may ask the server.
    """
    if named:
        return _named(named)
    known: Family | None = None
    for each in chain([Shown(model)], shown):
        more = _by_name(each.name[-_LONG_NAME:]) or _by_template(each.template)
        known = _joined(filter(None, (known, more)))
        if known is not None and known.markers:
            break
    return known


def _joined(families: Iterable[Family]) -> Family | None:
    """Merge several rows about one model: each fact comes from the first row that has it."""
    rows = [*families]
    if not rows:
        return None
    base = next((row for row in rows if row.markers), rows[0])
    healings = next((row.healings for row in rows if row.healings), ())
    return replace(base, healings=healings, parsers=next((row.parsers for row in rows if row.parsers), None))


def _matching(name: str) -> Iterator[Family]:
    return (family for family in FAMILIES if any(fnmatchcase(name, glob) for glob in family.match))


@lru_cache(maxsize=256)
def _named(name: str) -> Family | None:
    """Return the family with this name, merged with the rows that match the name."""
    row = next((family for family in FAMILIES if family.name == name), None)
    return row and _joined((row, *_matching(name)))


# A request looks its model up several times, and most requests are for the same few models.
@lru_cache(maxsize=256)
def _by_name(name: str) -> Family | None:
    """Match the last part of a path that names a model, or of `ORGANIZATION/MODEL` both parts joined.

    The folder above a part without a name must contain a digit, as sizes and versions do: `/home/reka/gguf` is a
    user's.
    """
    parts = [part for part in _SLASHES.split(name.lower()) if part]
    at = next((at for at in reversed(range(len(parts))) if not _NAMELESS.fullmatch(parts[at])), None)
    if at is None:
        return None
    part = parts[at]
    if part.startswith("models--"):
        return _joined(_matching(part.rpartition("--")[2]))
    if at < len(parts) - 1:
        return _joined(_matching(part)) if _DIGIT.search(part) else None
    found = [*_matching(part)]
    organization, _, model = name.lower().partition("/")
    if organization and "/" not in model:
        # `qwen3/thinking-4b`: a match of the organization alone does not count.
        alone = [*_matching(organization)]
        found += [family for family in _matching(name.lower()) if family not in alone]
    return _joined(found)


@lru_cache(maxsize=8)
def _by_template(template: str) -> Family | None:
    """Return the family of a chat template."""
    text = "".join(template.split())
    known = (family for family in FAMILIES if family.template)
    name = next((family.name for family in known if all(part in text for part in family.template)), "")
    return _named(name)
