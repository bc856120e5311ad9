"""A reply to a chat request, as a probe reads it: what a lenient client has of it, and what a strict one would miss."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.codec import sse
from proxy.codec.json_access import as_list, as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject, load_json
from proxy.dialects.chat.client_view import ChoiceView, view_reply

# Said of a success in which nothing is that a client reads.
NO_REPLY = "it is no reply"
_DONE = b"[DONE]"
_REASONING = ("reasoning_content", "reasoning")


class Reply:
    """An answer to `POST /v1/chat/completions`. `status` is 0 if none came, and `trouble` says why."""

    def __init__(self, status: int, body: bytes, *, streamed: bool, trouble: str = "") -> None:
        self.status = status
        self.body = body
        self.streamed = streamed
        self.trouble = trouble
        view = view_reply(body, streamed=streamed and status == 200)
        self._view = view.choices.get(0, ChoiceView())
        self.error = view.error or (_plain_error(body) if status != 200 else "")
        self._chunks = [*self._read()] if status == 200 else []

    @property
    def taken(self) -> bool:
        """True if it is a success, with no error in its midst."""
        return self.status == 200 and not self.error and bool(self._chunks)

    @property
    def text(self) -> str:
        """The text of its first choice."""
        return self._view.text

    @property
    def reasoning(self) -> str:
        """The thoughts that it says apart from the text."""
        return self._view.reasoning

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Names and arguments of its calls."""
        return self._view.calls

    @property
    def ids(self) -> list[str]:
        """The calls' ids."""
        return self._view.ids

    @property
    def finish(self) -> str:
        """Why it ended; empty if it does not say."""
        return self._view.finish or ""

    @property
    def is_silent(self) -> bool:
        """True if it says nothing: no call, and no text but blanks."""
        return not self.calls and not self.text.strip()

    @property
    def done(self) -> bool:
        """True if a stream said `[DONE]`."""
        return any(event == _DONE for event in self._events())

    @property
    def reasoning_field(self) -> str:
        """The field that holds its thoughts, or an empty string."""
        for message in self._messages():
            field = next((name for name in _REASONING if as_text(message.get(name)).strip()), "")
            if field:
                return field
        return ""

    @property
    def completion_tokens(self) -> int | None:
        """The number of its tokens, if it says so."""
        return self._count("completion_tokens")

    @property
    def prompt_tokens(self) -> int | None:
        """The number of the prompt's tokens, if it says so."""
        return self._count("prompt_tokens")

    @property
    def bare_deltas(self) -> int:
        """The number of deltas of calls in a stream that have no index: strict clients cannot tell whose they are."""
        return sum(type(call.get("index")) is not int for message in self._messages() for call in _calls_of(message))

    def _count(self, name: str) -> int | None:
        for chunk in reversed(self._chunks):
            count = as_object(chunk.get("usage")).get(name)
            if type(count) is int:
                return count
        return None

    def _messages(self) -> Iterator[JsonObject]:
        place = "delta" if self.streamed else "message"
        for chunk in self._chunks:
            for entry in objects_in(chunk.get("choices")):
                yield as_object(entry.get(place))

    def _read(self) -> Iterator[JsonObject]:
        if not self.streamed:
            whole = _object(self.body)
            if as_list(whole.get("choices")):
                yield whole
            return
        for event in self._events():
            chunk = _object(event)
            if chunk:
                yield chunk

    def _events(self) -> Iterator[bytes]:
        if not self.streamed or self.status != 200:
            return
        decoder = sse.Decoder(len(self.body) + 2)
        for event in (*decoder.feed(self.body), *decoder.finish()):
            if event.data is not None:
                yield event.data.strip()


def _calls_of(message: JsonObject) -> list[JsonObject]:
    return objects_in(message.get("tool_calls"))


def _object(data: bytes) -> JsonObject:
    try:
        value: Json = load_json(data)
    except ValueError:
        return {}
    return as_object(value)


def _plain_error(body: bytes) -> str:
    """The words of an error that is none of OpenAI's shape."""
    error = _object(body)
    words = as_text(error.get("message")) or as_text(error.get("detail"))
    return words or body[:300].decode("utf-8", "replace").strip() or "an empty error"
