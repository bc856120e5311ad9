"""The roles of messages, and their order (F82). Nothing late is ever moved to the front (contract C8)."""

from __future__ import annotations

import re
from itertools import takewhile, zip_longest

from proxy.codec.json_text import Json, JsonObject
from proxy.healing.conversation import Messages, Talk, calls_of, joined, on_each, on_messages, role_of, text_of

# What is said where a template wants somebody to speak.
CONTINUE = "Continue."
UNDERSTOOD = "Understood."
_TOKEN_COUNT = re.compile(r"\s*<total_tokens>[^<]{0,100}</total_tokens>\s*")
_REMINDER = "<system-reminder>\n{}\n</system-reminder>"


def _developer(message: JsonObject) -> JsonObject:
    if role_of(message) != "developer":
        return message
    return {**message, "role": "system"}


# Most templates lose what a developer says.
rename_developer = on_each(_developer)


def _without_token_counts(messages: Messages) -> Messages:
    remaining = [message for message in messages if not _is_token_count(message)]
    return remaining or messages


def _is_token_count(message: JsonObject) -> bool:
    if role_of(message) != "system":
        return False
    return _TOKEN_COUNT.fullmatch(text_of(message.get("content")) or "") is not None


# Claude Code's line of what is left of its context, which says something else in each request.
drop_token_counts = on_messages(_without_token_counts)


def _leading(messages: Messages) -> list[JsonObject]:
    """The system messages with which a conversation begins."""
    return [*takewhile(lambda message: role_of(message) == "system", messages)]


def _merged(messages: Messages) -> Messages:
    leading = _leading(messages)
    if len(leading) < 2:
        return messages
    content = joined(*(each.get("content") for each in leading))
    return [{**leading[0], "content": content}, *messages[len(leading) :]]


# Several system messages at the beginning as one.
merge_systems = on_messages(_merged)


def _reminded(messages: Messages) -> Messages:
    begin = max(1, len(_leading(messages)))
    talk = Talk()
    for index, message in enumerate(messages):
        if index < begin or role_of(message) != "system":
            talk.say(message)
        elif talk.last == "tool":
            talk.add(_reminder(message.get("content")))
        else:
            talk.say({"role": "user", "content": _reminder(message.get("content"))})
    return talk.messages()


def _reminder(content: Json) -> Json:
    text = text_of(content)
    if text is None:
        return content
    return _REMINDER.format(text)


# A later system message stays in its place, as the user's text; beside results it stands in the last of them.
remind_late_systems = on_messages(_reminded)


def _without_system(messages: Messages) -> Messages:
    leading = _leading(messages)
    if not leading:
        return messages
    others = messages[len(leading) :]
    contents = [system.get("content") for system in leading]
    if others and role_of(others[0]) == "user":
        first = {**others[0], "content": joined(*contents, others[0].get("content"))}
        return [first, *others[1:]]
    return [{"role": "user", "content": joined(*contents)}, *others]


# A system message for a template that knows none is what the user begins with.
give_system_to_user = on_messages(_without_system)


def _begun(messages: Messages) -> Messages:
    leading = _leading(messages)
    rest = messages[len(leading) :]
    if rest and role_of(rest[0]) == "user":
        return messages
    return [*leading, {"role": "user", "content": CONTINUE}, *rest]


# The first one to speak is the user.
begin_with_user = on_messages(_begun)


def _inside(messages: Messages) -> Messages:
    talk = Talk()
    for message in messages:
        text = None
        if role_of(message) == "user" and talk.last == "tool":
            text = text_of(message.get("content"))
        if text is None:
            talk.say(message)
        else:
            talk.add(text)
    return talk.messages()


# What the user says behind results stands in the last of them.
put_text_into_results = on_messages(_inside)


def _alternating(messages: Messages) -> Messages:
    talk = Talk()
    for message in messages:
        match talk.last, role_of(message):
            case "user", "user":
                talk.add(message.get("content"))
                continue
            case "tool", "user":
                talk.say({"role": "assistant", "content": UNDERSTOOD})
            case "assistant", "assistant":
                talk.say({"role": "user", "content": CONTINUE})
        talk.say(message)
    return talk.messages()


# User and assistant speak in turn.
alternate = on_messages(_alternating)


def _ended(body: JsonObject) -> JsonObject:
    if body.get("continue_final_message") or body.get("add_generation_prompt") is False:
        return body  # the client wants this very message continued
    return _goes_on(body)


def _continued(messages: Messages) -> Messages:
    healed: list[JsonObject] = []
    for message, behind in zip_longest(messages, messages[1:], fillvalue=None):
        assert message is not None
        healed.append(message)
        # Also between two answers: the second one was given to the first, so continued (contract C8).
        last = behind is None or role_of(behind) == "assistant"
        if last and role_of(message) == "assistant" and not calls_of(message):
            healed.append({"role": "user", "content": CONTINUE})
    return healed


_goes_on = on_messages(_continued)
# A conversation that ends with an answer, for servers that take it for the beginning of the next one and refuse that.
end_with_user = _ended
