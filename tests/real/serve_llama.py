"""`python -m tests.real.serve_llama MODEL PORT [TEMPLATE [none [CONTEXT]]]`: llama.cpp's own server (`xllamacpp`)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import xllamacpp  # type: ignore[import-untyped]


def main(model: str, port: int, template: str = "", thoughts: str = "", context: str = "8192") -> None:
    """Serve the GGUF file `model` on 127.0.0.1:`port` forever.

    `template` is a file with another chat template. If `thoughts` is `none`, reasoning is left in the text, as with
    `--reasoning-format none`. `context` is the context length in tokens.
    """
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"parrot"}  # otherwise answers and their recordings contain the file's path
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = int(context)
    params.n_parallel = 1
    # Two threads would spin at every layer, which on a busy machine takes a hundred times longer than the model itself.
    params.cpuparams.n_threads = 1
    params.use_jinja = True
    if template:
        params.chat_template = Path(template).read_text("utf-8")
    if thoughts == "none":
        params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
