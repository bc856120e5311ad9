"""In which lines the rules of a file stand."""

from __future__ import annotations

import pytest

from proxy.config.rule_lines import rule_lines
from proxy.errors import RulesError


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", {}),
        (b"models:\n", {"models": ()}),
        (b"models: [{match: a}, {match: b}]", {"models": (1, 1)}),
        (b"models:\n- match: a\n  parse: proxy\n\n- match: b\n", {"models": (2, 5)}),
        (b"aliases:\n  a: b\n  # c\n  d: e\n", {"aliases": (2, 4)}),
        (b"tools:\n  a: {}\n  b:\n    fixes:\n    - {}\n    - {}\n  c: {fixes: [{}]}\n", {"tools": (5, 6, 7)}),
    ],
)
def test_each_rule_has_the_line_in_which_it_begins(text: bytes, lines: dict[str, tuple[int, ...]]) -> None:
    assert rule_lines(text, "r.yaml") == lines


def test_what_is_no_yaml_is_told() -> None:
    with pytest.raises(RulesError, match=r"r\.yaml:1"):
        rule_lines(b"a: [", "r.yaml")
