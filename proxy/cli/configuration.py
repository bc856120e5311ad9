"""The parts of an agent's configuration, and the values it is built from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

# The proxy's name among an agent's model providers.
PROVIDER = "vllm-tool-proxy"
# Seconds that an agent waits for a response, or for its next byte. The proxy sends a heartbeat every 10 s and waits
# 600 s for a model server (`idle_timeout`), so the proxy's own error, which names the cause, comes first.
PATIENCE = 900
# The key of agents that require one, for a proxy that requires none.
NO_KEY = "local"

_WEB_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class Format(Enum):
    """The format of a file."""

    JSON = "JSON"
    TOML = "TOML"


@dataclass(frozen=True, slots=True)
class Values:
    """The values of an agent's configuration.

    `url` is the proxy's, without `/v1`. `context` is the model's context window in tokens, None if unknown. `images`:
    the model accepts images. `efforts` are the reasoning efforts it accepts, from `none` to `xhigh`; empty if it has no
    such switch. `key_name` is the environment variable that holds the proxy's key, empty if the proxy requires none.
    `key` is the text to use as the key: `$NAME` where the configuration is only shown. `environment` is the one in
    which the agent will run.

    `launch` sets `folder`, which exists only while the agent runs, and `read`, which returns the text of a user's file
    ("" if it does not exist).
    """

    url: str
    model: str
    context: int | None = None
    key_name: str = ""
    key: str = NO_KEY
    images: bool = False
    efforts: tuple[str, ...] = ()
    home: str = "~"
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    read: Callable[[str], str] = lambda path: ""

    def place(self, variable: str, usual: str, name: str) -> str:
        """Return the path of an agent's file: in the folder that a variable names, or in `usual` below the home."""
        folder = self.environment.get(variable) or f"{self.home}/{usual}"
        return f"{folder.rstrip('/')}/{name}"


@dataclass(frozen=True, slots=True)
class File:
    """A file of an agent's configuration, and the content to merge into it.

    `own`: the file belongs to the proxy and has no other content. `optional`: the environment has the same effect.
    `agents` is the path of the object with the user's agents, each of which may have its own `model`.
    """

    path: str
    format: Format
    content: dict[str, Any]
    own: bool = False
    optional: bool = False
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of an agent.

    Variables in `unset` would override it. `notes` are for the user. `private` are the files of `Values.folder` by
    name; only `launch` uses them.
    """

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    notes: tuple[str, ...] = ()
    private: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be configured.

    `configure` returns what the agent needs permanently, in the user's files. `launch` returns what it needs for one
    run: a command line, an environment and private files, which override the files of the user and of the project.

    `version` is the one that `make agents` runs with this configuration; empty for the SDKs, which the tests run.
    `package` is its name on npm, or empty.
    """

    name: str
    configure: Callable[[Values], Configuration]
    launch: Callable[[Values], Configuration]
    title: str
    version: str = ""
    package: str = ""


def web_proxy_exceptions(values: Values) -> dict[str, str]:
    """Return the variables that keep the agent from using a web proxy for this proxy; {} without a web proxy.

    Most clients use a web proxy (`HTTPS_PROXY`) for every host that these variables do not name, even 127.0.0.1.
    """
    env = values.environment
    if not any(map(env.get, _WEB_PROXIES)):
        return {}
    # Some clients read only one of the variables.
    named = re.split(r"[\s,]+", f"{env.get('NO_PROXY', '')},{env.get('no_proxy', '')}")
    hosts = dict.fromkeys(filter(None, named))
    if [*hosts] != ["*"]:  # a `*` exempts every host, but only if it stands alone
        hosts |= dict.fromkeys(["127.0.0.1", "localhost", "::1", str(urlsplit(values.url).hostname)])
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(hosts))
