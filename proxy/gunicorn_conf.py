"""gunicorn's configuration, which its master reads at the start and at every reload.

It must not import `proxy`: the master would keep that release's modules and pass them to every later worker. Address,
workers and threads are flags on gunicorn's command line (proxy/cli/serve.py).
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import importlib.util
import itertools
import os
import resource
import secrets
import shutil
import signal
import socket
import struct
import sys
import tempfile
from typing import Any


def _load(name: str) -> Any:
    """Load a module of proxy/server under another package name, so that a reload loads the new release's module."""
    package = "gunicorn_server"
    if package not in sys.modules:
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server")
        path = os.path.join(folder, "__init__.py")
        spec = importlib.util.spec_from_file_location(package, path, submodule_search_locations=[folder])
        assert spec is not None
        sys.modules[package] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{package}.{name}")


for _name in [name for name in sys.modules if name.partition(".")[0] == "gunicorn_server"]:
    del sys.modules[_name]
_logs = _load("log_queue")
_worker = _load("pump_worker")

_TCP = (socket.AF_INET, socket.AF_INET6)

# Seconds that a worker's main loop may be silent. It does not limit requests.
timeout = 60

# Seconds for streams to end after SIGTERM or a reload; then the worker is killed. `serve` may pass another value.
graceful_timeout = 60

# Agents pool connections for up to 90 s: the side that closes first makes the other's next POST fail.
keepalive = 120

# No automatic restarts: such a worker serves no one until its last stream has ended.
max_requests = 0

# With the heartbeat file on disk, a slow disk would look like a hung worker.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None

# A reload must load the new code, so the master must not load the application.
preload_app = False

# One listening socket for all workers: none is starved, and a port in use is an error.
reuse_port = False

# Saving a source file must not restart the workers.
reload = False

# Only a reverse proxy on this machine may set X-Forwarded-*.
forwarded_allow_ips = "127.0.0.1"

# A header with an underscore could pass for another one.
header_map = "drop"

# No header may set the path, not even from this machine.
forwarder_headers = ""

# Agents send short lines and few headers. Longer ones get 414 or 431 before the application runs.
limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190

# Always the pure Python parser, so that every installation parses requests alike.
http_parser = "python"

# The control socket would be in the home folder, which a hardened unit lacks, and could stop the service.
control_socket_disable = True

# The application logs each request itself.
accesslog = None

# The journal reads stderr; a slow reader must not block the master or a request.
errorlog = "-"
logger_class = _logs.QueuedLogger

worker_class = _worker.PumpWorker

# The kernel reports a connection once its first byte has arrived, or after this many seconds.
DEFER_SECONDS = 5

# The pseudonym of the master and its workers in `Via`. They reject requests that carry it, because those are their own.
# A master started by another one (SIGUSR2) keeps it: both serve the same socket for a while.
VIA_VARIABLE = "VLLM_TOOL_PROXY_VIA"


# The folder that the workers share, and the process id of its master. Without the prefix of settings, a release that
# does not know the variable starts under a master that sets it.
FOLDER_VARIABLE = "VLLM_TOOL_PROXY_FOLDER"
# The number of reloads that SIGHUP has requested.
SIGNALS_VARIABLE = "VLLM_TOOL_PROXY_SIGNALS"
# prometheus-client reads this when a worker imports it.
METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# The worker's place, which names its metrics files.
PLACE_VARIABLE = "VLLM_TOOL_PROXY_PLACE"


def _shared_folder() -> str:
    """Return the folder that the workers of this master share; the first call creates and empties it.

    It is the unit's runtime directory, or else a private temporary one, in /dev/shm if that exists. A folder that was
    removed is created again.
    """
    pid, _, folder = os.environ.get(FOLDER_VARIABLE, "").partition(":")
    if pid == str(os.getpid()) and os.path.isdir(os.path.join(folder, "metrics")):
        return folder
    folder = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if not (os.path.isabs(folder) and os.access(folder, os.W_OK | os.X_OK)):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = tempfile.mkdtemp(prefix="vllm-tool-proxy-", dir=memory)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "rules-in-force"))
    metrics = os.path.join(folder, "metrics")
    shutil.rmtree(metrics, ignore_errors=True)
    os.mkdir(metrics, 0o700)
    os.environ[FOLDER_VARIABLE] = f"{os.getpid()}:{folder}"
    os.environ[METRICS_VARIABLE] = metrics
    return folder


def on_starting(server: Any) -> None:
    """Set the workers' folder and pseudonym, and raise the descriptor limit (each stream needs two descriptors)."""
    _shared_folder()
    os.environ.setdefault(VIA_VARIABLE, secrets.token_hex(8))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def on_reload(server: Any) -> None:
    """Ask the first new worker to read the rules file."""
    os.environ[SIGNALS_VARIABLE] = str(int(os.environ.get(SIGNALS_VARIABLE) or 0) + 1)


def pre_fork(server: Any, worker: Any) -> None:
    """Create the workers' folder if it is missing: a worker that cannot start stops the master.

    Give the worker the first free place of this master; another one may still run (SIGUSR2).
    """
    _shared_folder()
    taken = {getattr(each, "place", "") for each in server.WORKERS.values()}
    places = (f"{os.getpid()}-{number}" for number in itertools.count())
    worker.place = os.environ[PLACE_VARIABLE] = next(place for place in places if place not in taken)


def child_exit(server: Any, worker: Any) -> None:
    """Remove the gauges of an ended worker, as prometheus-client requires."""
    place = getattr(worker, "place", worker.pid)  # an earlier release gave no places
    for gauges in glob.glob(os.path.join(_shared_folder(), "metrics", f"gauge_live*_{place}.db")):
        os.unlink(gauges)


def on_exit(server: Any) -> None:
    """Remove the folder if it is a temporary one."""
    folder = _shared_folder()
    if folder != os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        shutil.rmtree(folder, ignore_errors=True)


def when_ready(server: Any) -> None:
    """Set timeouts on the listening TCP sockets. On Linux, each accepted connection inherits them."""
    limit = struct.pack("ll", int(_worker.STALL_SECONDS), int(_worker.STALL_SECONDS % 1 * 1e6))
    for listener in server.LISTENERS:
        if listener.sock.family in _TCP:
            listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_SECONDS)


def post_fork(server: Any, worker: Any) -> None:
    """Drop what the master has cached: the release may have been switched since a new worker was forked.

    Signals are reset too: the master's handlers would only note a SIGTERM that arrives while the worker starts, and the
    worker would be killed at the graceful timeout.
    """
    importlib.invalidate_caches()
    # This worker's later imports come from its own release, even if the symlink is switched.
    sys.path[:] = map(os.path.realpath, sys.path)
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
