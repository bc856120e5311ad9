"""`python -m benchmarks.models.serve FILE NAME PORT THREADS [TEMPLATE]`: llama.cpp's server with one model."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import xllamacpp  # type: ignore[import-untyped]

CONTEXT = 16_384  # tokens


def main(file: str, name: str, port: str, threads: str, template: str = "") -> None:
    """Serve the GGUF file as model `name` on 127.0.0.1 until the process is stopped.

    `template` is a file whose chat template replaces the model's own.
    """
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
