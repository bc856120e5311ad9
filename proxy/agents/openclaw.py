"""OpenClaw: it speaks chat completions; providers and models stand in its `openclaw.json`."""

from __future__ import annotations

import json
from pathlib import Path

from proxy.agents.configuration import NO_KEY, PATIENCE, PROVIDER, Agent, Configuration, File, Format, Values
from proxy.agents.merging import dotted, expected, other_models
from proxy.agents.spans import NotMergeableError
from proxy.codec.json_text import JsonObject

# An agent's own model, as it is written since 2026.9, and as it was before.
_RIVALS = (("agents", "entries", "*", "model"), ("agents", "list", "*", "model"))


_PRIVATE = "openclaw.json"
_ROOTS = "OPENCLAW_INCLUDE_ROOTS"


def _configure(values: Values) -> Configuration:
    path = values.place("OPENCLAW_STATE_DIR", ".openclaw", "openclaw.json")
    return Configuration(command=("openclaw",), files=(File(path, Format.JSON, _content(values), rivals=_RIVALS),))


def _launch(values: Values) -> Configuration:
    """A private configuration includes the user's own, and wins over it. OpenClaw writes no included file of another
    folder, and keeps its state, logins among it, where it is.
    """
    usual = values.place("OPENCLAW_STATE_DIR", ".openclaw", "openclaw.json")
    own = str(Path(values.environment.get("OPENCLAW_CONFIG_PATH") or usual).expanduser().absolute())
    content, roots, left = _content(values), values.environment.get(_ROOTS, ""), list[str]()
    text = values.read(own)
    if text:
        # OpenClaw includes files of these folders alone; the user's may be a link.
        folders = dict.fromkeys([str(Path(own).parent), str(Path(own).resolve().parent)])
        roots = ":".join(filter(None, [roots, *folders]))
        rivals = _models_of(text, own, content)
        entries: JsonObject = {name: {"model": _model(values)} for _, kind, name, _ in rivals if kind == "entries"}
        content = expected({"$include": own, **content}, {"agents": {"entries": entries}} if entries else {})
        left = [dotted(path) for path in rivals if path[1] == "list"]
    return Configuration(
        command=("openclaw",),
        environment={"OPENCLAW_CONFIG_PATH": f"{values.folder}/{_PRIVATE}", **({_ROOTS: roots} if roots else {})},
        private={_PRIVATE: json.dumps(content)},
        notes=(f"{own}: these models bypass the proxy in this run: {', '.join(left)}",) if left else (),
    )


def _models_of(text: str, path: str, content: JsonObject) -> list[tuple[str, ...]]:
    """Return the paths of the models that the user chose for agents of their own."""
    try:
        return other_models(text, File(path, Format.JSON, content, rivals=_RIVALS))
    except NotMergeableError:  # JSON5, which OpenClaw reads
        return []


def _model(values: Values) -> JsonObject:
    return {"primary": f"{PROVIDER}/{values.model}"}


def _content(values: Values) -> JsonObject:
    provider: JsonObject = {
        "baseUrl": values.v1,
        "apiKey": f"${{{values.key_name}}}" if values.key_name else NO_KEY,
        "api": "openai-completions",
        "timeoutSeconds": PATIENCE,
        "models": [values.pi_model],
    }
    return {"agents": {"defaults": {"model": _model(values)}}, "models": {"providers": {PROVIDER: provider}}}


OPENCLAW = Agent(
    name="openclaw",
    title="OpenClaw",
    configure=_configure,
    launch=_launch,
    source="https://docs.openclaw.ai/gateway/configuration",
    date="2026-11-22",
    version="2026.9.6",
    package="openclaw",
)
