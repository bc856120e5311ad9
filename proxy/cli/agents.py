"""The agents that `setup` and `launch` configure.

The content of their files and environments is in agents.yaml. To add an agent, describe it there, write the function
that configures it for one run, and add it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import yaml

from proxy.cli.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.cli.merging import NotMergeableError, expected, own_models, read
from proxy.json import JsonObject, as_object

_DATA: dict[str, Any] = yaml.safe_load(resources.files("proxy.cli").joinpath("agents.yaml").read_text("utf-8"))
_PLACE = re.compile(r"<(\w+)\??>")

# The maximum tokens of a reply, and a cautious guess at a context window that the proxy does not know.
_OUTPUT = 8192
_USUAL_CONTEXT = 32768
_CLAUDE_TOKEN = "ANTHROPIC_AUTH_TOKEN"
# For an unknown model, 2.1.197 sends 5,900 characters of instructions and short tool descriptions. With "0" it sends
# all 26,600 characters and the full descriptions, as it does for claude-sonnet-4-5.
_CLAUDE_PROMPT = "CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT"
_CODEX_CATALOG = f"{PROVIDER}-models.json"
_OPENCLAW_ROOTS = "OPENCLAW_INCLUDE_ROOTS"
_OPENCODE_CONTENT = "OPENCODE_CONFIG_CONTENT"
# Qwen Code: settings for all users of a machine override those of the user and of the project.
_QWEN_SYSTEM = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
_QWEN_DEFAULTS = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"


def _data(agent: str, values: Values, **more: str) -> dict[str, Any]:
    """Return an agent's data from agents.yaml with its placeholders filled in."""
    name, efforts = values.key_name, values.efforts
    levels = {level: word if word in efforts else None for level, word in _DATA["pi"]["levels"].items()}
    described, window = _DATA["codex"]["efforts"], values.context or _USUAL_CONTEXT
    words = {
        "url": values.url,
        "v1": f"{values.url}/v1",
        "provider": PROVIDER,
        "model": values.model,
        "context": values.context,
        "window": window,
        # The prompt needs room too.
        "output": min(_OUTPUT, window // 4),
        "inputs": ["text", "image"] if values.images else ["text"],
        "seconds": PATIENCE,
        "milliseconds": PATIENCE * 1000,
        "key": values.key,
        "key_name": name or None,
        "no_key": None if name else NO_KEY,
        "key_variable": name or NO_KEY,
        "key_in_braces": f"${{{name}}}" if name else NO_KEY,
        "key_in_env": f"{{env:{name}}}" if name else NO_KEY,
        "reasons": bool(efforts),
        "reasoning_levels": [{"effort": word, "description": described[word]} for word in efforts],
        "thinking_levels": levels if efforts else None,
        "thinking_compat": _DATA["pi"]["compat"] if efforts else None,
        "instructions": _DATA["codex"]["instructions"],
        "catalog": values.place("CODEX_HOME", ".codex", _CODEX_CATALOG),
        **more,
    }
    words["catalog_model"] = _filled(_DATA["codex"]["model"], words)
    filled: dict[str, Any] = _filled(_DATA[agent], words)
    return filled


def _filled(template: Any, words: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        filled = {_filled(key, words): (value, _filled(value, words)) for key, value in template.items()}
        return {key: new for key, (old, new) in filled.items() if new is not None or not str(old).endswith("?>")}
    if isinstance(template, list):
        return [_filled(item, words) for item in template]
    if not isinstance(template, str):
        return template
    if place := _PLACE.fullmatch(template):
        return words[place[1]]
    return _PLACE.sub(lambda place: str(words[place[1]]), template)


def _configured(agent: str, values: Values, **more: str) -> Configuration:
    """Return the permanent configuration of an agent from its data."""
    data = _data(agent, values, **more)
    for file in data.get("files", ()):
        file["path"] = values.place(*file["place"])
    data["environment"] = {name: str(value) for name, value in data.get("environment", {}).items()}
    return msgspec.convert(data, Configuration)


def _claude(values: Values) -> Configuration:
    usual = _configured("claude", values)
    prompt = values.environment.get(_CLAUDE_PROMPT) or "0"
    # An empty variable counts as not set, and overrides the shell's.
    settings: JsonObject = {"env": {**dict.fromkeys(usual.unset, ""), **usual.environment, _CLAUDE_PROMPT: prompt}}
    if values.key_name:
        # A token would override the command.
        as_object(settings["env"])[_CLAUDE_TOKEN] = ""
        settings["apiKeyHelper"] = f'printf %s "${values.key_name}"'
    path = values.place("CLAUDE_CONFIG_DIR", ".claude", "settings.json")
    return replace(
        usual,
        environment={**usual.environment, _CLAUDE_TOKEN: values.key, _CLAUDE_PROMPT: prompt},
        files=(File(path, Format.JSON, settings, optional=True),),
    )


def _launch_claude(values: Values) -> Configuration:
    """Settings on the command line override every file of the user and the project; files override the environment."""
    usual = _claude(values)
    settings = usual.files[0].content
    # The length of its instructions is left to the user's own settings.
    del as_object(settings["env"])[_CLAUDE_PROMPT]
    return replace(usual, command=("claude", "--settings", json.dumps(settings)), files=())


def _launch_codex(values: Values) -> Configuration:
    """Options override every file. Only the catalog must be a file."""

    def options(settings: JsonObject, path: str = "") -> Iterator[str]:
        for key, value in settings.items():
            if isinstance(value, dict):
                yield from options(value, f"{path}{key}.")
            else:
                yield from ("-c", f"{path}{key}={json.dumps(value, ensure_ascii=False)}")

    config, catalog = _configured("codex", values, catalog=f"{values.folder}/{_CODEX_CATALOG}").files
    private = {_CODEX_CATALOG: json.dumps(catalog.content)}
    return Configuration(command=("codex", *options(config.content)), private=private)


def _launch_openclaw(values: Values) -> Configuration:
    """A private configuration includes the user's own and overrides it. OpenClaw does not write to included files of
    another folder, and its state, including logins, stays in its place.
    """
    (file,) = _configured("openclaw", values).files
    own = str(Path(values.environment.get("OPENCLAW_CONFIG_PATH") or file.path).expanduser().absolute())
    settings, roots = file.content, values.environment.get(_OPENCLAW_ROOTS, "")
    text = values.read(own)
    if text:
        # OpenClaw only includes files of these folders; the user's may be a link.
        folders = dict.fromkeys([str(Path(own).parent), str(Path(own).resolve().parent)])
        roots = ":".join(filter(None, [roots, *folders]))
        settings = {"$include": own, **settings}
        with suppress(NotMergeableError):  # it may be JSON5, which only OpenClaw reads
            model: JsonObject = {"model": {"primary": f"{PROVIDER}/{values.model}"}}
            for name in own_models(text, file):
                settings = expected(settings, {"agents": {"entries": {name: model}}})
    path = f"{values.folder}/openclaw.json"
    return Configuration(
        command=("openclaw",),
        environment={"OPENCLAW_CONFIG_PATH": path, **({_OPENCLAW_ROOTS: roots} if roots else {})},
        private={"openclaw.json": json.dumps(settings)},
    )


def _launch_opencode(values: Values) -> Configuration:
    """The variable is merged with the files, and overrides those of the user and the project. All other providers are
    disabled, because their models would bypass the proxy.
    """
    (file,) = _configured("opencode", values).files
    own: list[str] = []
    with suppress(NotMergeableError):  # OpenCode itself reports it
        for path in (file.path, f"{file.path}c"):
            own += own_models(values.read(path), file)
    model: JsonObject = {"model": file.content["model"]}
    agents: JsonObject = dict.fromkeys([*_DATA["opencode"]["agents"], *sorted(own)], model)
    settings: JsonObject = {**file.content, "enabled_providers": [PROVIDER], "agent": agents}
    with suppress(NotMergeableError):  # OpenCode rejects it
        settings = expected(read(values.environment.get(_OPENCODE_CONTENT, ""), Format.JSON), settings)
    return Configuration(command=("opencode",), environment={_OPENCODE_CONTENT: json.dumps(settings)})


def _launch_qwen(values: Values) -> Configuration:
    """A private file replaces the machine's settings and includes them. Raises NotMergeableError."""
    system = values.environment.get(_QWEN_SYSTEM) or "/etc/qwen-code/settings.json"
    # A model of this name in the user's list would bring its own URL.
    usual = _configured("qwen", values)
    winning: JsonObject = {**usual.files[0].content, "modelProviders": {"openai": []}}
    del winning["env"]
    settings = expected(read(values.read(system), Format.JSON), winning)
    # Qwen Code reads its defaults from the folder of the machine's settings.
    defaults = values.environment.get(_QWEN_DEFAULTS) or f"{system.rpartition('/')[0]}/system-defaults.json"
    paths = {_QWEN_SYSTEM: f"{values.folder}/settings.json", _QWEN_DEFAULTS: defaults}
    environment = {**usual.environment, **paths}
    return Configuration(command=("qwen",), environment=environment, private={"settings.json": json.dumps(settings)})


def _launch_pi(values: Values) -> Configuration:
    """An extension defines the provider and overrides one of the same name in the user's files.

    The timeout has no option. It covers only the time to the response head, which the proxy's first heartbeat sends.
    """
    # pi keeps a compiled copy of a ".js", but not of a ".mjs".
    extension = "provider.mjs"
    models, _ = _configured("pi", values).files
    provider = json.dumps([PROVIDER, as_object(models.content["providers"])[PROVIDER]])[1:-1]
    options = ("--extension", f"{values.folder}/{extension}", "--provider", PROVIDER, "--model", values.model)
    return Configuration(
        command=("pi", *options),
        private={extension: f"export default function (pi) {{\n  pi.registerProvider({provider});\n}}\n"},
    )


def _launch_cline(values: Values) -> Configuration:
    """Private providers replace the user's; the user's other settings apply.

    A session runs in its own process: the daemon that Cline shares between sessions would keep these providers for the
    user's later sessions.
    """
    usual, path = _configured("cline", values), f"{values.folder}/providers.json"
    return Configuration(
        command=usual.command,
        environment={"CLINE_PROVIDER_SETTINGS_PATH": path, "CLINE_SESSION_BACKEND_MODE": "local"},
        private={"providers.json": json.dumps(usual.files[0].content)},
    )


def _launch_sdk(values: Values) -> Configuration:
    return replace(_configured("sdk", values), notes=())


_LAUNCHES = {
    "claude": _launch_claude,
    "codex": _launch_codex,
    "openclaw": _launch_openclaw,
    "opencode": _launch_opencode,
    "qwen": _launch_qwen,
    "pi": _launch_pi,
    "cline": _launch_cline,
    "sdk": _launch_sdk,
}
_FIELDS = ("title", "version", "package")
AGENTS = {
    name: Agent(
        name,
        _claude if name == "claude" else partial(_configured, name),
        launch,
        **{field: _DATA[name].get(field, "") for field in _FIELDS},
    )
    for name, launch in _LAUNCHES.items()
}
