"""The memory that a master's workers share: made before the first fork, and told by a variable of its environment.

worker/shared_memory.py, which cannot be imported here, says what is in it. gunicorn's configuration loads this by its
path, so it imports nothing of the package.
"""

from __future__ import annotations

import os
import struct
from collections.abc import MutableMapping

VARIABLE = "TOOL_PROXY_MEMORY"
BYTES = 48 * 1024 * 1024
_RELOADS = struct.Struct("Q")


def descriptor(env: MutableMapping[str, str]) -> int:
    """The descriptor of the memory of the master with this environment.

    It is made now if there is none: gunicorn's configuration is executed again at each reload. A master that another
    one started (SIGUSR2) has the variable, but not the descriptor; and a new release that needs another memory does
    not get the old one's.
    """
    pid, _, made = env.get(VARIABLE, "").partition(":")
    if pid == str(os.getpid()) and os.fstat(int(made)).st_size == BYTES:
        return int(made)
    memory = os.memfd_create("vllm-tool-proxy")
    os.ftruncate(memory, BYTES)
    env[VARIABLE] = f"{os.getpid()}:{memory}"
    return memory


def count_reload(env: MutableMapping[str, str]) -> None:
    """Note in the master's memory that the rules file is to be read: the first new worker does."""
    memory = descriptor(env)
    (reloads,) = _RELOADS.unpack(os.pread(memory, _RELOADS.size, 0))
    os.pwrite(memory, _RELOADS.pack(reloads + 1), 0)
