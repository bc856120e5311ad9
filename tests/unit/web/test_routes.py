"""The table of routes: the dialect of an answer."""

from __future__ import annotations

from proxy.web import routes
from tests.support.rows import rows


@rows(__file__, "path,named,messages")
def test_the_dialect_of_an_answer_is_told_by_the_path_and_else_by_the_header(
    path: str, named: bool, messages: bool
) -> None:
    assert routes.asks_in_messages(path, names_version=named) is messages
