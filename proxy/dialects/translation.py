"""Code shared by the translations of Messages and Responses requests.

Requests are read into msgspec structs. Errors name the place as the APIs do (`messages.0.content.1.text`). Null equals
a missing field, everywhere.

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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from proxy.display import cut
from proxy.errors import BadRequest
from proxy.healing.conversation import joined, text_part
from proxy.healing.messages import REMINDED, REMINDER, TOKEN_COUNT, reminder
from proxy.healing.reasoning import of_rules, switched
from proxy.json import Json, JsonObject, dump_inner, dump_strict, load_json
from proxy.repair.record import Repair

Name = Annotated[str, Meta(min_length=1)]
Number = int | float
# An object that is read later, or sent unchanged.
Object = dict[str, Any]
_Read = TypeVar("_Read", bound=Struct)

# The switch of a model whose family has its own effort words. The client's word is forwarded, and translated by
# `healing/reasoning.py`.
OWN_WORDS = "own_words"
# Maximum number of kinds of fields in one request's records; further kinds share a name (C7).
MAX_KINDS = 100
NO_FIELD = "chat completions has no such field"
_UNKNOWN = "unknown field"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_MISSING = re.compile("Object missing required field `(.*)`")
_LONGEST = 160
# JSON types as named in errors.
_KINDS = {"str": "a string", "int": "a whole number", "float": "a fraction", "int | float": "a number"}
_KINDS |= {"bool": "true or false", "array": "a list", "object": "an object"}
_KINDS |= {"str | array": "a string or a list", "str | object": "a string or an object"}

# A content part: a text, or the object of a picture or file.
Part: TypeAlias = str | JsonObject
_Turn = TypeVar("_Turn", "UserTurn", "AssistantTurn")
_REMINDERS = re.compile(rf"{REMINDER}.*?(?:{REMINDED}|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Facts about a model, from the rules and the server.

    `model`: its upstream name. `server_kind`: vllm, sglang, lmdeploy, llamacpp or litellm, "" if unknown. `thinking`:
    the switch of reasoning: "" or "none", a name in `chat_template_kwargs` (enable_thinking, thinking),
    reasoning_effort, or OWN_WORDS. `reasoning_history`: the field of assistant messages for earlier reasoning
    (reasoning, reasoning_content, thinking); "" uses the field that a signature names, and `drop` sends none.
    `server_tools`: refuse or drop tools that only the API's owner runs; "" is the dialect's default.
    """

    model: str
    server_kind: str = ""
    thinking: str = ""
    reasoning_history: str = "drop"
    server_tools: str = ""


class Lost:
    """The fields of a request that cannot be translated: one audit record per kind of field."""

    def __init__(self, *, drops: bool = True, owner: str = "") -> None:
        self._drops = drops
        self._owner = owner
        self._counts = Counter[str]()
        self._reasons: dict[str, str] = {}

    def add(self, where: str, why: str = NO_FIELD) -> None:
        """Count the lost field at this place."""
        kind = re.sub(r"\.\d+", "[]", where)
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind, why = "(more)", NO_FIELD
        self._counts[kind] += 1
        self._reasons.setdefault(kind, why)

    def server_only(self, where: str, what: str, kind: str = "") -> None:
        """Drop a field or tool that only works on the servers of the API's owner. Raises BadRequest unless the rules
        say `server_tools: drop`.
        """
        if not self._drops:
            remedy = "leave it out, or write `server_tools: drop` in the model's entry of rules.yaml"
            raise bad(where, f"{what} works only on {self._owner}'s own servers; {remedy}")
        self.add(f"{where} of type {kind}" if kind else where, f"only {self._owner}'s own servers do this")

    def read(self, value: Json, kind: type[_Read], where: str = "", ignored: frozenset[str] | None = None) -> _Read:
        """Return a value as this struct, and count the fields that the struct does not have.

        `ignored` are other known fields of the body. Any further field is logged, because a client may expect it to
        have an effect. Raises BadRequest.
        """
        try:
            try:
                found = msgspec.convert(value, kind)
            except UnicodeEncodeError:  # a lone surrogate in a name or a type
                value = load_json(dump_strict(value))
                found = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            words, _, path = str(error).replace(" | null", "").partition(" - at `$")
            where += re.sub(r"\[(\d+)\]", r".\1", path.rstrip("`")).replace("[...]", "")
            if missing := _MISSING.match(words):
                where, words = f"{where}.{missing[1]}", "Field required"
            elif words.endswith(("got `null`", "got `NoneType`")):
                words = "Field required"
            elif words.startswith("Invalid"):  # Invalid enum value 'ghost'
                words = f"{words[words.index(chr(39)) :]} is not supported here"
            words = re.sub("`(.+?)`", lambda match: _KINDS.get(match[1], match[1]), words)
            raise bad(where.lstrip("."), cut(words, _LONGEST)) from None
        except RecursionError:
            raise bad(where, "is nested too deeply") from None
        for name in _unread(value, found, where):
            is_unknown = ignored is not None and "." not in name and name not in ignored
            self.add(name, _UNKNOWN if is_unknown else NO_FIELD)
        return found

    def records(self) -> tuple[Repair, ...]:
        """Return one audit record per kind of field; `before` is the kind and the number of fields."""
        return tuple(
            Repair("dropped_field", f"{kind}: {count}", "", f"{kind}: {why}", logged=why == _UNKNOWN)
            for (kind, count), why in zip(self._counts.items(), self._reasons.values(), strict=True)
        )


def _unread(raw: Any, found: Any, where: str) -> Iterator[str]:
    """Return the places of fields that no struct has: `messages.0.content.1.cache_control`."""
    if isinstance(found, Struct) and isinstance(raw, dict):
        for name, value in raw.items():
            here = f"{where}.{name if _NAME.fullmatch(name) else '(odd name)'}".lstrip(".")
            if name in found.__struct_fields__:
                yield from _unread(value, getattr(found, name), here)
            elif value is not None and name != "type":
                yield here
    elif isinstance(found, list) and found and isinstance(found[0], Struct):
        for at, (value, each) in enumerate(zip(raw, found, strict=True)):
            yield from _unread(value, each, f"{where}.{at}")


def bad(where: str, words: str) -> BadRequest:
    """Return the error for a place in the request."""
    return BadRequest(f"{where}: {words}" if where else words, where)


def kind_of(value: Json, where: str) -> str:
    """Return the type of an object. Raises BadRequest if it has none."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind:
        raise bad(f"{where}.type", "Field required" if kind is None else "must be a string that is not empty")
    return kind


def present(fields: Mapping[str, Any]) -> JsonObject:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def shown(value: Json) -> str:
    """Return the start of a client's text for an error, on one line."""
    return ascii(cut(str(value), 40))


def inner_json(value: Json, where: str) -> str:
    """Return a value as JSON text inside a request."""
    try:
        return dump_inner(value)
    except ValueError:
        raise bad(where, "is nested too deeply") from None


def content(parts: Sequence[Part]) -> Json:
    """Return content parts as a chat message's content: one string if all are text, else a list of objects (F83)."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return "\n\n".join(texts)
    return [text_part(part) if isinstance(part, str) else part for part in parts]


@dataclass(slots=True)
class UserTurn:
    """The user's content of one turn. `shown` is content of results that templates do not accept there."""

    results: list[JsonObject] = field(default_factory=list)
    shown: list[Part] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    def add_result(self, call_id: str, parts: Sequence[Part]) -> None:
        """Add a result. Its texts become a tool message; its pictures and files follow in the user's message (F94)."""
        texts = [part for part in parts if isinstance(part, str)]
        others = [part for part in parts if not isinstance(part, str)]
        self.results.append({"role": "tool", "tool_call_id": call_id, "content": content(texts)})
        if others:
            self.shown += [f"From the result of the call {call_id}:", *others]

    def messages(self, reasoning: str) -> list[JsonObject]:
        """Return the results, then one user message with the other content, `shown` first.

        If there are results, the client's additions to the user's text go into the last one. An empty turn becomes
        an empty message, so that turns alternate.
        """
        if not self.results:
            return [{"role": "user", "content": content([*self.shown, *self.parts])}]
        added = [part for part in self.parts if isinstance(part, str) and not is_own(part)]
        own_parts = [*self.shown, *filter(is_own, self.parts)]
        *results, last = self.results
        results.append({**last, "content": joined(last["content"], *added)})
        if own_parts:
            results.append({"role": "user", "content": content(own_parts)})
        return results


@dataclass(slots=True)
class AssistantTurn:
    """The assistant's content of one turn: its paragraphs, each in pieces, its reasoning and its calls.

    `thought_field` is the server's reasoning field, if the signatures name it.
    """

    texts: list[list[str]] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    thought_field: str = ""
    calls: list[Json] = field(default_factory=list)

    def add_call(self, call_id: str, name: str, arguments: str) -> None:
        """Add a call."""
        self.calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})

    @property
    def text(self) -> str:
        """The paragraphs as one text."""
        return "\n\n".join(map("".join, self.texts))

    def messages(self, reasoning: str) -> list[JsonObject]:
        """Return the message, even if empty, so that turns alternate.

        Next to calls, empty content is null, as servers require.
        """
        text = self.text
        message: JsonObject = {"role": "assistant", "content": None if self.calls and not text else text}
        if self.thoughts:
            message[self.thought_field or reasoning] = "\n\n".join(self.thoughts)
        if self.calls:
            message["tool_calls"] = self.calls
        return [message]


def is_own(part: Part) -> bool:
    """Return whether a part is the user's own content; text that consists only of reminders is the client's."""
    return not isinstance(part, str) or bool(_REMINDERS.sub("", part).strip())


class Translator:
    """Base of the translations. The conversation is kept as turns: all consecutive content of one side is one turn."""

    def __init__(self, options: ModelOptions, lost: Lost) -> None:
        self.options, self.lost = options, lost
        self.turns: list[UserTurn | AssistantTurn] = []

    def turn(self, kind: type[_Turn]) -> _Turn:
        """Return the last turn if it is of this kind, else append a new one."""
        last = self.turns[-1] if self.turns else None
        if isinstance(last, kind):
            return last
        turn = kind()
        self.turns.append(turn)
        return turn

    @property
    def empty(self) -> bool:
        """Whether no turn has content."""
        return all(turn == type(turn)() for turn in self.turns)

    @property
    def user(self) -> UserTurn:
        """The open turn of the user."""
        return self.turn(UserTurn)

    @property
    def assistant(self) -> AssistantTurn:
        """The open turn of the assistant."""
        return self.turn(AssistantTurn)

    def remind(self, text: str) -> None:
        """Add a later system message as user text in its place, with the mark that clients use (F82).

        At the start it would change what the server has already processed (contract C8), and templates reject it
        elsewhere.
        """
        turn = self.user
        if text and not TOKEN_COUNT.fullmatch(text):
            turn.parts.append(reminder(text) if is_own(text) else text)

    def messages(self, *system: str) -> list[Json]:
        """Return the system texts and the turns as chat messages."""
        turns = self.turns
        if turns[-1:] == [AssistantTurn()]:
            turns.pop()  # an empty prefill means a new answer
        text = "\n\n".join(filter(None, system))
        messages: list[Json] = [{"role": "system", "content": text}] if text else []
        for turn in turns:
            messages += turn.messages(self.options.reasoning_history)
        return messages

    def begun(self, max_tokens: int | None, stream: bool | None, **fields: Json) -> JsonObject:
        """Return the first fields of a chat request: those that have a value, and the options of a stream."""
        given: JsonObject = {"model": self.options.model, "max_tokens": max_tokens, **fields, "stream": stream}
        return present(given) | ({"stream_options": {"include_usage": True}} if stream else {})

    def in_words_of_rules(self, wish: JsonObject) -> JsonObject:
        """Return the client's reasoning setting as the rules' switch expresses it. OWN_WORDS are translated later."""
        return switched(wish, of_rules(self.options.thinking))[0]

    def let_call(self, fields: JsonObject, name: str) -> None:
        """On vLLM, drop `response_format` if there are tools: vLLM calls no tool while the answer must match a schema.

        The API allows both; the tools matter more.
        """
        may_call = "tools" in fields and fields.get("tool_choice") != "none"
        if self.options.server_kind == "vllm" and may_call and fields.pop("response_format", None) is not None:
            self.lost.add(name, "vLLM calls no tool while the answer must match a schema")
