"""Checks of settings: each takes a value of any type and returns the one to use.

Raises ValueError that says what is needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TypeAlias

from proxy.config.rules import CLIENT_NAME, Setting
from proxy.config.server_url import ONE_SERVER, server_url

Check: TypeAlias = Callable[[Setting], Setting]

_DAY = 86400
_PATH_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]?")
_ORIGIN = re.compile(r"\*|loopback|[a-z][a-z0-9+.-]*://(?:(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?)?")
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][-+]?[0-9]{1,3})?")
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def int_between(low: int, high: int) -> Check:
    """A whole number between the two, or one of them."""

    def check(value: Setting) -> Setting:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return check


def seconds(value: Setting) -> Setting:
    """A number of seconds, a day at most."""
    if type(value) not in (int, float) or not 0 < (number := float(value)) <= _DAY:  # type: ignore[arg-type]
        raise ValueError(f"a number of seconds over 0 and up to {_DAY}")
    return number


def boolean(value: Setting) -> Setting:
    """True or false."""
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def one_of(*words: str) -> Check:
    """One of these words."""

    def check(value: Setting) -> Setting:
        if value not in words:
            raise ValueError(" or ".join(word or '""' for word in words))
        return value

    return check


def upstream_url(value: Setting) -> Setting:
    """Return the URL of the model server without `/v1`. Raises ValueError for a list of URLs."""
    if not isinstance(value, str) or "," in value:
        raise ValueError(ONE_SERVER)
    return server_url(value)


def host(value: Setting) -> Setting:
    """An address to listen on."""
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise ValueError("an IP address or a host name")
    return value.strip("[]")


def client(value: Setting) -> Setting:
    """A client's name, or an empty string."""
    if not isinstance(value, str) or (value and not CLIENT_NAME.fullmatch(value)):
        raise ValueError("the name of a client in the rules")
    return value


def paths(value: Setting) -> Setting:
    """Plain paths, each once."""
    if not isinstance(value, tuple) or not all(map(_is_path, value)):
        raise ValueError("a list of plain paths like /v1/rerank")
    return tuple(dict.fromkeys(value))


def _is_path(path: str) -> bool:
    start, *words = path.split("/")
    if start or not words:
        return False
    return all(_PATH_WORD.fullmatch(word) and word not in (".", "..") for word in words)


def origins(value: Setting) -> Setting:
    """Origins of web pages, each once, in lower case, as browsers write them."""
    if not isinstance(value, tuple) or not all(_ORIGIN.fullmatch(each.lower()) for each in value):
        raise ValueError("a list of origins like https://host:8080, app://, loopback or *, without a path")
    return tuple(dict.fromkeys(each.lower() for each in value))


def _path_of(what: str) -> Check:
    def check(value: Setting) -> Setting:
        # Relative to what? The workers run in another folder than the command.
        if not isinstance(value, str) or (value and not os.path.isabs(value)):
            raise ValueError(f"the absolute path of {what}")
        return value

    return check


file = _path_of("a file")
folder = _path_of("a folder")


def typed(text: str, default: Setting) -> Setting:
    """`text` as the type of `default`; the text itself if it is not of that type, for the check to refuse."""
    if isinstance(default, bool):
        return _TRUTHS.get(text.lower(), text)
    if isinstance(default, int):
        if _INT.fullmatch(text):
            return int(text)
    elif isinstance(default, float):
        if _FLOAT.fullmatch(text):
            return float(text)
    elif isinstance(default, tuple):
        if not text.strip():
            return ()
        return tuple(word.strip() for word in text.split(","))
    return text
