"""The items of a Responses request as chat messages.

What the assistant says and calls up to the next item of the user's side is one message, and so is what the user's side
says up to the next item of the assistant's (`dialects/chat_turns.py`). Source: OpenAI's API reference, "Create a model
response": `input`; the items that only Codex sends are from its requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from proxy.codec.json_text import Json, JsonObject, dump_inner, load_json
from proxy.dialects.chat_turns import (
    AssistantTurn,
    UserTurn,
    is_text,
    joined,
    remind,
    text_part,
    turn_of,
)
from proxy.dialects.responses.content import parts_of, text_of
from proxy.dialects.responses.fields import (
    DROPPED_ITEMS,
    HOSTED_ITEMS,
    ITEM_FIELDS,
    MESSAGE_FIELDS,
    REFUSED_ITEMS,
)
from proxy.dialects.responses.open_calls import OpenCalls
from proxy.dialects.responses.tools import INPUT, SEARCH, OfferedTools, tool_names
from proxy.dialects.validation import (
    BODY,
    DroppedFields,
    FieldPath,
    entry,
    listing,
    mapping,
    nonempty_string,
    optional,
    shown,
    string,
)

_ROLES = ("user", "assistant", "system", "developer")
_PLACE = BODY.field("input")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The chat messages."""

    messages: list[JsonObject]


def input_items(body: JsonObject) -> list[tuple[JsonObject, FieldPath]]:
    """The items of a request, each with its place; a string is one message of the user's."""
    input_value = body.get("input")
    if isinstance(input_value, str):
        return [({"type": "message", "role": "user", "content": input_value}, _PLACE)]
    if not isinstance(input_value, list):
        raise _PLACE.bad("Field required" if input_value is None else "must be a string or a list of items")
    return [(entry(value, _PLACE.at(index)), _PLACE.at(index)) for index, value in enumerate(input_value)]


def kind_of(item: JsonObject, path: FieldPath) -> str:
    """The type of an item; a message may have none, and so may a reference."""
    if item.get("type") is not None:
        return nonempty_string(item, "type", path)
    if item.get("role") is not None:
        return "message"
    if item.get("id") is not None:
        return "item_reference"
    return nonempty_string(item, "type", path)


class History:
    """The turns of a conversation, item by item."""

    def __init__(self, tools: OfferedTools, losses: DroppedFields, reasoning_history: str) -> None:
        self._tools = tools
        self._losses = losses
        self._reasoning = reasoning_history
        self._system: list[str] = []
        self._turns: list[UserTurn | AssistantTurn] = []
        self._open = OpenCalls()

    def instruct(self, text: str) -> None:
        """Instructions that stand before all items."""
        if text:
            self._system.append(text)

    def add(self, item: JsonObject, path: FieldPath) -> None:
        """The next item. BadRequest for what is none, or cannot be carried."""
        kind = kind_of(item, path)
        if kind in REFUSED_ITEMS:
            raise path.bad(f"an item of type {shown(kind)}: {REFUSED_ITEMS[kind]}")
        if kind in HOSTED_ITEMS:
            self._losses.server_only(path, f"an item of type {shown(kind)}", f"{path.kind} of type {kind}")
            return
        if kind in DROPPED_ITEMS:
            self._losses.lost(f"{path.kind} of type {kind}", DROPPED_ITEMS[kind])
            return
        if kind not in self._SAY:
            raise path.field("type").bad(f"{shown(kind)} is no item that this server knows")
        if kind in ITEM_FIELDS:
            self._losses.leave(item, ITEM_FIELDS[kind], path)
        self._SAY[kind](self, item, path)

    def conversation(self) -> Conversation:
        """All of it as chat messages; BadRequest if there is nothing in it."""
        if all(turn.empty for turn in self._turns) and not self._system:
            raise _PLACE.bad("there is no content in it")
        turns = self._turns
        if turns and isinstance(turns[-1], AssistantTurn) and turns[-1].empty:
            turns = turns[:-1]
        messages: list[JsonObject] = []
        if self._system:
            messages.append({"role": "system", "content": "\n\n".join(self._system)})
        for turn in turns:
            messages += turn.messages() if isinstance(turn, UserTurn) else turn.messages(self._reasoning)
        return Conversation(messages)

    # What people and programs say.

    def _message(self, item: JsonObject, path: FieldPath) -> None:
        self._losses.leave(item, MESSAGE_FIELDS, path)
        role = nonempty_string(item, "role", path)
        here = path.field("content")
        if role not in _ROLES:
            raise path.field("role").bad(f"{shown(role)} is none of {', '.join(_ROLES)}")
        if role == "user":
            self._user.parts += parts_of(item.get("content"), here, self._losses)
        elif role == "assistant":
            self._answer(item, here)
        elif self._turns:
            remind(self._user, text_of(item.get("content"), here, self._losses))
        else:
            self.instruct(text_of(item.get("content"), here, self._losses))

    def _answer(self, item: JsonObject, path: FieldPath) -> None:
        """A message of the assistant's: its texts are one text, apart from those of other messages."""
        turn = self._assistant
        turn.last = ""
        for part in parts_of(item.get("content"), path, self._losses):
            if not is_text(part):
                raise path.bad("an assistant's message holds text only")
            turn.say(str(part["text"]))
            turn.last = "text"

    def _think(self, item: JsonObject, path: FieldPath) -> None:
        """Reasoning, where the rules say in which field it goes back; its own text, or what a summary says of it. Where
        none goes back the assistant's turn is there all the same: what the user says behind it is another one (C8).
        """
        if self._reasoning in ("", "drop"):
            self._losses.lost(f"{path.kind} of type reasoning", "the rules do not say in which field it goes back")
            if self._turns:
                turn_of("assistant", self._turns)
            return
        texts = _texts(item, "content", path) or _texts(item, "summary", path)
        self._assistant.thoughts += filter(None, texts)

    def _agent_message(self, item: JsonObject, path: FieldPath) -> None:
        """A message of one of Codex's agents to another."""
        here = path.field("content")
        texts: list[str] = []
        for index, value in enumerate(listing(item, "content", path)):
            part = entry(value, here.at(index))
            if part.get("type") == "encrypted_content":
                self._losses.lost(f"{here.kind}[] of type encrypted_content", "only OpenAI's own servers can read it")
                continue
            texts.append(text_of([part], here, self._losses))
        head = f"Message from {optional(item, 'author', path)} to {optional(item, 'recipient', path)}:"
        self._user.parts.append(text_part("\n".join((head, *texts))))

    def _no_message(self, item: JsonObject, path: FieldPath) -> None:
        """Its tools are offered (`offered_tools`)."""

    # Calls.

    def _function_call(self, item: JsonObject, path: FieldPath) -> None:
        name = self._tools.name_of(nonempty_string(item, "name", path), optional(item, "namespace", path))
        self._call(name, _object_text(optional(item, "arguments", path)), nonempty_string(item, "call_id", path))

    def _custom_call(self, item: JsonObject, path: FieldPath) -> None:
        name = self._tools.name_of(nonempty_string(item, "name", path), optional(item, "namespace", path))
        text = _compact({INPUT: string(item, "input", path)}, path)
        self._call(name, text, nonempty_string(item, "call_id", path))

    def _search_call(self, item: JsonObject, path: FieldPath) -> None:
        arguments = item.get("arguments")
        text = ""
        if isinstance(arguments, str):
            text = arguments
        elif arguments is not None:
            text = _compact(arguments, path.field("arguments"))
        self._call(SEARCH, _object_text(text), optional(item, "call_id", path))

    def _local_shell_call(self, item: JsonObject, path: FieldPath) -> None:
        call_id = optional(item, "call_id", path) or optional(item, "id", path)
        self._call("local_shell", _compact(mapping(item, "action", path), path.field("action")), call_id)

    def _shell_call(self, item: JsonObject, path: FieldPath) -> None:
        text = _compact(mapping(item, "action", path), path.field("action"))
        self._call("shell", text, nonempty_string(item, "call_id", path))

    def _apply_patch_call(self, item: JsonObject, path: FieldPath) -> None:
        text = _compact(mapping(item, "operation", path), path.field("operation"))
        self._call("apply_patch", text, nonempty_string(item, "call_id", path))

    def _call(self, name: str, arguments: str, call_id: str) -> None:
        """A call. Where an id is there already, the server gets another one: they are paired by their place (F48)."""
        turn = self._assistant
        id_ = self._open.add(call_id, name, len(self._turns))
        function: JsonObject = {"name": name, "arguments": arguments}
        turn.calls.append({"id": id_, "type": "function", "function": function})
        turn.last = "call"

    # Outputs.

    def _output(self, item: JsonObject, path: FieldPath) -> None:
        parts = parts_of(item.get("output"), path.field("output"), self._losses)
        call_id = optional(item, "call_id", path)
        name = ""
        if not call_id:
            name = self._tools.name_of(nonempty_string(item, "name", path), optional(item, "namespace", path))
        self._result(call_id, name, parts)

    def _search_output(self, item: JsonObject, path: FieldPath) -> None:
        names = ", ".join(tool_names(item.get("tools")))
        text = f"These tools can be called now: {names}" if names else "No tools were found."
        self._result(optional(item, "call_id", path), SEARCH, [text_part(text)])

    def _local_shell_output(self, item: JsonObject, path: FieldPath) -> None:
        call_id = optional(item, "call_id", path) or nonempty_string(item, "id", path)
        self._result(call_id, "", parts_of(item.get("output"), path.field("output"), self._losses))

    def _shell_output(self, item: JsonObject, path: FieldPath) -> None:
        text = _compact(listing(item, "output", path), path.field("output"))
        self._result(nonempty_string(item, "call_id", path), "", [text_part(text)])

    def _patch_output(self, item: JsonObject, path: FieldPath) -> None:
        parts = (optional(item, "status", path), optional(item, "output", path))
        self._result(nonempty_string(item, "call_id", path), "", [text_part("\n".join(filter(None, parts)))])

    def _result(self, call_id: str, name: str, parts: list[JsonObject]) -> None:
        """The output of a call: with this id, or of this name, the first without one in the newest turn that has such.

        One without its call is text of the user's that says so: templates refuse it elsewhere.
        """
        turn = self._user
        others = [part for part in parts if not is_text(part)]
        id_ = self._open.answered(call_id, name)
        if not id_:
            head = text_part(f"Output of the call {call_id or name}, which is not in the conversation:")
            turn.parts += [head, *parts]
            return
        turn.results.append({"role": "tool", "tool_call_id": id_, "content": joined(parts)})
        if others:
            turn.shown += [text_part(f"From the result of the call {id_}:"), *others]

    @property
    def _user(self) -> UserTurn:
        turn = turn_of("user", self._turns)
        assert isinstance(turn, UserTurn)
        return turn

    @property
    def _assistant(self) -> AssistantTurn:
        turn = turn_of("assistant", self._turns)
        assert isinstance(turn, AssistantTurn)
        return turn

    # By an item's type. Methods of the object here would keep it, and all turns, until garbage is collected.
    _SAY: ClassVar[Mapping[str, Callable[[History, JsonObject, FieldPath], None]]] = {
        "message": _message,
        "reasoning": _think,
        "function_call": _function_call,
        "custom_tool_call": _custom_call,
        "tool_search_call": _search_call,
        "local_shell_call": _local_shell_call,
        "shell_call": _shell_call,
        "apply_patch_call": _apply_patch_call,
        "function_call_output": _output,
        "custom_tool_call_output": _output,
        "tool_search_output": _search_output,
        "local_shell_call_output": _local_shell_output,
        "shell_call_output": _shell_output,
        "apply_patch_call_output": _patch_output,
        "additional_tools": _no_message,
        "agent_message": _agent_message,
    }


def _texts(item: JsonObject, name: str, path: FieldPath) -> list[str]:
    """The texts of a list of parts, whatever their type."""
    here = path.field(name)
    parts = listing(item, name, path, needed=False)
    return [string(entry(value, here.at(index)), "text", here.at(index)) for index, value in enumerate(parts)]


def _object_text(text: str) -> str:
    """The arguments of a call in the history: chat templates read them as an object (F79, F80)."""
    if not text.strip():
        return "{}"
    try:
        if isinstance(load_json(text), dict):
            return text
    except ValueError:
        pass
    return dump_inner({"arguments": text})


def _compact(value: Json, path: FieldPath) -> str:
    try:
        return dump_inner(value)
    except ValueError:
        raise path.bad("is nested too deeply") from None
