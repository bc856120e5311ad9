"""For random, mutated or truncated input, each parser quickly returns a result or raises its own typed error."""

from __future__ import annotations

import copy
import hashlib
import json
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import sse
from proxy.config.api_keys import parse_admin, parse_clients, parse_secret
from proxy.config.rules import entries_in_force, entry_text, parse_rules
from proxy.dialects.chat.request import read_chat
from proxy.dialects.messages.request import translate, translate_count
from proxy.dialects.translation import ModelOptions
from proxy.errors import BadRequest, LimitExceeded, RulesError
from proxy.exchange.plan import Plan, proxy_parses, upstream_request
from proxy.json import dump_request
from proxy.notations import tables
from proxy.repair.policy import Policy
from proxy.web.admission import named_model, parse_body
from tests.support.helpers import call_json, merged, new_scanner, scan
from tests.support.work import over_soon

DATA = json.loads(Path(__file__).with_name("fuzz.json").read_text("utf-8"))

# Limit in CPU seconds for an input of some kilobytes, which takes milliseconds.
MOST = 2.0
QUICK = settings(max_examples=150)

CHARACTERS = st.characters() | st.sampled_from("\0\n\r\x1b\x85\u2028\ufeff\ud83d")
WORDS = st.text(CHARACTERS, max_size=12)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | st.just(10**400)
LEAVES = st.none() | st.booleans() | NUMBERS | WORDS
KEYS = (
    st.sampled_from(("type", "role", "content", "text", "name", "id", "input", "source", "model", "tools", "")) | WORDS
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)

CHAT: dict[str, Any] = DATA["CHAT"]
MESSAGES = DATA["MESSAGES"]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return the containers in a JSON value, each with one of its keys or indexes."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        inner = todo.pop()
        keys = [*inner] if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
        found += [(inner, key) for key in keys]
        todo += [inner[key] for key in keys]
    return found


@st.composite
def mutated(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """Draw a valid request with up to four places changed."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(0, 4))):
        inner, key = draw(st.sampled_from(places(body)))
        match draw(st.sampled_from(("replace", "remove", "add", "twice"))):
            case "replace":
                inner[key] = draw(VALUES)
            case "remove":
                del inner[key]
            case "add" if isinstance(inner, dict):
                inner[draw(KEYS)] = draw(VALUES)
            case _ if isinstance(inner, list):
                inner.append(copy.deepcopy(inner[key]))
        if not places(body):
            break
    return body


@st.composite
def spliced(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw valid bytes, then replace, remove or repeat some of them."""
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 30)))
        new = draw(
            st.binary(max_size=8) | st.just(data[start:end] * 3) | st.sampled_from((b"\n", b"[", b"{", b"- ", b": "))
        )
        data = data[:start] + new + data[end:]
    return data


def cut(draw: st.DataObject, length: int) -> list[slice]:
    at = sorted(draw.draw(st.lists(st.integers(0, length), max_size=6)))
    return [slice(start, end) for start, end in zip([0, *at], [*at, length], strict=True)]


LINES = st.sampled_from(
    (b"data: {}", b"data:", b"data", b":", b": x", b"event: e", b"id: 1", b"retry", b"\xef\xbb\xbf", b"\xff")
)
ENDS = st.sampled_from((b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r", b""))


@QUICK
@given(st.lists(st.tuples(LINES | st.binary(max_size=20), ENDS), max_size=30), st.data())
def test_the_sse_decoder_keeps_every_event(parts: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(line + end for line, end in parts)
    with over_soon(MOST):
        decoder = sse.Decoder()
        events = [event for part in cut(data, len(stream)) for event in decoder.feed(stream[part])]
        events += decoder.finish()
    # If the last event lacks its blank line, one is added.
    assert b"".join(event.raw for event in events).rstrip(b"\r\n") == stream.rstrip(b"\r\n")
    again = sse.Decoder()
    assert [event.data for event in (*again.feed(stream), *again.finish())] == [event.data for event in events]


@QUICK
@given(st.binary(max_size=300), st.data())
def test_the_sse_decoder_enforces_its_limit(stream: bytes, data: st.DataObject) -> None:
    decoder = sse.Decoder(16)
    try:
        for part in cut(data, len(stream)):
            decoder.feed(stream[part])
        decoder.finish()
    except LimitExceeded as error:
        assert error.limit == "max_event"


TOKENS = st.sampled_from(
    (
        *tables.TOKENS,
        *(closer for closers in tables.TOKENS.values() for closer in closers),
        *(
            f"<{name}>"
            for name in ("tool_call", "tools", "function=read", "parameter=path", "invoke", "think", "arg_key")
        ),
        *(f"<{word}>" for word in tables.WRAPPER_WORDS),
        *(
            "</tool_call>",
            "</function>",
            "</parameter>",
            "</think>",
            "</invoke>",
            "<function=",
            "[ARGS]",
            "```",
            "```json\n",
        ),
        *(
            '{"name": "read", "arguments": {',
            '"path": "a"}}',
            "}",
            "]",
            "[",
            ", ",
            '"',
            "'",
            "\\",
            "\n",
            "\n\n",
            "`",
            " ",
        ),
        *("read", "bash", "now", "read(path='a')", "functions.read:0", call_json("read", path="a"), call_json("rm")),
    )
)


@QUICK
@given(st.lists(TOKENS | WORDS, max_size=25), st.booleans(), st.booleans(), st.booleans(), st.data())
def test_any_text_is_scanned(
    parts: list[str], stopped: bool, json_reply: bool, raw_text: bool, data: st.DataObject
) -> None:
    said = "".join(parts)
    with over_soon(MOST):
        scan(
            [said[part] for part in cut(data, len(said))],
            new_scanner(json_reply=json_reply, raw_text=raw_text),
            stopped=stopped,
        )


@QUICK
@given(st.lists(TOKENS | WORDS, max_size=15), st.integers(1, 60))
def test_the_scanner_loses_no_text_at_its_limits(parts: list[str], most: int) -> None:
    scanner = new_scanner(max_held=most, max_calls=1)
    pieces = [
        piece for part in parts for piece in (*scanner.feed(part), *(scanner.release() if len(part) % 3 == 0 else ()))
    ]
    with over_soon(MOST):
        merged([*pieces, *scanner.finish(stopped=True)], "".join(parts))


@QUICK
@given(mutated(CHAT))
def test_a_random_chat_request_is_read(body: dict[str, Any]) -> None:
    raw = dump_request(body)
    with over_soon(MOST):
        wanted = read_chat(raw, parse_body(raw))
        shaped = Plan(parse="proxy", transport="whole", server_kind="vllm", without=("tools",), max_tokens=1)
        for plan in (Plan(), shaped):
            assert json.loads(upstream_request(wanted, plan).body) is not None
            proxy_parses(wanted, plan)


@QUICK
@given(mutated(CHAT).flatmap(lambda body: spliced(json.dumps(body).encode())) | st.binary(max_size=200))
def test_a_chat_request_of_random_bytes_is_read_or_refused(raw: bytes) -> None:
    with over_soon(MOST):
        try:
            read_chat(raw, parse_body(raw))
        except BadRequest as error:
            assert "\n" not in error.message and len(error.message) < 500


OPTIONS = st.builds(
    ModelOptions,
    model=st.just("served"),
    server_kind=st.sampled_from(("", "vllm", "sglang", "llamacpp")),
    thinking=st.sampled_from(("", "none", "enable_thinking", "thinking", "reasoning_effort")),
    reasoning_history=st.sampled_from(("drop", "reasoning", "reasoning_content")),
    server_tools=st.sampled_from(("refuse", "drop")),
)


@QUICK
@given(mutated(MESSAGES), OPTIONS)
def test_a_random_messages_request_is_translated_or_refused(body: dict[str, Any], options: ModelOptions) -> None:
    for how in (translate, translate_count):
        with over_soon(MOST):
            try:
                translation = how(parse_body(dump_request(body)), options)
            except BadRequest as error:
                assert len(error.message) < 2000
                continue
            raw = dump_request(translation.body)
            read_chat(raw, parse_body(raw))
        assert dump_request(how(body, options).body) == raw


BUILT_IN = resources.files("proxy").joinpath("rules.yaml").read_bytes()
SECTIONS = [b"\n" + part for part in BUILT_IN.split(b"\n\n") if part.strip()]


@settings(QUICK, max_examples=80)
@given(st.lists(st.sampled_from(SECTIONS), max_size=3).map(b"\n".join).flatmap(spliced) | st.binary(max_size=100))
def test_random_rules_are_read_or_refused(raw: bytes) -> None:
    with over_soon(MOST):
        try:
            rules = parse_rules(raw, "rules.yaml", parse_rules(b"", "built-in"))
            assert isinstance(rules.policy("m"), Policy)
            for _, entry in chain(*entries_in_force(rules).values()):
                assert entry_text(entry).isprintable()
        except RulesError as error:
            assert error.message.startswith("rules.yaml") and "\n" not in error.message


SECRET = "sk-0123456789abcdefghij"
KEYS_FILE = "".join(
    f"- name: client{number}\n  sha256: {hashlib.sha256(bytes([number])).hexdigest()}\n  models: [a, b*]\n"
    f"  requests_per_minute: {number + 1}\n  streams: 2\n"
    for number in range(3)
).encode()


@QUICK
@given(spliced(KEYS_FILE) | st.binary(max_size=100))
def test_random_client_keys_are_read_or_refused(raw: bytes) -> None:
    with over_soon(MOST):
        try:
            for key in parse_clients(raw, "keys.yaml"):
                assert len(key.digest) == 64 and key.name.isprintable()
                assert min(key.requests_per_minute, key.streams) >= 0
        except RulesError as error:
            assert error.message.startswith("keys.yaml") and "\n" not in error.message
            assert not any(line.split()[-1].decode() in error.message for line in KEYS_FILE.splitlines()[1::5])


@QUICK
@given(st.binary(max_size=100) | spliced(SECRET.encode()) | spliced(b"sha256:" + b"0" * 64))
def test_random_key_files_are_read_or_refused(raw: bytes) -> None:
    for parse in (parse_secret, parse_admin):
        try:
            parse(raw, "key")
        except RulesError as error:
            assert error.message.startswith("key: ") and SECRET[3:] not in error.message


@QUICK
@given(st.binary(max_size=100) | mutated(CHAT).flatmap(lambda body: spliced(json.dumps(body).encode())))
def test_the_model_of_a_random_body_is_a_string(raw: bytes) -> None:
    with over_soon(MOST):
        try:
            name = named_model(raw)
        except BadRequest:
            return
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    known = body.get("model") if isinstance(body, dict) else None
    assert name == (known if isinstance(known, str) else "")
