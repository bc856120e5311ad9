"""Helpers of tests of translated requests in any dialect: their translations and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pytest

from proxy.dialects.chat.request import read_chat
from proxy.dialects.translation import ModelOptions
from proxy.errors import BadRequest
from proxy.json import JsonObject, dump_request
from proxy.repair.record import Repair

MODEL = "served/model"


class Translated(Protocol):
    @property
    def body(self) -> JsonObject: ...

    @property
    def dropped(self) -> tuple[Repair, ...]: ...


_Made = TypeVar("_Made", bound=Translated)


def options(**said: Any) -> ModelOptions:
    """Return model options as read from the rules and the server."""
    return ModelOptions(**{"model": MODEL, **said})


def checked(translation: _Made) -> _Made:
    """Return the translation, which must be JSON with the messages last (C8)."""
    assert [*translation.body][-1] == "messages"
    dump_request(translation.body)
    return translation


def messages_of(translation: Translated) -> list[Any]:
    """Return the chat messages of a translated request."""
    found = translation.body["messages"]
    assert isinstance(found, list)
    return found


def sources_of(translation: Translated) -> tuple[str, ...]:
    """Return the texts from which the model may have copied a call (C3, F89)."""
    return read_chat(b"", {**translation.body}).sources


def lost(translation: Translated) -> dict[str, int]:
    """Return the number of dropped fields by kind."""
    assert {repair.id for repair in translation.dropped} <= {"dropped_field"}
    pairs = [repair.before.rsplit(": ", 1) for repair in translation.dropped]
    assert len({kind for kind, _ in pairs}) == len(pairs), "one record per kind"
    assert all(repair.why.startswith(f"{kind}: ") for repair, (kind, _) in zip(translation.dropped, pairs, strict=True))
    return {kind: int(count) for kind, count in pairs}


def refused(translate: Callable[[], object]) -> str:
    """Return the client's error message for an invalid request, which must be one short line with status 400."""
    with pytest.raises(BadRequest) as caught:
        translate()
    assert caught.value.status == 400
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300
    return caught.value.message


def content(parts: tuple[Any, ...]) -> Any:
    """Return the content of a message: one text, or these parts."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else [*parts]
