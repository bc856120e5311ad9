"""What the settings may be."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.config import validators as checks
from proxy.config.validators import Check, typed

TAKEN: list[tuple[Check, Any, Any]] = [
    *((checks.int_between(1, 3), each, each) for each in (1, 2, 3)),
    (checks.seconds, 1, 1.0),
    (checks.seconds, 86400.0, 86400.0),
    (checks.boolean, False, False),
    (checks.one_of("a", ""), "", ""),
    (checks.upstream_url, "http://h:1/v1/", "http://h:1"),
    (checks.host, "[::1]", "::1"),
    (checks.host, "0.0.0.0", "0.0.0.0"),
    (checks.host, "fe80::1%eth0", "fe80::1%eth0"),
    (checks.client, "", ""),
    (checks.client, "pi", "pi"),
    (checks.paths, ("/v1/rerank", "/a", "/v1/rerank"), ("/v1/rerank", "/a")),
    (checks.origins, ("HTTP://A:80", "app://", "*", "http://a:80"), ("http://a:80", "app://", "*")),
    (checks.file, "/a/b", "/a/b"),
    (checks.folder, "", ""),
]
REFUSED: list[tuple[Check, Any, str]] = [
    *((checks.int_between(1, 3), each, "a whole number from 1 to 3") for each in (0, 4, True, 2.0, "2")),
    *((checks.seconds, each, "a number of seconds") for each in (0, -1, 86401, True, "1", float("nan"))),
    *((checks.boolean, each, "true or false") for each in (1, "true", ())),
    (checks.one_of("a", ""), "b", 'a or ""'),
    *((checks.upstream_url, each, "the URL of one model server") for each in ("http://a,http://b", 7)),
    *((checks.upstream_url, each, "an http") for each in ("h:1", "http://", "http://u@h")),
    *((checks.host, each, "an IP address or a host name") for each in ("a b", "", "http://a", 7)),
    *((checks.client, each, "the name of a client") for each in ("a b", 7)),
    *((checks.paths, (each,), "a list of plain paths") for each in ("v1", "/", "/a/../b", "/a//b", "/a?b", "/./a")),
    (checks.paths, "/a", "a list of plain paths"),
    *((checks.origins, (each,), "a list of origins") for each in ("a", "http://a/", "http://a b", "http://[::1")),
    *((checks.file, each, "the absolute path of a file") for each in ("a", "./a", 7)),
    (checks.folder, "a", "the absolute path of a folder"),
]


@pytest.mark.parametrize(("check", "given", "used"), TAKEN)
def test_what_may_be_is_taken_in_one_form(check: Check, given: Any, used: Any) -> None:
    assert repr(check(given)) == repr(used)


@pytest.mark.parametrize(("check", "given", "needed"), REFUSED)
def test_what_may_not_be_is_refused_with_what_is_needed(check: Check, given: Any, needed: str) -> None:
    with pytest.raises(ValueError, match=f"^{needed}"):
        check(given)


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        *(("Yes", True, True), ("off", True, False), ("perhaps", True, "perhaps")),
        *(("-3", 1, -3), ("1.5", 1, "1.5"), ("9" * 19, 1, "9" * 19), ("٣", 1, "٣"), (" 1", 1, " 1")),
        *(("2", 1.0, 2.0), ("1e3", 1.0, 1000.0), ("inf", 1.0, "inf"), ("nan", 1.0, "nan")),
        *((" a, b", ("x",), ("a", "b")), (" ", ("x",), ()), ("", "x", "")),
    ],
)
def test_a_text_becomes_what_the_setting_is(text: str, default: Any, value: Any) -> None:
    """Or it stays, for the check to refuse."""
    assert repr(typed(text, default)) == repr(value)
