"""`python -m tests.agents`: real coding agents against bad model servers, without and with the proxy.

Every cell is a run of the agent as a user runs it: headless, in an empty git repository, in a separate network
namespace. The model calls the agent's shell to write proof.txt, and after the result, replies that it is done. The
agent is configured by `vllm-tool-proxy setup` or started by `launch`. The rows are model servers (`rows`). One is a
real llama.cpp server with scripted tokens, used directly at its endpoint for the agent's dialect, and through the proxy
at its chat endpoint. The others are scripted servers, one for each fault seen in the field. A cell has one of these
words, and the number of requests that reached the model server:

    ok            the file has the right content, and the final reply arrived
    TEXT          no file: the call was shown to the user as prose
    SILENT        no file, no error, no text
    toolerr       a turn was lost: the call failed, and the model continued with the error
    lost-call     only one of two calls was executed
    ran,no-final  the file was written, but the final reply did not arrive
    wrong-file    the file has other content
    upstream      as `ok`, but a request was invalid, the model server never received the call's result, or a real
                  server did not send its model's text
    prefix        as `ok`, but a request did not begin with the previous one, so the prompt cache is lost (C8)
    thought       as `ok`, but reasoning did not arrive as reasoning, or was not sent back
    shape         an answer of the proxy broke a rule of the dialect, whether or not the agent accepted it
    CRASH         the agent exited with an error; `CRASH,ran`: after it had written the file
    HANG          the agent did not exit in time
    -             the agent's dialect cannot express the fault

The variables AGENTS=claude,pi and ROWS=ok,empty are equivalent to --agent and --row. --table FILE updates the table
between the two marks of a page. It replaces the cells of these runs, and keeps others of the same agent version.

Exit status 0 means that every cell with the proxy is as `rows` expects.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from tests.agents import inside, namespace
from tests.agents.agent import Agent
from tests.agents.install import NotInstalledError, installed
from tests.agents.known import AGENTS
from tests.agents.outcome import Run, cell
from tests.agents.results import Results
from tests.agents.rows import BY_NAME, ROWS, Row
from tests.real import llama

SIDES = ("without", "with")
AT_ONCE = 2
WIDTHS = (18, 14, 14)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.agents",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--agent", choices=AGENTS, action="append", help="only this agent; repeatable")
    parser.add_argument("--row", choices=BY_NAME, action="append", help="only this row; repeatable")
    parser.add_argument("--side", choices=SIDES, action="append", help="only this side; repeatable")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table into this page at the end")
    parser.add_argument("--keep", type=Path, help="a folder for each run's traffic, logs and project")
    given = parser.parse_args()
    given.agent = given.agent or chosen(parser, "AGENTS", AGENTS)
    given.row = given.row or chosen(parser, "ROWS", BY_NAME)
    return given


def chosen(parser: argparse.ArgumentParser, variable: str, known: Mapping[str, object]) -> list[str]:
    """Return the names in a variable. An unknown name is a command-line error."""
    names = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"{variable}: unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
    return names


def main() -> int:
    """Run the matrix and return the exit status."""
    asked = arguments()
    agents = [AGENTS[name] for name in asked.agent or AGENTS]
    rows = [BY_NAME[name] for name in asked.row] if asked.row else ROWS
    keep = asked.keep.resolve() if asked.keep else None
    began, wrong = time.monotonic(), list[str]()
    results = Results(asked.table)
    try:
        for agent in agents:
            wrong += matrix(agent, rows, asked.side or SIDES, keep, results)
    except (NotInstalledError, namespace.NoRunError) as error:
        print(f"The matrix did not finish: {error}", file=sys.stderr)
        return 1
    finally:
        results.write(ROWS)
    print()
    for each in wrong:
        print(each, end="\n\n")
    print(verdict(wrong), f"({time.monotonic() - began:.0f} s)")
    return 1 if wrong else 0


def matrix(
    agent: Agent, rows: Sequence[Row], sides: Sequence[str], keep: Path | None, results: Results, *, shared: str = ""
) -> Iterator[str]:
    """Do all runs of an agent and print a line for each row. Yield the faults of the cells.

    If all runs use the model server at the URL `shared`, they are done one after the other.
    """
    package = installed(agent) if shared else prepared(agent, rows)
    print(f"\n{agent.setup.title} {agent.version}\n{line(('', *SIDES))}", flush=True)
    with ThreadPoolExecutor(1 if shared else AT_ONCE) as pool:

        def start(row: Row, side: str) -> Future[Run] | str:
            if side not in sides:
                return ""
            if not row.says("chat" if side == "with" else agent.dialect):
                return "-"
            return pool.submit(namespace.do, agent, row, side, package, keep, shared=shared)

        started = [(row, [start(row, side) for side in SIDES]) for row in rows if row.is_for(agent)]
        try:
            for row, runs in started:
                faults, told = [], ""
                for side, run in zip(SIDES, runs, strict=True):
                    if run:
                        results.keep(agent, row, side, shown(run))
                    if isinstance(run, Future) and (fault := unexpected(agent, row, run.result(), side)):
                        faults.append(f"{agent.name}, {fault}")
                        told += f"   EXPECTED {row.expects(agent, side)} {side}"
                print(line((row.name, *map(shown, runs))) + told, flush=True)
                yield from faults
        finally:
            pool.shutdown(cancel_futures=True)


def prepared(agent: Agent, rows: Sequence[Row]) -> Path:
    """Install the agent and build what its runs share. Return the agent's folder.

    Raises `NotInstalledError`.
    """
    if any(row.script for row in rows):
        if not llama.available():
            raise NotInstalledError("the extra `real`, which has the llama.cpp server, is not installed")
        # Built here, because runs in different PID namespaces can have equal process ids and would write one file.
        llama.model(llama.load_scripts(), inside.CACHE)
    return installed(agent)


def shown(run: Future[Run] | str) -> str:
    """Wait for a run and return its cell."""
    return run if isinstance(run, str) else cell(run.result())


def line(cells: Sequence[str]) -> str:
    return "".join(text.ljust(width) for text, width in zip(cells, WIDTHS, strict=True)).rstrip()


def unexpected(agent: Agent, row: Row, run: Run, side: str = "with") -> str:
    """Return the result of an unexpected run with the agent's output, or "" for an expected one."""
    said = side == "without" or row.told in run.output + run.errors
    if fnmatchcase(cell(run), row.expects(agent, side)) and said:
        return ""
    told = [f"{row.name}: {cell(run)}, but expected {row.expects(agent, side)} (exit status {run.status})"]
    if not said:
        told.append(f"  the output lacks: {row.told}")
    for name, text in (
        ("shape", run.shape),
        ("thought", run.thought),
        ("upstream", run.upstream),
        ("stdout", run.output),
        ("stderr", run.errors),
    ):
        told += [f"  {name}: {part}" for part in text.splitlines()[-6:]]
    told.append(f"  inspect it with: --row '{row.name}' --side {side} --keep FOLDER")
    return "\n".join(told)


def verdict(wrong: Sequence[str]) -> str:
    return f"FAILED: {len(wrong)} cells are not as expected." if wrong else "OK: as expected."


if __name__ == "__main__":
    sys.exit(main())
