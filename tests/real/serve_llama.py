"""`python -m tests.real.serve_llama MODEL PORT [TEMPLATE [none [CONTEXT]]]`: llama.cpp's own server (`xllamacpp`)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import xllamacpp  # type: ignore[import-untyped]


def main(model: str, port: int, template: str = "", thoughts: str = "", context: str = "8192") -> None:
    """Serve the GGUF file `model` on 127.0.0.1:`port`, with the chat template of that file if one is named; return
    never. With `none` it leaves the thoughts of a reply in the text, as `--reasoning-format none` says. `context` is
    how many tokens it has.
    """
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"parrot"}  # else answers, and recordings of them, name the file and its folder
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = int(context)
    params.n_parallel = 1
    # Two would spin for each other at every layer: beside other work that costs a hundred times what the model does.
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
