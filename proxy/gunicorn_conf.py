"""gunicorn's configuration, read by its master at the start and at every reload.

It must not import `proxy`: the master would keep that release's modules, and hand them to every later worker. Address,
workers and threads come on the command line, from `proxy.cli`.
"""

from __future__ import annotations

import importlib
import os
import socket
import struct
from typing import Any

# A thread per request: a stream holds its thread for minutes, and threads that wait cost next to nothing.
worker_class = "gthread"

# For how long a worker's main loop may not beat; never a limit on a request.
timeout = 60

# What streams get to end after SIGTERM or a reload; then the worker is killed.
graceful_timeout = 60

# Agents pool connections for up to 90 s: the side that closes first makes the other's next POST fail.
keepalive = 120

# A worker that restarts itself serves nobody until its last stream has ended.
max_requests = 0

# The heartbeat file on a disk would make a slow disk look like a hung worker.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None

# A reload must take the new code, so the master must not have loaded the old.
preload_app = False

# One listening socket for all workers: none is starved, and a port in use is told.
reuse_port = False

# Restarts are the operator's, not those of an editor that saves a file.
reload = False

# X-Forwarded-* is believed from a front on this machine only.
forwarded_allow_ips = "127.0.0.1"

# A header with an underscore could pass for another one.
header_map = "drop"

# Agents send short lines and few headers; what is over these is answered 414 and 431 before the application runs.
limit_request_line = 4094
limit_request_fields = 64

# The pure Python parser, whatever else is installed: one set of bytes is read in one way.
http_parser = "python"

# It would make a socket in the home folder, which a hardened unit does not have, and can stop the service.
control_socket_disable = True

# The application writes its own line for each request.
accesslog = None

# The journal takes what is written to stderr.
errorlog = "-"

# A client that sends or takes nothing for so long has lost its thread; gunicorn itself has no such limit. A stream with
# longer gaps is not touched: while it waits, the application neither sends nor receives.
STALL_SECONDS = 30

# A connection is handed over when its first byte is there, so that silent ones cost no thread.
DEFER_SECONDS = 5

# The memory that the workers share, and how they are told of it: made here, before the first fork (shared_memory.py,
# which cannot be imported, says what is in it).
MEMORY_VARIABLE = "TOOL_PROXY_MEMORY"
MEMORY_BYTES = 640 * 1024


def on_starting(server: Any) -> None:
    """Make the workers' memory."""
    _memory()


def on_reload(server: Any) -> None:
    """Note in the workers' memory that the rules file is to be read: the first new worker does."""
    asked = struct.Struct("Q")
    memory = _memory()
    os.pwrite(memory, asked.pack(asked.unpack(os.pread(memory, asked.size, 0))[0] + 1), 0)


def _memory() -> int:
    """The descriptor of this master's memory, made now if there is none: this file is executed again at each reload.

    A master that another one started (SIGUSR2) has the variable, but not the descriptor; and a new release that
    needs another memory does not get the old one's.
    """
    pid, _, descriptor = os.environ.get(MEMORY_VARIABLE, "").partition(":")
    if pid == str(os.getpid()) and os.fstat(int(descriptor)).st_size == MEMORY_BYTES:
        return int(descriptor)
    memory = os.memfd_create("vllm-tool-proxy")
    os.ftruncate(memory, MEMORY_BYTES)
    os.environ[MEMORY_VARIABLE] = f"{os.getpid()}:{memory}"
    return memory


def when_ready(server: Any) -> None:
    """Set the limits on the listening TCP sockets; on Linux each accepted connection inherits them."""
    limit = struct.pack("ll", STALL_SECONDS, 0)
    for listener in server.LISTENERS:
        if listener.sock.family in (socket.AF_INET, socket.AF_INET6):
            listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_SECONDS)


def post_fork(server: Any, worker: Any) -> None:
    """Forget the folders' contents that the master has seen: the release may have been switched since."""
    importlib.invalidate_caches()
