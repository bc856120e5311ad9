"""The machine that the proxy starts on: its own addresses, and the files that a process may open."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import resource
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from proxy.config.settings import Settings
from proxy.errors import RulesError
from proxy.limits import SPARE_DESCRIPTORS

_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
# The first of the sockets that systemd hands over (sd_listen_fds(3)).
_FIRST_SOCKET = 3
# What a worker has open before its first request: the log, shared memory, the poll, pipes.
_OWN_DESCRIPTORS = 32


def is_activated(env: Mapping[str, str]) -> bool:
    """Return whether systemd handed this process its sockets; exec keeps the process id."""
    return env.get("LISTEN_PID") == str(os.getpid()) and env.get("LISTEN_FDS", "0") != "0"


def refuse_own_address(settings: Settings, urls: Sequence[str], env: Mapping[str, str]) -> None:
    """Raise RulesError if a model server's URL leads to the address that the proxy listens on."""
    own = _listening_on(settings, env)
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if not any(port == listened for _, listened in own):
            continue
        for address in _local_addresses(parts.hostname or "", port):
            if any(port == listened and _reaches(address, host) for host, listened in own):
                remedy = "give the address of the model server, or listen on another port with --port"
                raise RulesError(f"upstream {url} is the address that this proxy itself listens on; {remedy}")


def _listening_on(settings: Settings, env: Mapping[str, str]) -> set[tuple[_Ip, int]]:
    """Return the addresses and ports that the proxy listens on, or is about to."""
    if not is_activated(env):
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return {(_ip(place[0]), settings.port) for _, place in _looked_up(settings.host, settings.port, family)}
    found = set()
    for descriptor in range(_FIRST_SOCKET, _FIRST_SOCKET + int(env["LISTEN_FDS"])):
        # gunicorn rejects descriptors that are not sockets.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as listener:
            if listener.family in (socket.AF_INET, socket.AF_INET6):
                host, port = listener.getsockname()[:2]
                found.add((_ip(host), port))
    return found


def _local_addresses(host: str, port: int) -> Iterator[_Ip]:
    """Yield those addresses of a host that are this machine's own.

    Nothing is sent: a connected UDP socket shows the route. To an address of the machine itself it is its own source;
    `0.0.0.0` and `::` become the loopback address.
    """
    for family, place in _looked_up(host, port):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(place)
                source, target = _ip(probe.getsockname()[0]), _ip(probe.getpeername()[0])
        except OSError:
            continue
        if target.is_loopback or source == target:
            yield target


def _looked_up(host: str, port: int, family: int = 0) -> list[tuple[int, Any]]:
    """Return family and socket address of each address of a host; none if it is not known."""
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return [(kind, place) for kind, _, _, _, place in found]


def _ip(address: str) -> _Ip:
    """Return an address without its zone; an IPv4 address in IPv6 form as what it is."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip


def _reaches(address: _Ip, listened: _Ip) -> bool:
    """Return whether a connection to a local address reaches a listener; one on `::` takes IPv4, too."""
    if listened.is_unspecified:
        return listened.version == 6 or address.version == 4
    return address == listened


def few_descriptors(settings: Settings) -> str:
    """Return a warning if a worker may open fewer files than `max_streams` needs, else "".

    gunicorn's master raises the soft limit to the hard one (gunicorn_conf.py), so the hard one counts.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    streams = max(0, (most - SPARE_DESCRIPTORS - _OWN_DESCRIPTORS) // 2)
    if most == resource.RLIM_INFINITY or streams >= settings.max_streams:
        return ""
    return (
        f"a worker may open {most} files, which is enough for about {streams} streams at a time, and max_streams is "
        f"{settings.max_streams}; raise the limit (LimitNOFILE= of the unit, ulimit -Hn), or lower --max-streams"
    )
