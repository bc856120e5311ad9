"""Routes and the dialect of their answers."""

from __future__ import annotations

from proxy.web import routes
from tests.support.rows import rows


@rows(__file__, "path,named,messages")
def test_the_dialect_is_determined_by_the_path_or_the_version_header(
    path: str, named: bool, messages: bool
) -> None:
    assert routes.asks_in_messages(path, names_version=named) is messages
