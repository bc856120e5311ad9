"""A real llama.cpp server whose tokens are scripted (see `parrot`), as a child process."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from tests.real import processes
from tests.support.scripted import PATIENCE

FOLDER = Path(__file__).parent
# Sources of the model file, in addition to the scripts.
SOURCES = ("parrot.py", "script.jinja", "chatml_tools.jinja")

Scripts = Mapping[str, Sequence[str]]


def available() -> bool:
    """Return whether the extra `real` is installed."""
    return all(importlib.util.find_spec(name) for name in ("xllamacpp", "gguf", "numpy"))


def version() -> str:
    """Return the version of the wheel that holds the server."""
    return metadata.version("xllamacpp")


def load_scripts() -> dict[str, list[str]]:
    """Return the project's scripts by name: the model's first reply, and the one after a tool's result."""
    scripts: dict[str, list[str]] = json.loads((FOLDER / "scripts.json").read_text(encoding="utf-8"))
    return scripts


def model(scripts: Scripts, cache: Path) -> Path:
    """Return the file in `cache` of the model that says `scripts`. Build it if it is missing."""
    from tests.real import parrot  # noqa: PLC0415 - needs the extra; `available` must answer without it

    sources = b"\0".join((FOLDER / name).read_bytes() for name in SOURCES)
    key = hashlib.sha256(sources + json.dumps(scripts).encode()).hexdigest()[:16]
    path = cache / f"parrot-{key}.gguf"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # It gets its name when it is complete, because two processes may build it at the same time.
        unfinished = path.with_suffix(f".{os.getpid()}")
        parrot.build(scripts, unfinished)
        unfinished.replace(path)
    return path


def _thinking_template(folder: Path) -> Path:
    """Write the template of a model that thinks into a folder; return the file."""
    from tests.real import parrot  # noqa: PLC0415 - as above

    path = folder / "thinking.jinja"
    path.write_text(parrot.template("thinking.jinja"), encoding="utf-8")
    return path


class LlamaServer(contextlib.ExitStack):
    """Context manager: llama.cpp's server at `url`, whose model says `scripts` (by default the project's own).

    The model is kept in the folder `cache`, or in a temporary one. `template` is a file with another chat template.
    With `thinks`, the template reads earlier reasoning (`thinking.jinja`), and the server leaves new reasoning in the
    text. `context` is its length in tokens.
    """

    def __init__(
        self,
        scripts: Scripts | None = None,
        cache: Path | None = None,
        timeout: float = PATIENCE,
        template: Path | None = None,
        thinks: bool = False,
        *,
        context: int = 8192,
    ) -> None:
        super().__init__()
        self.url = ""
        self._scripts = load_scripts() if scripts is None else scripts
        self._cache = cache
        self._timeout = timeout
        self._template = template
        self._thinks = thinks
        self._context = context

    def __enter__(self) -> LlamaServer:
        """Start the server; raises `processes.NotStartedError` if it does not answer in time."""
        with contextlib.ExitStack() as starting:
            folder = Path(starting.enter_context(tempfile.TemporaryDirectory()))
            cache = self._cache or folder
            path, port = model(self._scripts, cache), processes.free_port()
            self.url = f"http://127.0.0.1:{port}"
            command = [sys.executable, "-m", "tests.real.serve_llama", str(path), str(port)]
            if self._template is not None:
                command += [str(self._template), ""]
            elif self._thinks:
                command += [str(_thinking_template(folder)), "none"]
            else:
                command += ["", ""]
            command.append(str(self._context))
            starting.enter_context(processes.running(command, f"{self.url}/health", timeout=self._timeout))
            self.enter_context(starting.pop_all())
        return self
