"""The same call with the same arguments and the same result, again and again (F92).

A sentence after the fifth and each later result says so, wherever that is in the history, so that no result changes
later (contract C8). It says only what was repeated: whether that is a loop, the model decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from proxy.codec.json_access import as_text
from proxy.healing.conversation import Messages, Talk, calls_of, function_of, role_of, text_of

# The number of repeats in one conversation that are worth a line in the log, and a sentence for the model.
TOLD_IN_THE_LOG = 3
TOLD_TO_THE_MODEL = 5
_BEGIN = "[This call of "
_SENTENCE = _BEGIN + "{name} with these arguments has now been made {count} times, each time with this result.]"


def _repeats(messages: Messages, exempt: Collection[str]) -> Iterator[tuple[int, str, int]]:
    """Yield each result that was there before: its index, the tool's name, and how often it has been there."""
    calls: dict[str, tuple[str, str]] = {}
    times: Counter[tuple[str, str, str]] = Counter()
    for index, message in enumerate(messages):
        for call in calls_of(message):
            function = function_of(call)
            calls[as_text(call.get("id"))] = (as_text(function.get("name")), as_text(function.get("arguments")))
        text = text_of(message.get("content"))
        made = calls.get(as_text(message.get("tool_call_id")))
        if role_of(message) != "tool" or text is None or made is None:
            continue
        if any(fnmatchcase(made[0], glob) for glob in exempt):
            continue
        key = (*made, text.partition(f"\n\n{_BEGIN}")[0])
        times[key] += 1
        if times[key] > 1:
            yield index, made[0], times[key]


def newest_repeat(messages: Messages, exempt: Collection[str]) -> tuple[str, int]:
    """Return the tool of a conversation's last result and how often it gave that result; ("", 1) if only once."""
    last = max([index for index, message in enumerate(messages) if role_of(message) == "tool"], default=-1)
    if last >= 0:
        for index, name, count in _repeats(messages, exempt):
            if index == last:
                return name, count
    return "", 1


def tell_repeats(messages: Messages, exempt: Collection[str]) -> Messages:
    """Return the conversation with the sentence after each result that was there too often."""
    talk = Talk()
    repeated = {index: (name, count) for index, name, count in _repeats(messages, exempt) if count >= TOLD_TO_THE_MODEL}
    for index, message in enumerate(messages):
        talk.say(message)
        if index in repeated and f"\n\n{_BEGIN}" not in (text_of(message.get("content")) or ""):
            name, count = repeated[index]
            talk.add(_SENTENCE.format(name=name, count=count))
    return talk.messages()
