"""The entries of a rules file."""

from __future__ import annotations

from proxy.config.load import RulesText, builtin_text, summary

OWN = b"""\
aliases:
  a*: tiny
  "b*": "tiny"
tools:
  bash:
    models: [tiny]
    fixes:
      - {parameter: command, condition: is_string, action: strip_markup}

      - parameter: timeout
        condition: exists
        action: remove_parameter
models:
  - match: "ti\\u202eny*"
    sampling: {set: {temperature: 0.6}}
clients:
"""


def test_each_entry_is_one_line() -> None:
    entries = summary(RulesText(OWN, "/etc/rules.yaml"))
    assert [entry.text for entry in entries if entry.section in ("tools", "models", "aliases")] == [
        "tools bash: {parameter: command, condition: is_string, action: strip_markup, models: [tiny]}",
        "tools bash: {parameter: timeout, condition: exists, action: remove_parameter, models: [tiny]}",
        "models ti\\u202eny*: {sampling: {set: {temperature: 0.6}}}",
        "aliases a*: tiny",
        'aliases b*: "tiny"',
    ]
    assert all(entry.text.isprintable() for entry in entries)


def test_a_missing_section_is_the_built_in_one() -> None:
    builtin = {entry for entry in summary(builtin_text()) if entry.section == "clients"}
    assert builtin and builtin <= {*summary(RulesText(OWN, "/etc/rules.yaml"))}
    for data in (b"", b"models: []\n", b"settings: {port: 1}\n"):
        assert any(entry.section == "tools" for entry in summary(RulesText(data, "r.yaml")))
