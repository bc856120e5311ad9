"""The four sources of a setting, their precedence, and one clear error line for an unusable value."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from proxy.config import load as config
from proxy.config.api_keys import ClientKey, Keys, digest_of
from proxy.config.load import (
    VIA_VARIABLE,
    builtin_text,
    find_rules,
    load,
    read_keys,
    unread_rules,
    working_folder,
)
from proxy.config.rules import Rules, parse_rules
from proxy.config.settings import SPECS, Settings
from proxy.errors import RulesError
from tests.support.rows import rows
from tests.support.worker_state import read_rules

REPO = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this machine's rules files. The system's file is `etc/rules.yaml` in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc").mkdir()
    monkeypatch.setattr(config, "SYSTEM_RULES", tmp_path / "etc" / "rules.yaml")


def refused(flags: dict[str, str], env: dict[str, str]) -> str:
    with pytest.raises(RulesError) as caught:
        load(flags, env)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_the_commented_settings_of_the_rules_file_are_the_defaults() -> None:
    text = re.sub(r"(?m)^  # ([a-z_]+: )", r"  \1", (REPO / "rules.yaml").read_text())
    Path("etc/rules.yaml").write_text(text)
    settings, rules = load({}, {})
    assert settings == Settings()
    assert set(rules.settings) == {each.name for each in SPECS}


def test_precedence_is_flag_environment_file_default() -> None:
    Path("etc/rules.yaml").write_text("settings: {port: 3, max_streams: 33, heartbeat: 3}\n")
    env = {"TOOL_PROXY_PORT": "2", "TOOL_PROXY_MAX_STREAMS": "22"}
    settings, _ = load({"port": "1"}, env)
    assert (settings.port, settings.max_streams, settings.heartbeat, settings.workers) == (1, 22, 3.0, 1)


def test_variables_of_the_earlier_system_are_read_and_our_own_win() -> None:
    env = {"VLLM_URL": "http://gpu:1/v1", "PROXY_PORT": "9", "MAX_TOOL_CALLS": "20"}
    settings, _ = load({}, env)
    assert (settings.upstream, settings.port, settings.max_tool_calls) == ("http://gpu:1", 9, 20)
    settings, _ = load({}, {**env, "TOOL_PROXY_PORT": "10", "TOOL_PROXY_UPSTREAM": "http://own"})
    assert (settings.upstream, settings.port) == ("http://own", 10)


def test_an_error_in_an_alias_variable_names_the_alias() -> None:
    assert refused({}, {"PROXY_PORT": "x"}).startswith("PROXY_PORT: 'x' cannot be used")


@rows(__file__, "text,message")
def test_an_error_in_the_file_names_the_file(text: str, message: str, tmp_path: Path) -> None:
    Path("etc/rules.yaml").write_text(text)
    error = refused({}, {})
    assert error.startswith(str(tmp_path)) and message in error


def test_the_file_may_use_the_earlier_systems_setting_names() -> None:
    theirs = "buffer_timeout: 120, max_buffer_size: 1048576, detailed_logging: True, case_sensitive_tools: true"
    Path("etc/rules.yaml").write_text(f"settings: {{{theirs}}}")
    settings, rules = load({}, {})
    assert (settings.hold_timeout, type(settings.hold_timeout), settings.max_held) == (120.0, float, 1048576)
    assert settings.detailed_logging and rules.policy("m").case_sensitive
    assert load({"hold_timeout": "7"}, {})[0].hold_timeout == 7.0


def test_rules_receive_the_call_settings_from_every_source() -> None:
    assert load({"case_sensitive_tools": "true"}, {})[1].policy("m").case_sensitive
    assert load({}, {"TOOL_PROXY_CASE_SENSITIVE_TOOLS": "1"})[1].policy("m").case_sensitive
    assert not load({}, {})[1].policy("m").case_sensitive


def test_an_error_in_the_file_is_reported_even_if_a_flag_overrides_it() -> None:
    Path("etc/rules.yaml").write_text("settings: {port: 0}")
    assert "port: 0 cannot be used" in refused({"port": "1"}, {})


@rows(__file__, "flags,env,key")
def test_the_key_of_a_rules_file_is_used_only_for_that_files_server(
    flags: dict[str, str], env: dict[str, str], key: str
) -> None:
    Path("etc/rules.yaml").write_text("settings: {upstream: 'http://main:8000', upstream_key_file: /keys/main}")
    assert load(flags, env)[0].upstream_key_file == key


def test_the_via_variable_set_by_the_master_is_not_unknown() -> None:
    """After a reload, workers of the new code run under the master of the old code."""
    load({}, {VIA_VARIABLE: "0123456789abcdef"})
    assert not VIA_VARIABLE.startswith("TOOL_PROXY_"), "earlier code refuses unknown variables"


def test_a_misspelled_variable_is_reported() -> None:
    message = refused({}, {"TOOL_PROXY_PROT": "1"})
    assert message.startswith("TOOL_PROXY_PROT: there is no such variable; use TOOL_PROXY_PORT")


def write_rules(path: Path, text: str = "models: []\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_rules_file_precedence_is_flag_variables_user_system(tmp_path: Path) -> None:
    flag, variable = write_rules(tmp_path / "flag.yaml"), write_rules(tmp_path / "env.yaml")
    own = write_rules(tmp_path / "config/vllm-tool-proxy/rules.yaml")
    system = write_rules(tmp_path / "etc/rules.yaml")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert find_rules("flag.yaml", {**env, "TOOL_PROXY_RULES": "env.yaml"}) == flag
    assert find_rules(None, {**env, "TOOL_PROXY_RULES": "env.yaml"}) == variable
    assert find_rules(None, env) == own
    own.unlink()
    assert find_rules(None, env) == system
    system.unlink()
    assert find_rules(None, env) is None


@pytest.mark.parametrize(
    ("env", "folder"),
    [({"HOME": "HERE"}, ".config"), ({"HOME": "HERE", "XDG_CONFIG_HOME": "relative"}, ".config"), ({}, None)],
)
def test_the_users_rules_file_is_in_the_configuration_folder(
    tmp_path: Path, env: dict[str, str], folder: str | None
) -> None:
    for place in (".config", "relative"):
        write_rules(tmp_path / place / "vllm-tool-proxy/rules.yaml")
    env = {name: value.replace("HERE", str(tmp_path)) for name, value in env.items()}
    expected = None if folder is None else tmp_path / folder / "vllm-tool-proxy/rules.yaml"
    assert find_rules(None, env) == expected


@rows(__file__, "text,noticed")
def test_an_unused_rules_file_in_the_working_folder_is_reported(tmp_path: Path, text: str, noticed: bool) -> None:
    path = write_rules(tmp_path / "rules.yaml", text)
    assert unread_rules({}) == (path if noticed else None)
    assert unread_rules({"TOOL_PROXY_RULES": "rules.yaml"}) is None


def test_an_unused_copy_of_the_built_in_rules_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_bytes(builtin_text().data)
    assert unread_rules({}) is None


def test_an_entry_that_is_not_a_regular_file_is_not_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rules.yaml")
    assert unread_rules({}) is None
    assert load({}, {})[1].source == "built-in"


def test_a_named_file_that_is_missing_is_an_error() -> None:
    assert refused({"rules": "no.yaml"}, {}).startswith("--rules: there is no file 'no.yaml'")
    assert refused({"rules": ""}, {}).startswith("--rules: there is no file ''")
    assert refused({}, {"TOOL_PROXY_RULES": "/no.yaml"}).startswith("TOOL_PROXY_RULES: there is no file '/no.yaml'")


def test_an_existing_but_unreadable_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / "etc/rules.yaml"
    system.symlink_to(tmp_path / "gone")
    assert f"{system}: cannot be read (No such file or directory)" in refused({}, {})
    system.unlink()
    system.mkdir()
    assert "cannot be read (Is a directory)" in refused({}, {})
    system.rmdir()

    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "lstat", denied)
    assert "cannot be read (Permission denied)" in refused({}, {})
    assert "/etc/" in refused({}, {"HOME": "/root"}), "an unreadable home folder has no rules file"


@rows(__file__, "setting,path")
def test_detailed_logging_writes_the_audit_file_to_the_services_folder(setting: str, path: str) -> None:
    Path("etc/rules.yaml").write_text(f"settings: {{{setting}}}\n")
    assert load({}, {"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"})[0].audit_file == path


@pytest.mark.parametrize(
    ("env", "folder"), [({}, "/tmp"), ({"TMPDIR": "/tmp/own"}, "/tmp/own"), ({"TMPDIR": "own"}, "/tmp")]
)
def test_without_a_service_folder_the_audit_file_is_temporary(env: dict[str, str], folder: str) -> None:
    assert load({"detailed_logging": "true"}, env)[0].audit_file == f"{folder}/vllm-tool-proxy-audit.jsonl"


def test_a_variable_of_the_worker_is_not_an_unknown_setting() -> None:
    load({}, {"TOOL_PROXY_DRAIN": "1:2"})
    assert "TOOL_PROXY_DRAIN" not in refused({}, {"TOOL_PROXY_DRAIM": "1:2"})


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_an_endless_rules_file_is_refused(what: str) -> None:
    os.mkfifo("pipe")
    path = "pipe" if what == "pipe" else "/dev/zero"
    assert "a pipe or a device cannot be used here; give the path of a regular file" in refused({"rules": path}, {})


def test_a_huge_file_is_not_read_completely() -> None:
    with open("huge.yaml", "wb") as file:
        file.truncate(2**40)
    assert "over 262144 bytes" in refused({"rules": "huge.yaml"}, {})


def test_the_working_folder_keeps_the_users_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "release").mkdir()
    (tmp_path / "current").symlink_to("release")
    monkeypatch.chdir(tmp_path / "release")
    spelled = str(tmp_path / "current")
    assert working_folder({"PWD": spelled}) == Path(spelled)
    assert working_folder({"PWD": str(tmp_path)}) == tmp_path / "release"
    assert working_folder({"PWD": "."}) == working_folder({}) == tmp_path / "release"


def test_a_deleted_working_folder_is_replaced_by_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert working_folder({"PWD": str(tmp_path / "gone")}) == Path("/")
    os.chdir(tmp_path)


def write(path: Path, data: bytes) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return str(path)


def test_each_key_comes_from_its_setting_or_the_units_credential(tmp_path: Path) -> None:
    env = {"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")}
    assert read_keys(Settings(), Rules(), {}) == read_keys(Settings(), Rules(), env) == Keys()
    own = digest_of(b"own")
    texts = {"client-keys": f"- {{name: a, sha256: {own}}}", "upstream-key": "up", "admin-key": "admin"}
    for name, text in texts.items():
        write(tmp_path / "credentials" / name, text.encode())
    keys = Keys((ClientKey("a", own),), "up", digest_of(b"admin"))
    assert read_keys(Settings(), Rules(), env) == keys
    other = write(tmp_path / "other", f"- {{name: b, sha256: {own}}}".encode())
    assert read_keys(Settings(client_keys=other), Rules(), env).clients == (ClientKey("b", own),)
    path = write(tmp_path / "own", b"own")
    assert read_keys(Settings(upstream_key_file=path), Rules(), env).upstream == "own"
    assert read_keys(Settings(admin_key_file=path), Rules(), env).admin == own


def test_the_upstream_key_may_come_from_a_variable_but_is_not_a_setting(tmp_path: Path) -> None:
    env = {"TOOL_PROXY_UPSTREAM_KEY": "up"}
    assert read_keys(Settings(), Rules(), env).upstream == "up"
    own = write(tmp_path / "own", b"own\n")
    assert read_keys(Settings(upstream_key_file=own), Rules(), env).upstream == "own"
    load({}, env)
    assert "upstream_key" not in {spec.name for spec in SPECS}
    assert "there is no setting" in refused({"rules": write(tmp_path / "r.yaml", b"settings: {upstream_key: x}")}, {})


def test_a_missing_key_file_is_an_error(tmp_path: Path) -> None:
    for setting in ("client_keys", "upstream_key_file", "admin_key_file"):
        with pytest.raises(RulesError, match="cannot be read"):
            read_keys(replace(Settings(), **{setting: str(tmp_path / "none")}), Rules(), {})


def test_an_entry_names_its_servers_key_by_variable_or_file(tmp_path: Path) -> None:
    path = write(tmp_path / "key", b"of-file\n")
    text = f"models: [{{match: a, key: $GPU_KEY}}, {{match: b, key: {path}}}, {{match: c, key: same}}]"
    rules = parse_rules(text.encode(), "rules.yaml", read_rules(None))
    assert read_keys(Settings(), rules, {"GPU_KEY": "of-variable"}).named == {
        "$GPU_KEY": "of-variable",
        path: "of-file",
    }
    doubled = path.replace("/own", "//own").replace("/key", "//key")
    spelled = parse_rules(f"models: [{{match: b, key: {doubled}}}]".encode(), "rules.yaml", read_rules(None))
    assert read_keys(Settings(), spelled, {}).named == {doubled: "of-file"}
    with pytest.raises(RulesError, match=r"^key \$GPU_KEY: the variable is not set"):
        read_keys(Settings(), rules, {})
    with pytest.raises(RulesError, match="GPU_KEY: this must be a key"):
        read_keys(Settings(), rules, {"GPU_KEY": "two words"})
