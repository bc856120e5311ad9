"""`vllm-tool-proxy top`: what the live page shows, on a terminal.

It listens as a page does, so that the workers tell what is under way. Without a terminal, or without `rich`, it prints
plain lines once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import requests

from proxy.codec import sse
from proxy.codec.json_access import as_object, as_text
from proxy.codec.json_text import JsonObject, load_json
from proxy.commands.parsers import add_rules, command_parser, rules_flag
from proxy.commands.terminal import has_rich
from proxy.commands.top_view import Shown, lines
from proxy.config.load import load, own_url
from proxy.config.settings import Settings
from proxy.config.validators import upstream_url
from proxy.errors import LimitExceeded, RulesError

_ABOUT = """\
Shows what the live page /_ui shows: requests under way, the latest repairs, what was no call, counts, model servers. On
a terminal it goes on until Ctrl-C (pip install vllm-tool-proxy[terminal]); elsewhere it prints plain lines once.
"""
# What is under way is told once a second: after so many events it is there.
_EVENTS = 3
_CONNECT_SECONDS = 5.0
_SILENT_SECONDS = 60.0
_EVENT_STREAM = "text/event-stream"
_NO_PROXY = "--url names the proxy, not the model server"
_MAX_ERROR = 65536
_HASHED = "sha256:"


def top_command(
    name: str, argv: Sequence[str], stream: TextIO | None = None
) -> int:
    """Run `top` with the words behind it; raises RulesError for bad input, and where there is no such page."""
    parser = command_parser(name, "top", _ABOUT)
    parser.add_argument("--url", metavar="URL", help="where the proxy is; without it as settings and rules say")
    parser.add_argument("--key-file", metavar="FILE", help="file with the admin's key; without it admin_key_file's")
    add_rules(parser)
    options = parser.parse_args(argv)
    stream = sys.stdout if stream is None else stream
    settings, _ = load(rules_flag(options))
    url = own_url(settings) if options.url is None else _checked(options.url)
    show = _show_live if stream.isatty() and has_rich() else _show_once
    show(url, events(url, _key(options.key_file, settings)), stream)
    return 0


def _checked(url: str) -> str:
    try:
        return str(upstream_url(url))
    except ValueError as needed:
        raise RulesError(f"--url: this value cannot be used; it must be {needed}") from None


def _key(file: str | None, settings: Settings) -> str:
    """The admin's key, "" if there is none; of a file with its digest alone nothing can be shown."""
    path = settings.admin_key_file if file is None else file
    if not path:
        return ""
    try:
        key = Path(path).read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise RulesError(f"{path} cannot be read as a key ({error}); give --key-file") from error
    if key.startswith(_HASHED):
        raise RulesError(f"{path} holds the digest of the key; give the key itself by --key-file")
    return key


def events(url: str, key: str) -> Iterator[JsonObject]:
    """The events of a proxy's live page, one by one, without end; RulesError where it does not answer so.

    An open page has its time, and asks anew.
    """
    told = True
    while told:
        told = False
        for event in _opened(url, key):
            told = True
            yield event
    raise RulesError(f"{url}/_ui/events ended before it said anything; ask again")


def _opened(url: str, key: str) -> Iterator[JsonObject]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    decoder = sse.Decoder()
    with requests.Session() as session:
        session.trust_env = False
        try:
            timeout = (_CONNECT_SECONDS, _SILENT_SECONDS)
            with session.get(f"{url}/_ui/events", headers=headers, stream=True, timeout=timeout) as answer:
                _check(url, answer)
                for part in answer.iter_content(None):
                    yield from _updates(decoder, part)
        except requests.RequestException as error:
            raise RulesError(f"the proxy at {url} does not answer ({type(error).__name__}); give --url") from error
        except (ValueError, LimitExceeded) as error:
            raise RulesError(f"what {url}/_ui/events says is no event of a live page; {_NO_PROXY}") from error


def _updates(decoder: sse.Decoder, part: bytes) -> Iterator[JsonObject]:
    for event in decoder.feed(part):
        if event.data is not None:
            yield as_object(load_json(event.data))


def _check(url: str, answer: requests.Response) -> None:
    if answer.status_code == 200:
        if not answer.headers.get("Content-Type", "").lower().startswith(_EVENT_STREAM):
            raise RulesError(f"what answers at {url} has no live page; {_NO_PROXY}")
        return
    message = ""
    with suppress(ValueError):
        said = next(answer.iter_content(_MAX_ERROR), b"")
        message = as_text(as_object(as_object(load_json(said)).get("error")).get("message"))
    raise RulesError(f"{url}/_ui/events answered {answer.status_code}: {message or 'no such page'}")


def _show_once(url: str, updates: Iterator[JsonObject], stream: TextIO) -> None:
    shown = Shown()
    for number, update in enumerate(updates, 1):
        shown.take(update)
        if number == _EVENTS:
            break
    encoding = stream.encoding or "utf-8"
    text = "\n".join(lines(url, shown)).encode(encoding, "backslashreplace").decode(encoding)
    print(text, file=stream, flush=True)


def _show_live(url: str, updates: Iterator[JsonObject], stream: TextIO) -> None:
    """Until the user has seen enough."""
    from proxy.commands.top_screen import screen  # noqa: PLC0415 (it needs rich)

    shown = Shown()
    with suppress(KeyboardInterrupt), screen(url, stream) as draw:
        for update in updates:
            shown.take(update)
            draw(shown)
