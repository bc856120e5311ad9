"""Queries to a running proxy: its models and its model server. The URL and the key for them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from urllib.parse import quote

from proxy import SERVICE
from proxy.cli.configuration import Values
from proxy.cli.output import CommandError, Status
from proxy.config.load import KEY_VARIABLE, own_url
from proxy.config.settings import Settings, server_url
from proxy.doctor.asking import key_refused, no_model, unreachable
from proxy.errors import UpstreamError, UpstreamSlow, UpstreamTimeout, UpstreamUnreachable
from proxy.json import as_list, as_object, as_text, object_in, objects_in
from proxy.upstream.api import MODELS
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.model_list import ModelCard, distinct_models, listed, read_cards
from proxy.upstream.responses import fetch

# Maximum time (s) to wait for the proxy's answer; the proxy asks its model server for the models first.
_SECONDS = 15.0
_CONNECT = 5.0
# Seconds to wait for an agent's last requests after it has exited, and between two checks.
_RUNNING_SECONDS, _STEP_SECONDS = 1.0, 0.05
_USUAL = own_url(Settings())
_START = "start `vllm-tool-proxy serve`, or give the proxy's --url"
_MESSAGES = {"anthropic-version": "2023-06-01"}


def plain_url(url: str) -> str:
    """Return the proxy's URL without a final `/v1`. Raises CommandError."""
    try:
        return server_url(url)
    except ValueError as error:
        raise CommandError(Status.USAGE, f"--url {url!a} is not valid; give {error}") from error


class ProxyFacts:
    """Asks the proxy at a URL, with or without a key; `ca_file` is for https."""

    def __init__(self, url: str, key: str = "", key_name: str = "", ca_file: str = "") -> None:
        self._url = url
        self._server = ModelServer(ServerOptions(url, connect_timeout=_CONNECT, ca_file=ca_file))
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._key_name = key_name

    def verdict(self) -> str:
        """Return the live page's verdict once no request runs, or after a second.

        Returns "" without requests, or if the page is unavailable.
        """
        deadline = time.monotonic() + _RUNNING_SECONDS
        try:
            while object_in(self._get("/health")[1]).get("active_requests") and time.monotonic() < deadline:
                time.sleep(_STEP_SECONDS)
            state = object_in(self._get("/_ui/state")[1])
        except CommandError:
            return ""
        return as_text(state.get("verdict")) if as_object(state.get("totals")).get("requests") else ""

    def _models(self) -> tuple[bytes, tuple[ModelCard, ...]]:
        """Return the proxy's list of models and its cards, at least one.

        Raises CommandError, also if it is not a proxy or does not reach its model server.
        """
        status, body = self._get("/")
        if status != 200 or object_in(body).get("service") != SERVICE:
            advice = "--url is the URL of the proxy, not of the model server; `vllm-tool-proxy serve` starts a proxy"
            raise CommandError(Status.NO_PROXY, f"the server at {self._url} is not {SERVICE}; {advice}")
        status, _ = self._get("/_ready")
        if status != 200:
            advice = "start the model server, or run `vllm-tool-proxy check`"
            message = f"the proxy at {self._url} does not reach its model server; {advice}"
            raise CommandError(Status.NOT_THERE, message)
        status, body = self._get(MODELS)
        if status in (401, 403):
            other = "" if self._key_name else f", or set {KEY_VARIABLE} if the model server wants it"
            raise CommandError(Status.USAGE, key_refused(status, self._key_name) + other)
        cards = read_cards(body) if status == 200 else ()
        if not cards:
            answer = "is empty" if status == 200 and body else f"cannot be read (status {status})"
            raise CommandError(Status.NO_PROXY, f"the list of models of the proxy at {self._url} {answer}")
        return body, cards

    def served(self, model: str = "") -> Values:
        """Return the values of the model of that name, or of the only model, as far as the proxy knows them.

        Raises CommandError, also if the proxy cannot be used.
        """
        body, cards = self._models()
        names = distinct_models(cards)
        if not model and len(names) != 1:
            raise CommandError(Status.USAGE, f"the proxy has several models; choose one with --model: {listed(names)}")
        name = model or names[0]
        # A name that only a glob of the aliases matches is not listed; the proxy resolves it here.
        _, model_body = self._get(f"{MODELS}/{quote(name)}", _MESSAGES)
        about, context = object_in(model_body), {card.id: card.max_len for card in cards}
        if about.get("type") != "model" and name not in context:
            raise CommandError(Status.USAGE, no_model(name, [*context]))
        most = about.get("max_input_tokens")
        tokens = context.get(name, most if isinstance(most, int) and most > 0 else None)
        efforts = tuple(word for word in as_list(about.get("efforts")) if isinstance(word, str))
        served = as_text(about.get("display_name")) or name
        # llama-server's list says whether a model accepts images; other servers do not say.
        entries = objects_in(object_in(body).get("models"))
        named = next((entry for entry in entries if served in (entry.get("model"), entry.get("name"))), {})
        images = "multimodal" in as_list(named.get("capabilities"))
        return Values(self._url, name, tokens, images=images, efforts=efforts)

    def _get(self, path: str, more: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        try:
            return fetch(self._server, path, {**self._headers, **(more or {})}, _SECONDS)
        except (UpstreamUnreachable, UpstreamSlow) as error:
            why = unreachable(self._url, usual=_USUAL, remedy=_START)
            if not why:
                cause = error.message.rpartition(": ")[2]
                why = f"no TLS connection to {self._url}: {cause}; set SSL_CERT_FILE to the file of its authority"
            raise CommandError(Status.NOT_THERE, why) from error
        except UpstreamTimeout as error:
            message = f"the server at {self._url} does not answer {path} within {_SECONDS:g} s; restart it"
            raise CommandError(Status.NOT_THERE, message) from error
        except UpstreamError as error:
            message = f"the server at {self._url} does not answer in HTTP, so it is not {SERVICE}; check --url"
            raise CommandError(Status.NO_PROXY, message) from error

