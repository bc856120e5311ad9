"""A real vLLM server on the CPU whose tokens are scripted (see `vllm_script`), as a child process.

vLLM has a separate environment (`vllm_install`): the folder in the variable `TOOL_PROXY_VLLM`, or `.venv/vllm`.
A start takes a minute, a request some tenths of a second.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.real import processes

FOLDER = Path(__file__).parent
TEMPLATE = FOLDER / "chatml_tools.jinja"
NAME = "tiny"
PATIENCE = 300.0
# Sources of the model.
SOURCES = ("vllm_model.py", "scripts.json")
# No internet, one thread each and a small cache, for small machines.
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
_POSTED = re.compile(r'"POST (/v1/\S+) HTTP/1\.1" (\d+)')
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Scripts = Mapping[str, Sequence[str]]


def environment() -> Path:
    """Return the folder of vLLM's virtual environment, which may not exist yet."""
    named = os.environ.get("TOOL_PROXY_VLLM")
    return Path(named) if named else processes.ROOT / ".venv" / "vllm"


def python() -> Path:
    return environment() / "bin" / "python"


def available() -> bool:
    return python().exists() and any(environment().glob("lib/python3*/site-packages/vllm/__init__.py"))


def version() -> str:
    """Return the version of the installed vLLM."""
    code = "import importlib.metadata as m; print(m.version('vllm-cpu'))"
    return subprocess.run([python(), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def model(cache: Path) -> Path:
    """Return the model's folder in `cache`. Build it if it is missing."""
    key = hashlib.sha256(b"\0".join((FOLDER / name).read_bytes() for name in SOURCES)).hexdigest()[:16]
    folder = cache / f"vllm-{key}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # It gets its name when it is complete, because two processes may build it at the same time.
        unfinished = Path(tempfile.mkdtemp(dir=cache))
        command = [str(python()), "-m", "tests.real.vllm_model", str(unfinished)]
        subprocess.run(command, cwd=processes.ROOT, check=True, stdout=subprocess.DEVNULL)
        try:
            unfinished.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    return folder


class VllmServer(contextlib.ExitStack):
    """Context manager: vLLM with these flags at `url`, whose model says `scripts`.

    `template` is the file of its chat template, and `names` are its model's names. The model is kept in the folder
    `cache`. The output is written to `log`, by default a temporary file.
    """

    def __init__(
        self,
        *flags: str,
        scripts: Scripts,
        cache: Path,
        template: Path = TEMPLATE,
        names: Sequence[str] = (NAME,),
        log: Path | None = None,
    ) -> None:
        super().__init__()
        self.url = ""
        self._log = log
        self._flags = flags
        self._scripts = scripts
        self._cache = cache
        self._template = template
        self._names = names

    def __enter__(self) -> VllmServer:
        """Start the server; raises `processes.NotStartedError` if it does not answer in time."""
        with contextlib.ExitStack() as starting:
            folder = Path(starting.enter_context(tempfile.TemporaryDirectory()))
            scripts = folder / "scripts.json"
            self._log = self._log or folder / "vllm.log"
            scripts.write_text(json.dumps(self._scripts), encoding="utf-8")
            port = processes.free_port()
            self.url = f"http://127.0.0.1:{port}"
            variables = {**VARIABLES, "VLLM_SCRIPTS": str(scripts), "PYTHONPATH": str(processes.ROOT)}
            running = processes.running(
                self._command(port),
                f"{self.url}/health",
                timeout=PATIENCE,
                env=variables,
                output=self._log,
                patience=30,  # it ends its engine's process first
            )
            starting.enter_context(running)
            self.enter_context(starting.pop_all())
        return self

    def posted(self) -> list[tuple[str, int]]:
        """Return path and status of each request whose answer has begun."""
        assert self._log is not None, "the server has not been started"
        log = self._log.read_text(encoding="utf-8", errors="replace")
        return [(path, int(status)) for path, status in _POSTED.findall(log)]

    def finished(self) -> int:
        """Return the number of requests that vLLM has completed, without aborted ones."""
        return total(self._metrics(), "vllm:request_success_total")

    def awaits(self, unfinished: int, patience: float = 60) -> bool:
        """Wait until this number of requests run or wait; return False if that never happens."""
        deadline = time.monotonic() + patience
        while True:
            text = self._metrics()
            if total(text, "vllm:num_requests_running") + total(text, "vllm:num_requests_waiting") == unfinished:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)

    def _metrics(self) -> str:
        with _NO_PROXY.open(f"{self.url}/metrics", timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    def _command(self, port: int) -> list[str]:
        return [
            str(python()),
            *("-m", "vllm.entrypoints.openai.api_server"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--model", str(model(self._cache)), "--load-format", "dummy", "--served-model-name", *self._names),
            *("--dtype", "bfloat16", "--enforce-eager", "--max-num-seqs", "8"),
            *("--chat-template", str(self._template)),
            *("--logits-processors", "tests.real.vllm_script:Scripted"),
            *self._flags,
        ]


def total(metrics: str, name: str) -> int:
    """Return the sum of a metric over all its labels."""
    values = (line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#"))
    return int(sum(float(value) for key, _, value in values if key.partition("{")[0] == name))
