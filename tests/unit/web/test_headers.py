"""Request ids."""

from __future__ import annotations

import re

import pytest

from proxy.web.headers import request_id


@pytest.mark.parametrize("given", ["r-1", "A.b_c-9", "x" * 64])
def test_a_plain_request_id_is_kept(given: str) -> None:
    assert request_id({"HTTP_X_REQUEST_ID": given}, ()) == given


@pytest.mark.parametrize("given", ["", "a b", "a\nb", "x" * 65, "r\u00e9", "a/b", "a;b", "a\n"])
def test_any_other_request_id_is_replaced(given: str) -> None:
    made = request_id({"HTTP_X_REQUEST_ID": given}, ())
    assert made != given and re.fullmatch("[0-9a-f]{32}", made)
    assert made != request_id({"HTTP_X_REQUEST_ID": given}, ())
