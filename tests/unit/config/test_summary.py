"""The entries of a rules file, as `check` prints them."""

from __future__ import annotations

from proxy.config.load import RulesText, builtin_text, rules_of
from proxy.config.rules import entries_in_force, entry_text

OWN = b"""\
aliases:
  a*: tiny
tools:
  bash:
    models: [tiny]
    fixes:
      - {parameter: command, condition: is_string, action: unescape_html}

      - parameter: timeout
        condition: missing
        action: set_default
        default_value: null
models:
  - match: "ti\\u202eny*"
    sampling: {set: {temperature: 0.6}}
clients:
"""


def test_an_entry_is_shown_without_defaults() -> None:
    shown = {
        (section, title): entry_text(entry)
        for section, found in entries_in_force(rules_of(RulesText(OWN, "/etc/rules.yaml"))).items()
        for title, entry in found
    }
    fixes = (
        '{"parameter": "command", "condition": "is_string", "action": "unescape_html"}, '
        '{"parameter": "timeout", "condition": "missing", "action": "set_default", "default_value": null}'
    )
    assert shown == {
        ("tools", "bash"): f'{{"models": ["tiny"], "fixes": [{fixes}]}}',
        ("models", "ti\u202eny*"): '{"match": "ti\\u202eny*", "sampling": {"set": {"temperature": 0.6}}}',
        ("aliases", "a*"): '"tiny"',
    }


def test_a_missing_section_is_the_built_in_one() -> None:
    builtin = entries_in_force(rules_of(builtin_text()))
    for data in (b"", b"models: []\n", b"settings: {port: 1}\n"):
        assert builtin["tools"] and entries_in_force(rules_of(RulesText(data, "r.yaml")))["tools"] == builtin["tools"]
