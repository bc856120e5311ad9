"""YAML files of people, as goose and Continue have them: edited in place."""

from __future__ import annotations

import pytest
import yaml

from proxy.agents.configuration import Format
from proxy.agents.merging import merged
from proxy.agents.spans import NotMergeableError
from tests.unit.agents.test_merging import file


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "model: m\nprovider:\n  ours:\n    url: u\n    n: 1\n"),
        ("# alone", "# alone\nmodel: m\nprovider:\n  ours:\n    url: u\n    n: 1\n"),
        ("model: x # why\n", "model: m # why\nprovider:\n  ours:\n    url: u\n    n: 1\n"),
        (
            "provider:\n    # theirs\n    other: {a: 1}\n\n# next\nb: |\n  text\n",
            "provider:\n    # theirs\n    other: {a: 1}\n    ours:\n      url: u\n      n: 1\n"
            "\n# next\nb: |\n  text\nmodel: m\n",
        ),
        (
            "model: m\nprovider:\n  ours:\n    url: old\n    x: 2",
            "model: m\nprovider:\n  ours:\n    url: u\n    x: 2\n    n: 1\n",
        ),
        # What is empty becomes a block, with what was said in it before that.
        ("model: m\nprovider: {}  # none\n", "model: m\nprovider:  # none\n  ours:\n    url: u\n    n: 1\n"),
        (
            "provider: { # none\n  }\nmodel: m\n",
            "provider:\n# none\n  ours:\n    url: u\n    n: 1\nmodel: m\n",
        ),
        (
            "provider:\r\n  ours: ~\r\nmodel: m\r\n",
            "provider:\r\n  ours:\r\n    url: u\r\n    n: 1\r\nmodel: m\r\n",
        ),
        ("# mine\n{}\n", "# mine\n\nmodel: m\nprovider:\n  ours:\n    url: u\n    n: 1\n"),
        (
            "model: |  # why\n  x # text\n# next\nprovider:\r\n  ours:\r\n    url: u",
            "model: m  # why\r\n# next\nprovider:\r\n  ours:\r\n    url: u\r\n    n: 1\r\n",
        ),
    ],
)
def test_keys_are_set_in_their_mappings(text: str, after: str) -> None:
    assert merged(text, file(Format.YAML)) == after
    assert merged(after, file(Format.YAML)) == after


@pytest.mark.parametrize(
    "text", ["a: [", "- a\n", "{model: x}\n", "provider: {ours: {}}\n", "{}\n...\n", "model: [1]\n", "a: &x 1\nb: *y\n"]
)
def test_what_cannot_be_edited_safely_is_left_alone(text: str) -> None:
    with pytest.raises(NotMergeableError):
        merged(text, file(Format.YAML))


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("name: mine\n", "name: mine\nmodels:\n- name: ours\n  n: 1\n"),
        ("models: []\nlast: 1\n", "models:\n- name: ours\n  n: 1\nlast: 1\n"),
        ("models: [] # none", "models: # none\n- name: ours\n  n: 1\n"),
        ("models:\n# none\nlast: 1\n", "models:\n- name: ours\n  n: 1\n# none\nlast: 1\n"),
        (
            "models:\n  # a comment\n  - name: theirs\n    n: 7\nlast: 1\n",
            "models:\n  # a comment\n  - name: theirs\n    n: 7\n  - name: ours\n    n: 1\nlast: 1\n",
        ),
        (
            "models:\n- name: ours\n  n: 2\n  old: 1\n- name: theirs # kept\n",
            "models:\n- name: ours\n  n: 1\n- name: theirs # kept\n",
        ),
        # What was said in one that is replaced stands before it.
        (
            "models:\n  - name: x # a - b\n    # of x\n"
            "  - # why -\n    name: ours  # mine\n    n: '#2' # two\n  # end\n",
            "models:\n  - name: x # a - b\n    # of x\n"
            "  # why -\n  # mine\n  # two\n  - name: ours\n    n: 1\n  # end\n",
        ),
    ],
)
def test_items_of_a_list_are_told_by_their_names(text: str, after: str) -> None:
    made = file(Format.YAML, {"models": [{"name": "ours", "n": 1}]}, listed="models")
    assert merged(text, made) == after
    assert merged(after, made) == after


def test_what_is_usual_is_said_only_where_nothing_is_said() -> None:
    made = file(Format.YAML, {"b": 1}, usual={"name": "Local", "c": 2})
    assert yaml.safe_load(merged("name: mine\n", made)) == {"name": "mine", "c": 2, "b": 1}
