"""The turns of a Messages conversation as chat messages.

Chat templates want one system message, in the first place (F82), and turns that alternate; results of tools follow the
calls that they answer. So what the user says in one turn is one message, results first. Each turn is written without
regard to later ones, so that the next request begins with the bytes of this one (contract C8).

Source: the Anthropic API reference, "Create a Message": `messages`, `system`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..events import Json, JsonObject
from .messages_check import BODY, CACHE, Losses, Place, entry, listing, mapping, shown, string, word
from .messages_content import (
    aside,
    block_text,
    blocks,
    content,
    is_text,
    parts_of,
    text_part,
    tool_result,
    unknown,
)
from .tool_ids import server_id

# Claude Code's line of accounting, which changes with each request (F95).
_BILLING = re.compile(r"x-anthropic-billing-header:[^\n]*\n*")
_REMINDER = "<system-reminder>"
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
_THINKING = {"type": "", "thinking": "", "signature": "the proxy's own mark, which no model server reads"}
_ROLES = ("user", "assistant", "system")


@dataclass(slots=True)
class _Said:
    """What the user's side says in one turn. `own`: there is more in it than results and reminders."""

    results: list[JsonObject] = field(default_factory=list)
    shown: list[JsonObject] = field(default_factory=list)
    parts: list[JsonObject] = field(default_factory=list)
    own: bool = False

    def messages(self) -> list[JsonObject]:
        """The results, then all else in one message: what is in results and cannot stand there, then the rest."""
        parts = [*self.shown, *self.parts]
        return [*self.results, {"role": "user", "content": content(parts)}] if parts else [*self.results]


@dataclass(slots=True)
class _Answer:
    """What the assistant says in one turn. `last` is the type of the newest block."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    last: str = ""

    def say(self, text: str) -> None:
        """Text blocks that follow each other are one text; what stands between two of them parts them."""
        if text and self.texts and self.last != "text":
            self.texts.append("\n\n")
        self.texts += [text] if text else []

    def messages(self, reasoning: str) -> list[JsonObject]:
        """The message; none if nothing is in it. Beside calls the content is null, as servers want it when empty."""
        text: str | None = "".join(self.texts)
        thought: JsonObject = {reasoning: "\n\n".join(self.thoughts)} if self.thoughts else {}
        if not (text or self.calls or thought):
            return []
        calls: JsonObject = {"tool_calls": self.calls} if self.calls else {}
        return [{"role": "assistant", "content": None if calls and not text else text, **thought, **calls}]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The chat messages; `results`: texts of the tool results since the user's last own words (C3, F89); `prefill`:
    the text of the last message if that is the beginning of the answer.
    """

    messages: list[JsonObject]
    results: tuple[str, ...]
    prefill: str


def conversation(body: JsonObject, losses: Losses, reasoning_history: str) -> Conversation:
    """The system text and all messages of a request; BadRequest for what is none or cannot be carried."""
    place = BODY.field("messages")
    entries = listing(body, "messages", BODY)
    if not entries:
        raise place.bad("at least one message is required")
    turns = _turns(entries, place, losses, reasoning_history != "drop")
    written = [turn.messages() if isinstance(turn, _Said) else turn.messages(reasoning_history) for turn in turns]
    said = [message for messages in written for message in messages]
    if not said:
        raise place.bad("there is no content in them")
    text = _system_text(body.get("system"), BODY.field("system"), losses)
    system: list[JsonObject] = [{"role": "system", "content": text}] if text else []
    last = turns[-1]
    prefill = "".join(last.texts) if isinstance(last, _Answer) and not last.calls else ""
    return Conversation([*system, *said], tuple(_results(turns)), prefill)


def _turns(entries: list[Json], place: Place, losses: Losses, keeps: bool) -> list[_Said | _Answer]:
    """Messages of the same side are one turn, as the API takes them. `keeps`: thinking goes back."""
    turns: list[_Said | _Answer] = []
    messages = [entry(value, place.at(index)) for index, value in enumerate(entries)]
    last = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    for index, message in enumerate(messages):
        here = place.at(index)
        role = word(message, "role", here)
        if role not in _ROLES:
            raise here.field("role").bad(f"{shown(role)} is none of {', '.join(_ROLES)}")
        losses.leave(message, _SYSTEM if role == "system" else _MESSAGE, here)
        kind = _Answer if role == "assistant" else _Said
        if not turns or not isinstance(turns[-1], kind):
            turns.append(kind())
        turn = turns[-1]
        if isinstance(turn, _Answer):
            _answer(turn, message, here, losses, keeps)
        elif role == "user":
            _say(turn, message, here, losses)
        elif index > last or message.get("clear_at") != "next_user_message":
            _remind(turn, message, here, losses)
    return turns


def _say(turn: _Said, message: JsonObject, place: Place, losses: Losses) -> None:
    """A user's message: results, and words and pictures of the user's own or of the client's."""
    for block, here in blocks(message.get("content"), place.field("content")):
        if block["type"] != "tool_result":
            parts = parts_of(block, here, losses)
            turn.parts += parts
            turn.own = turn.own or any(map(_own, parts))
            continue
        result, others = tool_result(block, here, losses)
        turn.results.append(result)
        if others:
            turn.shown += [text_part(f"From the result of the call {result['tool_call_id']}:"), *others]


def _own(part: JsonObject) -> bool:
    """True for what the user says, false for what a client adds to it."""
    return not is_text(part) or not str(part["text"]).lstrip().startswith(_REMINDER)


def _remind(turn: _Said, message: JsonObject, place: Place, losses: Losses) -> None:
    """A system message in mid-conversation: user text in its place, marked as clients mark theirs (F82).

    At the top it would change what the server has already read (contract C8), and templates refuse it elsewhere.
    """
    given = message.get("content")
    text = "" if given is None else _system_text(given, place.field("content"), losses)
    if text:
        turn.parts.append(text_part(f"{_REMINDER}\n{text}\n</system-reminder>"))


def _system_text(value: Json, place: Place, losses: Losses) -> str:
    """Instructions as one text, without Claude Code's line of accounting."""
    texts: list[str] = []
    for block, here in [] if value is None else blocks(value, place):
        if block["type"] != "text" and not aside(block, here, losses):
            raise unknown(block, here, "text")
        text = block_text(block, here, losses) if block["type"] == "text" else ""
        rest = _BILLING.sub("", text, count=1) if _BILLING.match(text) else text
        if rest is not text:
            losses.lost("x-anthropic-billing-header", "it changes each time, and would void the server's prefix cache")
        texts += [rest] if rest else []
    return "\n\n".join(texts)


def _answer(turn: _Answer, message: JsonObject, place: Place, losses: Losses, keeps: bool) -> None:
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
                text = string(block, "thinking", here)
                turn.thoughts += [text] if text and keeps else []
                _thought(block, here, losses, keeps)
            case "redacted_thinking":
                losses.lost(f"{here.kind} of type redacted_thinking", "only Anthropic's own servers can read it")
            case _ if not aside(block, here, losses):
                raise unknown(block, here, "text, thinking, redacted_thinking and tool_use")
        turn.last = kind


def _thought(block: JsonObject, place: Place, losses: Losses, keeps: bool) -> None:
    if keeps:
        losses.leave(block, _THINKING, place)
    else:
        losses.lost(f"{place.kind} of type thinking", "the rules do not say in which field it goes back")


def _call(block: JsonObject, place: Place, losses: Losses) -> JsonObject:
    """A call in the history, with the id that the server gave it and its arguments as a JSON object (F79, F80)."""
    losses.leave(block, _TOOL_USE, place)
    arguments = mapping(block, "input", place, needed=False)
    try:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise place.field("input").bad("is nested too deeply") from None
    function: JsonObject = {"name": word(block, "name", place), "arguments": text}
    return {"id": server_id(word(block, "id", place)), "type": "function", "function": function}


def _results(turns: list[_Said | _Answer]) -> Iterable[str]:
    """The texts of the newest results, back to the turn in which the user last spoke: that turn's too, because they
    stand before the model together with the user's words.
    """
    for turn in reversed(turns):
        if isinstance(turn, _Said):
            yield from (str(result["content"]) for result in turn.results)
            if turn.own:
                return
