"""What went from the rules file: an error with its line, and the new file with all other lines as they were."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.config.api_keys import parse_clients
from proxy.config.load import RulesText, load
from proxy.config.migrations import MIGRATIONS, migrate, removed_setting
from proxy.config.rules import Rules, parse_rules
from proxy.config.server_url import ONE_SERVER
from proxy.errors import RulesError

ONE, TWO = "a" * 64, "b" * 64


def migrated(text: str) -> str:
    data, _ = migrate(text.encode(), "r.yaml")
    return data.decode()


@pytest.mark.parametrize("text", ["", "# nothing\n", "clients:\n  a: {}  # x\n", "models: [{match: a}]\r\n"])
def test_a_file_of_this_release_stays_as_it_is(text: str) -> None:
    assert migrate(text.encode(), "r.yaml") == (text.encode(), ())


def test_keys_of_a_client_become_lines_for_the_file_of_keys() -> None:
    before = f"""\
clients:
  # my agent
  agent:
    parse: proxy  # by us
    key_sha256:
      - {ONE}  # of alice
      - "{TWO}"
    # behind
    heartbeat: chunk
"""
    after = migrated(before)
    lines = after.splitlines()
    assert [line for line in before.splitlines() if "key_sha256" not in line and "- " not in line] == [
        line for line in lines if not line.startswith("    # ") or line == "    # behind"
    ]
    entries = "\n".join(line.removeprefix("    # ") for line in lines if "# - {" in line)
    assert [(key.client, key.digest.hex()) for key in parse_clients(entries.encode(), "keys")] == [
        ("agent", ONE),
        ("agent", TWO),
    ]
    assert parse_rules(after.encode(), "r.yaml", Rules()).clients["agent"].parse == "proxy"


@pytest.mark.parametrize(
    "before,left",
    [
        (f"clients: {{a: {{key_sha256: [{ONE}], parse: proxy}}}}", "clients: {a: {parse: proxy}}"),
        (f"clients: {{a: {{parse: proxy, key_sha256: [{ONE}]}}}}\n", "clients: {a: {parse: proxy}}\n"),
        (f"clients: {{a: {{key_sha256: [{ONE}]}}, b: {{key_sha256: []}}}}", "clients: {a: {}, b: {}}"),
        (f"clients:\n  a:\n    key_sha256: [{ONE}]\n", "clients:\n  a:\n"),
        ("clients:\n  a:\n    key_sha256:\n    parse: proxy\n", "clients:\n  a:\n    parse: proxy\n"),
        ("clients:\n  a:\n    key_sha256: [\n      sk-1,\n    ]", "clients:\n  a:\n"),
        ("settings:\n  audit_size: 65536\n  port: 1\n", "settings:\n  port: 1\n"),
        ("settings: {audit_size: 65536}", "settings: {}"),
        ("settings: {audit_size: 65536, upstream: [a, b]}", "settings: {upstream: a}"),
        ("models:\n- servers: []\n  match: x\n", "models:\n- \n  match: x\n"),
    ],
)
def test_what_cannot_stay_gives_way_to_a_comment(before: str, left: str) -> None:
    after = migrated(before)
    assert "".join(line for line in after.splitlines(keepends=True) if not line.lstrip().startswith("#")) == left
    assert "0.2.0" in after and "sk-1" not in after


def test_one_server_of_a_model_is_its_url() -> None:
    before = "models:\n  - match: a\n    servers: [http://one:8000]  # mine\n  - {servers: http://two, match: b}\n"
    after = "models:\n  - match: a\n    url: http://one:8000  # mine\n  - {url: http://two, match: b}\n"
    assert migrated(before) == after


@pytest.mark.parametrize("value", ["http://a:1,http://b:2", "[http://a:1, http://b:2]", "\n  - http://a:1\n  - http://b:2"])
def test_of_several_servers_the_first_stays_and_the_others_need_a_balancer(value: str) -> None:
    """Without it the default would be asked, and nothing would say so."""
    after = migrated(f"settings:\n  upstream: {value}\n")
    assert "(http://a:1 http://b:2)" in after and "HAProxy" in after and "docs/scale.md" in after
    assert parse_rules(after.encode(), "r.yaml", Rules()).settings == {"upstream": "http://a:1"}


@pytest.mark.parametrize("servers", ["[http://a:1, http://b:2]", "[http://a:1, http://a:1, http://b:2/v1]"])
def test_the_first_server_of_a_model_stays(servers: str) -> None:
    after = migrated(f"models:\n  - match: x\n    servers: {servers}\n    parse: proxy\n")
    assert "(http://a:1 http://b:2" in after and "HAProxy" in after and "docs/scale.md" in after
    (model,) = parse_rules(after.encode(), "r.yaml", Rules()).models
    assert (model.match, model.url, model.parse) == ("x", "http://a:1", "proxy")


def test_an_address_with_brackets_stays_one_in_braces() -> None:
    after = migrated('models: [{match: x, servers: ["http://[::1]:8000"]}]')
    assert parse_rules(after.encode(), "r.yaml", Rules()).models[0].url == "http://[::1]:8000"


def test_one_upstream_stays() -> None:
    assert migrated("settings: {upstream: http://a}") == "settings: {upstream: http://a}"


def test_each_change_is_told_with_its_line() -> None:
    text = f"settings:\n  audit_size: 1\nclients:\n  a: {{key_sha256: [{ONE}]}}\n"
    assert migrate(text.encode(), "r.yaml")[1] == ("r.yaml:2: audit_size", "r.yaml:4: key_sha256")


def test_what_cannot_be_edited_by_lines_is_an_error() -> None:
    """The comment would stand in the middle of the text `x y`."""
    text = f'clients: {{a: {{parse: "x\n  y", key_sha256: [{ONE}]}}}}'
    with pytest.raises(RulesError, match="by hand"):
        migrate(text.encode(), "r.yaml")


def test_removed_settings_are_known_by_name() -> None:
    assert removed_setting("audit_size").startswith("it went in 0.2.0; ")
    assert removed_setting("port") == removed_setting("key_sha256") == removed_setting("upstream") == ""


@pytest.mark.parametrize("migration", MIGRATIONS, ids=lambda migration: migration.key)
def test_each_row_says_since_when_and_what_to_do(migration: object) -> None:
    assert getattr(migration, "since") and getattr(migration, "remedy")  # noqa: B009


@pytest.mark.parametrize("value", ["http://a,http://b", "[http://a, http://b]", "[http://u:secret@a]"])
def test_a_form_that_went_says_so_with_the_command(value: str) -> None:
    with pytest.raises(RulesError) as caught:
        parse_rules(f"settings:\n  port: 1\n  upstream: {value}\n".encode(), "r.yaml")
    words = f"settings.upstream as a list went in 0.2.0; write {ONE_SERVER}"
    assert caught.value.message == f"r.yaml:3: {words} (vllm-tool-proxy check --migrate prints the new file)"


def test_a_list_for_another_setting_is_told_as_it_is_written() -> None:
    with pytest.raises(RulesError, match=re.escape("port: ['1', '2'] cannot be used; ")):
        load({}, {}, RulesText(b"settings: {port: ['1', '2']}", "r.yaml"))


def test_the_guide_has_each_row() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()
    rows = re.findall(r"(?m)^\| (`\w\S*\.\w+`.*?) \| ([0-9.]+) \|", guide.partition("| went | since | now |")[2])
    assert sorted((name.replace("`", ""), since) for name, since in rows) == sorted(
        (migration.name, migration.since) for migration in MIGRATIONS
    )


def test_a_variable_that_went_says_so() -> None:
    with pytest.raises(RulesError, match=r"TOOL_PROXY_AUDIT_SIZE: it went in 0\.2\.0; "):
        load({}, {"TOOL_PROXY_AUDIT_SIZE": "65536"})
