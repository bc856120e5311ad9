"""A configurable model server: its model's text, its parser's syntaxes, and its chat template's faults.

By default, it behaves like a vLLM without faults.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.doctor.examination import CALL, THINK, written_in
from tests.real.threaded import Handler, Listener, Threaded
from tests.support.doctor_scripts import CALLS
from tests.support.scripted import DONE, ROLE, completion, delta, event

Message = dict[str, Any]
Result = tuple[int, bytes]
Hook = Callable[[str, Message], Result | None]
ARGUMENTS = json.dumps({"path": "doctor.txt", "content": "hello"})
NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


class Refused(Exception):
    """The exception of the chat template."""


def refusal(message: str, status: int = 400) -> Result:
    return status, json.dumps({"error": {"message": message, "type": "BadRequestError", "code": status}}).encode()


def ordinary(messages: Sequence[Message]) -> str:
    """Return the prompt of a template that accepts everything. The arguments of calls are parsed, as in vLLM."""
    lines = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            try:
                json.loads(call["function"]["arguments"])
            except ValueError as error:
                raise Refused(str(error)) from error
        lines.append(
            f"<|{message['role']}|>{message.get('content') or ''}{json.dumps(message.get('tool_calls') or [])}"
        )
    return "\n".join([*lines, "<|assistant|>"])


def hook(_path: str, _body: Message) -> Result | None:
    """Return None, so that every request gets the usual answer."""
    return None


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of the server.

    The model writes calls in the syntax `writes`. The parser reads the syntaxes `reads` (None: no parser). Other calls,
    as `unread` says, stay in the `text`, are `swallowed`, are swallowed only `in streams`, or the parser `fails`.
    `template` renders the messages, and `offers` the tools; both may raise Refused. `thinks` is reasoning before an
    answer. `before` may answer a request instead. `stream` changes the events of streams. `paths` have fixed answers.
    """

    name: str = "Qwen3-Coder"
    owner: str = "vllm"
    max_len: int | None = 2000
    version: str = "0.32.0"
    writes: str = "Qwen3-Coder's XML"
    reads: frozenset[str] | None = frozenset({"Qwen3-Coder's XML"})
    unread: str = "text"
    under_none: str = "text"
    calls: bool = True
    template: Callable[[Sequence[Message]], str] = ordinary
    offers: Callable[[Sequence[Message]], str] = json.dumps
    thinks: str = ""
    thought_field: str = ""
    before: Hook = hook
    stream: Callable[[list[bytes]], list[bytes]] = list
    paths: Mapping[str, Result] = field(default_factory=dict)


class ModelServer(Threaded[Listener]):
    """Context manager: the server at `url`. `asked` has the paths and bodies of the requests."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.asked: list[tuple[str, Message]] = []
        self.headers: list[Mapping[str, str]] = []
        owner = self

        class Answering(Handler):
            def do_GET(self) -> None:
                owner.answer(self, {})

            def do_POST(self) -> None:
                owner.answer(self, self.body())

        super().__init__(Listener(("127.0.0.1", 0), Answering))

    def answer(self, handler: Handler, body: Message) -> None:
        self.asked.append((handler.path, body))
        self.headers.append(dict(handler.headers))
        with contextlib.suppress(ConnectionError):  # the client has timed out
            handler.send_whole(*self._result(handler.path, body))

    def _result(self, path: str, body: Message) -> Result:
        its = self.behaviour
        if path in its.paths:
            return its.paths[path]
        given = its.before(path, body)
        if given is not None:
            return given
        if path == "/v1/models":
            card = {"id": its.name, "owned_by": its.owner, "max_model_len": its.max_len}
            return 200, json.dumps({"object": "list", "data": [card]}).encode()
        if path == "/version":
            return 200, json.dumps({"version": its.version}).encode()
        if path == "/tokenize":
            return self._tokenized(body)
        if path == "/v1/chat/completions":
            return self._chat(body)
        return 404, b'{"detail":"Not Found"}'

    def _prompt(self, body: Message) -> str:
        offered = self.behaviour.offers(body["tools"]) if body.get("tools") else ""
        return f"{offered}\n{self.behaviour.template(body['messages'])}"

    def _tokenized(self, body: Message) -> Result:
        if "messages" not in body:
            return 200, json.dumps({"count": len(body["prompt"].split())}).encode()
        try:
            prompt = self._prompt(body)
        except Refused as error:
            return refusal(str(error))
        pieces = [piece.replace(" ", "Ġ") for piece in (prompt[at : at + 3] for at in range(0, len(prompt), 3))]
        return 200, json.dumps({"count": len(pieces), "tokens": [0] * len(pieces), "token_strs": pieces}).encode()

    def _chat(self, body: Message) -> Result:
        its = self.behaviour
        if body["model"] != its.name:
            return refusal(f"The model `{body['model']}` does not exist.", 404)
        if isinstance(body.get("temperature"), str):
            return refusal("1 validation error: temperature: Input should be a valid number")
        if body.get("stream_options") and not body.get("stream"):
            return refusal("Stream options can only be defined when `stream=True`.")
        try:
            prompt = self._prompt(body)
        except Refused as error:
            return refusal(str(error))
        size = len(prompt.split())
        if its.max_len is not None and size > its.max_len:
            return refusal(
                f"This model's maximum context length is {its.max_len} tokens. However, your request has {size} input "
                "tokens. Please reduce the length of the input messages."
            )
        return self._said(body, size)

    def _said(self, body: Message, size: int) -> Result:
        its = self.behaviour
        choice = body.get("tool_choice", "auto") if body.get("tools") else "none"
        if choice != "none" and its.reads is None:
            return refusal(NO_PARSER)
        raw = self._writes(body["messages"][-1]["content"])
        streamed = bool(body.get("stream"))
        text, calls = raw, list[str]()
        if choice == "none":
            text = raw if its.under_none == "text" or not written_in(raw) else ""
        else:
            found = written_in(raw)
            if (choice == "required" and found) or (found and all(syntax in (its.reads or ()) for syntax in found)):
                text, calls = "", [ARGUMENTS] * len(found)
            elif found and its.unread == "fails":
                return self._failed(streamed)
            elif found and (its.unread == "swallowed" or (its.unread == "in streams" and streamed)):
                text = ""
        usage = {"prompt_tokens": size, "completion_tokens": len(raw.split()) + 8, "total_tokens": size + 8}
        if streamed:
            return 200, b"".join(its.stream(self._events(text, calls, usage, body)))
        return 200, json.dumps({**completion(self._message(text, calls), self._finish(calls)), "usage": usage}).encode()

    def _writes(self, asked: str) -> str:
        its = self.behaviour
        own = CALLS[its.writes]
        if asked == CALL:
            return own if its.calls else "I would rather not."
        if asked == THINK:
            return f"{'' if its.thought_field else its.thinks}It is 391."
        return "Yes."

    @staticmethod
    def _failed(streamed: bool) -> Result:
        error = {
            "error": {"code": 500, "message": "Failed to parse input at pos 0: <tool_call>", "type": "server_error"}
        }
        if streamed:
            return 200, event(error)
        return 500, json.dumps(error).encode()

    def _message(self, text: str, calls: Sequence[str]) -> Message:
        entries = [_entry(number, arguments) for number, arguments in enumerate(calls)]
        message: Message = {"role": "assistant", "content": text or None, "tool_calls": entries}
        if self.behaviour.thought_field:
            message[self.behaviour.thought_field] = self.behaviour.thinks or None
        return message

    def _events(self, text: str, calls: Sequence[str], usage: Message, body: Message) -> list[bytes]:
        said = [ROLE, *([delta({"content": text})] if text else [])]
        said += [
            delta({"tool_calls": [{"index": number, **_entry(number, arguments)}]})
            for number, arguments in enumerate(calls)
        ]
        said.append(delta({"content": ""}, self._finish(calls)))
        if (body.get("stream_options") or {}).get("include_usage"):
            said.append(event({"object": "chat.completion.chunk", "choices": [], "usage": usage}))
        return [*said, DONE]

    @staticmethod
    def _finish(calls: Sequence[str]) -> str:
        return "tool_calls" if calls else "stop"


def _entry(number: int, arguments: str) -> Message:
    function = {"name": "write_file", "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}
