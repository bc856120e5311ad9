"""GET /v1/models in Anthropic's format: the list and single models. F95: Claude Code refuses unlisted models."""

from __future__ import annotations

import typing

import anthropic
import httpx2
from anthropic.pagination import SyncPage
from anthropic.types import ModelInfo
from anthropic.types.beta import BetaModelInfo

from proxy.dialects.messages.models import model_info, models_page
from proxy.json import JsonObject
from proxy.upstream.model_list import ModelCard

CARDS = tuple(ModelCard(f"m{number}") for number in range(5))


def ids(page: JsonObject) -> list[str]:
    data = page["data"]
    assert isinstance(data, list)
    return [str(each["id"]) for each in data if isinstance(each, dict)]


def test_the_official_sdk_reads_the_list() -> None:
    client = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=models_page(CARDS))))
    with anthropic.Anthropic(
        base_url="http://127.0.0.1:1", api_key="k", http_client=client, _strict_response_validation=True, max_retries=0
    ) as sdk:
        assert [each.id for each in sdk.models.list(limit=2)] == ["m0", "m1", "m2", "m3", "m4"]


def test_a_model_has_every_sdk_field_and_null_for_unknown_values() -> None:
    info = model_info(ModelCard("m"))
    assert info.keys() == ModelInfo.model_fields.keys()
    needed = [name for name, field in ModelInfo.model_fields.items() if field.is_required()]
    needed += [name for name, field in BetaModelInfo.model_fields.items() if field.is_required()]
    assert all(info[name] is not None for name in needed)
    nullable = [name for name, said in info.items() if said is None]
    assert all(type(None) in typing.get_args(ModelInfo.model_fields[name].annotation) for name in nullable)
    assert ModelInfo.model_validate(info).id == BetaModelInfo.model_validate(info).id == "m"
    assert (info["created_at"], info["max_input_tokens"]) == ("1970-01-01T00:00:00Z", None)


def test_a_name_that_occurs_twice_is_listed_once() -> None:
    page = models_page((ModelCard("b", owner="one"), ModelCard("a"), ModelCard("b"), ModelCard("c")))
    assert ids(page) == ["b", "a", "c"]
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, "b", "c")
    assert page.keys() == SyncPage[ModelInfo].model_fields.keys()
    assert models_page(()) == {"data": [], "has_more": False, "first_id": None, "last_id": None}
