"""The facts of a proxy that runs: its models and its model server, as it says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from proxy import SERVICE
from proxy.codec.json_access import as_list, as_text
from proxy.codec.json_text import Json, JsonObject, load_json
from proxy.commands.exit_status import CommandError, Status
from proxy.config.server_url import server_url
from proxy.errors import UpstreamError, UpstreamSlow, UpstreamTimeout, UpstreamUnreachable
from proxy.healing.families import family_of
from proxy.healing.switches import effort_words
from proxy.limits import MAX_ANSWER
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.model_list import ModelCard, distinct_models, read_cards
from proxy.upstream.paths import MODELS
from proxy.upstream.responses import fetch

# Seconds in which the proxy must have answered; it asks its model server for the models first.
_SECONDS = 15.0
_CONNECT = 5.0
_LISTED = 10
_MULTIMODAL = "multimodal"
_MESSAGES = {"anthropic-version": "2023-06-01"}


@dataclass(frozen=True, slots=True)
class Served:
    """A model behind the proxy: its name, its context in tokens (None: not said), whether it takes pictures, and the
    words by which it can be told how much to think, none where it cannot be told.
    """

    model: str
    context: int | None
    images: bool
    efforts: tuple[str, ...] = ()


def plain_url(url: str) -> str:
    """The proxy's URL without `/v1` at its end; raises CommandError if it is none."""
    try:
        return server_url(url)
    except ValueError as error:
        error_message = f"--url {url!a} is none; give {error}, such as http://127.0.0.1:8003"
        raise CommandError(Status.USAGE, error_message) from error


class ProxyFacts:
    """Asks the proxy at a URL, with a key or without one; `ca_file` is for one behind https. Every method but
    `model_server` raises CommandError.
    """

    def __init__(self, url: str, key: str = "", key_name: str = "", ca_file: str = "") -> None:
        self._url = url
        self._server = ModelServer(ServerOptions(url, connect_timeout=_CONNECT, ca_file=ca_file))
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._key_name = key_name

    def check(self) -> None:
        """See that it is a proxy, and that it reaches its model server."""
        status, body = self._get("/")
        about = _object(body)
        if status != 200 or about.get("service") != SERVICE:
            advice = "--url names the proxy, not the model server; `vllm-tool-proxy serve` starts one"
            raise CommandError(Status.NO_PROXY, f"what answers at {self._url} is no {SERVICE}; {advice}")
        status, _ = self._get("/_ready")
        if status != 200:
            advice = "start that, or see `vllm-tool-proxy check`"
            raise CommandError(Status.NOT_THERE, f"the proxy at {self._url} does not reach its model server; {advice}")

    def model_server(self) -> str:
        """The URL of its model server; "" if what answers is no proxy. Nothing is raised."""
        try:
            _, about = self._get("/")
            _, health = self._get("/health")
        except CommandError:
            return ""
        url = _object(health).get("vllm_url")
        is_proxy = _object(about).get("service") == SERVICE
        return url if is_proxy and isinstance(url, str) else ""

    def served(self, model: str = "") -> Served:
        """The model of that name; without one the only model that there is."""
        body, cards = self._listed()
        name = model or self._only(cards)
        about, context = self._about(name), {card.id: card.max_len for card in cards}
        if not about and name not in context:
            listed = _named([card.id for card in cards])
            raise CommandError(Status.USAGE, f"the proxy has no model {name!r}; choose with --model: {listed}")
        served = as_text(about.get("display_name")) or name
        tokens = context.get(name, _tokens(about.get("max_input_tokens")))
        return Served(name, tokens, _takes_images(body, served), _efforts(about, served))

    def _listed(self) -> tuple[bytes, Sequence[ModelCard]]:
        """Its list of models, as it is and as cards, of which there is one at least."""
        status, body = self._get(MODELS)
        if status in (401, 403):
            raise CommandError(Status.USAGE, self._refused(status))
        cards = read_cards(body) if status == 200 else ()
        if not cards:
            answer = "no model at all" if status == 200 and body else f"nothing that can be read (status {status})"
            raise CommandError(Status.NO_PROXY, f"asked for its models, the proxy at {self._url} says {answer}")
        return body, cards

    def _only(self, cards: Sequence[ModelCard]) -> str:
        names = distinct_models(cards)
        if len(names) != 1:
            raise CommandError(Status.USAGE, f"the proxy has several models; choose one with --model: {_named(names)}")
        return names[0]

    def _about(self, name: str) -> JsonObject:
        """What the proxy says of the model that a name means by its rules, listed or not; empty if it knows none."""
        status, body = self._get(f"{MODELS}/{quote(name)}", _MESSAGES)
        about = _object(body)
        return about if status == 200 and about.get("type") == "model" else {}

    def _refused(self, status: int) -> str:
        if not self._headers:
            return f"the proxy at {self._url} wants a key; name the variable that holds one with --key-env NAME"
        return f"the proxy at {self._url} refuses the key in {self._key_name} (status {status})"

    def _absent(self, error: UpstreamError) -> str:
        if error.message.startswith("no TLS"):
            why = error.message.rpartition(": ")[2]
            return f"no TLS connection to {self._url}: {why}; SSL_CERT_FILE names the file of its authority"
        return f"nothing answers at {self._url}; start `vllm-tool-proxy serve`, or say with --url where it is"

    def _get(self, path: str, more: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        headers = {**self._headers, **(more or {})}
        try:
            return fetch(self._server, path, headers, _SECONDS, MAX_ANSWER)
        except (UpstreamUnreachable, UpstreamSlow) as error:
            raise CommandError(Status.NOT_THERE, self._absent(error)) from error
        except UpstreamTimeout as error:
            late = f"does not answer {path} within {_SECONDS:g} s"
            error_message = f"what is at {self._url} takes the connection, and {late}"
            raise CommandError(Status.NOT_THERE, error_message) from error
        except UpstreamError as error:
            error_message = f"what answers at {self._url} speaks no HTTP that can be read: it is no {SERVICE}"
            raise CommandError(Status.NO_PROXY, error_message) from error


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:_LISTED]) + more


def _object(body: bytes) -> JsonObject:
    """A body's JSON object; an empty one if it is none."""
    try:
        value = load_json(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _tokens(value: Json) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _efforts(about: JsonObject, served: str) -> tuple[str, ...]:
    """The words for the effort that the proxy says; of one that says none yet those that the model's name suggests."""
    said = about.get("efforts")
    if not isinstance(said, list):
        return effort_words(family_of(served))
    return tuple(word for word in said if isinstance(word, str))


def _takes_images(body: bytes, name: str) -> bool:
    """True if llama-server's list says that the model takes pictures; others do not say."""
    for entry in as_list(_object(body).get("models")):
        if isinstance(entry, dict) and name in (entry.get("model"), entry.get("name")):
            return _MULTIMODAL in as_list(entry.get("capabilities"))
    return False
