"""Reading JSON of which nobody knows the form."""

from __future__ import annotations

import pytest

from proxy.codec.json_access import as_list, as_object, as_text, objects_in
from proxy.codec.json_text import Json

ANY: list[Json] = [None, True, 0, 1.5, "", "a", [], [1, {"a": 1}, {}], {}, {"a": 1}]


@pytest.mark.parametrize("value", ANY)
def test_what_is_of_another_kind_counts_as_empty(value: Json) -> None:
    assert as_list(value) == (value if isinstance(value, list) else [])
    assert as_object(value) == (value if isinstance(value, dict) else {})
    assert as_text(value) == (value if isinstance(value, str) else "")


def test_of_a_list_only_the_objects_are_taken() -> None:
    assert objects_in([1, {"a": 1}, None, [], {}]) == [{"a": 1}, {}]
    assert objects_in({"a": {}}) == objects_in(None) == objects_in("[{}]") == []
