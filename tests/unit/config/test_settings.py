"""The table of settings: a text becomes a value, or one error line says what is needed (`settings.jsonl`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from proxy.config.settings import SPECS, Settings, Spec
from proxy.config.yaml_nodes import usable
from proxy.errors import RulesError

ROWS = [json.loads(line) for line in Path(__file__).with_name("settings.jsonl").read_text().splitlines()]


def spec(name: str) -> Spec:
    return next(each for each in SPECS if each.name == name)


def refused(name: str, text: str) -> str:
    """Return the error for this text of a setting."""
    with pytest.raises(RulesError) as caught:
        spec(name).from_text(text, "--here")
    assert caught.value.message.startswith("--here: ") and "\n" not in caught.value.message
    return caught.value.message


def test_each_default_is_valid_and_has_a_flag_and_a_variable() -> None:
    for each in SPECS:
        assert usable(each.default, each.kind, "default") == each.default
        assert each.flags[0] == "--" + each.name.replace("_", "-")
        assert each.variables[0] == "TOOL_PROXY_" + each.name.upper()
    assert [each.name for each in SPECS] == [each.name for each in structs.fields(Settings)]
    flags = [flag for each in SPECS for flag in each.flags]
    variables = [variable for each in SPECS for variable in each.variables]
    assert len(set(flags)) == len(flags) and len(set(variables)) == len(variables)


def test_a_password_in_the_upstream_url_is_refused_and_not_shown() -> None:
    assert "secret" not in refused("upstream", "http://u:secret@h")


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_text_becomes_a_value_or_an_error_that_names_its_source(row: dict[str, Any]) -> None:
    if "needed" in row:
        message = refused(row["name"], row["text"])
        assert f"it must be {row['needed']}" in message and len(message) < 250
    else:
        value = tuple(row["value"]) if isinstance(row["value"], list) else row["value"]
        assert repr(spec(row["name"]).from_text(row["text"], "here")) == repr(value)


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("admin_key_file", "the key", "this value cannot"),
        ("upstream_key_file", "the key", "this value cannot"),
        ("audit_file", "user:word@host", "this value cannot"),
        ("audit_file", "x" * 500, "'xxxxx"),
        ("audit_file", "a", "'a' cannot"),
    ],
    ids=["a key", "another key", "a password", "a long one", "a short one"],
)
def test_a_value_is_shown_unless_it_may_be_secret(name: str, text: str, shown: str) -> None:
    message = refused(name, text)
    assert message.startswith(f"--here: {shown}")
    assert len(message) < 200


def test_settings_load_without_docstrings() -> None:
    """`PYTHONOPTIMIZE=2` removes the docstring that describes them."""
    subprocess.run([sys.executable, "-OO", "-c", "import proxy.config.settings"], check=True)
