"""The turns of a conversation as chat messages, and the parts that they are made of.

Chat templates want one system message, in the first place (F82), and turns that alternate; results of tools follow the
calls that they answer. So what the user says in one turn is one message, results first. What clients add beside
results stands in the last of them: a user's message behind results is refused by some templates (Mistral's), and to
others (Qwen3's, GLM's) it is the end of the task, at which they leave out all thinking before it. Each turn is written
without regard to later ones, so that the next request begins with the bytes of this one (contract C8).

Source: OpenAI's API reference, "Chat Completions": content parts. What only text is becomes one string, because many
chat templates take nothing else (F83).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.codec.json_text import Json, JsonObject
from proxy.healing import conversation
from proxy.healing.roles import REMINDED, REMINDER, TOKEN_COUNT, reminder

text_part = conversation.text_part
_REMINDERS = re.compile(rf"{REMINDER}.*?(?:{REMINDED}|\Z)", re.DOTALL)


def is_text(part: JsonObject) -> bool:
    """True if the content part is text."""
    return part["type"] == "text"


def joined(parts: Iterable[JsonObject]) -> str:
    """The texts among content parts, with a blank line between them."""
    return "\n\n".join(str(part["text"]) for part in parts if is_text(part))


def content(parts: list[JsonObject]) -> Json:
    """Content parts as a chat message's content: one string if all are text, else the list in order (F83)."""
    return joined(parts) if all(map(is_text, parts)) else [*parts]


@dataclass(slots=True)
class UserTurn:
    """The content of the user's side in one turn; `shown` is what results contain and templates do not take there."""

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
        """Nothing is in it."""
        return not (self.results or self.shown or self.parts)

    def messages(self) -> list[JsonObject]:
        """The results, then all else in one message, what is in results first. Beside results the texts that clients
        add stand in the last of them. A turn of nothing is an empty message, so that turns alternate.
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
    """The content of the assistant in one turn. `last` is the type of the newest block; `thought_field` is where the
    server said the thoughts, if their signatures tell.
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

    def add_call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a call."""
        function: JsonObject = {"name": name, "arguments": arguments}
        self.calls.append({"id": call_id, "type": "function", "function": function})
        self.last = "call"

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


def turn_of(role: str, turns: list[UserTurn | AssistantTurn]) -> UserTurn | AssistantTurn:
    """The turn to which a message of this role belongs: the last one, or a new one behind it."""
    kind: type[UserTurn | AssistantTurn] = UserTurn
    if role == "assistant":
        kind = AssistantTurn
    if not turns or not isinstance(turns[-1], kind):
        turns.append(kind())
    return turns[-1]


def is_own(part: JsonObject) -> bool:
    """True for what the user says, false for what a client adds to it: reminders, and no word beside them."""
    return not is_text(part) or bool(_REMINDERS.sub("", str(part["text"])).strip())


def remind(turn: UserTurn, text: str) -> None:
    """A system message in mid-conversation: user text in its place, marked as clients mark theirs (F82).

    At the top it would change what the server has already read (contract C8), and templates refuse it elsewhere.
    """
    if text and not TOKEN_COUNT.fullmatch(text):
        turn.parts.append(text_part(reminder(text) if is_own(text_part(text)) else text))
