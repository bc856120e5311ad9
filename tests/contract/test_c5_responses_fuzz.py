"""Any Responses request is translated or refused with a message, and the result is deterministic (C5, C8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from proxy.dialects.chat.request import conversation_key, read_chat
from proxy.dialects.responses.request import translate
from proxy.dialects.responses.writer import echo
from proxy.dialects.translation import ModelOptions
from proxy.errors import BadRequest
from proxy.json import dump_request
from proxy.web.admission import parse_body
from tests.contract.test_c5_fuzz import MOST, OPTIONS, QUICK, mutated
from tests.support.work import over_soon

DATA = json.loads(Path(__file__).with_name("fuzz.json").read_text("utf-8"))

RESPONSES = DATA["RESPONSES"]


def test_the_unchanged_request_is_accepted() -> None:
    assert translate(RESPONSES, ModelOptions(model="served")).body["messages"]


@pytest.mark.slow
@QUICK
@given(mutated(RESPONSES), OPTIONS)
def test_a_random_responses_request_is_translated_or_refused(body: dict[str, Any], options: ModelOptions) -> None:
    with over_soon(MOST):
        try:
            translation = translate(parse_body(dump_request(body)), options)
        except BadRequest as error:
            assert "\n" not in error.message and len(error.message) < 2000
            return
        raw = dump_request(translation.body)
        read_chat(raw, parse_body(raw))
        dump_request(echo(body))
        conversation_key(body)
    assert dump_request(translate(body, options).body) == raw
