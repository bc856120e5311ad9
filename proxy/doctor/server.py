"""Is there a model server, what kind of one, and which models has it."""

from __future__ import annotations

from collections.abc import Iterator

from proxy import SERVICE
from proxy.codec.json_access import as_text
from proxy.codec.json_text import JsonObject
from proxy.doctor.ask import Answer, Asker
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Found, Level, Probe, Told, found
from proxy.upstream.model_list import ModelCard, kind_of, read_cards
from proxy.upstream.paths import MODELS

# Where each kind of server says its version, and under which key.
_VERSIONS = {
    "vllm": ("/version", "version"),
    "llamacpp": ("/props", "build_info"),
    "sglang": ("/get_server_info", "version"),
}
NAMES = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang", "lmdeploy": "LMDeploy"}
# A list of models comes at once: what does not answer so soon hangs.
_FIRST_SECONDS = 10.0
_SHOWN = 10


class NoServerError(Exception):
    """There is no model server to examine; the text says in one line what is there instead."""


def examine_server(ask: Asker, model: str) -> Examination:
    """Facts of a server, as it says them, and the model to ask: the named one, else its first. Raises NoServerError."""
    cards = _cards(ask)
    chosen = model or next((card.id for card in cards if not card.parent), cards[0].id)
    examination = Examination(ask, chosen, cards, kind_of(cards))
    _look_for_kind(examination)
    card = next((card for card in cards if card.id == chosen), None)
    examination.context = card.max_len if card is not None else None
    return examination


def _cards(ask: Asker) -> tuple[ModelCard, ...]:
    answer = ask.get(MODELS, _FIRST_SECONDS)
    if answer.status == 0:
        raise NoServerError(_nothing(ask.url, answer))
    if answer.status in (401, 403):
        raise NoServerError(f"{ask.url} wants a key ({answer.status}); name the variable that holds it with --key-env")
    if answer.status == 503:
        raise NoServerError(f"{ask.url} is not ready (503): {answer.error[:100]}; wait until its model is loaded")
    if answer.status != 200:
        raise NoServerError(f"{ask.url} is no model server: it answers {MODELS} with {answer.status}")
    cards = read_cards(answer.body)
    if not cards:
        raise NoServerError(f"{ask.url} is no model server: what it answers to {MODELS} is no list of models")
    # A proxy lists its server's models, and repairs what is to be found.
    if ask.get("/", _FIRST_SECONDS).json.get("service") == SERVICE:
        raise NoServerError(f"{ask.url} is a {SERVICE}, and no model server; name the one behind it with --upstream")
    return cards


def _nothing(url: str, answer: Answer) -> str:
    """Why there is no answer, in the words of a person who stands before it."""
    if answer.timed_out:
        return f"{url} does not answer: {answer.trouble}"
    if "cannot be reached" in answer.trouble:
        return f"nothing listens at {url}; start the model server, or say where it is with --upstream"
    return f"{url} is no model server: {answer.trouble}"


def _look_for_kind(examination: Examination) -> None:
    """Ask for the version: where the kind is known there, else at each place, which then tells the kind."""
    kinds = [examination.kind] if examination.kind else [*_VERSIONS]
    for kind in kinds:
        if kind not in _VERSIONS:
            continue
        path, key = _VERSIONS[kind]
        answer = examination.ask.get(path)
        answered = answer.json if answer.status == 200 else {}
        if not _is_of(kind, answered, examination):
            continue
        examination.answers[path] = answer
        examination.kind = kind
        examination.version = as_text(answered.get(key))
        return


def _is_of(kind: str, answered: JsonObject, examination: Examination) -> bool:
    """True if that is what such a server says. Many have a version; vLLM says a model's context, too."""
    if not as_text(answered.get(_VERSIONS[kind][1])):
        return False
    if kind == "vllm":
        return bool(examination.kind) or any(card.max_len for card in examination.cards)
    if kind == "sglang":
        return bool(examination.kind) or "tool_call_parser" in answered
    return True


def _kind(examination: Examination) -> Iterator[Found]:
    named = kind_of(examination.cards)
    name = NAMES.get(examination.kind, examination.kind)
    version = examination.version or "of an unknown version"
    if not examination.kind:
        yield found("kind_unknown", url=examination.ask.url)
    elif named:
        yield found("kind", server=name, version=version)
    else:
        yield found("kind_unsaid", server=name, version=version, kind=examination.kind)


def _models(examination: Examination) -> Iterator[Found]:
    ids = [card.id for card in examination.cards]
    listed = ", ".join(ids[:_SHOWN]) + (f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else "")
    if examination.model not in ids:
        yield found("model_not_listed", model=examination.model, listed=listed)
    elif examination.context:
        yield found("models", model=examination.model, context=examination.context, listed=listed)
    else:
        yield found("context_unknown", model=examination.model, listed=listed)


PROBES = (
    Probe(
        "kind",
        "kind and version of the server",
        _kind,
        (
            Told("kind", Level.GOOD, "the server is {server} {version}"),
            Told(
                "kind_unsaid",
                Level.NOTE,
                "the server is {server} {version}, but its list of models does not say so",
                "the proxy does not know that the server keeps the tools in the prompt under tool_choice none, "
                "so it never looks for the calls in the model's own text by itself",
                "it leaves the calls to the server's parser",
                "server: {kind} in the model's entry",
                rule=("server", "{kind}"),
            ),
            Told(
                "kind_unknown",
                Level.NOTE,
                "what kind of server it is could not be told",
                "the proxy does not know what such a server takes, so it sends it nothing but what every server knows",
                "it repairs calls, and finds those that the server leaves in the text",
                "server: vllm, sglang, lmdeploy or llamacpp in the model's entry, if it is one of them",
            ),
        ),
    ),
    Probe(
        "models",
        "models and context",
        _models,
        (
            Told("models", Level.GOOD, "the model {model} has a context of {context} tokens (served: {listed})"),
            Told(
                "context_unknown",
                Level.NOTE,
                "the context of the model {model} is not said (served: {listed})",
                "agents take a window of their own for an unknown model: too long requests are refused, or cut off",
                "it passes the server's refusal on in the words by which agents compact",
                "say the context in the agent's own configuration",
            ),
            Told(
                "model_not_listed",
                Level.HARM,
                "the model {model} is not among those that the server lists: {listed}",
                "requests for it are refused, or answered by another model",
                "it asks for the name that the client says, or for the one that an alias puts in its place",
                "one of the listed names with --model, or an alias in the rules",
            ),
        ),
    ),
)
