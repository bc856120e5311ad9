"""The prompts of a server's chat template, without any generated text.

vLLM's `/tokenize` takes messages and tools and returns the tokens as texts; llama.cpp's `/apply-template` returns the
prompt. For other servers, a one-token request shows whether a conversation is refused, and how many tokens its prompt
has: text that the template drops adds none.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property

from proxy.doctor.asking import Asker
from proxy.json import Json, JsonObject, as_list, as_text
from proxy.upstream.api import TOKENIZE

APPLY_TEMPLATE = "/apply-template"
# The characters for a blank and a line end in the vocabularies of byte-level and sentencepiece tokenizers.
_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n", "ĉ": "\t"})
_HI: JsonObject = {"role": "user", "content": "mkbaseline"}
# The number of words that replace one watched word; each has at least one token.
_MANY = 40
_REFUSED = frozenset((400, 422, 500))

MakeConversation = Callable[[str], JsonObject]


class PromptSource(Enum):
    """The ways to see prompts: a path of the server, or a description for the report."""

    TOKENIZE = TOKENIZE
    APPLY_TEMPLATE = APPLY_TEMPLATE
    COUNTED = "the count of the prompt's tokens"
    NONE = "nothing"


# The sources that show whole prompts, each with the additional fields of its request.
_SHOWING: dict[PromptSource, JsonObject] = {
    PromptSource.TOKENIZE: {"return_token_strs": True},
    PromptSource.APPLY_TEMPLATE: {},
}


class Fate(Enum):
    """The fate of a text in a conversation."""

    KEPT = "kept"
    LOST = "lost"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Prompts:
    """Looks for texts in the prompts of one model, in the way that its server supports."""

    def __init__(self, ask: Asker, model: str) -> None:
        self._ask = ask
        self._model = model

    @cached_property
    def source(self) -> PromptSource:
        """The way to see prompts on this server, found with a minimal conversation."""
        for source in _SHOWING:
            if self._shown(source, {"messages": [_HI]}, "mkbaseline")[0] is Fate.KEPT:
                return source
        counts = [self._count({"messages": [{**_HI, "content": text}]})[0] for text in ("mkone", _many("mkone"))]
        return PromptSource.COUNTED if _grew(*counts) else PromptSource.NONE

    def fate(self, shape: MakeConversation, mark: str) -> tuple[Fate, str]:
        """Return the fate of `mark` in the conversation that `shape` builds with it, and the words of a refusal."""
        if self.source is PromptSource.COUNTED:
            return self._counted(shape, mark)
        return self._shown(self.source, shape(mark), mark) if self.source in _SHOWING else (Fate.UNKNOWN, "")

    def _shown(self, source: PromptSource, body: JsonObject, mark: str) -> tuple[Fate, str]:
        """Return the fate of `mark` in the prompt that the server shows. It is unknown if the server shows none."""
        answer = self._ask.request(source.value, {"model": self._model, **body, **_SHOWING[source]})
        if answer.status in _REFUSED:
            return Fate.REFUSED, answer.error
        text = as_text(answer.json.get("prompt"))
        if source is PromptSource.TOKENIZE:
            text = "".join(map(as_text, as_list(answer.json.get("token_strs")))).translate(_MARKS)
        if answer.status != 200 or not text:
            return Fate.UNKNOWN, ""
        return (Fate.KEPT if mark in text else Fate.LOST), ""

    def _counted(self, shape: MakeConversation, mark: str) -> tuple[Fate, str]:
        few, refused = self._count(shape(mark))
        if refused:
            return Fate.REFUSED, refused
        many, refused = self._count(shape(_many(mark)))
        if few is None or many is None:
            return Fate.UNKNOWN, ""
        if _grew(few, many):
            return Fate.KEPT, ""
        return (Fate.LOST if few == many else Fate.UNKNOWN), ""

    def _count(self, body: JsonObject) -> tuple[int | None, str]:
        """Return the number of a prompt's tokens from a one-token request, and the words of a refusal."""
        reply = self._ask.chat({"model": self._model, **body, "max_tokens": 1, "stream": False})
        if reply.status in _REFUSED:
            return None, reply.error
        return (reply.count("prompt_tokens") if reply.taken else None), ""


def _grew(few: Json, many: Json) -> bool:
    return isinstance(few, int) and isinstance(many, int) and many - few >= _MANY // 2


def _many(mark: str) -> str:
    return " ".join([mark] * _MANY)
