"""The prompts that a server's chat template makes, without a word of the model's, where the server shows them.

vLLM's `/tokenize` takes messages and tools and gives the tokens as texts, llama.cpp's `/apply-template` the prompt.
Elsewhere a request for one token is refused or not, and says how many tokens its prompt had: what is left out of a
prompt adds none to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from proxy.codec.json_access import as_list, as_text
from proxy.codec.json_text import Json, JsonObject
from proxy.doctor.asking import Answer, Asker
from proxy.upstream.paths import TOKENIZE

APPLY_TEMPLATE = "/apply-template"
# What the vocabularies of byte-level and of sentencepiece tokenizers write for a blank and for a line end.
_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n", "ĉ": "\t"})
_HI: JsonObject = {"role": "user", "content": "mkbaseline"}
# So many words are put where one was; each is a token at least.
_MANY = 40
_REFUSED = frozenset((400, 422, 500))

MakeConversation = Callable[[str], JsonObject]


class PromptSource(Enum):
    """The ways by which prompts are seen."""

    TOKENIZE = "/tokenize"
    APPLY_TEMPLATE = "/apply-template"
    COUNTED = "the count of the prompt's tokens"
    NONE = "nothing"


class Fate(Enum):
    """The fate of a text in a conversation."""

    KEPT = "kept"
    LOST = "lost"
    REFUSED = "refused"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as text, or why there is none: `refused` are the server's words."""

    text: str = ""
    refused: str = ""


class Prompts:
    """Shows the prompts of one model, in the way that its server offers."""

    def __init__(self, ask: Asker, model: str) -> None:
        self._ask = ask
        self._model = model
        self._source: PromptSource | None = None

    @property
    def source(self) -> PromptSource:
        """The way by which prompts are seen here; tried once, with the plainest conversation that there is."""
        if self._source is None:
            self._source = self._find_source()
        return self._source

    def prompt(self, body: JsonObject) -> Prompt | None:
        """The prompt for messages and tools; None where the server does not show it, or did not answer."""
        shown = {PromptSource.TOKENIZE: self._tokenized, PromptSource.APPLY_TEMPLATE: self._applied}.get(self.source)
        return None if shown is None else shown(body)

    def fate(self, shape: MakeConversation, mark: str) -> tuple[Fate, str]:
        """The fate of `mark` in a conversation that `shape` makes with it; and the words of a refusal."""
        if self.source is PromptSource.COUNTED:
            return self._counted(shape, mark)
        prompt = self.prompt(shape(mark))
        if prompt is None:
            return Fate.UNTOLD, ""
        if prompt.refused:
            return Fate.REFUSED, prompt.refused
        return (Fate.KEPT if mark in prompt.text else Fate.LOST), ""

    def _find_source(self) -> PromptSource:
        plain: JsonObject = {"messages": [_HI]}
        for source, shown in ((PromptSource.TOKENIZE, self._tokenized), (PromptSource.APPLY_TEMPLATE, self._applied)):
            prompt = shown(plain)
            if prompt is not None and "mkbaseline" in prompt.text:
                return source
        counts = [self._count({"messages": [{**_HI, "content": text}]})[0] for text in ("mkone", _many("mkone"))]
        return PromptSource.COUNTED if _grew(*counts) else PromptSource.NONE

    def _tokenized(self, body: JsonObject) -> Prompt | None:
        answer = self._ask.post(TOKENIZE, {"model": self._model, **body, "return_token_strs": True})
        if answer.status != 200:
            return _refusal(answer)
        pieces = as_list(answer.json.get("token_strs"))
        return Prompt("".join(map(as_text, pieces)).translate(_MARKS)) if pieces else None

    def _applied(self, body: JsonObject) -> Prompt | None:
        answer = self._ask.post(APPLY_TEMPLATE, {"model": self._model, **body})
        if answer.status != 200:
            return _refusal(answer)
        text = as_text(answer.json.get("prompt"))
        return Prompt(text) if text else None

    def _counted(self, shape: MakeConversation, mark: str) -> tuple[Fate, str]:
        few, refused = self._count(shape(mark))
        if refused:
            return Fate.REFUSED, refused
        many, refused = self._count(shape(_many(mark)))
        if few is None or many is None:
            return Fate.UNTOLD, ""
        if _grew(few, many):
            return Fate.KEPT, ""
        return (Fate.LOST if few == many else Fate.UNTOLD), ""

    def _count(self, body: JsonObject) -> tuple[int | None, str]:
        """The number of a prompt's tokens, by a request for one token; and the words of a refusal."""
        reply = self._ask.chat({"model": self._model, **body, "max_tokens": 1, "stream": False})
        if reply.status in _REFUSED:
            return None, reply.error
        return (reply.count("prompt_tokens") if reply.taken else None), ""


def _grew(few: Json, many: Json) -> bool:
    return isinstance(few, int) and isinstance(many, int) and many - few >= _MANY // 2


def _many(mark: str) -> str:
    return " ".join([mark] * _MANY)


def _refusal(answer: Answer) -> Prompt | None:
    """Return a refusal; None if the server has no such path, or no such use of it."""
    return Prompt(refused=answer.error or f"status {answer.status}") if answer.status in _REFUSED else None
