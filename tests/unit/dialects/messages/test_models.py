"""GET /v1/models in Anthropic's format: pages and single models. F95: Claude Code refuses unlisted models."""

from __future__ import annotations

import json
import typing

import anthropic
import httpx2
import pytest
from anthropic.pagination import SyncPage
from anthropic.types import ModelInfo
from anthropic.types.beta import BetaModelInfo

from proxy.dialects.messages.models import model_info, models_page
from proxy.errors import BadRequest
from proxy.json import JsonObject
from proxy.upstream.model_list import ModelCard
from tests.support.rows import rows

CARDS = tuple(ModelCard(f"m{number}") for number in range(5))


def ids(page: JsonObject) -> list[str]:
    data = page["data"]
    assert isinstance(data, list)
    return [str(each["id"]) for each in data if isinstance(each, dict)]


def refused(**query: str | int) -> str:
    with pytest.raises(BadRequest) as caught:
        models_page(CARDS, **query)  # type: ignore[arg-type]
    assert caught.value.status == 400
    return caught.value.message


def sdk(cards: tuple[ModelCard, ...], asked: list[str]) -> anthropic.Anthropic:
    """Return the official SDK, in strict mode, connected to the two functions."""

    def serve(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url.query, "ascii"))
        last = request.url.path.rpartition("/")[2]
        if last != "models":
            found = next((card for card in cards if card.id == last), cards[0])
            return httpx2.Response(200, json=model_info(found, last))
        query = {name: request.url.params.get(name, "") for name in ("limit", "before_id", "after_id")}
        return httpx2.Response(200, json=models_page(cards, **query))

    client = httpx2.Client(transport=httpx2.MockTransport(serve))
    return anthropic.Anthropic(
        base_url="http://127.0.0.1:1", api_key="k", http_client=client, _strict_response_validation=True, max_retries=0
    )


def test_the_official_sdk_reads_all_pages() -> None:
    asked: list[str] = []
    with sdk(CARDS, asked) as client:
        assert [each.id for each in client.models.list(limit=2)] == ["m0", "m1", "m2", "m3", "m4"]
        assert asked == ["limit=2", "limit=2&after_id=m1", "limit=2&after_id=m3"]
        assert [each.id for each in client.models.list()] == ["m0", "m1", "m2", "m3", "m4"]
        assert [each.id for each in client.beta.models.list(after_id="m2")] == ["m3", "m4"]


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


@rows(__file__, "query,found,more")
def test_pages_are_cut_as_the_api_cuts_them(query: dict[str, str | int], found: list[str], more: bool) -> None:
    page = models_page(CARDS, **query)  # type: ignore[arg-type]
    assert (ids(page), page["has_more"]) == (found, more)
    ends = [found[0], found[-1]] if found else [None, None]
    assert [page["first_id"], page["last_id"]] == ends
    assert page.keys() == SyncPage[ModelInfo].model_fields.keys()
    assert json.loads(json.dumps(page)) == page


def test_a_name_that_occurs_twice_is_listed_once() -> None:
    twice = (ModelCard("a", owner="one"), ModelCard("b"), ModelCard("a"), ModelCard("c"))
    assert ids(models_page(twice)) == ["a", "b", "c"]
    with sdk(twice, []) as client:
        assert [each.id for each in client.models.list(limit=1)] == ["a", "b", "c"]


@pytest.mark.parametrize("limit", [0, 1001, -1, "0", "1001", "x", "2.5", "1e2", " 2", "²", "9" * 5000])
def test_an_invalid_limit_is_refused(limit: str | int) -> None:
    assert refused(limit=limit) == "limit: it must be a whole number from 1 to 1000"


def test_unknown_page_ids_are_refused() -> None:
    assert refused(after_id="x") == "after_id: there is no model 'x' in the list; begin again without it"
    assert refused(before_id="\n" * 500).startswith(r"before_id: there is no model '\n\n")
    assert len(refused(before_id="\n" * 500)) < 300
