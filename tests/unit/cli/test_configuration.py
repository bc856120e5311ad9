"""The values that an agent's configuration is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.cli.configuration import KEY, NO_KEY, Values

VALUES = Values("http://h:1", "m", home="/home/u")


@pytest.mark.parametrize(
    ("context", "window", "output"),
    [(None, 32768, 8192), (4096, 4096, 1024), (131072, 131072, 8192), (1, 1, 0)],
)
def test_a_reply_leaves_room_for_the_prompt(context: int | None, window: int, output: int) -> None:
    values = replace(VALUES, context=context)
    assert (values.window, values.output) == (window, output)


def test_a_key_is_named_and_where_none_is_wanted_something_stands_for_it() -> None:
    assert VALUES.key == NO_KEY
    assert replace(VALUES, key_name="PROXY_KEY").key == KEY


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({}, "/home/u/.pi/agent/models.json"),
        ({"PI_HOME": ""}, "/home/u/.pi/agent/models.json"),
        ({"PI_HOME": "/x"}, "/x/models.json"),
        ({"PI_HOME": "/x/"}, "/x/models.json"),
    ],
)
def test_a_variable_moves_an_agents_folder(environment: dict[str, str], path: str) -> None:
    assert replace(VALUES, environment=environment).place("PI_HOME", ".pi/agent", "models.json") == path
