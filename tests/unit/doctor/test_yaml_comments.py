"""Comments of a YAML text, and the dashes of its lists, where words look like either."""

from __future__ import annotations

import pytest
import yaml

from proxy.doctor.yaml_comments import comments_in, dash_before


@pytest.mark.parametrize(
    ("text", "comments"),
    [
        ("", []),
        ("# one  \na: 1 # two\n  # three", ["# one", "# two", "# three"]),
        ('a: b#c\nd: \'e # f\' # g\nh: "# i\\" # j"\n', ["# g"]),
        ("a: [#b\n  c, # d\n]\n", ["#b", "# d"]),
        ("a: |  # b\n  # no\n  c\n# d\n", ["# b", "# d"]),
        ("a: >-\n  # no\nb: 1\n", []),
        ("a: b # c\r\nd: 1 # e\u2028f: 2\n", ["# c", "# e"]),
        ("a: !!str b#c # d\ne: &f 1 #g\nh: *f #i\n", ["# d", "#g", "#i"]),
        ("%YAML 1.1 # a\n--- # b\nc: !!str 1 # d\n", ["# a", "# b", "# d"]),
        ("a: plain\n  goes on # b\n", ["# b"]),
    ],
)
def test_a_comment_is_what_the_reader_passes_over(text: str, comments: list[str]) -> None:
    assert comments_in(text, 0, len(text)) == comments


def test_only_those_that_begin_between_two_places_count() -> None:
    text = "a: 1 # one\nb: 2 # two\nc: 3 # three\n"
    assert comments_in(text, text.index("b"), text.index("c")) == ["# two"]
    assert comments_in(text, text.index("# two") + 1, len(text)) == ["# three"]


@pytest.mark.parametrize(
    ("text", "dashes"),
    [
        ("- a\n- b\n", [0, 4]),
        ("x:\n  - a: '- no'\n    # - no\n  -\n    # - no\n    b: -1\n", [5, 30]),
        ("- - a\n  - b\n- c-d\n", [0, 12]),
    ],
)
def test_the_dash_of_an_item_is_its_own(text: str, dashes: list[int]) -> None:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(root, yaml.MappingNode):
        root = root.value[0][1]
    assert isinstance(root, yaml.SequenceNode)
    assert [dash_before(text, item.start_mark.index) for item in root.value] == dashes
