"""`python -m tests.vllm`: requests to a real vLLM server, directly and through the proxy, in a table.

Everything in vLLM is real except the choice of the next token, which is scripted. If vLLM is missing, it is installed
for the CPU into a separate environment (`tests.real.vllm_install`: some minutes, 3.5 GB). A start takes a minute, and
the whole table several. `tests.vllm.rows` has the rows, and explains the cells. Exit status 0 means that every cell is
as expected. `--keep FOLDER` keeps the answers and the output of the servers and proxies.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.agents import vllm_rows
from tests.agents.__main__ import SIDES, chosen
from tests.agents.known import AGENTS
from tests.agents.tap import Tap
from tests.conftest import start
from tests.real import processes, vllm, vllm_install
from tests.support.reply import Reply
from tests.vllm import agents, doctor
from tests.vllm.ask import Side, bodies, cell, is_one_of, misshapen
from tests.vllm.rows import ROWS, SAID, SERVERS, Row, scripts

CACHE = processes.ROOT / ".cache"
WIDTHS = (34, 22, 22)


def main() -> int:
    """Print the table, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.vllm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", choices=SERVERS, action="append", help="only this server; repeatable")
    parser.add_argument("--row", action="append", help="only rows whose name contains this; repeatable")
    parser.add_argument("--keep", type=Path, help="a folder for the answers and the logs")
    parser.add_argument("--doctor", action="store_true", help="print the doctor's findings instead of the table")
    parser.add_argument("--agents", action="store_true", help="run real agents; select them with AGENTS=claude,pi")
    parser.add_argument("--side", choices=SIDES, action="append", help="only this side of the agents' runs")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the agents' table into this page")
    asked = parser.parse_args()
    began, wrong = time.monotonic(), list[str]()
    # Stop the servers when this command is terminated: an orphaned vLLM takes a gigabyte.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        vllm_install.ensured()
        print(f"vLLM {vllm.version()}, only its tokens are scripted", flush=True)
        if asked.agents:
            several = [AGENTS[name] for name in chosen(parser, "AGENTS", AGENTS) or AGENTS]
            notations = [row for row in vllm_rows.ROWS if _is_asked(row.name, asked.row)]
            if not notations:
                parser.error(f"--row: no such row; choose from {', '.join(vllm_rows.BY_NAME)}")
            return agents.table(several, notations, asked.side or SIDES, asked.keep, asked.table)
        if asked.doctor:
            wrong += doctor.table(CACHE)
            print(*("", *wrong, verdict(wrong, time.monotonic() - began)), sep="\n")
            return 1 if wrong else 0
        for name in asked.on or SERVERS:
            rows = [row for row in ROWS if row.on == name and _is_asked(row.name, asked.row)]
            wrong += table(name, rows, asked.keep)
    except (vllm_install.NotInstalledError, processes.NotStartedError) as error:
        print(f"The table is incomplete: {error}", file=sys.stderr)
        return 1
    print(*("", *wrong, verdict(wrong, time.monotonic() - began)), sep="\n")
    return 1 if wrong else 0


def _is_asked(row: str, names: Sequence[str] | None) -> bool:
    return names is None or any(name in row for name in names)


def table(name: str, rows: Sequence[Row], keep: Path | None) -> Iterator[str]:
    """Run all rows of a server and print a line for each. Yield the faults."""
    template = SERVERS[name].template
    if not rows:
        return
    if not template.exists():
        print(f"\n{name}: skipped, {template} is missing")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if keep is None else keep / name
        folder.mkdir(parents=True, exist_ok=True)
        # One model name per row, so that the proxy learns nothing from earlier rows.
        names, log = [f"{row.model}-{number}" for number, row in enumerate(rows)], folder / "vllm.log"
        server = vllm.VllmServer(
            *SERVERS[name].flags, scripts=scripts(), cache=CACHE, template=template, names=names, log=log
        )
        stack.enter_context(server)
        tap = stack.enter_context(Tap(server.url))
        proxy = start(tap.url, *_flags(SERVERS[name].rules, folder), folder=folder, stack=stack)
        print(f"\n{line((name, 'direct', 'through the proxy'))}", flush=True)
        for row, model in zip(rows, names, strict=True):
            sides = (Side(server.url, server, model), Side(proxy.url, server, model, tap))
            direct, proxied, why = cells(row, *sides, folder)
            fault = fault_of(row, direct, proxied) or why
            print(line((row.name, direct, proxied)) + f"   {fault}" * bool(fault), flush=True)
            if keep is not None:
                tap.write(folder, "tap")
            if fault:
                yield f"{name}, {row.name}: {direct} and {proxied}: {fault}"


def _flags(rules: str, folder: Path) -> tuple[str, ...]:
    if not rules:
        return ()
    path = folder / "rules.yaml"
    path.write_text(rules, encoding="utf-8")
    return ("--rules", str(path))


def cells(row: Row, direct: Side, through: Side, folder: Path) -> tuple[str, str, str]:
    """Return the cells of a row, directly and through the proxy, and the rule of the dialect that the proxy broke."""
    if row.do is not None:
        return row.do(direct), row.do(through), ""
    one, other = [*_replies(row, direct, folder)], [*_replies(row, through, folder)]
    why = "; ".join(filter(None, (misshapen(row.dialect, reply) for reply, _ in other)))
    if row.proxied.startswith("same") and through.tap is not None:
        sent = [body for got in through.tap.got() for body in bodies(got)]
        words = [f"{'same' if is_one_of(sent, reply.data) else 'other'}/{posts}" for reply, posts in other]
    else:
        words = [_cell(row, reply, posts) for reply, posts in other]
    return " ".join(_cell(row, reply, posts) for reply, posts in one), " ".join(words), why


def _replies(row: Row, side: Side, folder: Path) -> Iterator[tuple[Reply, int]]:
    """Send the row's requests. Yield each answer with the number of requests that vLLM received for it."""
    for number in range(row.times):
        before = len(side.server.posted())
        reply = side.post(row.dialect, side.body(row.dialect, row.says, **row.more))
        way = "direct" if side.tap is None else "proxy"
        (folder / f"{row.name}-{way}-{number}-{reply.status}.txt").write_bytes(reply.data)
        yield reply, len(side.server.posted()) - before


def _cell(row: Row, reply: Reply, posts: int) -> str:
    return f"{cell(reply, SAID[row.says].calls)}/{posts}"


def fault_of(row: Row, direct: str, proxied: str) -> str:
    """Return the difference from the row's expected cells, or ""."""
    faults = []
    if direct != row.direct:
        faults.append(f"EXPECTED {row.direct} directly")
    if proxied != row.proxied:
        faults.append(f"EXPECTED {row.proxied} through the proxy")
    return ", ".join(faults)


def line(cells: Sequence[str]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(cells, WIDTHS, strict=True)).rstrip()


def verdict(wrong: Sequence[str], seconds: float) -> str:
    """Return the result in one line."""
    said = f"FAILED: {len(wrong)} rows are not as expected." if wrong else "OK: as expected."
    return f"{said} ({seconds:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
