"""The turns of a conversation as chat messages, and their parts.

Chat templates require one system message, in the first place (F82), alternating turns, and tool results after their
calls. So the user's content of one turn is one message, after the results. Text that clients add to results goes into
the last result: some templates (Mistral's) reject a user message after results, and others (Qwen3's, GLM's) treat it as
the end of the task and drop all earlier thinking. Each turn is written independently of later ones, so the next request
starts with the bytes of this one (contract C8).

Source: OpenAI's API reference, "Chat Completions": content parts. Text-only content becomes one string, because many
chat templates accept nothing else (F83).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from proxy.healing import conversation
from proxy.healing.roles import REMINDED, REMINDER, TOKEN_COUNT, reminder
from proxy.json import Json, JsonObject

_Turn = TypeVar("_Turn", "UserTurn", "AssistantTurn")
text_part = conversation.text_part
_REMINDERS = re.compile(rf"{REMINDER}.*?(?:{REMINDED}|\Z)", re.DOTALL)


def is_text(part: JsonObject) -> bool:
    """Return whether the content part is text."""
    return part["type"] == "text"


def joined(parts: Iterable[JsonObject]) -> str:
    """Join the texts of content parts, with a blank line between them."""
    return "\n\n".join(str(part["text"]) for part in parts if is_text(part))


def content(parts: list[JsonObject]) -> Json:
    """Return content parts as a chat message's content: one string if all are text, else the list (F83)."""
    return joined(parts) if all(map(is_text, parts)) else [*parts]


@dataclass(slots=True)
class UserTurn:
    """The user's content of one turn. `shown` is content of results that templates do not accept there."""

    results: list[JsonObject] = field(default_factory=list)
    shown: list[JsonObject] = field(default_factory=list)
    parts: list[JsonObject] = field(default_factory=list)

    def add_result(self, call_id: str, text: str, others: list[JsonObject]) -> None:
        """Add a result as a tool message. Its pictures and files follow in the user's message (F94)."""
        self.results.append({"role": "tool", "tool_call_id": call_id, "content": text})
        if others:
            self.shown += [text_part(f"From the result of the call {call_id}:"), *others]

    @property
    def empty(self) -> bool:
        """Whether the turn has no content."""
        return not (self.results or self.shown or self.parts)

    def messages(self, reasoning: str) -> list[JsonObject]:
        """Return the results, then one user message with the other content, `shown` first.

        If there are results, the client's additions to the user's text go into the last one. An empty turn becomes
        an empty message, so that turns alternate.
        """
        if not self.results:
            return [{"role": "user", "content": content([*self.shown, *self.parts])}]
        added = [part for part in self.parts if not is_own(part)]
        own_parts = [*self.shown, *filter(is_own, self.parts)]
        *results, last = self.results
        if last["content"]:
            added.insert(0, text_part(str(last["content"])))
        results.append({**last, "content": joined(added)})
        if own_parts:
            results.append({"role": "user", "content": content(own_parts)})
        return results


@dataclass(slots=True)
class AssistantTurn:
    """The assistant's content of one turn.

    `last` is the type of the newest block. `thought_field` is the server's reasoning field, if the signatures name it.
    """

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    thought_field: str = ""
    calls: list[Json] = field(default_factory=list)
    last: str = ""

    def say(self, text: str) -> None:
        """Add text. Consecutive text blocks are joined; other blocks between them leave a blank line."""
        if not text:
            return
        if self.texts and self.last != "text":
            self.texts.append("\n\n")
        self.texts.append(text)
        self.last = "text"

    def add_call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a call."""
        function: JsonObject = {"name": name, "arguments": arguments}
        self.calls.append({"id": call_id, "type": "function", "function": function})
        self.last = "call"

    @property
    def empty(self) -> bool:
        """Whether the turn has no content."""
        return not (self.texts or self.thoughts or self.calls)

    @property
    def prefill(self) -> str:
        """The text with which the next answer begins, if this is the last turn; "" if the turn has calls."""
        if self.calls:
            return ""
        return "".join(self.texts)

    def messages(self, reasoning: str) -> list[JsonObject]:
        """Return the message, even if empty, so that turns alternate.

        Next to calls, empty content is null, as servers require.
        """
        message: JsonObject = {"role": "assistant", "content": "".join(self.texts)}
        if self.calls and not message["content"]:
            message["content"] = None
        if self.thoughts:
            message[self.thought_field or reasoning] = "\n\n".join(self.thoughts)
        if self.calls:
            message["tool_calls"] = self.calls
        return [message]


def turn_of(kind: type[_Turn], turns: list[UserTurn | AssistantTurn]) -> _Turn:
    """Return the last turn if it is of this kind, else append a new one."""
    last = turns[-1] if turns else None
    if isinstance(last, kind):
        return last
    turn = kind()
    turns.append(turn)
    return turn


def is_own(part: JsonObject) -> bool:
    """Return whether a part is the user's own content; text that consists only of reminders is the client's."""
    return not is_text(part) or bool(_REMINDERS.sub("", str(part["text"])).strip())


def remind(turn: UserTurn, text: str) -> None:
    """Add a later system message as user text in its place, marked like clients mark theirs (F82).

    At the start it would change what the server has already processed (contract C8), and templates reject it elsewhere.
    """
    if text and not TOKEN_COUNT.fullmatch(text):
        turn.parts.append(text_part(reminder(text) if is_own(text_part(text)) else text))
