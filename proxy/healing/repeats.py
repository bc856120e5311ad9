"""The same call with the same arguments and the same result, again and again (F92).

A sentence behind the fifth and each later one says so, wherever that is in the history, so that no result changes later
(contract C8). It says what was repeated and nothing else: whether that is a loop, the model decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from proxy.codec.json_access import as_text
from proxy.codec.json_text import JsonObject
from proxy.healing.conversation import Messages, Talk, calls_of, function_of, role_of, text_of

# So many of the same in one conversation are worth a line in the log, and a sentence for the model.
TOLD_IN_THE_LOG = 3
TOLD_TO_THE_MODEL = 5
_BEGIN = "[This call of "
_SENTENCE = _BEGIN + "{name} with these arguments has now been made {count} times, each time with this result.]"


def _repeats(messages: Messages, exempt: Collection[str]) -> Iterator[tuple[int, str, int]]:
    """Each result that was there before: its index, the tool's name, and how often it has been there."""
    calls: dict[str, tuple[str, str]] = {}
    times: Counter[tuple[str, str, str]] = Counter()
    for index, message in enumerate(messages):
        for call in calls_of(message):
            function = function_of(call)
            calls[as_text(call.get("id"))] = (as_text(function.get("name")), as_text(function.get("arguments")))
        result = _result(message)
        made = calls.get(as_text(message.get("tool_call_id")))
        if result is None or made is None or any(fnmatchcase(made[0], glob) for glob in exempt):
            continue
        key = (*made, result)
        times[key] += 1
        if times[key] > 1:
            yield index, made[0], times[key]


def _result(message: JsonObject) -> str | None:
    """The text of a result, without the sentence; None if it is no result, or more than text."""
    if role_of(message) != "tool":
        return None
    text = text_of(message.get("content"))
    if text is None:
        return None
    return text.partition(f"\n\n{_BEGIN}")[0]


def newest_repeat(messages: Messages, exempt: Collection[str]) -> tuple[str, int]:
    """The tool whose call is the last one of a conversation, and how often it was made with this result; ("", 1) if it
    was not made before.
    """
    last = max([index for index, message in enumerate(messages) if role_of(message) == "tool"], default=-1)
    if last < 0:
        return "", 1
    repeats = [*_repeats(messages, exempt)]
    if not repeats or repeats[-1][0] != last:
        return "", 1
    return repeats[-1][1:]


def tell_repeats(messages: Messages, exempt: Collection[str]) -> Messages:
    """The conversation with the sentence behind each result that was there too often."""
    talk = Talk()
    repeated = {index: (name, count) for index, name, count in _repeats(messages, exempt) if count >= TOLD_TO_THE_MODEL}
    for index, message in enumerate(messages):
        talk.say(message)
        if index in repeated and not _is_told(message):
            name, count = repeated[index]
            talk.add(_SENTENCE.format(name=name, count=count))
    return talk.messages()


def _is_told(message: JsonObject) -> bool:
    return f"\n\n{_BEGIN}" in (text_of(message.get("content")) or "")
