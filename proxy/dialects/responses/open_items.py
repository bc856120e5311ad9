"""The items of a Responses reply while they are open: text, reasoning, calls.

Source: OpenAI's API reference, "Create a model response": `output`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.codec.json_access import is_object_text
from proxy.codec.json_text import Json, JsonObject, load_json
from proxy.dialects.block_start import TextKind
from proxy.dialects.responses.custom_input import plain_input
from proxy.dialects.responses.tools import Called, Kind
from proxy.dialects.surrogates import CharacterJoiner, SurrogateFilter

# What the ids of calls begin with.
PREFIXES = {Kind.FUNCTION: "fc", Kind.CUSTOM: "ctc", Kind.SEARCH: "tsc"}


@dataclass(slots=True)
class TextItem:
    """The item of text or of reasoning that is open."""

    kind: TextKind
    index: int
    id: str
    deltas: list[str] = field(default_factory=list)
    characters: CharacterJoiner = field(default_factory=CharacterJoiner)

    @property
    def part(self) -> JsonObject:
        """Its only part, as far as it came."""
        return part_of(self.kind, "".join(self.deltas))

    def item(self, status: str, content: list[Json]) -> JsonObject:
        """The item, with this content."""
        if self.kind == "thinking":
            item: JsonObject = {"id": self.id, "type": "reasoning", "summary": [], "content": content}
            return item | {"encrypted_content": None, "status": status}
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}


@dataclass(slots=True)
class CallItem:
    """The item of a call that is open."""

    index: int
    id: str
    call_id: str
    called: Called
    deltas: list[str] = field(default_factory=list)
    escapes: SurrogateFilter = field(default_factory=SurrogateFilter)

    @property
    def arguments(self) -> str:
        """Its arguments, as far as they came."""
        return "".join(self.deltas)

    @property
    def is_blank(self) -> bool:
        """True if it has no arguments so far."""
        return not self.arguments.strip()

    @property
    def is_whole(self) -> bool:
        """True if the arguments are an object."""
        return is_object_text(self.arguments)

    @property
    def is_plain(self) -> bool:
        """True for the input of a custom tool that is no JSON: whether it is whole, only the reply's end can tell."""
        return self.called.kind is Kind.CUSTOM and not self.arguments.lstrip().startswith("{")

    @property
    def input(self) -> str:
        """The input of a custom tool; empty while its arguments are half an object."""
        return plain_input(self.arguments) if self.is_whole or self.is_plain else ""

    def item(self, status: str, written: Json) -> JsonObject:
        """The item, with these arguments or this input."""
        item: JsonObject = {"id": self.id, "type": f"{self.called.kind.value}_call", "status": status}
        item |= {"call_id": self.call_id}
        if self.called.kind is Kind.SEARCH:
            return item | {"execution": "client", "arguments": written}
        item["name"] = self.called.name
        if self.called.namespace:
            item["namespace"] = self.called.namespace
        if self.called.kind is Kind.CUSTOM:
            return item | {"type": "custom_tool_call", "input": written}
        return item | {"arguments": written}

    def as_it_is(self, status: str) -> JsonObject:
        """The item with what came of its arguments."""
        if self.called.kind is Kind.CUSTOM:
            return self.item(status, self.input)
        if self.called.kind is Kind.SEARCH:
            arguments = object_in(self.arguments)
            return self.item(status, self.arguments if arguments is None else arguments)
        return self.item(status, self.arguments)


def part_of(kind: TextKind, text: str) -> JsonObject:
    """The part of an item of text or of reasoning."""
    if kind == "thinking":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def object_in(text: str) -> JsonObject | None:
    """The object that a text is the JSON of; None if it is none."""
    try:
        value = load_json(text)
    except ValueError:
        return None
    if isinstance(value, dict):
        return value
    return None
