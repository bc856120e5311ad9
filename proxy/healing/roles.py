"""Healing of the roles of messages and their order (F82). Later messages are never moved to the front (contract C8)."""

from __future__ import annotations

import re
from itertools import takewhile, zip_longest

from proxy.healing.conversation import (
    Messages,
    Talk,
    calls_of,
    joined,
    on_each,
    on_messages,
    role_of,
    text_of,
    user_message,
)
from proxy.json import JsonObject

# Placeholder texts for turns that a template requires.
CONTINUE = "Continue."
UNDERSTOOD = "Understood."
# Claude Code's count of the remaining tokens, which differs in each request.
TOKEN_COUNT = re.compile(r"\s*<total_tokens>[^<]{0,100}</total_tokens>\s*")
# The mark of text that a client adds to the user's.
REMINDER, REMINDED = "<system-reminder>", "</system-reminder>"


def reminder(text: str) -> str:
    """Mark a text as the client's instead of the user's."""
    return f"{REMINDER}\n{text}\n{REMINDED}"


def _leading(messages: Messages) -> list[JsonObject]:
    """Return the system messages at the start of a conversation."""
    return [*takewhile(lambda message: role_of(message) == "system", messages)]


@on_each
def developer(message: JsonObject) -> JsonObject:
    """Turn a developer message into a system message: most templates drop it."""
    return {**message, "role": "system"} if role_of(message) == "developer" else message


@on_messages
def token_counts(messages: Messages) -> Messages:
    """Drop system messages that only count tokens."""

    def counts(message: JsonObject) -> bool:
        return role_of(message) == "system" and bool(TOKEN_COUNT.fullmatch(text_of(message.get("content")) or ""))

    return [message for message in messages if not counts(message)] or messages


@on_messages
def one_system(messages: Messages) -> Messages:
    """Merge several system messages at the start."""
    leading = _leading(messages)
    if len(leading) < 2:
        return messages
    content = joined(*(each.get("content") for each in leading))
    return [{**leading[0], "content": content}, *messages[len(leading) :]]


@on_messages
def late_system(messages: Messages) -> Messages:
    """Turn later system messages into marked user text in their place, or append the text to a preceding result."""
    begin = max(1, len(_leading(messages)))
    talk = Talk()
    for index, message in enumerate(messages):
        content = message.get("content")
        text = text_of(content)
        if text is not None:
            content = reminder(text)
        if index < begin or role_of(message) != "system":
            talk.say(message)
        elif talk.last == "tool":
            talk.add(content)
        else:
            talk.say(user_message(content))
    return talk.messages()


@on_messages
def no_system(messages: Messages) -> Messages:
    """Prepend the system message to the user's text, for templates without system messages."""
    leading = _leading(messages)
    if not leading:
        return messages
    others = messages[len(leading) :]
    contents = [system.get("content") for system in leading]
    if others and role_of(others[0]) == "user":
        return [{**others[0], "content": joined(*contents, others[0].get("content"))}, *others[1:]]
    return [user_message(joined(*contents)), *others]


@on_messages
def user_first(messages: Messages) -> Messages:
    """Make the user speak first."""
    leading = _leading(messages)
    rest = messages[len(leading) :]
    return messages if rest and role_of(rest[0]) == "user" else [*leading, user_message(CONTINUE), *rest]


@on_messages
def user_after_result(messages: Messages) -> Messages:
    """Move the user's text after results into the last result."""
    talk = Talk()
    for message in messages:
        text = text_of(message.get("content"))
        if role_of(message) == "user" and talk.last == "tool" and text is not None:
            talk.add(text)
        else:
            talk.say(message)
    return talk.messages()


@on_messages
def alternate(messages: Messages) -> Messages:
    """Make user and assistant messages alternate."""
    talk = Talk()
    for message in messages:
        match talk.last, role_of(message):
            case "user", "user":
                talk.add(message.get("content"))
                continue
            case "tool", "user":
                talk.say({"role": "assistant", "content": UNDERSTOOD})
            case "assistant", "assistant":
                talk.say(user_message(CONTINUE))
        talk.say(message)
    return talk.messages()


@on_messages
def _continued(messages: Messages) -> Messages:
    healed: list[JsonObject] = []
    for message, after in zip_longest(messages, messages[1:], fillvalue=None):
        assert message is not None
        healed.append(message)
        # Also between two answers: the request for the second already had this text after the first (contract C8).
        last = after is None or role_of(after) == "assistant"
        if last and role_of(message) == "assistant" and not calls_of(message):
            healed.append(user_message(CONTINUE))
    return healed


def assistant_last(body: JsonObject) -> JsonObject:
    """End with a user message, for servers that reject or continue an answer at the end.

    The body stays unchanged if the client asks to continue the answer.
    """
    wants = body.get("continue_final_message") or body.get("add_generation_prompt") is False
    return body if wants else _continued(body)
