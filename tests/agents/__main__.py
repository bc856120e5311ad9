"""`python -m tests.agents`: real coding agents against bad model servers, without and with the proxy.

Every cell is a run of the agent as its user runs it, headless, in an empty git repository, alone in a network of its
own: the model calls the agent's shell to write proof.txt, and when it has the result it says that it is done. The rows
are model servers (`rows`): a real llama.cpp server with scripted tokens, asked directly at its own endpoint for the
agent's dialect and through the proxy at its chat endpoint; and a scripted server for each fault of the field. What a
cell says, with the number of requests that reached the model server:

    ok            the file is there with the right content, and the last words arrived
    TEXT          no file: the call was shown to the user as prose
    SILENT        no file, no error, nothing said
    toolerr       a turn was lost: the call failed, was told so, and the model went on
    lost-call     of two calls only one was done
    ran,no-final  the file is there, the last words are not
    wrong-file    the file holds something else
    prefix        all went well, but a request did not begin with the one before it: the prompt cache is lost (C8)
    thought       all went well, but the model's thought did not arrive as one, or did not go back
    shape         an answer of the proxy broke a rule of the dialect, whatever the agent made of it
    CRASH         the agent ended with an error; `CRASH,ran`: after it had made the file
    HANG          the agent did not end within its time
    -             the fault cannot be said in the agent's dialect

Exit status 0 means that every cell with the proxy is what `rows` expects of it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.agents import inside, namespace
from tests.agents.agent import Agent
from tests.agents.install import NotInstalledError, installed
from tests.agents.known import AGENTS
from tests.agents.outcome import Run, cell
from tests.agents.rows import BY_NAME, ROWS, Row
from tests.real import llama

SIDES = ("without", "with")
AT_ONCE = 2
WIDTHS = (18, 14, 14)


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.agents",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--agent", choices=AGENTS, action="append", help="only this one; may be said again")
    parser.add_argument("--row", choices=BY_NAME, action="append", help="only this one; may be said again")
    parser.add_argument("--side", choices=SIDES, action="append", help="only this side; may be said again")
    parser.add_argument("--keep", type=Path, help="a folder for what passed in each run, the logs and the project")
    return parser.parse_args()


def main() -> int:
    """Run the matrix and return the exit status."""
    asked = arguments()
    agents = [AGENTS[name] for name in asked.agent or AGENTS]
    rows = [BY_NAME[name] for name in asked.row] if asked.row else ROWS
    keep = asked.keep.resolve() if asked.keep else None
    began, wrong = time.monotonic(), list[str]()
    try:
        for agent in agents:
            wrong += matrix(agent, rows, asked.side or SIDES, keep)
    except (NotInstalledError, namespace.NoRunError) as error:
        print(f"The matrix did not come to its end: {error}", file=sys.stderr)
        return 1
    print()
    for each in wrong:
        print(each, end="\n\n")
    print(verdict(wrong), f"({time.monotonic() - began:.0f} s)")
    return 1 if wrong else 0


def matrix(agent: Agent, rows: Sequence[Row], sides: Sequence[str], keep: Path | None) -> Iterator[str]:
    """Do all runs of an agent and print a line for each row; give what is wrong with the cells with the proxy."""
    package = prepared(agent, rows)
    print(f"\n{agent.package} {agent.version}\n{line(('', *SIDES))}", flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def start(row: Row, side: str) -> Future[Run] | str:
            if side not in sides:
                return ""
            if not row.says("chat" if side == "with" else agent.dialect):
                return "-"
            return pool.submit(namespace.do, agent, row, side, package, keep)

        started = [(row, [start(row, side) for side in SIDES]) for row in rows if row.is_for(agent)]
        try:
            for row, (without, through) in started:
                fault = unexpected(agent, row, through.result()) if isinstance(through, Future) else ""
                told = f"   EXPECTED {row.expects(agent)}" if fault else ""
                print(line((row.name, shown(without), shown(through))) + told, flush=True)
                if fault:
                    yield f"{agent.name}, {fault}"
        finally:
            pool.shutdown(cancel_futures=True)


def prepared(agent: Agent, rows: Sequence[Row]) -> Path:
    """Return the folder where the agent is installed, once all is there that runs share.

    Raises `NotInstalledError`.
    """
    if any(row.script for row in rows):
        if not llama.available():
            raise NotInstalledError("the extra `real` is not installed, which brings the llama.cpp server")
        # Here, because processes in namespaces of their own have the same number: two would build one file.
        llama.model(llama.load_scripts(), inside.CACHE)
    return installed(agent)


def shown(run: Future[Run] | str) -> str:
    """Return a cell, once its run is done."""
    return run if isinstance(run, str) else cell(run.result())


def line(cells: Sequence[str]) -> str:
    """Return the cells in their columns."""
    return "".join(text.ljust(width) for text, width in zip(cells, WIDTHS, strict=True)).rstrip()


def unexpected(agent: Agent, row: Row, run: Run) -> str:
    """Say what a run with the proxy ended in, and what the agent printed; nothing if that was expected."""
    said = row.told in run.output + run.errors
    if cell(run) == row.expects(agent) and said:
        return ""
    told = [f"{row.name}: {cell(run)}, but {row.expects(agent)} is expected (exit status {run.status})"]
    if not said:
        told.append(f"  it does not say: {row.told}")
    for name, text in (("shape", run.shape), ("thought", run.thought), ("stdout", run.output), ("stderr", run.errors)):
        told += [f"  {name}: {part}" for part in text.splitlines()[-6:]]
    told.append(f"  look at it with: --row '{row.name}' --side with --keep FOLDER")
    return "\n".join(told)


def verdict(wrong: Sequence[str]) -> str:
    """Return the result in one line."""
    return f"FAILED: {len(wrong)} cells with the proxy are not as expected." if wrong else "OK: as expected."


if __name__ == "__main__":
    sys.exit(main())
