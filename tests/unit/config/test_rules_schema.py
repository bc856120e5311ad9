"""docs/rules.schema.json, which editors use to check a rules file, agrees with the reader."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from documentation.schema import FILE
from proxy.config.settings import SPECS
from proxy.config.yaml_nodes import compose, json_value
from proxy.errors import RulesError
from tests.unit.config.test_rules import ROWS

SCHEMA: dict[str, Any] = json.loads(FILE.read_text())


def schema_accepts(text: str) -> bool | None:
    """Return an editor's verdict, by YAML 1.2, or None if the text is not YAML."""
    try:
        root = compose(text.encode("latin-1"), "r.yaml")
        value = None if root is None else json_value(root, "the file")
    except RulesError:
        return None
    return bool(Draft202012Validator(SCHEMA).is_valid(value))


def test_it_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_it_accepts_every_valid_file_and_refuses_nearly_every_invalid_one() -> None:
    verdicts = [(schema_accepts(row["rules"]), row["line"] is None) for row in ROWS]
    assert [row["rules"] for row, (said, ours) in zip(ROWS, verdicts, strict=True) if ours and not said] == []
    refused = [said for said, ours in verdicts if said is not None and not ours]
    assert refused.count(False) > 0.85 * len(refused) > 100


def test_every_key_has_a_description_and_settings_have_their_help() -> None:
    for definition in (SCHEMA, *SCHEMA["$defs"].values()):
        assert definition["description"] and all(each["description"] for each in definition["properties"].values())
    said = SCHEMA["$defs"]["Settings"]["properties"]
    assert list(said) == [key for spec in SPECS for key in spec.keys]
    for spec in SPECS:
        default = list(spec.default) if isinstance(spec.default, tuple) else spec.default
        assert (said[spec.name]["description"], said[spec.name]["default"]) == (f"{spec.help}.", default)
