"""Where the model servers are, wherever that is said: settings, flags, rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.commands import main as cli
from proxy.commands.describe_rules import summary
from proxy.config import load as config
from proxy.config.load import load
from proxy.config.rules import parse_rules
from proxy.config.server_url import server_url
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


@pytest.mark.parametrize("text", ["http://a/v1,http://b", "http://a , http://b/v1/", "http://a,http://b,http://a"])
def test_several_are_written_with_commas_and_count_once(text: str) -> None:
    settings, _ = load({"upstream": text}, {})
    assert (settings.upstream, settings.upstreams) == ("http://a,http://b", ("http://a", "http://b"))


def test_several_come_from_a_variable_and_from_a_list_in_the_file() -> None:
    Path("rules.yaml").write_text("settings: {upstream: [http://c/v1, http://d]}\n")
    assert load({}, {})[0].upstreams == ("http://c", "http://d")
    assert load({}, {"VLLM_URL": "http://a,http://b"})[0].upstreams == ("http://a", "http://b")


def test_one_is_what_it_was() -> None:
    assert (Settings().upstream, Settings().upstreams) == ("http://127.0.0.1:8000", ("http://127.0.0.1:8000",))


@pytest.mark.parametrize("text", ["http://a,", ",http://a", "http://a,,http://b", "http://a,ftp://b", " http://a"])
def test_if_one_of_them_is_none_all_are_refused(text: str) -> None:
    with pytest.raises(RulesError, match=r"^--upstream: .* must be an http:// .* several of them with commas between$"):
        load({"upstream": text}, {})


def test_the_flag_may_be_given_several_times_under_each_of_its_names() -> None:
    words = ["check", "--upstream", "http://a", "--vllm-url=http://b/v1", "--target-url", "http://c,http://d"]
    _, flags = cli._arguments(words)
    assert load(flags, {})[0].upstreams == ("http://a", "http://b", "http://c", "http://d")
    assert cli._arguments(["--port", "1", "--port", "2"])[1]["port"] == "2"


def test_each_that_cannot_be_reached_is_told_also_those_of_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    rules = parse_rules(b"models: [{match: a, servers: ['http://127.0.0.1:1', 'http://127.0.0.1:2']}]", "r.yaml")
    cli._check_surroundings(Settings(upstream="http://127.0.0.1:1,http://127.0.0.1:3"), rules)
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[3] for line in told] == [f"http://127.0.0.1:{port}" for port in (1, 3, 2)]


def test_a_model_of_the_rules_has_its_own_servers() -> None:
    rules = parse_rules(
        b"models: [{match: 'a*', servers: [http://a/v1, http://b, http://a]}, {match: b}, {match: c, servers: [http://b]}]",
        "r.yaml",
    )
    assert [rules.profile(name, "").servers for name in ("ab", "b", "x")] == [("http://a", "http://b"), (), ()]
    assert rules.servers == ("http://a", "http://b")
    assert next(summary(rules)) == "models a*: at http://a http://b"


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ("[]", "servers of an item of models are none at all; list some, or remove the line"),
        ("[http://u:secret@h]", "an http:// or https:// URL"),
        ("http://a", "must be a list"),
        ("[5]", "an http:// or https:// URL"),
    ],
)
def test_servers_of_a_model_that_are_none_are_refused_without_being_shown(servers: str, message: str) -> None:
    with pytest.raises(RulesError) as caught:
        parse_rules(f"models:\n  - {{match: a, servers: {servers}}}\n".encode(), "r.yaml")
    assert caught.value.message.startswith("r.yaml:2: ") and message in caught.value.message
    assert "secret" not in caught.value.message
