"""API keys: strictly read, never shown, compared as bytes, and limited to clients and models."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from proxy.config import api_keys as module
from proxy.config.api_keys import (
    MAX_KEYS,
    MAX_SECRET,
    ClientKey,
    Keys,
    parse_admin,
    parse_clients,
    parse_secret,
)
from proxy.config.rules import parse_rules
from proxy.errors import Forbidden, RulesError, Unauthorized
from proxy.web.admission import named_model
from tests.support.rows import rows


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


FILE = f"""\
# two clients
- name: alice
  sha256: {digest("key of alice")}
  models: [Qwen/*, "glm-?"]
  requests_per_minute: 60
  streams: 4
- {{name: Bob.Builder@home_1, sha256: {digest("key of bob").upper()}}}
"""


def parsed(text: str) -> tuple[ClientKey, ...]:
    return parse_clients(text.encode(), "keys.yaml")


def refused(text: str) -> str:
    with pytest.raises(RulesError) as caught:
        parsed(text)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_file_of_keys_is_read() -> None:
    alice, bob = parsed(FILE)
    assert (alice.name, alice.models, alice.requests_per_minute, alice.streams) == ("alice", ("Qwen/*", "glm-?"), 60, 4)
    assert alice.digest == digest("key of alice")
    assert bob == ClientKey("Bob.Builder@home_1", digest("key of bob"))


GOOD = digest("x")


def test_a_client_that_the_rules_lack_is_reported_with_its_line() -> None:
    rules = parse_rules(b"clients: {agent: {}}", "r.yaml")
    with pytest.raises(RulesError) as caught:
        parse_clients(f"- name: a\n  sha256: {GOOD}\n  client: agnt".encode(), "keys.yaml", rules)
    assert caught.value.message == "keys.yaml:3: there is no client 'agnt' in r.yaml, for key a; use agent"


@rows(__file__, "text,line,words")
def test_an_invalid_entry_is_reported_with_its_line(text: str, line: int, words: str) -> None:
    message = refused(text)
    assert message.startswith(f"keys.yaml:{line}: ") and words in message


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "[]", "null"])
def test_a_file_without_keys_does_not_open_the_proxy(text: str) -> None:
    assert refused(text).startswith("keys.yaml: there is no key in it")


def test_the_number_of_keys_is_limited() -> None:
    lines = [f"- {{name: k{number}, sha256: {digest(str(number))}}}" for number in range(MAX_KEYS + 1)]
    assert len(parsed("\n".join(lines[:MAX_KEYS]))) == MAX_KEYS
    assert "remove some" in refused("\n".join(lines))


SECRET = "sk-0123456789abcdef-the-key-itself"


@rows(__file__, "text")
def test_a_key_written_in_place_of_its_hash_is_not_logged(text: str) -> None:
    assert SECRET not in refused(text)


def test_a_key_is_found_by_its_digest() -> None:
    keys = Keys(clients=parsed(FILE))
    assert keys.client(b"key of alice").name == "alice" and keys.client(b"key of bob").name == "Bob.Builder@home_1"
    for wrong in (b"key of alic", b"key of alice ", b"KEY OF ALICE", digest("key of alice").encode(), b"\xff\x00"):
        with pytest.raises(Unauthorized, match="not known"):
            keys.client(wrong)
    with pytest.raises(Unauthorized, match="a key is needed"):
        keys.client(b"")


def test_the_empty_key_is_accepted_only_by_its_digest() -> None:
    with pytest.raises(Unauthorized):
        Keys(clients=(ClientKey("a", ""),)).client(b"")


def test_every_digest_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparison takes constant time: no early exit."""
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    class Watched:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(module, "hmac", Watched)
    keys = Keys(clients=parsed(FILE))
    for key in (b"key of alice", b"key of bob"):
        keys.client(key)
    with pytest.raises(Unauthorized):
        keys.client(b"none")
    assert len(compared) == 3 * 2 and all(len(one) == len(other) == 64 for one, other in compared)


def test_no_object_shows_its_keys() -> None:
    keys = Keys(parsed(FILE), SECRET, parse_admin(SECRET.encode(), "a"), {"$OWN": SECRET})
    for thing in (keys, *keys.clients):
        shown = repr(thing)
        assert SECRET not in shown and digest("key of alice") not in shown and "\\x" not in shown


def test_a_key_is_limited_to_the_models_that_match_its_globs() -> None:
    alice, bob = parsed(FILE)
    for model in ("Qwen/Qwen3-8B", "glm-4"):
        alice.check_model(model)
    for model in ("qwen/x", "glm-45", "gpt-oss", "", "x\nglm-4"):
        with pytest.raises(Forbidden, match="may not use") as caught:
            alice.check_model(model)
        assert "\n" not in caught.value.message and "Qwen/*, glm-?" in caught.value.message
    bob.check_model("anything")
    assert alice.restricted and not bob.restricted
    assert not ClientKey("c", "", ("a", "*")).restricted


@pytest.mark.parametrize("data,key", [(b"abc", "abc"), (b"  abc\r\n", "abc"), (b"a" * MAX_SECRET, "a" * MAX_SECRET)])
def test_a_key_file_may_hold_one_plain_key(data: bytes, key: str) -> None:
    assert parse_secret(data, "up") == key


@pytest.mark.parametrize("data", [b"", b"\n", b"a b", b"a\nb", b"a\r\nX: b", "ä".encode(), b"a\0b", b"a" * 5000])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(data: bytes) -> None:
    with pytest.raises(RulesError, match=r"up: this must be a key, one line") as caught:
        parse_secret(data, "up")
    assert "a b" not in caught.value.message and "\n" not in caught.value.message


def test_the_admin_key_is_given_as_key_or_digest() -> None:
    plain, hashed = parse_admin(b"secret\n", "a"), parse_admin(f"sha256:{digest('secret')}\n".encode(), "a")
    assert plain == hashed
    keys = Keys(admin=plain)
    assert keys.is_admin(b"secret") and not keys.is_admin(b"secre") and not keys.is_admin(digest("secret").encode())
    assert not Keys().is_admin(b"") and not Keys().is_admin(b"secret")
    for wrong in ("sha256:", "sha256:abc", f"sha256:{digest('x')}0"):
        with pytest.raises(RulesError, match="64 hex digits"):
            parse_admin(wrong.encode(), "a")


@pytest.mark.parametrize(
    "body,model",
    [
        (b'{"model": "a", "x": {"model": "b"}}', "a"),
        (b'{"mod\\u0065l": "a"}', "a"),
        (b'{"x": 1}', ""),
        (b'{"model": ["a"]}', ""),
        (b'["model"]', ""),
        (b'[["model", "a"]]', ""),
        (b'"model"', ""),
        (b"", ""),
        (b"--boundary\r\n", ""),
        (b"[" * 100_000, ""),
        (b"\xff\xfe", ""),
    ],
)
def test_the_model_is_read_from_a_body_that_passes_unparsed(body: bytes, model: str) -> None:
    assert named_model(body) == model
