"""The entries of a rules file, each with its place."""

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


def test_each_entry_has_its_text_and_its_line() -> None:
    entries = summary(RulesText(OWN, "/etc/rules.yaml"))
    own = {entry.text: entry.place for entry in entries if entry.section in ("tools", "models", "aliases")}
    assert own == {
        "tools bash: {parameter: command, condition: is_string, action: strip_markup, models: [tiny]}": (
            "/etc/rules.yaml:8"
        ),
        "tools bash: {parameter: timeout, condition: exists, action: remove_parameter, models: [tiny]}": (
            "/etc/rules.yaml:10"
        ),
        "models ti\\u202eny*: {sampling: {set: {temperature: 0.6}}}": "/etc/rules.yaml:14",
        "aliases a*: tiny": "/etc/rules.yaml:2",
        'aliases b*: "tiny"': "/etc/rules.yaml:3",
    }
    assert all(entry.text.isprintable() for entry in entries)


def test_a_section_that_the_file_lacks_is_the_built_in_one() -> None:
    lines = builtin_text().data.decode().splitlines()
    places = {entry.text: entry.place for entry in summary(RulesText(OWN, "/etc/rules.yaml"))}
    builtin = {text: place for text, place in places.items() if text.startswith(("families ", "clients "))}
    assert builtin and all(place.startswith("built-in:") for place in builtin.values())
    for text, place in builtin.items():
        assert text.split(" ")[1].rstrip(":") in lines[int(place.rpartition(":")[2]) - 1]
    for data in (b"", b"models: []\n", b"settings: {port: 1}\n"):
        assert any(entry.section == "tools" for entry in summary(RulesText(data, "r.yaml")))
