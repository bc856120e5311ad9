"""The parts of an agent's configuration, and the values that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from proxy.codec.json_text import Json, JsonObject

# Under this name the proxy stands among an agent's model providers.
PROVIDER = "vllm-tool-proxy"
# Seconds that an agent waits for an answer, or for the next byte. The proxy sends a heartbeat every 10 s, and gives
# a model server 600 s for either (`header_timeout`, `idle_timeout`): its own error comes first, and says what is wrong.
PATIENCE = 900
# Tokens of one reply, where an agent wants to know how many there may be at most.
OUTPUT = 8192
# What an agent that wants a context window is told where the server does not say how large it is.
USUAL_CONTEXT = 32768
# Stands where the key belongs: it is put in when a program is started, and into no file.
KEY = "{key}"
# What agents that insist on a key send to a proxy that wants none.
NO_KEY = "local"

# pi's levels of thinking, and the word for each; a level that a model does not have is null in its list.
_PI_LEVELS = {"off": "none", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}

# OpenClaw tells a server of one's own nothing of it otherwise, and pi gives a model that thinks its instructions as
# `developer`, which many templates refuse.
_PI_THINKS: JsonObject = {"supportsDeveloperRole": False, "supportsReasoningEffort": True}


class Format(Enum):
    """The format of a file."""

    JSON = "JSON"
    TOML = "TOML"


def _nothing(path: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Values:
    """The values for an agent's configuration.

    `url` is the proxy's, without `/v1`; `context` is the model's in tokens, None where the server does not say, and
    `images`: it takes pictures. `efforts` are the words by which it can be told how much to think, from `none` to
    `xhigh`; none where it cannot be told. `key_name` is the environment variable that holds the proxy's key, empty if
    it wants none. `environment` is the one in which the agent will run.

    For one run of the agent, `folder` is the path of a folder that exists only during that run, and `read` returns the
    text of one of the user's files, empty where there is none.
    """

    url: str
    model: str
    context: int | None = None
    key_name: str = ""
    images: bool = False
    efforts: tuple[str, ...] = ()
    home: str = "~"
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    read: Callable[[str], str] = _nothing

    @property
    def v1(self) -> str:
        """The base URL of clients that append no `/v1`."""
        return f"{self.url}/v1"

    @property
    def key(self) -> str:
        """The word for the key in an environment or a command line."""
        return KEY if self.key_name else NO_KEY

    @property
    def inputs(self) -> list[Json]:
        """The kinds of input that the model takes."""
        return ["text", "image"] if self.images else ["text"]

    @property
    def window(self) -> int:
        """The context, or a guess that is none too large."""
        return self.context or USUAL_CONTEXT

    @property
    def output(self) -> int:
        """The most tokens of a reply: the prompt needs room too."""
        return min(OUTPUT, self.window // 4)

    @property
    def pi_model(self) -> JsonObject:
        """The model as pi lists it, and OpenClaw, which is made of pi."""
        model: JsonObject = {
            "id": self.model,
            "name": self.model,
            "reasoning": bool(self.efforts),
            "input": self.inputs,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
            "contextWindow": self.window,
            "maxTokens": self.output,
        }
        if self.efforts:
            levels: JsonObject = {level: word if word in self.efforts else None for level, word in _PI_LEVELS.items()}
            model |= {"thinkingLevelMap": levels, "compat": _PI_THINKS}
        return model

    def place(self, variable: str, usual: str, name: str) -> str:
        """The path of an agent's file: in the folder that a variable names, else in its usual one below the home."""
        folder = self.environment.get(variable) or f"{self.home}/{usual}"
        return f"{folder.rstrip('/')}/{name}"


@dataclass(frozen=True, slots=True)
class File:
    """A file of an agent's configuration: what of it must say this, whatever else it says.

    `own`: it is written for the proxy alone, and holds nothing else. `optional`: the environment says it too.
    `without` are the paths of keys that would win over it, and are taken out. `rivals` are the paths of models that a
    person chose for a part of the agent (`*`: any key, any item): they win over it there, stay, and are reported.
    """

    path: str
    format: Format
    content: JsonObject
    own: bool = False
    optional: bool = False
    without: tuple[tuple[str, ...], ...] = ()
    rivals: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that an agent is told. `environment` and the command lines may hold KEY.

    Variables in `unset` would win over it. `first` is a command line that must have been run once; it writes the file
    `written`. `notes` are told to the person.

    `private` holds the files of `Values.folder` by name, and may hold KEY inside a JSON string. Only `launch` uses it.
    """

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    first: tuple[str, ...] = ()
    written: str = ""
    notes: tuple[str, ...] = ()
    private: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be set up.

    `configure` returns what the agent needs permanently, in the user's files. `launch` returns what it needs for one
    run: a command line, an environment and private files, which win over the files of the user and of the project.

    `version` is the one that `make agents` runs with this configuration; empty for the SDKs, which the tests run.
    `source` is its documentation, as of `date`. `package` is its name on npm, empty if it is not there.
    """

    name: str
    title: str
    configure: Callable[[Values], Configuration]
    launch: Callable[[Values], Configuration]
    source: str
    date: str
    version: str = ""
    package: str = ""

    @property
    def run_here(self) -> bool:
        """True if `make agents` runs it."""
        return bool(self.version)

    @property
    def origin(self) -> str:
        """Where its configuration comes from, in words."""
        run = f"run here with version {self.version}" if self.run_here else "run in the tests"
        return f"{run}; from its documentation ({self.source}), as of {self.date}"
