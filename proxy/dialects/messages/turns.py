"""The turns of a Messages conversation as chat messages.

Chat templates want one system message, in the first place (F82), and turns that alternate; results of tools follow the
calls that they answer. So what the user says in one turn is one message, results first. What clients add beside
results stands in the last of them: a user's message behind results is refused by some templates (Mistral's), and to
others (Qwen3's, GLM's) it is the end of the task, at which they leave out all thinking before it. Each turn is written
without regard to later ones, so that the next request begins with the bytes of this one (contract C8).

Source: the Anthropic API reference, "Create a Message": `messages`, `system`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, takewhile

from proxy.codec.json_access import as_text
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.messages.content import (
    block_text,
    blocks,
    content,
    is_text,
    joined,
    parts_of,
    skip_block,
    text_part,
    tool_result,
    unknown,
)
from proxy.dialects.messages.signature import signed_field
from proxy.dialects.messages.tool_ids import server_id
from proxy.dialects.messages.validation import (
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
_REMINDER, _REMINDED = "<system-reminder>", "</system-reminder>"
_REMINDERS = re.compile(rf"{_REMINDER}.*?(?:{_REMINDED}|\Z)", re.DOTALL)
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


@dataclass(slots=True)
class _UserTurn:
    """What the user's side says in one turn. `shown`: what is in results and cannot stand there; `parts`: all else;
    `quoted`: the texts in that which are neither the user's words nor a result's.
    """

    results: list[JsonObject] = field(default_factory=list)
    shown: list[JsonObject] = field(default_factory=list)
    parts: list[JsonObject] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)

    @property
    def own(self) -> bool:
        """There is more in it than results and what clients add to them."""
        return any(map(_own, self.parts))

    @property
    def empty(self) -> bool:
        """Nothing is in it."""
        return not (self.results or self.shown or self.parts)

    def messages(self) -> list[JsonObject]:
        """The results, then all else in one message, what is in results first. Beside results the texts that clients
        add stand in the last of them. A turn of nothing is an empty message, so that turns alternate.
        """
        if not self.results:
            return [{"role": "user", "content": content([*self.shown, *self.parts])}]
        added = [part for part in self.parts if not _own(part)]
        said = [*self.shown, *filter(_own, self.parts)]
        *results, last = self.results
        if last["content"]:
            added.insert(0, text_part(str(last["content"])))
        results.append({**last, "content": joined(added)})
        if said:
            results.append({"role": "user", "content": content(said)})
        return results


@dataclass(slots=True)
class _AssistantTurn:
    """What the assistant says in one turn. `last` is the type of the newest block; `thought_field` is where the server
    said the thoughts, if their signatures tell.
    """

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    thought_field: str = ""
    calls: list[Json] = field(default_factory=list)
    last: str = ""

    def say(self, text: str) -> None:
        """Text blocks that follow each other are one text; what stands between two of them parts them."""
        if not text:
            return
        if self.texts and self.last != "text":
            self.texts.append("\n\n")
        self.texts.append(text)

    @property
    def empty(self) -> bool:
        """Nothing is left of it."""
        return not (self.texts or self.thoughts or self.calls)

    @property
    def prefill(self) -> str:
        """The text with which the next answer begins, if this is the last turn; calls are no beginning."""
        if self.calls:
            return ""
        return "".join(self.texts)

    def messages(self, reasoning: str) -> list[JsonObject]:
        """The message, an empty one if nothing is left of the turn, so that turns alternate. Beside calls the content
        is null, as servers want it when empty.
        """
        message: JsonObject = {"role": "assistant", "content": "".join(self.texts)}
        if self.calls and not message["content"]:
            message["content"] = None
        if self.thoughts:
            message[self.thought_field or reasoning] = "\n\n".join(self.thoughts)
        if self.calls:
            message["tool_calls"] = self.calls
        return [message]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The chat messages; `results`: texts of the tool results, and of what clients added or gave as a document, since
    the user's last own words (C3, F89); `prefill`: the text of the last message if that is the beginning of the answer.
    """

    messages: list[JsonObject]
    results: tuple[str, ...]
    prefill: str


def conversation(body: JsonObject, losses: DroppedFields, reasoning_history: str) -> Conversation:
    """The system text and all messages of a request; BadRequest for what is none or cannot be carried."""
    place = BODY.field("messages")
    entries = listing(body, "messages", BODY)
    if not entries:
        raise place.bad("at least one message is required")
    messages = [entry(value, place.at(index)) for index, value in enumerate(entries)]
    text = _system_text(body.get("system"), BODY.field("system"), losses)
    at_top = not text and _opens(messages)
    if at_top:
        losses.leave(messages[0], _SYSTEM, place.at(0))
        text = _instruction(messages[0], place.at(0), losses, over=True)
    turns = _turns(messages, place, losses, reasoning_history != "drop", int(at_top))
    if all(turn.empty for turn in turns):
        raise place.bad("there is no content in them")
    results = tuple(_results(turns))
    last = turns[-1]
    prefill = ""
    if isinstance(last, _AssistantTurn):
        prefill = last.prefill
        if last.empty:  # an answer that begins with nothing is a new one
            turns.pop()
    said: list[JsonObject] = []
    if text:
        said.append({"role": "system", "content": text})
    for turn in turns:
        said += turn.messages() if isinstance(turn, _UserTurn) else turn.messages(reasoning_history)
    return Conversation(said, results, prefill)


def _opens(messages: list[JsonObject]) -> bool:
    """True if the first message is a system message and the user's first turn follows: nothing was read before it, so
    that it can stand at the top.
    """
    before = takewhile(lambda message: message.get("role") != "assistant", messages)
    return messages[0].get("role") == "system" and any(message.get("role") == "user" for message in before)


def _turns(
    messages: list[JsonObject], place: FieldPath, losses: DroppedFields, keeps: bool, begin: int
) -> list[_UserTurn | _AssistantTurn]:
    """Messages of the same side are one turn, as the API takes them. `keeps`: thinking goes back; `begin`: the index of
    the first one.
    """
    turns: list[_UserTurn | _AssistantTurn] = []
    last = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    for index, message in islice(enumerate(messages), begin, None):
        here = place.at(index)
        role = nonempty_string(message, "role", here)
        if role not in _ROLES:
            raise here.field("role").bad(f"{shown(role)} is none of {', '.join(_ROLES)}")
        losses.leave(message, _ROLES[role], here)
        turn = _turn_of(role, turns)
        if isinstance(turn, _AssistantTurn):
            _answer(turn, message, here, losses, keeps)
        elif role == "user":
            _say(turn, message, here, losses)
        else:
            _remind(turn, _instruction(message, here, losses, over=index < last))
    return turns


def _turn_of(role: str, turns: list[_UserTurn | _AssistantTurn]) -> _UserTurn | _AssistantTurn:
    """The turn to which a message of this role belongs: the last one, or a new one behind it."""
    kind: type[_UserTurn | _AssistantTurn] = _UserTurn
    if role == "assistant":
        kind = _AssistantTurn
    if not turns or not isinstance(turns[-1], kind):
        turns.append(kind())
    return turns[-1]


def _say(turn: _UserTurn, message: JsonObject, place: FieldPath, losses: DroppedFields) -> None:
    """A user's message: results, and words and pictures of the user's own or of the client's."""
    for block, here in blocks(message.get("content"), place.field("content")):
        if block["type"] != "tool_result":
            parts = parts_of(block, here, losses)
            turn.parts += parts
            turn.quoted += _quoted(block, parts)
            continue
        result, others = tool_result(block, here, losses)
        turn.results.append(result)
        if others:
            turn.shown += [text_part(f"From the result of the call {result['tool_call_id']}:"), *others]


def _own(part: JsonObject) -> bool:
    """True for what the user says, false for what a client adds to it: reminders, and no word beside them."""
    return not is_text(part) or bool(_REMINDERS.sub("", str(part["text"])).strip())


def _quoted(block: JsonObject, parts: list[JsonObject]) -> list[str]:
    """The texts of a block that are not the user's own words: reminders, documents, results of searches."""
    texts = [str(part["text"]) for part in parts if is_text(part)]
    if block["type"] != "text":
        return texts
    if not any(map(_own, parts)):
        return texts
    return [said for text in texts for said in _REMINDERS.findall(text)]


def _instruction(message: JsonObject, place: FieldPath, losses: DroppedFields, *, over: bool) -> str:
    """The text of a system message; "" if it was for one turn, and that is `over`."""
    given = message.get("content")
    if given is None:
        return ""
    if over and message.get("clear_at") == "next_user_message":
        return ""
    return _system_text(given, place.field("content"), losses)


def _remind(turn: _UserTurn, text: str) -> None:
    """A system message in mid-conversation: user text in its place, marked as clients mark theirs (F82).

    At the top it would change what the server has already read (contract C8), and templates refuse it elsewhere.
    """
    if not text:
        return
    turn.quoted.append(text)
    if _own(text_part(text)):
        text = f"{_REMINDER}\n{text}\n{_REMINDED}"
    turn.parts.append(text_part(text))


def _system_text(value: Json, place: FieldPath, losses: DroppedFields) -> str:
    """Instructions as one text, without Claude Code's line of accounting."""
    if value is None:
        return ""
    texts: list[str] = []
    for block, here in blocks(value, place):
        if block["type"] == "text":
            texts.append(_without_billing(block_text(block, here, losses), losses))
        elif not skip_block(block, here, losses):
            raise unknown(block, here, "text")
    return "\n\n".join(filter(None, texts))


def _without_billing(text: str, losses: DroppedFields) -> str:
    found = _BILLING.match(text)
    if found is None:
        return text
    losses.lost("x-anthropic-billing-header", "it changes each time, and would void the server's prefix cache")
    return text[found.end() :]


def _answer(turn: _AssistantTurn, message: JsonObject, place: FieldPath, losses: DroppedFields, keeps: bool) -> None:
    """An assistant's message: text, calls, and thinking where it goes back (`keeps`)."""
    turn.last = ""
    for block, here in blocks(message.get("content"), place.field("content")):
        kind = str(block["type"])
        match kind:
            case "text":
                turn.say(block_text(block, here, losses))
            case "tool_use":
                turn.calls.append(_call(block, here, losses))
            case "thinking":
                _think(turn, block, here, losses, keeps)
            case "redacted_thinking":
                losses.lost(f"{here.kind} of type redacted_thinking", "only Anthropic's own servers can read it")
            case _ if not skip_block(block, here, losses):
                raise unknown(block, here, "text, thinking, redacted_thinking and tool_use")
        turn.last = kind


def _think(turn: _AssistantTurn, block: JsonObject, place: FieldPath, losses: DroppedFields, keeps: bool) -> None:
    text = string(block, "thinking", place)
    if not keeps:
        losses.lost(f"{place.kind} of type thinking", "the rules do not say in which field it goes back")
        return
    if text:
        turn.thoughts.append(text)
        turn.thought_field = turn.thought_field or signed_field(as_text(block.get("signature")), text)
    losses.leave(block, _THINKING, place)


def _call(block: JsonObject, place: FieldPath, losses: DroppedFields) -> JsonObject:
    """A call in the history, with the id that the server gave it and its arguments as a JSON object (F79, F80)."""
    losses.leave(block, _TOOL_USE, place)
    arguments = mapping(block, "input", place, needed=False)
    try:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise place.field("input").bad("is nested too deeply") from None
    function: JsonObject = {"name": nonempty_string(block, "name", place), "arguments": text}
    return {"id": server_id(nonempty_string(block, "id", place)), "type": "function", "function": function}


def _results(turns: list[_UserTurn | _AssistantTurn]) -> Iterable[str]:
    """The texts of the newest results and of what clients added, back to the turn in which the user last spoke: that
    turn's too, because they stand before the model together with the user's words.
    """
    for turn in reversed(turns):
        if isinstance(turn, _UserTurn):
            yield from (str(result["content"]) for result in turn.results)
            yield from turn.quoted
            if turn.own:
                return
