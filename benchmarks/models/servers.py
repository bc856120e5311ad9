"""llama.cpp's server with one model, and the proxy in front of a server, as child processes.

`python -m benchmarks.models.servers FILE NAME PORT THREADS [TEMPLATE]` is the child.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from benchmarks.models.files import Model
from tests.real import processes

CONTEXT = 16_384  # tokens
LOADING = 300  # seconds


class LlamaServer:
    """llama.cpp's server with one model, started on first use and stopped with `stack`."""

    def __init__(self, model: Model, file: Path, stack: contextlib.ExitStack, threads: int | None = None) -> None:
        self._model, self._file, self._stack = model, file, stack
        self._threads = threads or os.cpu_count() or 1
        self._url = ""

    def url(self) -> str:
        """Return the server's URL. Raises processes.NotStartedError."""
        if not self._url:
            port = str(processes.free_port())
            command = [sys.executable, "-m", "benchmarks.models.servers", str(self._file), self._model.name, port]
            command += [str(self._threads), *([str(self._model.template)] if self._model.template else [])]
            url = f"http://127.0.0.1:{port}"
            self._stack.enter_context(processes.running(command, f"{url}/health", timeout=LOADING))
            self._url = url
        return self._url


@contextlib.contextmanager
def proxied(upstream: str) -> Iterator[str]:
    """Run the proxy in front of a model server during the block; yield its URL."""
    port = str(processes.free_port())
    command = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", port]
    with processes.running(command, f"http://127.0.0.1:{port}/health", timeout=60):
        yield f"http://127.0.0.1:{port}"


def main(file: str, name: str, port: str, threads: str, template: str = "") -> None:
    """Serve the GGUF file as model `name` on 127.0.0.1 until the process is stopped.

    `template` is a file whose chat template replaces the model's own.
    """
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415 - needs the extra; the parent does without it

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(threads)
    params.use_jinja = True
    if template:
        params.chat_template = Path(template).read_text("utf-8")
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
