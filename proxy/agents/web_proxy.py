"""A web proxy of the user's environment, which an agent would ask for the proxy on its own machine, too.

`HTTPS_PROXY=http://web:3128` is the usual thing in a company's network. Most clients ask it for every host that
`NO_PROXY` does not name, 127.0.0.1 among them, and it cannot reach this machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from proxy.agents.configuration import Configuration, Values

_WEB_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
# Some clients read the one, some the other, and some the other only if the one is not there.
_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
# It stands for all hosts, if it stands alone.
_ALL = "*"
_BETWEEN = re.compile(r"[\s,]+")


def past_web_proxy(configuration: Configuration, values: Values) -> Configuration:
    """The configuration with the variables by which the agent asks the proxy itself; the same if none are needed."""
    names = [name for name in _WEB_PROXIES if values.environment.get(name)]
    if not names:
        return configuration
    needed = _needed(values)
    if all(values.environment.get(name) == value for name, value in needed.items()):
        return configuration
    note = (
        f"{names[0]} is set, and what heeds it would ask that web proxy for {values.url}, too: `launch` starts the "
        f"agent with NO_PROXY and no_proxy, which name this machine; without it set both: {needed['NO_PROXY']}"
    )
    return replace(
        configuration,
        environment={**configuration.environment, **needed},
        notes=(*configuration.notes, note),
    )


def _needed(values: Values) -> dict[str, str]:
    """The hosts that are asked directly: those of the environment, this machine, and the proxy's own."""
    hosts = [*_THIS_MACHINE, urlsplit(values.url).hostname or ""]
    return {name: _with(_excepted(name, values.environment), hosts) for name in _EXCEPTIONS}


def _excepted(name: str, environment: Mapping[str, str]) -> str:
    """The value of a variable; where it is missing, that of the other one, which it would hide from a client."""
    if name in environment:
        return environment[name]
    return next((environment[other] for other in _EXCEPTIONS if other in environment), "")


def _with(exceptions: str, hosts: list[str]) -> str:
    """The list with these hosts in it, each once."""
    if exceptions.strip() == _ALL:
        return exceptions
    there = {entry.lower() for entry in _BETWEEN.split(exceptions)}
    missing = [host for host in dict.fromkeys(hosts) if host and host not in there]
    before = [exceptions.rstrip(", \t")] if exceptions.strip(", \t") else []
    return ",".join([*before, *missing])
