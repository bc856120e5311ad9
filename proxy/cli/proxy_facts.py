"""What a running proxy says about itself: its models and its model server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from proxy import SERVICE
from proxy.cli.output import CommandError, Status
from proxy.codec.json_access import as_list, as_text
from proxy.codec.json_text import JsonObject, load_json
from proxy.config.server_url import server_url
from proxy.errors import UpstreamError, UpstreamSlow, UpstreamTimeout, UpstreamUnreachable
from proxy.healing.families import family_of
from proxy.healing.switches import effort_words
from proxy.limits import MAX_ANSWER
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.model_list import ModelCard, distinct_models, read_cards
from proxy.upstream.paths import MODELS
from proxy.upstream.responses import fetch

# Seconds until the proxy must have answered; it asks its model server for the models first.
_SECONDS = 15.0
_CONNECT = 5.0
_LISTED = 10
_MESSAGES = {"anthropic-version": "2023-06-01"}


@dataclass(frozen=True, slots=True)
class Served:
    """A model behind the proxy: its context window in tokens, or None, and whether it accepts images.

    `efforts` are the reasoning efforts that it accepts; empty if it has no such switch.
    """

    model: str
    context: int | None
    images: bool
    efforts: tuple[str, ...] = ()


def plain_url(url: str) -> str:
    """Return the proxy's URL without a final `/v1`. Raises CommandError."""
    try:
        return server_url(url)
    except ValueError as error:
        message = f"--url {url!a} is not valid; give {error}, such as http://127.0.0.1:8003"
        raise CommandError(Status.USAGE, message) from error


class ProxyFacts:
    """Asks the proxy at a URL, with or without a key; `ca_file` is for https. All methods but `model_server` raise
    CommandError.
    """

    def __init__(self, url: str, key: str = "", key_name: str = "", ca_file: str = "") -> None:
        self._url = url
        self._server = ModelServer(ServerOptions(url, connect_timeout=_CONNECT, ca_file=ca_file))
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._key_name = key_name

    def check(self) -> None:
        """Check that it is a proxy, and that it reaches its model server."""
        status, body = self._get("/")
        if status != 200 or _object(body).get("service") != SERVICE:
            advice = "--url is the URL of the proxy, not of the model server; `vllm-tool-proxy serve` starts a proxy"
            raise CommandError(Status.NO_PROXY, f"the server at {self._url} is not {SERVICE}; {advice}")
        status, _ = self._get("/_ready")
        if status != 200:
            advice = "start the model server, or run `vllm-tool-proxy check`"
            message = f"the proxy at {self._url} does not reach its model server; {advice}"
            raise CommandError(Status.NOT_THERE, message)

    def model_server(self) -> str:
        """Return the URL of its model server, or "" if it is not a proxy."""
        try:
            _, about = self._get("/")
            _, health = self._get("/health")
        except CommandError:
            return ""
        url = _object(health).get("vllm_url")
        return url if _object(about).get("service") == SERVICE and isinstance(url, str) else ""

    def served(self, model: str = "") -> Served:
        """Return the model of that name, or the only model."""
        body, cards = self._listed()
        names = distinct_models(cards)
        if not model and len(names) != 1:
            raise CommandError(Status.USAGE, f"the proxy has several models; choose one with --model: {_named(names)}")
        name = model or names[0]
        # Aliases are not listed; the proxy resolves them here.
        status, answer = self._get(f"{MODELS}/{quote(name)}", _MESSAGES)
        about = _object(answer)
        if status != 200 or about.get("type") != "model":
            about = {}
        context = {card.id: card.max_len for card in cards}
        if not about and name not in context:
            listed = _named([card.id for card in cards])
            raise CommandError(Status.USAGE, f"the proxy has no model {name!r}; choose one with --model: {listed}")
        served = as_text(about.get("display_name")) or name
        most = about.get("max_input_tokens")
        tokens = context.get(name, most if isinstance(most, int) and most > 0 else None)
        efforts = about.get("efforts")
        if isinstance(efforts, list):
            words = tuple(word for word in efforts if isinstance(word, str))
        else:  # an older proxy
            words = effort_words(family_of(served))
        return Served(name, tokens, _accepts_images(body, served), words)

    def _listed(self) -> tuple[bytes, Sequence[ModelCard]]:
        """Return its list of models as bytes and as cards, of which there is at least one."""
        status, body = self._get(MODELS)
        if status in (401, 403):
            message = f"the proxy at {self._url} rejects the key in {self._key_name} (status {status})"
            if not self._headers:
                message = f"the proxy at {self._url} requires a key; name its environment variable with --key-env NAME"
            raise CommandError(Status.USAGE, message)
        cards = read_cards(body) if status == 200 else ()
        if not cards:
            answer = "is empty" if status == 200 and body else f"cannot be read (status {status})"
            raise CommandError(Status.NO_PROXY, f"the list of models of the proxy at {self._url} {answer}")
        return body, cards

    def _get(self, path: str, more: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        try:
            return fetch(self._server, path, {**self._headers, **(more or {})}, _SECONDS, MAX_ANSWER)
        except (UpstreamUnreachable, UpstreamSlow) as error:
            message = f"nothing answers at {self._url}; start `vllm-tool-proxy serve`, or give the proxy's --url"
            if error.message.startswith("no TLS"):
                why = error.message.rpartition(": ")[2]
                message = f"no TLS connection to {self._url}: {why}; set SSL_CERT_FILE to the file of its authority"
            raise CommandError(Status.NOT_THERE, message) from error
        except UpstreamTimeout as error:
            message = f"the server at {self._url} does not answer {path} within {_SECONDS:g} s; restart it"
            raise CommandError(Status.NOT_THERE, message) from error
        except UpstreamError as error:
            message = f"the server at {self._url} does not answer in HTTP, so it is not {SERVICE}; check --url"
            raise CommandError(Status.NO_PROXY, message) from error


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:_LISTED]) + more


def _object(body: bytes) -> JsonObject:
    """Return a body's JSON object, or an empty one."""
    try:
        value = load_json(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _accepts_images(body: bytes, name: str) -> bool:
    """Return whether llama-server's list says that the model accepts images; other servers do not say."""
    for entry in as_list(_object(body).get("models")):
        if isinstance(entry, dict) and name in (entry.get("model"), entry.get("name")):
            return "multimodal" in as_list(entry.get("capabilities"))
    return False
