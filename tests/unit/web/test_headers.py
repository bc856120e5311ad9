"""What of a client's headers goes up, and what they tell of who asks."""

from __future__ import annotations

import hashlib
import re

import pytest

from proxy.web.headers import credential, error_headers, owner_digest, request_id, upstream_headers


@pytest.mark.parametrize(
    "headers,key",
    [
        ({}, ""),
        ({"HTTP_AUTHORIZATION": "Bearer k1"}, "k1"),
        ({"HTTP_AUTHORIZATION": "bearer   k1 "}, "k1"),
        ({"HTTP_AUTHORIZATION": "Basic dXNlcg=="}, ""),
        ({"HTTP_AUTHORIZATION": "Bearer "}, ""),
        ({"HTTP_X_API_KEY": " k2 "}, "k2"),
        ({"HTTP_AUTHORIZATION": "Bearer k1", "HTTP_X_API_KEY": "k2"}, "k1"),
        ({"HTTP_AUTHORIZATION": "Bearer", "HTTP_X_API_KEY": "k2"}, "k2"),
    ],
)
def test_the_key_comes_from_either_header(headers: dict[str, str], key: str) -> None:
    assert credential(headers) == key


@pytest.mark.parametrize("given", ["r-1", "A.b_c-9", "x" * 64])
def test_a_plain_request_id_is_kept(given: str) -> None:
    assert request_id({"HTTP_X_REQUEST_ID": given}, ()) == given


@pytest.mark.parametrize("given", ["", "a b", "a\nb", "x" * 65, "r\u00e9", "a/b", "a;b", "a\n"])
def test_any_other_request_id_is_made_anew(given: str) -> None:
    made = request_id({"HTTP_X_REQUEST_ID": given}, ())
    assert made != given and re.fullmatch("[0-9a-f]{32}", made)
    assert made != request_id({"HTTP_X_REQUEST_ID": given}, ())


def test_who_asks_is_told_by_the_key_whichever_header_brings_it() -> None:
    bearer, other = ({"HTTP_AUTHORIZATION": f"Bearer {key}"} for key in ("k1", "k2"))
    assert owner_digest(bearer) == owner_digest({"HTTP_X_API_KEY": "k1"}) == hashlib.sha256(b"k1").digest()
    one, two = ({"HTTP_AUTHORIZATION": f"Basic {word}"} for word in ("YQ==", "Yg=="))
    assert len({owner_digest(each) for each in (bearer, other, one, two, {})}) == 5


@pytest.mark.parametrize(
    ("status", "retry_after", "told"),
    [
        (400, None, {"X-Should-Retry": "false"}),
        (403, "2", {"Retry-After": "2", "X-Should-Retry": "false"}),
        (503, "5", {"Retry-After": "5"}),
        (429, None, {}),
    ],
)
def test_an_error_says_whether_and_when_to_ask_again(
    status: int, retry_after: str | None, told: dict[str, str]
) -> None:
    assert dict(error_headers(status, retry_after)) == told


def test_a_header_of_the_proxy_s_own_goes_up_and_never_the_client_s() -> None:
    sent = {"HTTP_OPENAI_SESSION": "forged", "HTTP_X_CONVERSATION_KEY": "forged"}
    assert upstream_headers(sent, "", "r1", "", {"OpenAI-Session": "k"}).get("OpenAI-Session") == "k"
    assert "forged" not in upstream_headers(sent, "", "r1", "", {"OpenAI-Session": "k"}).values()
    assert {*upstream_headers(sent, "", "r1", "", {"OpenAI-Session": ""})} == {"User-Agent", "X-Request-Id"}
