"""Masking: secrets and strings that look like keys become asterisks, in linear time, and nothing else changes."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from proxy.errors import BadRequest, refusal
from proxy.secrets import MIN_SECRET, mask_error, masked, masked_start, masked_text
from tests.support.helpers import RECORDINGS
from tests.support.work import over_soon

PLAIN = "Key-0123456789.abc_def"
# Contains characters that encodings change.
SIGNED = 'Key+01/x=="\\~&<'
# The keys are assembled here so that no scanner reports this file.
LOOK_LIKE_KEYS = [
    "sk-" + "proj-Ab3_0123456789",
    "ghp_" + "0123456789abcdefABCD",
    "github_pat_" + "0123456789abcdefABCD",
    "AKIA" + "ABCDEFGH01234567",
    "xoxb-" + "0123456789ab",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIab+c/=\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\nMIIab+c/=\\n",
]


@pytest.mark.parametrize("key", [PLAIN, SIGNED])
@pytest.mark.parametrize(
    "write",
    [
        str,
        lambda key: json.dumps(key)[1:-1],
        lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
        lambda key: key.translate({ord(sign): f"\\u{ord(sign):04X}" for sign in '+/="\\&<'}),
        lambda key: json.dumps(json.dumps(key))[3:-3],
        lambda key: quote(key, safe=""),
        quote,
        lambda key: repr(key)[1:-1],
    ],
    ids=["plain", "JSON", "JSON of PHP", "JSON of .NET", "JSON in JSON", "URL", "URL with slashes", "Python"],
)
def test_a_secret_is_masked_in_every_encoding(key: str, write: object) -> None:
    assert callable(write)
    said = write(key)
    assert masked_text(f"no {said}!", (key,)) == f"no {'*' * len(said)}!"
    assert masked(f"no {said}!".encode(), ("another-key", key)) == f"no {'*' * len(said)}!".encode()


def test_a_short_secret_is_a_placeholder_and_not_masked() -> None:
    short = "x" * (MIN_SECRET - 1)
    assert masked_text(f"no {short}!", (short, "")) == f"no {short}!"


@pytest.mark.parametrize("key", LOOK_LIKE_KEYS)
@pytest.mark.parametrize("before", ["", "key=", "\\n", "\\u003e", "-"])
def test_a_string_that_looks_like_a_key_is_masked(key: str, before: str) -> None:
    assert masked_text(f"{before}{key}!") == f"{before}{'*' * len(key)}!"


def test_the_token_after_bearer_is_masked() -> None:
    assert masked_text("Authorization: Bearer abcdefgh01234567=, x") == f"Authorization: Bearer {'*' * 17}, x"


@pytest.mark.parametrize("text", ["a task-management-system-of-ours", "sk-learn", "highp_precision_of_a_shader", ""])
def test_other_text_is_unchanged(text: str) -> None:
    assert masked_text(text, (PLAIN,)) == text


def test_recorded_replies_are_unchanged() -> None:
    for path in sorted(RECORDINGS.rglob("*.sse")):
        data = path.read_bytes()
        assert masked(data, (PLAIN,)) == data, path


def test_a_text_is_masked_before_it_is_truncated() -> None:
    for most in range(3, 3 + len(PLAIN)):
        assert masked_start(f"no {PLAIN}!", most, (PLAIN,)) == f"no {'*' * len(PLAIN)}!"[:most]


def test_a_secret_is_masked_in_every_field_of_an_error() -> None:
    body = {"message": f"no {PLAIN}", "type": f"bad {PLAIN}"}
    refused = refusal(body, status=401, body=json.dumps({"error": body}).encode())
    refused.headers = (("WWW-Authenticate", f"Bearer error={PLAIN}"),)
    mask_error(refused, (PLAIN,))
    assert PLAIN not in f"{refused.message} {refused.kind} {refused.headers} {refused.body!r}"
    assert (refused.message, refused.kind) == (f"no {'*' * len(PLAIN)}", f"bad {'*' * len(PLAIN)}")
    bad = BadRequest(f"no {PLAIN}")
    mask_error(bad, (PLAIN,))
    assert bad.message == f"no {'*' * len(PLAIN)}"


@pytest.mark.parametrize(
    "hostile", ["sk-", "\\", "earer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "Key+", "+", "%2b", "\\u002b"]
)
def test_hostile_text_takes_linear_time(hostile: str) -> None:
    with over_soon():
        masked(hostile.encode() * (2_000_000 // len(hostile)), (SIGNED, "+" * 40, "Key+" * 10 + "!"))
