"""The table of routes: the paths of the proxy, and who may use them.

Any other path gets a 404, unless `settings.pass_through` lists it. After routing, modules use the route and not the
text of the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from proxy.upstream.api import CHAT_COMPLETIONS, COMPLETIONS, MESSAGES_COUNT_TOKENS, TOKENIZE
from proxy.upstream.api import MODELS as MODELS_PATH

# For the log and the metrics. The model server answers `passed` paths, and the proxy answers `own` paths.
RouteDialect = Literal["chat", "messages", "responses", "passed", "own"]


class Access(Enum):
    """The clients that may use a route."""

    # The route reveals only whether the model server runs.
    ANYONE = "anyone"
    # Needs one of the client keys, if any are configured.
    CLIENT = "client"
    ADMIN = "admin"
    # Needs the admin key, also accepted as HTTP Basic.
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Route:
    """One path.

    `path` is written as in the log, with `{id}` for a model's name, `{response}` for a response's id, `{asset}` for a
    file of the live page, and `{request}` for the number of a request there. `names_model`: the body is sent
    upstream with the client's `model`. `keeps_model_busy`: requests count towards the concurrent requests of a key.
    """

    path: str
    methods: tuple[str, ...]
    dialect: RouteDialect = "own"
    access: Access = Access.CLIENT
    names_model: bool = False
    keeps_model_busy: bool = False


def _own(path: str, access: Access = Access.ANYONE, method: str = "GET") -> Route:
    return Route(path, (method,), access=access)


CHAT = Route(CHAT_COMPLETIONS, ("POST",), "chat", names_model=True, keeps_model_busy=True)
MESSAGES = Route("/v1/messages", ("POST",), "messages", keeps_model_busy=True)
COUNT_TOKENS = Route(MESSAGES_COUNT_TOKENS, ("POST",), "messages")
RESPONSES = Route("/v1/responses", ("POST",), "responses", keeps_model_busy=True)
INPUT_TOKENS = Route("/v1/responses/input_tokens", ("POST",), "responses")
# Always refused, with an error that says what to do instead.
COMPACT = Route("/v1/responses/compact", ("POST",), "responses")
RESPONSE = Route("/v1/responses/{response}", ("GET", "DELETE"), "responses")
MODELS = Route(MODELS_PATH, ("GET",), "passed")
MODEL = Route(f"{MODELS_PATH}/{{id}}", ("GET",), "passed")
# Answered by the model server itself.
PASSED = tuple(
    Route(path, ("POST",), "passed", names_model=True, keeps_model_busy=busy)
    for path, busy in ((COMPLETIONS, True), ("/v1/embeddings", True), (TOKENIZE, False), ("/detokenize", False))
)
# Routes for clients. Each also exists under /for/NAME, for that client of the rules.
API = (
    *(CHAT, MESSAGES, COUNT_TOKENS, RESPONSES, INPUT_TOKENS, RESPONSE, COMPACT),
    *(MODELS, *PASSED, MODEL),
)

HEALTH = (_own("/health"), _own("/_health"))
READY = _own("/_ready")
RELOAD = _own("/_reload", Access.ADMIN, "POST")
METRICS = _own("/metrics", Access.ADMIN)
# The live page shows more than the log, so it needs admin access.
UI = _own("/_ui", Access.PAGE)
UI_ASSET = _own("/_ui/assets/{asset}")
UI_STATE = _own("/_ui/state", Access.PAGE)
UI_REQUEST = _own("/_ui/requests/{request}", Access.PAGE)
LIVE_PAGE = (UI, UI_ASSET, UI_STATE, UI_REQUEST)
ROOT = _own("/")
CLIENT_ROOT = _own("/for/<client>/")

BY_PATH = {route.path: route for route in (*API, *HEALTH, READY, RELOAD, METRICS, *LIVE_PAGE, ROOT, CLIENT_ROOT)}
_API_PATHS = frozenset(route.path for route in API)
# The methods of a path that settings.pass_through lists.
LISTED_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


def listed_route(path: str) -> Route:
    """Return the route of a path in settings.pass_through. It is in no table, because a reload can change the list."""
    return Route(path, LISTED_METHODS, "passed", names_model=True, keeps_model_busy=True)


def is_api(path: str) -> bool:
    """Return whether a path belongs to the API for clients."""
    return path in _API_PATHS


def without_client(path: str) -> str:
    """Return a path without its client: `/v1/models` for `/for/NAME/v1/models`."""
    if path.startswith("/for/") and path.count("/") > 2:
        return path[path.find("/", len("/for/")) :]
    return path


def asks_in_messages(path: str, *, names_version: bool) -> bool:
    """Return whether the answer, or the error, must be in the Messages dialect.

    `names_version`: the request has the header `anthropic-version`. It decides for paths that clients of both dialects
    use: `/v1/models` and unknown paths.
    """
    path = without_client(path)
    if f"{path}/".startswith(f"{MESSAGES.path}/"):
        return True
    return names_version and (path == MODELS.path or not is_api(path))


def asks_in_responses(path: str) -> bool:
    """Return whether the answer, or the error, must be in the Responses dialect."""
    return f"{without_client(path)}/".startswith(f"{RESPONSES.path}/")


def shown_paths(listed: tuple[str, ...]) -> list[str]:
    """Return all paths for display. `listed` are those of settings.pass_through."""
    own = [route.path for route in (*HEALTH, READY, RELOAD, METRICS, UI, ROOT)]
    served = (route.path for route in API if route not in (RESPONSE, COMPACT))
    return [*served, *listed, "/for/{client}/v1/…", *own]
