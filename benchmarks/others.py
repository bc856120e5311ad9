"""Other proxies for comparison: LiteLLM, an aiohttp program that parses each event, and bare Flask, gunicorn and
`requests`.

The first two have virtual environments in `.venv`, or in the folder BENCH_ENVIRONMENTS. They are created on first use;
LiteLLM's takes a minute and some hundred megabytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.body import MODEL
from benchmarks.targets import ROOT, Target, Unavailable, free_port, running

_PARSING = Path(__file__).with_name("parsing_proxy.py")
_INSTALL_SECONDS = 900
_START_SECONDS = 120.0


def environment(name: str, *packages: str) -> Path:
    """Return the program folder of an environment with these packages; create the environment if it is missing."""
    folder = Path(os.environ.get("BENCH_ENVIRONMENTS", ROOT / ".venv")) / name
    programs = folder / "bin"
    if (folder / "made").exists():
        return programs
    install = [str(programs / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
        subprocess.run(install, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{' '.join(packages)} cannot be installed: {error}") from error
    (folder / "made").touch()
    return programs


@contextmanager
def parsing(port: int) -> Iterator[Target]:
    """Run the aiohttp program in front of the upstream at `port`."""
    programs = environment("bench-aiohttp", "aiohttp")
    listen = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-aiohttp-") as folder:
        command = [str(programs / "python"), str(_PARSING), str(listen), str(port)]
        with running("aiohttp", command, listen, Path(folder, "log")) as target:
            yield target


@contextmanager
def bare(port: int) -> Iterator[Target]:
    """Run the proxy's bare stack, one worker, in front of the upstream at `port`."""
    listen = free_port()
    command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{listen}", "--worker-class", "gthread"]
    command += ["--threads", "16", "--no-control-socket", "benchmarks.bare_stack:app"]
    variables = {"BENCH_UPSTREAM": f"http://127.0.0.1:{port}"}
    with (
        tempfile.TemporaryDirectory(prefix="bench-bare-") as folder,
        running("bare", command, listen, Path(folder, "log"), variables=variables) as target,
    ):
        yield target


@contextmanager
def litellm(port: int) -> Iterator[Target]:
    """Run LiteLLM's proxy, one worker, in front of the upstream at `port`."""
    programs = environment("bench-litellm", "litellm[proxy]")
    listen = free_port()
    server = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{port}/v1", "api_key": "none"}
    # It only listens on 127.0.0.1, so no key is needed. JSON is valid YAML.
    general = {"dangerously_permit_weak_or_unset_master_key": True}
    models = [{"model_name": MODEL, "litellm_params": server}]
    config = json.dumps({"model_list": models, "general_settings": general})
    with tempfile.TemporaryDirectory(prefix="bench-litellm-") as folder:
        Path(folder, "config.yaml").write_text(config)
        command = [str(programs / "litellm"), "--config", f"{folder}/config.yaml", "--host", "127.0.0.1"]
        command += ["--port", str(listen), "--num_workers", "1"]
        log = Path(folder, "log")
        with running("LiteLLM", command, listen, log, health="/health/liveliness", patience=_START_SECONDS) as target:
            yield target
