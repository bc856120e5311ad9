"""Codex CLI: its provider, the model in its catalog, and the options that win over files."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import PATIENCE, Format
from proxy.cli.merging import merged
from proxy.codec.json_access import as_object
from tests.support.agent_values import FOLDER, KEYED, VALUES, launched

CODEX = AGENTS["codex"]
CATALOG = "vllm-tool-proxy-models.json"


def test_it_has_a_catalog_with_free_patches() -> None:
    config, catalog = CODEX.configure(KEYED).files
    assert config.format is Format.TOML and config.content["model_catalog_json"] == catalog.path
    (entry,) = json.loads(merged("", catalog))["models"]
    assert (entry["slug"], entry["apply_patch_tool_type"], entry["context_window"]) == (VALUES.model, "freeform", 65536)
    provider = as_object(as_object(config.content["model_providers"])["vllm-tool-proxy"])
    assert (provider["wire_api"], provider["env_key"]) == ("responses", "PROXY_KEY")


def test_launched_its_options_say_all_that_its_file_says() -> None:
    """They win over the file of a project, which would win over its own; the catalog is a private file."""
    config, catalog = CODEX.configure(KEYED).files
    configuration = launched(CODEX, KEYED)
    program, *options = configuration.command
    assert program == "codex" and {*options[::2]} == {"-c"}
    assert tomllib.loads("\n".join(options[1::2])) == {**config.content, "model_catalog_json": f"{FOLDER}/{CATALOG}"}
    assert json.loads(configuration.private[CATALOG]) == catalog.content


def test_a_name_with_quotes_and_other_letters_stays_one_option() -> None:
    values = replace(VALUES, model='a "b" \\ ü')
    options = launched(CODEX, values).command[1:]
    assert tomllib.loads("\n".join(options[1::2]))["model"] == values.model


def test_no_key_is_named_where_none_is_wanted_and_it_waits_as_long_as_the_others() -> None:
    content = CODEX.configure(VALUES).files[0].content
    provider = as_object(as_object(content["model_providers"])["vllm-tool-proxy"])
    assert "env_key" not in provider
    assert provider["stream_idle_timeout_ms"] == PATIENCE * 1000


def test_the_catalog_is_its_own_beside_the_file_and_says_what_is_known() -> None:
    values = replace(VALUES, context=None, images=True, environment={"CODEX_HOME": "/c/"})
    config, catalog = CODEX.configure(values).files
    assert (config.path, catalog.path) == ("/c/config.toml", f"/c/{CATALOG}")
    assert (config.own, catalog.own, config.without) == (False, True, (("profile",),))
    (entry,) = json.loads(merged("", catalog))["models"]
    assert entry["context_window"] is entry["max_context_window"] is None
    assert entry["input_modalities"] == ["text", "image"] and "apply_patch" in entry["base_instructions"]


def test_a_model_that_can_be_told_how_much_to_think_has_its_levels_and_none_by_default() -> None:
    (entry,) = json.loads(merged("", CODEX.configure(replace(VALUES, efforts=("none", "xhigh"))).files[1]))["models"]
    assert [level["effort"] for level in entry["supported_reasoning_levels"]] == ["none", "xhigh"]
    assert all(level["description"] for level in entry["supported_reasoning_levels"])
    assert "default_reasoning_level" not in entry
    (plain,) = json.loads(merged("", CODEX.configure(VALUES).files[1]))["models"]
    assert plain == {**entry, "supported_reasoning_levels": []}
