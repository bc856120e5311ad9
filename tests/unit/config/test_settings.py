"""The settings: one table, and a text that becomes a value or one line that says what is needed."""

from __future__ import annotations

import pytest
from msgspec import structs

from proxy.config.settings import SPECS, Setting, Settings, Spec
from proxy.errors import RulesError


def spec(name: str) -> Spec:
    return next(each for each in SPECS if each.name == name)


def refused(name: str, text: str) -> str:
    """What is said of this text for a setting."""
    with pytest.raises(RulesError) as caught:
        spec(name).from_text(text, "--here")
    assert caught.value.message.startswith("--here: ") and "\n" not in caught.value.message
    return caught.value.message


def test_each_default_passes_its_own_check_and_has_a_flag_and_a_variable() -> None:
    for each in SPECS:
        assert each.checked(each.default, "default") == each.default
        assert each.flags[0] == "--" + each.name.replace("_", "-")
        assert each.variables[0] == "TOOL_PROXY_" + each.name.upper()
    assert [each.name for each in SPECS] == [each.name for each in structs.fields(Settings)]
    flags = [flag for each in SPECS for flag in each.flags]
    variables = [variable for each in SPECS for variable in each.variables]
    assert len(set(flags)) == len(flags) and len(set(variables)) == len(variables)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://h", "http://h"),
        ("HTTP://h:8000/", "http://h:8000"),
        ("https://h/v1", "https://h"),
        ("http://h/v1/", "http://h"),
        ("http://h/models/a/v1", "http://h/models/a"),
        ("http://h/models/a//", "http://h/models/a"),
        ("http://h/av1", "http://h/av1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_an_upstream_url_may_end_in_v1_or_not_and_keeps_its_prefix(text: str, url: str) -> None:
    assert spec("upstream").from_text(text, "here") == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8000",
        "localhost:8000",
        "ftp://h",
        "http://",
        "http://:80",
        "http://h:0",
        "http://h:99999",
        "http://h:x",
        "http://[::1",
        "http://h/?a=1",
        "http://h/#a",
        "http://h?",
        "http://h\\x",
        "http://a b",
        "http://h\n",
        "http://ü",
    ],
)
def test_an_upstream_that_is_no_plain_http_url_is_refused(text: str) -> None:
    assert "it must be an http:// or https:// URL" in refused("upstream", text)


def test_a_password_in_the_upstream_is_refused_and_not_shown() -> None:
    assert "secret" not in refused("upstream", "http://u:secret@h")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("host", "[::1]", "::1"),
        ("host", "0.0.0.0", "0.0.0.0"),
        ("host", "fe80::1%eth0", "fe80::1%eth0"),
        ("heartbeat", "15", 15.0),
        ("heartbeat", "1e1", 10.0),
        ("no_ui", "YES", True),
        ("no_ui", "0", False),
        ("log_format", "json", "json"),
        ("case_sensitive_tools", "on", True),
        ("pass_through", "/a, /b/c-d.e ,/a", ("/a", "/b/c-d.e")),
        ("pass_through", "", ()),
        ("origins", "loopback, HTTPS://UI.example:8443,*", ("loopback", "https://ui.example:8443", "*")),
        ("origins", "http://[::1]:5173,http://[::1]:5173", ("http://[::1]:5173",)),
        ("max_tool_calls", "0", 0),
        ("upstream_ca", "/etc/ca.pem", "/etc/ca.pem"),
        ("client", "openclaw", "openclaw"),
    ],
)
def test_text_of_a_variable_becomes_a_value(name: str, text: str, value: Setting) -> None:
    assert repr(spec(name).from_text(text, "here")) == repr(value)


@pytest.mark.parametrize(
    ("name", "text", "needed"),
    [
        ("port", "abc", "a whole number from 1 to 65535"),
        ("port", "0", "a whole number from 1 to 65535"),
        ("port", "8_003", "a whole number"),
        ("port", "٣", "a whole number"),
        ("port", "9" * 5000, "a whole number"),
        ("workers", "", "a whole number from 1 "),
        ("heartbeat", "0", "a number of seconds over 0"),
        ("heartbeat", "nan", "a number of seconds over 0"),
        ("heartbeat", "1e999", "a number of seconds over 0"),
        ("no_ui", "maybe", "true or false"),
        ("log_format", "Json", "text or json"),
        ("host", "a b", "an IP address or a host name"),
        ("host", "", "an IP address or a host name"),
        ("client", "Open Claw", "the name of a client"),
        ("pass_through", "/a//b", "a list of plain paths"),
        ("pass_through", "/a/../b", "a list of plain paths"),
        ("pass_through", "a", "a list of plain paths"),
        ("origins", "ui.example", "a list of origins"),
        ("origins", "https://ui.example/", "a list of origins"),
        ("origins", "https://ui.example/a", "a list of origins"),
        ("origins", "https://a@ui.example", "a list of origins"),
        ("origins", "null", "a list of origins"),
        ("max_tool_calls", "-1", "a whole number from 0"),
        ("pass_through", "/a?b", "a list of plain paths"),
        ("pass_through", "/", "a list of plain paths"),
        ("upstream_ca", "ca.pem", "the absolute path of a file"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_the_place_it_was_written(name: str, text: str, needed: str) -> None:
    message = refused(name, text)
    assert f"it must be {needed}" in message
    assert len(message) < 250


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
def test_a_value_is_shown_where_it_can_be_no_secret(name: str, text: str, shown: str) -> None:
    message = refused(name, text)
    assert message.startswith(f"--here: {shown}")
    assert len(message) < 200


def test_a_value_of_the_file_is_taken_as_it_is_and_not_as_text() -> None:
    assert spec("port").checked(9, "r.yaml:1") == 9
    with pytest.raises(RulesError, match=r"^r.yaml:1: '9' cannot be used; it must be a whole number from 1 to 65535$"):
        spec("port").checked("9", "r.yaml:1")


@pytest.mark.parametrize("name", ["hold_timeout", "max_held", "upstream", "port", "max_tool_calls"])
def test_the_names_of_earlier_systems_come_behind_the_settings_own(name: str) -> None:
    found = spec(name)
    assert len(found.flags) + len(found.variables) + len(found.keys) > 3
    assert (found.flags[0], found.keys[0]) == (f"--{name.replace('_', '-')}", name)


def test_settings_cannot_be_changed_and_are_given_by_their_names() -> None:
    with pytest.raises(AttributeError):
        Settings().port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        Settings("http://h")  # type: ignore[call-arg]
