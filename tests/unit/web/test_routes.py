"""The table of routes: who may use what, and what counts."""

from __future__ import annotations

from proxy.web import routes
from proxy.web.routes import BY_PATH
from tests.support.rows import rows


def paths(**is_: object) -> set[str]:
    """The paths of the routes whose fields are so."""
    return {path for path, route in BY_PATH.items() if is_ == {name: getattr(route, name) for name in is_}}


@rows(__file__, "path,named,messages")
def test_the_dialect_of_an_answer_is_told_by_the_path_and_else_by_the_header(
    path: str, named: bool, messages: bool
) -> None:
    assert routes.asks_in_messages(path, names_version=named) is messages
