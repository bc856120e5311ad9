"""The parsers of command lines: what is wrong is one line, and what is cut short is no option."""

from __future__ import annotations

import pytest

from proxy.commands.parsers import NAME, Parser, add_rules, command_parser, settings_parser
from proxy.errors import RulesError


def parser() -> Parser:
    made = command_parser(NAME, "parse", "About it.")
    add_rules(made)
    return made


def test_what_is_wrong_is_one_line_that_names_the_command() -> None:
    with pytest.raises(RulesError, match=r"^unrecognized arguments: --odd; see vllm-tool-proxy parse --help$"):
        parser().parse_args(["--odd"])


def test_an_option_is_not_cut_short() -> None:
    assert parser().parse_args(["--rules", "a"]).rules == "a"
    with pytest.raises(RulesError, match="--rule"):
        parser().parse_args(["--rule", "a"])


def test_the_help_of_a_command_has_its_lines_as_they_are() -> None:
    text = command_parser(NAME, "doctor", "About\nit.", "0  fine\n1  not\n").format_help()
    assert "About\nit.\n" in text and text.endswith("0  fine\n1  not\n")


def test_a_setting_that_is_not_given_is_not_there() -> None:
    assert vars(settings_parser().parse_args([])) == {"command": "serve"}
    assert vars(settings_parser().parse_args(["check", "--port", "1"])) == {"command": "check", "port": "1"}
