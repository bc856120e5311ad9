"""The models that a server lists, and the upstream name of a client's model. No I/O.

A card is an entry of `GET /v1/models`: `id`, `owned_by`, `created`, and on vLLM and SGLang `root`, `parent` and
`max_model_len`; llama-server has its context in `meta.n_ctx`. llama-server and SGLang report more about
the loaded model at paths of their own (`ABOUT`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.config.rules import Rules
from proxy.display import cut, escaped
from proxy.errors import NotFound
from proxy.healing.families import Shown
from proxy.json import Json, JsonObject, as_object, as_text, dump_json, object_in, objects_in

# Prefix of the model names that Anthropic's clients send by default.
CLAUDE = "claude-"
_RULE = 'aliases: {"claude-*": NAME}'
# The kind of server for each value of `owned_by`.
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "lmdeploy": "lmdeploy", "llamacpp": "llamacpp", "llama.cpp": "llamacpp"}
# Paths that report the model's path and the chat template, by kind of server.
ABOUT = {"llamacpp": "/props", "sglang": "/get_model_info"}
_LISTED = 10
_SHOWN = 100
# Claude Code ignores other names in a gateway's list (`CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY`).
_DISCOVERED = ("claude", "anthropic")
# Wildcards of a glob.
_WILD = re.compile(r"[*?[]")
# Characters that are not allowed in a model's name in a path.
_ODD = re.compile(r"[^A-Za-z0-9._:@+-]+")
# The last second of the year 9999, the largest that can be formatted.
_LAST_SECOND = 253_402_300_799


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model of a server's list.

    `root` is the loaded model, `parent` the base model of a LoRA adapter; "" if not reported. `max_len` is the context
    in tokens, or None. `created` is in seconds since 1970, or 0. `alias_of` is the model that an alias of the rules
    names, "" for the server's own names.
    """

    id: str
    owner: str = ""
    root: str = ""
    parent: str = ""
    max_len: int | None = None
    created: int = 0
    alias_of: str = ""


def read_cards(body: bytes) -> tuple[ModelCard, ...]:
    """Return the cards of a response to `GET /v1/models` in its order; empty if the body is not a list of models.

    Entries without an id are skipped, and malformed fields count as missing.
    """
    cards = map(_card, objects_in(object_in(body).get("data")))
    return tuple(card for card in cards if card.id)


def _card(entry: JsonObject) -> ModelCard:
    created = _count(entry.get("created"))
    return ModelCard(
        id=as_text(entry.get("id")),
        owner=as_text(entry.get("owned_by")),
        root=as_text(entry.get("root")),
        parent=as_text(entry.get("parent")),
        # The fields of vLLM and of llama-server.
        max_len=_count(entry.get("max_model_len")) or _count(as_object(entry.get("meta")).get("n_ctx")) or None,
        created=created if created <= _LAST_SECOND else 0,
    )


def kind_of(cards: Iterable[ModelCard]) -> str:
    """Return the kind of the server by the owner of its models, or "" if it is unknown."""
    kinds = (_OWNERS.get(card.owner.lower(), "") for card in cards)
    return next(filter(None, kinds), "")


def _count(value: Json) -> int:
    """Return a non-negative number as an integer, or 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(int(value), 0)


def served_name(name: str, cards: Sequence[ModelCard], rules: Rules) -> str:
    """Return the name that is sent upstream for the model that a Messages client calls `name`.

    An alias of the rules comes first, then a name that the server has. Any other `claude-*` name means the only served
    model. If there are several, NotFound is raised with their names and the rule to write. Without cards (the server
    did not answer), and for all other names, return `name`.
    """
    if rules.has_alias(name):
        return rules.alias(name)
    if not name.startswith(CLAUDE):
        return name
    if name in [card.id for card in cards]:
        return name
    models = distinct_models(cards)
    if len(models) > 1:
        raise NotFound(
            f"model: {_shown(name)} is not served, and the model server has several models: {listed(models)}; "
            f"write into rules.yaml which of them is meant: {_RULE}"
        )
    return models[0] if models else name


def listed_aliases(cards: Sequence[ModelCard], rules: Rules) -> tuple[ModelCard, ...]:
    """Return the cards of the rules' aliases for models of the list.

    An alias without wildcards is listed unchanged. A glob is listed only if it begins with `claude` or `anthropic`, for
    Claude Code's gateway discovery. The model's name replaces the star: `claude-*: Qwen/Qwen3-Coder` is listed as
    `claude-Qwen3-Coder`. A name is listed only if it resolves to its model and no server has a model with that name.
    """
    served = {card.id: card for card in cards}
    listed: dict[str, ModelCard] = {}
    for glob, model in rules.aliases.items():
        card, name = served.get(model), _listed_name(glob, model)
        if card is None or not name or name in served or rules.alias(name) != model:
            continue
        listed.setdefault(name, replace(card, id=name, root=card.root or card.id, alias_of=model))
    return tuple(listed.values())


def _listed_name(glob: str, model: str) -> str:
    """Return the name under which an alias is listed, or "" if it is not."""
    if not _WILD.search(glob):
        return glob
    name = glob.replace("*", _ODD.sub("-", model.rpartition("/")[2]), 1)
    return "" if _ODD.search(name) or not name.lower().startswith(_DISCOVERED) else name


def all_cards(own: Sequence[ModelCard], others: Iterable[ModelCard], rules: Rules) -> tuple[ModelCard, ...]:
    """Return the main server's cards, then those of other servers and of aliases under names not listed yet."""
    new = {card.id: card for card in others}
    for card in own:
        new.pop(card.id, None)
    cards = (*own, *new.values())
    return (*cards, *listed_aliases(cards, rules))


def completed_list(body: bytes, others: Iterable[ModelCard], rules: Rules) -> bytes:
    """Add to an OpenAI list of models what `all_cards` adds to its cards.

    Returns the body verbatim if nothing is added or if it is not a list of models.
    """
    own = read_cards(body)
    added = all_cards(own, others, rules)[len(own) :]
    answer = object_in(body)
    entries = answer.get("data")
    if not added or not isinstance(entries, list):
        return body
    by_id = {entry.get("id"): entry for entry in entries if isinstance(entry, dict)}
    more: list[Json] = []
    for card in added:
        original = by_id.get(card.alias_of)
        more.append(_entry(card) if original is None else {**original, "id": card.id, "root": card.root})
    return dump_json({**answer, "data": [*entries, *more]})


def _entry(card: ModelCard) -> JsonObject:
    """Return the OpenAI entry of a card; the inverse of `_card`."""
    entry: JsonObject = {"id": card.id, "object": "model", "created": card.created, "owned_by": card.owner}
    more: JsonObject = {"root": card.root, "parent": card.parent, "max_model_len": card.max_len}
    return entry | {name: value for name, value in more.items() if value}


def distinct_models(cards: Sequence[ModelCard]) -> list[str]:
    """Return the first name of each model. Names with the same root are one model, and LoRA adapters do not count."""
    first: dict[str, str] = {}
    for card in cards:
        if not card.parent:
            first.setdefault(card.root or card.id, card.id)
    return list(first.values())


def loaded(model: str, cards: Sequence[ModelCard]) -> Iterator[Shown]:
    """Yield the name and root of a model and, for a LoRA adapter, of its base model.

    A server with a single model uses it for every name.
    """
    by_id = {card.id: card for card in cards}
    if model not in by_id and len(distinct_models(cards)) == 1:
        model = distinct_models(cards)[0]
    for name in (model, by_id[model].parent if model in by_id else ""):
        yield Shown(name)
        if name in by_id:
            yield Shown(by_id[name].root)


def read_about(body: bytes) -> tuple[Shown, ...]:
    """Return the model's path and its chat template from a response of an `ABOUT` path; empty if it has neither."""
    answer = object_in(body)
    path, template = as_text(answer.get("model_path")), as_text(answer.get("chat_template"))
    return (Shown(path), Shown(template=template)) if path or template else ()


def listed(models: Sequence[str]) -> str:
    """Return model names on one line, limited to the first ones."""
    more = f" and {len(models) - _LISTED} more" if len(models) > _LISTED else ""
    return ", ".join(map(_shown, models[:_LISTED])) + more


def _shown(name: str) -> str:
    """Return a short form of a name, on one line."""
    return cut(escaped(name), _SHOWN)
