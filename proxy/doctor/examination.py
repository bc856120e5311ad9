"""One server under examination: what is known of it so far, and the replies that several probes read."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.codec.json_text import JsonObject
from proxy.doctor import words
from proxy.doctor.ask import Answer, Asker
from proxy.doctor.prompts import Fate, Prompts
from proxy.doctor.reply import Reply
from proxy.doctor.syntaxes import TOOL, Trial, Written, written_in
from proxy.healing.families import Family, Parsers, family_of
from proxy.upstream.model_list import ABOUT, ModelCard, distinct_models, loaded, read_about

# Servers that take a template's variables, and `skip_special_tokens`.
_TAKES_KWARGS = ("vllm", "sglang", "llamacpp")
_TAKES_SPECIAL = ("vllm", "sglang")
# Tokens of a reply: a call is short, but a model that thinks all the same shall come to its end.
_MOST_TOKENS = 800
# A call that is forced begins at once.
_FORCED_TOKENS = 300


@dataclass(slots=True)
class Examination:
    """The facts of a server. `kind` and `version` are empty where they are not known, `context` is None."""

    ask: Asker
    model: str
    cards: tuple[ModelCard, ...]
    kind: str = ""
    version: str = ""
    context: int | None = None
    # What the probe of the kind asked, by its path.
    answers: dict[str, Answer] = field(default_factory=dict)
    # What became of each shape of a conversation, with the words of a refusal.
    fates: dict[str, tuple[Fate, str]] = field(default_factory=dict)
    # What became of a call in each syntax.
    trials: dict[str, Trial] = field(default_factory=dict)
    # The family that the rules name for the model, "" if they name none.
    named_family: str = ""
    _replies: dict[tuple[str, str, bool], Reply] = field(default_factory=dict)
    _plain: Reply | None = None
    _prompts: Prompts | None = None

    @property
    def family(self) -> Family | None:
        """Return the model's family by the rules, its name, or what the server shows of it."""
        about = self.answers.get(ABOUT.get(self.kind, ""))
        shown = () if about is None or len(distinct_models(self.cards)) > 1 else read_about(about.body)
        return family_of(self.model, self.named_family, (*loaded(self.model, self.cards), *shown))

    @property
    def parsers(self) -> Parsers | None:
        """Return the parsers of servers for the model's family, or None if they are unknown."""
        family = self.family
        return None if family is None else family.parsers

    @property
    def prompts(self) -> Prompts:
        """The prompts that its template makes."""
        if self._prompts is None:
            self._prompts = Prompts(self.ask, self.model)
        return self._prompts

    @property
    def plain(self) -> Reply:
        """The reply to the plainest request that there is: where it is refused, no other refusal says why."""
        if self._plain is None:
            self._plain = self.ask.chat(self.plain_request())
        return self._plain

    def plain_request(self, **more: object) -> JsonObject:
        """The body of the plainest request, with these fields beside it or in the place of its own."""
        body: JsonObject = {
            "model": self.model,
            "messages": [{"role": "user", "content": "Say yes."}],
            "max_tokens": 1,
            "stream": False,
        }
        fields: JsonObject = dict(more)  # type: ignore[arg-type]  # what is given is JSON
        return body | fields

    def reply(self, prompt: str, choice: str, *, stream: bool = False) -> Reply:
        """The reply to these words with the tool on offer; asked once for all probes."""
        key = (prompt, choice, stream)
        if key not in self._replies:
            self._replies[key] = self.ask.chat(self.request(prompt, choice, stream=stream))
        return self._replies[key]

    def request(self, prompt: str, choice: str, *, stream: bool = False) -> JsonObject:
        """The body of a request with the tool on offer. Under `none` a server that can is asked for all of the text."""
        body: JsonObject = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "tools": [TOOL],
            "tool_choice": choice,
            "max_tokens": _FORCED_TOKENS if choice == "required" else _MOST_TOKENS,
            "temperature": 0,
            "stream": stream,
        }
        if stream:
            body["stream_options"] = {"include_usage": True}
        if choice == "none" and self.kind in _TAKES_SPECIAL:
            body["skip_special_tokens"] = False
        return body | self._quietly()

    def _quietly(self) -> JsonObject:
        """The field by which a model of a known family does not think: a call is asked for, and that alone."""
        family = self.family
        if family is None or family.switch is None or self.kind not in _TAKES_KWARGS:
            return {}
        return {"chat_template_kwargs": {family.switch.name: family.switch.off}}

    def raw(self, prompt: str = words.CALL) -> Reply:
        """The model's own text: the server is told not to look for calls."""
        return self.reply(prompt, "none")

    def written(self, prompt: str = words.CALL) -> list[Written]:
        """The calls that the model wrote into its own text."""
        reply = self.raw(prompt)
        if not reply.taken:
            return []
        return written_in(reply.text)
