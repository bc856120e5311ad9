"""The table of routes: all that the proxy answers, how, and to whom.

What is not in it, and not listed in `settings.pass_through`, is a 404. Every module that asks "what kind of path is
this" asks the request's `Route`; none looks at the text of a path again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from proxy.upstream.paths import CHAT_COMPLETIONS, COMPLETIONS, MESSAGES_COUNT_TOKENS, TOKENIZE
from proxy.upstream.paths import MODELS as MODELS_PATH

# For the log and the metrics; `passed` is what goes up and comes down as it is, `own` what is answered here.
RouteDialect = Literal["chat", "messages", "responses", "passed", "own"]


class Access(Enum):
    """The clients that may use a route."""

    # It tells nothing of the model server but that it is there.
    ANYONE = "anyone"
    # Who has one of the client keys, if there are any.
    CLIENT = "client"
    ADMIN = "admin"
    # The same, and a browser that has signed in at the live page.
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Route:
    """One path that is answered.

    `path` is as the log has it, with `{id}` where the client puts a model's name, `{response}` a response's id,
    `{asset}` the name of a file of the live page, and `{request}` the number of a request there.
    `takes_thread`: it waits for the model server, so that it must not take the last threads. `names_model`: its body
    goes up with the client's own `model` in it. `keeps_model_busy`: it counts among those that a key may have under
    way.
    """

    path: str
    methods: tuple[str, ...]
    dialect: RouteDialect = "own"
    access: Access = Access.CLIENT
    takes_thread: bool = True
    names_model: bool = False
    keeps_model_busy: bool = False


def _own(path: str, access: Access = Access.ANYONE, method: str = "GET") -> Route:
    return Route(path, (method,), access=access, takes_thread=False)


def _passed(path: str, *, keeps_model_busy: bool) -> Route:
    return Route(path, ("POST",), "passed", names_model=True, keeps_model_busy=keeps_model_busy)


CHAT = Route(CHAT_COMPLETIONS, ("POST",), "chat", names_model=True, keeps_model_busy=True)
MESSAGES = Route("/v1/messages", ("POST",), "messages", keeps_model_busy=True)
COUNT_TOKENS = Route(MESSAGES_COUNT_TOKENS, ("POST",), "messages")
RESPONSES = Route("/v1/responses", ("POST",), "responses", keeps_model_busy=True)
INPUT_TOKENS = Route("/v1/responses/input_tokens", ("POST",), "responses")
COMPACT = Route("/v1/responses/compact", ("POST",), "responses")
RESPONSE = Route("/v1/responses/{response}", ("GET", "DELETE"), "responses")
CANCEL = Route("/v1/responses/{response}/cancel", ("POST",), "responses")
# Paths of the API that are always refused, in words that say what to do instead.
UNSUPPORTED = (CANCEL, COMPACT)
MODELS = Route(MODELS_PATH, ("GET",), "passed")
MODEL = Route(f"{MODELS_PATH}/{{id}}", ("GET",), "passed")
# What the model server answers itself.
PASSED = (
    _passed(COMPLETIONS, keeps_model_busy=True),
    _passed("/v1/embeddings", keeps_model_busy=True),
    _passed(TOKENIZE, keeps_model_busy=False),
    _passed("/detokenize", keeps_model_busy=False),
)
# For clients: each also under /for/NAME, for the client of the rules that says so.
API = (
    *(CHAT, MESSAGES, COUNT_TOKENS, RESPONSES, INPUT_TOKENS, RESPONSE, *UNSUPPORTED),
    *(MODELS, *PASSED, MODEL),
)

HEALTH = (_own("/health"), _own("/_health"))
READY = _own("/_ready")
RELOAD = _own("/_reload", Access.ADMIN, "POST")
METRICS = _own("/metrics", Access.ADMIN)
# The live page: it shows what is in no log, and is for who may use the admin paths.
UI = _own("/_ui", Access.PAGE)
UI_ASSET = _own("/_ui/assets/{asset}")
UI_SIGN_IN = _own("/_ui/sign-in", method="POST")
UI_SIGN_OUT = _own("/_ui/sign-out", Access.PAGE, "POST")
UI_STATE = _own("/_ui/state", Access.PAGE)
UI_EVENTS = replace(_own("/_ui/events", Access.PAGE), takes_thread=True)
UI_REQUEST = _own("/_ui/requests/{request}", Access.PAGE)
UI_CAPTURE = _own("/_ui/requests/{request}/capture", Access.PAGE)
LIVE_PAGE = (UI, UI_ASSET, UI_SIGN_IN, UI_SIGN_OUT, UI_STATE, UI_EVENTS, UI_REQUEST, UI_CAPTURE)
ROOT = _own("/")
CLIENT_ROOT = _own("/for/<client>/")

BY_PATH = {route.path: route for route in (*API, *HEALTH, READY, RELOAD, METRICS, *LIVE_PAGE, ROOT, CLIENT_ROOT)}
_API_PATHS = frozenset(route.path for route in API)
# What a path that settings.pass_through lists takes.
LISTED_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


def listed_route(path: str) -> Route:
    """The route of a path that settings.pass_through lists; those can change at a reload, so they are in no table."""
    return Route(path, LISTED_METHODS, "passed", names_model=True, keeps_model_busy=True)


def is_api(path: str) -> bool:
    """True for a path that the table has for clients."""
    return path in _API_PATHS


def without_client(path: str) -> str:
    """A path without the client that it may name: `/for/NAME/v1/models` is `/v1/models`."""
    if path.startswith("/for/") and path.count("/") > 2:
        return path[path.find("/", len("/for/")) :]
    return path


def asks_in_messages(path: str, *, names_version: bool) -> bool:
    """True if the answer, or the error, is to be in the Messages dialect: by the path, else by the client's header.

    `names_version`: the request has `anthropic-version`, which says so where both dialects may ask: for models, and for
    what there is not.
    """
    path = without_client(path)
    if f"{path}/".startswith(f"{MESSAGES.path}/"):
        return True
    if not names_version:
        return False
    return path == MODELS.path or not is_api(path)


def asks_in_responses(path: str) -> bool:
    """True if the answer, or the error, is to be in the Responses dialect."""
    path = without_client(path)
    return path == RESPONSES.path or path.startswith(f"{RESPONSES.path}/")


def shown_paths(listed: tuple[str, ...]) -> list[str]:
    """All paths that are answered, those of settings.pass_through among them, for people."""
    own = [route.path for route in (*HEALTH, READY, RELOAD, METRICS, UI, ROOT)]
    served = (route.path for route in API if route not in (RESPONSE, *UNSUPPORTED))
    return [*served, *listed, "/for/{client}/v1/…", *own]
