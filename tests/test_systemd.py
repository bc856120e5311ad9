"""The unit file: it starts what there is, with settings that exist."""

from __future__ import annotations

import re
from pathlib import Path

from proxy import cli, gunicorn_conf
from proxy.config import RULES_VARIABLE
from proxy.settings import SPECS

UNIT = Path(__file__).parent.parent / "systemd" / "vllm-tool-proxy.service"


def values(key: str) -> list[str]:
    """The values of all lines `key=value`, in order."""
    return re.findall(rf"(?m)^{key}=(.+)$", UNIT.read_text())


def arguments(command: str) -> list[str]:
    """What follows `python -m proxy` in a command line of the unit."""
    program, arguments = command.split(" -m proxy ")
    assert program.endswith("/bin/python") and program.startswith("/")
    return arguments.split()


def test_it_starts_a_command_that_there_is() -> None:
    (start,) = values("ExecStart")
    assert cli._arguments(arguments(start)) == ("serve", {})


def test_a_reload_checks_code_and_rules_before_the_workers_get_them() -> None:
    check, hang_up = values("ExecReload")
    assert cli._arguments(arguments(check)) == ("check", {})
    assert hang_up == "/bin/kill -HUP $MAINPID"


def test_the_variables_that_it_names_exist() -> None:
    named = set(re.findall(r"\bTOOL_PROXY_[A-Z_]+(?==)", UNIT.read_text()))
    assert named and named <= {RULES_VARIABLE, *(spec.variables[0] for spec in SPECS)}


def test_the_shown_values_are_the_defaults() -> None:
    shown = dict(re.findall(r"(?m)^#Environment=(TOOL_PROXY_\w+)=(.+)$", UNIT.read_text()))
    for spec in SPECS:
        assert shown.get(spec.variables[0], str(spec.default)) == str(spec.default)


def test_the_folder_that_it_starts_in_keeps_its_symlink_for_reloads() -> None:
    assert [f"PWD={folder}" for folder in values("WorkingDirectory")] == values("Environment")


def test_streams_get_their_time_to_end_before_systemd_kills() -> None:
    assert int(values("TimeoutStopSec")[0]) > gunicorn_conf.graceful_timeout
    assert values("KillMode") == ["mixed"]


def test_systemd_does_not_give_up_after_its_limit_of_5_starts_in_10_seconds() -> None:
    assert values("Restart") == ["on-failure"]
    assert 5 * int(values("RestartSec")[0]) > 10


def test_no_key_stands_twice_in_a_section_but_those_that_add_up() -> None:
    keys = [line.partition("=")[0] for line in UNIT.read_text().splitlines() if re.match(r"[A-Z]\w+=", line)]
    assert {key for key in keys if keys.count(key) > 1} <= {"ExecReload", "Environment"}
