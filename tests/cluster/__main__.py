"""`make cluster-test`: a table of checks through HAProxy while servers fail, are drained and return.

    python -m tests.cluster [--dialects chat,messages,responses] [--streams 200]

HAProxy is in front of three proxies, and of the two model servers that they share. Each row is a check; the exit
code is 1 if one fails. HAProxy is installed (apt-get) if it is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.boxes import Cluster, NotReachedError, haproxy_program
from tests.cluster.client import DIALECTS
from tests.cluster.scenes import Play, Report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster")
    parser.add_argument("--dialects", default=",".join(DIALECTS))
    parser.add_argument("--streams", type=int, default=200)
    options = parser.parse_args()
    if haproxy_program() is None:
        _install()
    print(_version(), flush=True)
    report, began = Report(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        _play(Cluster(Path(folder)), report, options.dialects.split(","), options.streams)
    print(f"\n{time.monotonic() - began:.0f} s; {report.summary()}")
    return 0 if report.holds else 1


def _play(cluster: Cluster, report: Report, dialects: list[str], streams: int) -> None:
    try:
        with cluster:
            asyncio.run(Play(cluster, report, dialects, streams).run())
            report.check("no proxy wrote a traceback", _tracebacks(cluster), [])
    except NotReachedError as error:
        report.check("every expected state was reached", str(error), "")


def _install() -> None:
    """Install HAProxy. With its default configuration, the service listens on no port."""
    apt = [*([] if os.geteuid() == 0 else ["sudo"]), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y"]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "--no-install-recommends", "haproxy"], check=True, stdout=subprocess.DEVNULL)


def _version() -> str:
    program = haproxy_program() or ""
    return subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def _tracebacks(cluster: Cluster) -> list[str]:
    return [proxy.name for proxy in cluster.proxies if "Traceback" in proxy.log.read_text()]


if __name__ == "__main__":
    sys.exit(main())
