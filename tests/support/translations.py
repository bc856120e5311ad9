"""What the tests of translated requests share, whatever their dialect: what became of one, and how it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pytest

from proxy.audit_record import Repair
from proxy.codec.json_text import JsonObject, dump_request
from proxy.dialects.chat.request import read_chat
from proxy.dialects.translation import ModelOptions
from proxy.errors import BadRequest

MODEL = "served/model"


class Translated(Protocol):
    """What a dialect makes of a request."""

    @property
    def body(self) -> JsonObject: ...

    @property
    def dropped(self) -> tuple[Repair, ...]: ...


_Made = TypeVar("_Made", bound=Translated)


def options(**said: Any) -> ModelOptions:
    """What the rules and the server say of the model."""
    return ModelOptions(**{"model": MODEL, **said})


def checked(translation: _Made) -> _Made:
    """The translation, which must be JSON with the messages last (C8)."""
    assert [*translation.body][-1] == "messages"
    dump_request(translation.body)
    return translation


def messages_of(translation: Translated) -> list[Any]:
    """The chat messages of a translated request."""
    found = translation.body["messages"]
    assert isinstance(found, list)
    return found


def sources_of(translation: Translated) -> tuple[str, ...]:
    """Return the texts in which a call is looked for that the model may have copied (C3, F89)."""
    return read_chat(b"", {**translation.body}).sources


def lost(translation: Translated) -> dict[str, int]:
    """How many of each kind of field were dropped."""
    assert {repair.id for repair in translation.dropped} <= {"dropped_field"}
    pairs = [repair.before.rsplit(": ", 1) for repair in translation.dropped]
    assert len({kind for kind, _ in pairs}) == len(pairs), "one record for each kind"
    assert all(repair.why.startswith(f"{kind}: ") for repair, (kind, _) in zip(translation.dropped, pairs, strict=True))
    return {kind: int(count) for kind, count in pairs}


def refused(translate: Callable[[], object]) -> str:
    """What the client is told about a request that cannot be used: one line, and not too long (400)."""
    with pytest.raises(BadRequest) as caught:
        translate()
    assert caught.value.status == 400
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300
    return caught.value.message


def content(parts: tuple[Any, ...]) -> Any:
    """The content of a message: one text, or these parts."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else [*parts]
