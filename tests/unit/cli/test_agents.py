"""The agents' configurations: the rows of `agents.jsonl`, and rules that hold for every agent.

A row holds the values that differ from VALUES, the user's files (`texts`), and the expected configuration: what `setup`
writes (`configure`), or what `launch` passes to one run (`launch`).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import NO_KEY, PATIENCE, Agent, Configuration, Values
from proxy.cli.main import _AGENTS
from proxy.cli.merging import NotMergeableError, merged, own_models, read
from proxy.config.settings import Settings

VALUES = Values("http://10.0.0.1:8003", "Qwen/Qwen3-Coder", 65536, home="/home/u")
KEY = "{key}"
KEYED = replace(VALUES, key_name="PROXY_KEY", key=KEY)
FOLDER = "/tmp/private"
ROWS = [json.loads(line) for line in Path(__file__).with_name("agents.jsonl").read_text().splitlines()]
EVERY = pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)


def configured(row: dict[str, Any]) -> Configuration:
    """Return the configuration for the values and texts of a row."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row["values"].items()
    }
    texts = row["texts"]
    if "key_name" in given:
        given["key"] = KEY
    values = replace(VALUES, folder=FOLDER, read=lambda path: texts.get(path, ""), **given)
    configuration: Configuration = getattr(AGENTS[row["agent"]], row["how"])(values)
    return configuration


def as_data(configuration: Configuration) -> Any:
    """Return a configuration as JSON, without empty fields, with Codex's long instructions replaced by a word."""
    data = {name: value for name, value in asdict(configuration).items() if value}
    for file in data.get("files", ()):
        file["format"] = file["format"].value
    said = json.dumps(data)
    instructions = r'(base_instructions\\*": \\*")You are.*?(\\*", \\*"shell_type)'
    return json.loads(re.sub(instructions, r"\1INSTRUCTIONS\2", said))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['agent']}: {row['why']}" for row in ROWS])
def test_agent_is_configured_as_in_its_row(row: dict[str, Any]) -> None:
    assert as_data(configured(row)) == row["configuration"]


def test_every_agent_has_rows_and_a_command_line_choice() -> None:
    assert list(_AGENTS) == list(AGENTS) and {row["agent"] for row in ROWS} == {*AGENTS}


@EVERY
def test_agent_gets_a_longer_timeout_than_the_proxy_and_the_models_context(agent: Agent) -> None:
    said = json.dumps(as_data(agent.configure(VALUES)))
    known = Settings()
    assert PATIENCE > known.idle_timeout > known.heartbeat
    assert VALUES.url in said and VALUES.model in said
    # Cline and the SDKs have no such settings.
    has_settings = agent.name not in ("cline", "sdk")
    assert bool({f"{PATIENCE}", f"{PATIENCE}000"} & {*re.findall(r"\d+", said)}) >= has_settings
    assert ("65536" in said) == has_settings
    unknown = json.dumps(as_data(agent.configure(replace(VALUES, context=None))))
    assert "65536" not in unknown and "None" not in unknown


@EVERY
def test_a_key_is_written_to_no_file_and_has_no_placeholder(agent: Agent) -> None:
    configuration = agent.configure(KEYED)
    files = "\n".join(merged("", file) for file in configuration.files)
    # Cline cannot read a key from a variable.
    assert (KEY in files) == (agent.name == "cline") and f'"{NO_KEY}"' not in files
    assert "PROXY_KEY" in files or KEY in files or KEY in configuration.environment.values()


def test_openclaw_include_roots_contain_the_folder_of_a_symlinked_configuration(tmp_path: Path) -> None:
    """OpenClaw refuses a symlink unless its target's folder is an include root, too."""
    for folder in ("dotfiles", ".openclaw"):
        (tmp_path / folder).mkdir()
    (tmp_path / "dotfiles/openclaw.json").write_text("{}")
    (tmp_path / ".openclaw/openclaw.json").symlink_to(tmp_path / "dotfiles/openclaw.json")
    values = replace(VALUES, home=str(tmp_path), folder=FOLDER, read=lambda path: Path(path).read_text())
    roots = AGENTS["openclaw"].launch(values).environment["OPENCLAW_INCLUDE_ROOTS"]
    assert roots == f"{tmp_path}/.openclaw:{tmp_path}/dotfiles"


def test_an_agents_own_model_is_found_unless_it_is_the_proxys() -> None:
    (file,) = AGENTS["openclaw"].configure(VALUES).files
    entries = {
        "w": {"model": {"primary": "x/y"}},
        "v": {"model": ""},
        "u": {"model": "x/y"},
        "t": {"model": {"primary": "vllm-tool-proxy/m"}},
        "s": 7,
    }
    said = json.dumps({"agents": {"entries": entries, "defaults": {"model": "x/y"}}})
    assert own_models(said, file) == ["w", "u"]
    assert own_models("", file) == own_models('{"agents": [1]}', file) == []
    agents: Any = read(merged(said, file), file.format)["agents"]
    assert agents["entries"] == entries


def test_unreadable_machine_wide_qwen_settings_are_an_error() -> None:
    with pytest.raises(NotMergeableError):
        AGENTS["qwen"].launch(replace(VALUES, read=lambda path: "{"))
