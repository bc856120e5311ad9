"""Where the model servers are, wherever that is said: settings, flags, rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.cli.check import check_surroundings
from proxy.config import load as config
from proxy.config.load import load
from proxy.config.rules import parse_rules
from proxy.config.server_url import ONE_SERVER, server_url
from proxy.config.settings import Settings
from proxy.errors import RulesError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rules file of this machine counts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "SYSTEM_RULES", tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["", "h:8000", "http://a,http://b", "http://u:p@h", "http://h/?a", "http://h x"])
def test_what_is_no_url_of_a_server_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="http:// or https:// URL"):
        server_url(text)


def test_a_url_loses_its_v1() -> None:
    assert server_url("HTTPS://h:1/a/v1/") == "https://h:1/a"
    assert load({"upstream": "http://a/v1"}, {})[0].upstream == "http://a"


# A list of servers is an error that says what to do instead.


@pytest.mark.parametrize("text", ["http://a,http://b", "http://a,", ",", "http://a,ftp://b"])
def test_a_list_in_the_flag_or_the_variable_says_what_to_do_instead(text: str) -> None:
    with pytest.raises(RulesError) as flag:
        load({"upstream": text}, {})
    assert flag.value.message == f"--upstream: {text!r} cannot be used; it must be {ONE_SERVER}"
    with pytest.raises(RulesError) as variable:
        load({}, {"TOOL_PROXY_UPSTREAM": text})
    assert variable.value.message == f"TOOL_PROXY_UPSTREAM: {text!r} cannot be used; it must be {ONE_SERVER}"


@pytest.mark.parametrize("value", ["[http://c/v1, http://d]", "[http://c]", "http://c,http://d"])
def test_a_list_in_the_file_names_its_line(value: str) -> None:
    Path("rules.yaml").write_text(f"settings:\n  upstream: {value}\n")
    with pytest.raises(RulesError) as caught:
        load({"rules": "rules.yaml"}, {})
    assert caught.value.message.startswith(f"{Path.cwd()}/rules.yaml:2: upstream: ")
    assert caught.value.message.endswith(f" cannot be used; it must be {ONE_SERVER}")


def test_a_list_with_a_password_in_it_is_not_shown() -> None:
    with pytest.raises(RulesError) as caught:
        load({"upstream": "http://a,http://u:secret@b"}, {})
    assert "secret" not in caught.value.message and ONE_SERVER in caught.value.message


# One server for a model.


def test_each_that_cannot_be_reached_is_told_also_those_of_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    entries = ", ".join(f"{{match: a, url: 'http://127.0.0.1:{port}'}}" for port in (1, 2, 2))
    rules = parse_rules(f"models: [{entries}]".encode(), "r.yaml")
    check_surroundings(Settings(upstream="http://127.0.0.1:1"), rules)
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[8] for line in told] == [f"http://127.0.0.1:{port}" for port in (1, 2)]


def test_a_model_of_the_rules_has_a_server_of_its_own() -> None:
    rules = parse_rules(
        b"models: [{match: 'a*', url: http://a/v1}, {match: b}, {match: c, url: http://a}, {match: d, url: http://d}]",
        "r.yaml",
    )
    urls = [rules.entry(name).url for name in ("ab", "b", "c", "d", "x")]
    assert urls == ["http://a", "", "http://a", "http://d", ""]
    assert rules.urls == ("http://a", "http://d")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("[http://a]", f"url of an item of models is a list; write {ONE_SERVER}"),
        ("http://u:secret@h", "an http:// or https:// URL"),
        ("'http://a,http://b'", "an http:// or https:// URL"),
        ("''", "must be a text"),
        ("5", "an http:// or https:// URL"),
    ],
)
def test_a_url_of_a_model_that_is_none_is_refused_without_being_shown(url: str, message: str) -> None:
    with pytest.raises(RulesError) as caught:
        parse_rules(f"models:\n  - {{match: a, url: {url}}}\n".encode(), "r.yaml")
    assert caught.value.message.startswith("r.yaml:2: ") and message in caught.value.message
    assert "secret" not in caught.value.message
