"""A worker in a process of its own that writes its rules file and reloads, again and again, in several threads.

`python -m tests.support.reload_storm RULES THREADS RELOADS` says "calm" when it is done; asked by a line of input, it
says which heartbeat is in force.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from proxy.worker.state import WorkerState, start_worker


def storm(worker: WorkerState, rules: Path, number: int, reloads: int) -> None:
    """Write the file, each time with another number, and reload; what is seen then is of one piece."""
    own = rules.with_name(f"next-{os.getpid()}-{number}")
    for turn in range(1, reloads + 1):
        own.write_text(f"settings: {{heartbeat: {number * reloads + turn + (os.getpid() % 2) * 1000}}}\n")
        own.rename(rules)
        worker.reload()
        seen = worker.current()
        assert seen.settings.heartbeat == seen.rules.settings["heartbeat"]


def main(rules: Path, threads: int, reloads: int) -> None:
    """Rage, and tell."""
    worker = start_worker()
    failures = list[BaseException]()

    def run(number: int) -> None:
        try:
            storm(worker, rules, number, reloads)
        except BaseException as failure:
            failures.append(failure)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print(failures or "calm", flush=True)
    sys.stdin.readline()
    print(worker.current().settings.heartbeat)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
