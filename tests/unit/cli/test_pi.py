"""pi: its two files, and the options that choose among its providers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import NO_KEY, PROVIDER
from proxy.codec.json_access import as_object, objects_in
from proxy.codec.json_text import JsonObject
from tests.support.agent_values import FOLDER, KEYED, VALUES, launched

PI = AGENTS["pi"]


def provider(content: JsonObject) -> JsonObject:
    """The proxy among the providers."""
    return as_object(as_object(content["providers"])[PROVIDER])


def test_what_is_chosen_is_a_model_of_a_provider_that_there_is() -> None:
    models, settings = (file.content for file in PI.configure(VALUES).files)
    assert settings["defaultProvider"] in as_object(models["providers"])
    assert settings["defaultModel"] in [model["id"] for model in objects_in(provider(models)["models"])]


def test_launched_it_loads_an_extension_that_says_what_its_file_would_say() -> None:
    """Options choose among the providers; an extension defines one without a file of the user."""
    for values in (VALUES, KEYED):
        configuration = launched(PI, values)
        command, ((name, text),) = configuration.command, configuration.private.items()
        assert command == ("pi", "--extension", f"{FOLDER}/{name}", "--provider", PROVIDER, "--model", VALUES.model)
        given = re.fullmatch(r"export default function \(pi\) \{\s+pi\.registerProvider\((.*)\);\s+\}\s+", text)
        assert given and json.loads(f"[{given[1]}]") == [PROVIDER, provider(PI.configure(values).files[0].content)]


def test_a_key_is_the_name_of_its_variable() -> None:
    keys = [provider(PI.configure(values).files[0].content)["apiKey"] for values in (VALUES, KEYED)]
    assert keys == [NO_KEY, "PROXY_KEY"]


def test_both_files_are_in_the_folder_that_its_variable_names() -> None:
    moved = replace(VALUES, environment={"PI_CODING_AGENT_DIR": "/p"})
    assert [file.path for file in PI.configure(moved).files] == ["/p/models.json", "/p/settings.json"]


def test_a_model_that_can_be_told_how_much_to_think_has_its_levels() -> None:
    """What it does not know is null, so that pi takes the nearest one; its instructions stay a system message."""
    (plain,), (model,) = (
        objects_in(provider(PI.configure(replace(VALUES, efforts=words)).files[0].content)["models"])
        for words in ((), ("none", "low", "xhigh"))
    )
    assert (plain["reasoning"], "thinkingLevelMap" in plain, "compat" in plain) == (False, False, False)
    levels = {"off": "none", "minimal": None, "low": "low", "medium": None, "high": None, "xhigh": "xhigh"}
    assert (model["reasoning"], model["thinkingLevelMap"]) == (True, levels)
    assert model["compat"] == {"supportsDeveloperRole": False, "supportsReasoningEffort": True}
