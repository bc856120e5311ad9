"""The turns of a Messages conversation as chat messages.

How turns become chat messages: `dialects/chat_turns.py`.

Source: the Anthropic API reference, "Create a Message": `messages`, `system`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice, takewhile

from proxy.codec.json_access import as_text
from proxy.codec.json_text import Json, JsonObject, dump_inner
from proxy.dialects.chat_turns import (
    AssistantTurn,
    UserTurn,
    remind,
    text_part,
    turn_of,
)
from proxy.dialects.messages.content import block_text, blocks, parts_of, skip_block, tool_result, unknown
from proxy.dialects.messages.signature import signed_field
from proxy.dialects.messages.tool_ids import server_id
from proxy.dialects.validation import (
    BODY,
    CACHE,
    DroppedFields,
    FieldPath,
    entry,
    listing,
    mapping,
    nonempty_string,
    shown,
    string,
)

# Claude Code's line of accounting, which changes with each request (F95).
_BILLING = re.compile(r"x-anthropic-billing-header:[^\n]*\n*")
_MESSAGE = {"role": "", "content": ""}
_SYSTEM = {
    **_MESSAGE,
    "clear_at": "",
    "output_config": "the effort of a single turn has no counterpart",
}
_TOOL_USE = {
    **dict.fromkeys(("type", "id", "name", "input"), ""),
    "cache_control": CACHE,
    "caller": "nothing but the model itself calls a tool",
    "toolset_name": "the tool's name says it",
}
_THINKING = {"type": "", "thinking": "", "signature": ""}
# The fields of a message by its role.
_ROLES = {"user": _MESSAGE, "assistant": _MESSAGE, "system": _SYSTEM}


@dataclass(frozen=True, slots=True)
class Conversation:
    """The chat messages; `prefill`: the text of the last message if that is the beginning of the answer."""

    messages: list[JsonObject]
    prefill: str


def conversation(body: JsonObject, losses: DroppedFields, reasoning_history: str) -> Conversation:
    """The system text and all messages of a request; BadRequest for what is none or cannot be carried."""
    path = BODY.field("messages")
    entries = listing(body, "messages", BODY)
    if not entries:
        raise path.bad("at least one message is required")
    messages = [entry(value, path.at(index)) for index, value in enumerate(entries)]
    text = _system_text(body.get("system"), BODY.field("system"), losses)
    at_top = not text and _opens(messages)
    if at_top:
        losses.leave(messages[0], _SYSTEM, path.at(0))
        text = _instruction(messages[0], path.at(0), losses, over=True)
    turns = _turns(messages, path, losses, reasoning_history, int(at_top))
    if all(turn.empty for turn in turns):
        raise path.bad("there is no content in them")
    last = turns[-1]
    prefill = ""
    if isinstance(last, AssistantTurn):
        prefill = last.prefill
        if last.empty:  # an answer that begins with nothing is a new one
            turns.pop()
    chat: list[JsonObject] = []
    if text:
        chat.append({"role": "system", "content": text})
    for turn in turns:
        chat += turn.messages() if isinstance(turn, UserTurn) else turn.messages(reasoning_history)
    return Conversation(chat, prefill)


def _opens(messages: list[JsonObject]) -> bool:
    """True if the first message is a system message and the user's first turn follows: nothing was read before it, so
    that it can stand at the top.
    """
    before = takewhile(lambda message: message.get("role") != "assistant", messages)
    return messages[0].get("role") == "system" and any(message.get("role") == "user" for message in before)


def _turns(
    messages: list[JsonObject], path: FieldPath, losses: DroppedFields, history: str, begin: int
) -> list[UserTurn | AssistantTurn]:
    """Messages of the same side are one turn, as the API takes them. `history`: where thinking goes back; `begin`: the
    index of the first one.
    """
    turns: list[UserTurn | AssistantTurn] = []
    last = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    for index, message in islice(enumerate(messages), begin, None):
        here = path.at(index)
        role = nonempty_string(message, "role", here)
        if role not in _ROLES:
            raise here.field("role").bad(f"{shown(role)} is none of {', '.join(_ROLES)}")
        losses.leave(message, _ROLES[role], here)
        turn = turn_of(role, turns)
        if isinstance(turn, AssistantTurn):
            _answer(turn, message, here, losses, history)
        elif role == "user":
            _say(turn, message, here, losses)
        else:
            remind(turn, _instruction(message, here, losses, over=index < last))
    return turns


def _say(turn: UserTurn, message: JsonObject, path: FieldPath, losses: DroppedFields) -> None:
    """A user's message: results, and words and pictures of the user's own or of the client's."""
    for block, here in blocks(message.get("content"), path.field("content")):
        if block["type"] != "tool_result":
            turn.parts += parts_of(block, here, losses)
            continue
        result, others = tool_result(block, here, losses)
        turn.results.append(result)
        if others:
            turn.shown += [text_part(f"From the result of the call {result['tool_call_id']}:"), *others]


def _instruction(message: JsonObject, path: FieldPath, losses: DroppedFields, *, over: bool) -> str:
    """The text of a system message; "" if it was for one turn, and that is `over`."""
    content = message.get("content")
    if content is None:
        return ""
    if over and message.get("clear_at") == "next_user_message":
        return ""
    return _system_text(content, path.field("content"), losses)


def _system_text(value: Json, path: FieldPath, losses: DroppedFields) -> str:
    """Instructions as one text, without Claude Code's line of accounting."""
    if value is None:
        return ""
    texts: list[str] = []
    for block, here in blocks(value, path):
        if block["type"] == "text":
            texts.append(_without_billing(block_text(block, here, losses), losses))
        elif not skip_block(block, here, losses):
            raise unknown(block, here, "text")
    return "\n\n".join(filter(None, texts))


def _without_billing(text: str, losses: DroppedFields) -> str:
    match = _BILLING.match(text)
    if match is None:
        return text
    losses.lost("x-anthropic-billing-header", "it changes each time, and would void the server's prefix cache")
    return text[match.end() :]


def _answer(turn: AssistantTurn, message: JsonObject, path: FieldPath, losses: DroppedFields, history: str) -> None:
    """An assistant's message: text, calls, and thinking where it goes back (`history`)."""
    turn.last = ""
    for block, here in blocks(message.get("content"), path.field("content")):
        kind = str(block["type"])
        match kind:
            case "text":
                turn.say(block_text(block, here, losses))
            case "tool_use":
                turn.calls.append(_call(block, here, losses))
            case "thinking":
                _think(turn, block, here, losses, history)
            case "redacted_thinking":
                losses.lost(f"{here.kind} of type redacted_thinking", "only Anthropic's own servers can read it")
            case _ if not skip_block(block, here, losses):
                raise unknown(block, here, "text, thinking, redacted_thinking and tool_use")
        turn.last = kind


def _think(turn: AssistantTurn, block: JsonObject, path: FieldPath, losses: DroppedFields, history: str) -> None:
    text = string(block, "thinking", path)
    signed = signed_field(as_text(block.get("signature")), text)
    if history == "drop" or not (history or signed):
        losses.lost(f"{path.kind} of type thinking", "the rules do not say in which field it goes back")
        return
    if text:
        turn.thoughts.append(text)
        turn.thought_field = turn.thought_field or signed
    losses.leave(block, _THINKING, path)


def _call(block: JsonObject, path: FieldPath, losses: DroppedFields) -> JsonObject:
    """A call in the history, with the id that the server gave it and its arguments as a JSON object (F79, F80)."""
    losses.leave(block, _TOOL_USE, path)
    arguments = mapping(block, "input", path, needed=False)
    try:
        text = dump_inner(arguments)
    except ValueError:
        raise path.field("input").bad("is nested too deeply") from None
    function: JsonObject = {"name": nonempty_string(block, "name", path), "arguments": text}
    return {"id": server_id(nonempty_string(block, "id", path)), "type": "function", "function": function}
