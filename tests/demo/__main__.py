"""`python -m tests.demo`: agents' requests sent to a model server, directly and through the proxy.

The server is a real llama.cpp server with scripted tokens. If it cannot be installed or started, recorded answers are
replayed. The proxy is started as a user starts it. Then a small trained model is asked too, if `make models` has
downloaded one. Exit status 0 means that every agent got what its model meant.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import signal
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from benchmarks.models import files
from benchmarks.models.questions import load_questions
from benchmarks.models.replay import receive
from benchmarks.models.replies import Reply
from benchmarks.models.servers import LlamaServer, proxied
from tests.demo.cases import CASES
from tests.real import llama, processes
from tests.real.replay import ReplayServer

LIMIT = 120  # seconds for each part, even on a busy machine; ending the processes may take eight more
CACHE = processes.ROOT / ".cache"
SMALL = files.MODELS[1:]  # the trained models that answer in seconds
QUESTION = "one-02"
# The table has four columns that wrap, for a terminal of 100 columns.
WIDTHS = (9, 18, 27, 40)  # 100 with two blanks between columns
GAP = "  "
HEADS = ("agent", "the model wrote", "the server sent", "through the proxy, the agent gets")


class OutOfTimeError(BaseException):
    """The demo timed out. It is not an `Exception`, so that handlers of other errors do not catch it."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--upstream",
        choices=("auto", "real", "replay"),
        default="auto",
        help="the model server: a real one, a replay of recordings, or the first that is available (default)",
    )
    return parser.parse_args()


def main() -> int:
    """Run the demo and return its exit status."""
    choice = arguments().upstream
    began = time.monotonic()
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(LIMIT)
    try:
        with contextlib.ExitStack() as stack:
            upstream = start_upstream(choice, stack)
            proxy = stack.enter_context(proxied(upstream))
            wrong, helped = compare(upstream, proxy)
            signal.alarm(LIMIT)
            try:
                ask_a_trained_model(stack)
            except (processes.NotStartedError, OutOfTimeError) as error:
                print(f"The trained model did not answer: {error}\n")
            signal.alarm(0)
    except (processes.NotStartedError, OutOfTimeError) as error:
        print(f"The demo did not finish: {error}", file=sys.stderr)
        return 1
    finally:
        signal.alarm(0)
    print(verdict(wrong, helped), f"({time.monotonic() - began:.1f} s)")
    return 1 if wrong else 0


def _out_of_time(number: int, frame: FrameType | None) -> None:
    """Raise an error in the demo, so that it ends its processes."""
    raise OutOfTimeError(f"{LIMIT} seconds are over")


def start_upstream(choice: str, stack: contextlib.ExitStack) -> str:
    """Start the model server of `choice` until `stack` closes, print which one it is, and return its URL.

    Raises `NotStartedError` if the real one is required and does not start.
    """
    reason = "as asked"
    if choice != "replay":
        try:
            return _start_real(stack)
        except (processes.NotStartedError, ImportError) as error:
            if choice == "real":
                raise
            reason = str(error).splitlines()[-1]
    print(f"Model server: a REPLAY of what a real llama.cpp server sent ({reason})")
    return stack.enter_context(ReplayServer()).url


def _start_real(stack: contextlib.ExitStack) -> str:
    """Start the real server until `stack` closes, and return its URL."""
    if not llama.available():
        raise processes.NotStartedError("the extra `real` is not installed")
    server = stack.enter_context(llama.LlamaServer(cache=CACHE))
    print(f"Model server: a REAL llama.cpp server (xllamacpp {llama.version()}), only its tokens are scripted")
    return server.url


def compare(upstream: str, proxy: str) -> tuple[int, int]:
    """Send every case both ways and print the table.

    Return the number of wrong results through the proxy, and of results that are right only through it.
    """
    wrong = helped = 0
    print("", *header(), sep="\n")
    for case, following in itertools.zip_longest(CASES, CASES[1:]):
        direct, reply = case.ask(upstream), case.ask(proxy)
        faults = case.faults(reply)
        wrong += bool(faults)
        helped += bool(case.faults(direct)) and not faults
        cells = (case.agent.name, case.wrote, before(direct), after(reply, faults))
        print(*row(cells), sep="\n", flush=True)
        if following is None or following.agent is not case.agent:
            print(rule())
    return wrong, helped


def ask_a_trained_model(stack: contextlib.ExitStack) -> None:
    """Ask a small trained model a question without and with the proxy, if `make models` has downloaded one."""
    model = next((one for one in SMALL if files.present(one)), None)
    if model is None or not llama.available():
        print("\nTo ask a trained model too, download one with `make models ARGS=--quick` (0.5 GB).\n")
        return
    llama_server = LlamaServer(model, files.cache_folder() / model.file, stack, 1).url()
    question = next(one for one in load_questions() if one.id == QUESTION)
    print(f"\n{model.name}, a trained model, is asked: {question.messages[-1]['content']}")
    for way, url in (("without", llama_server), ("with", stack.enter_context(proxied(llama_server)))):
        reply = receive(url, question.request(model.name, "auto", stream=True))
        calls = ", ".join(f"{name} {arguments}" for name, arguments in reply.calls)
        text = " ".join(reply.text.split())
        print(f"  {way} the proxy: {f'call {calls}' if calls else reply.error or f'text only, {text}'}")
    print()


def header() -> Iterator[str]:
    yield from row(HEADS)
    yield rule("=")


def rule(mark: str = "-") -> str:
    """Return the line below the header, or between agents."""
    return GAP.join(mark * width for width in WIDTHS)


def row(cells: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one row. Cells are wrapped to their columns and keep their line breaks."""
    columns = [_wrap(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
    for parts in itertools.zip_longest(*columns, fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(parts, WIDTHS, strict=True))
        yield GAP.join(padded).rstrip()


def _wrap(cell: str, width: int) -> list[str]:
    return [line for part in cell.split("\n") for line in textwrap.wrap(part, width) or [""]]


def before(reply: Reply) -> str:
    """Return a short description of what the server sent without the proxy."""
    if reply.error:
        return "ERROR " + textwrap.shorten(reply.error, 60, placeholder=" ...")
    if not reply.calls:
        return f"text only, finish {reply.finish}"
    names = ", ".join(name for name, _ in reply.calls)
    return f"call {names}; finish {reply.finish}"


def after(reply: Reply, faults: Sequence[str]) -> str:
    """Return a description of the agent's result: the calls in full, and the faults."""
    if faults:
        return "WRONG " + "\n".join(faults)
    if not reply.calls:
        return f"the same text, byte for byte ({len(reply.text.encode())}); finish {reply.finish}"
    calls = "\n".join(f"{name} {arguments}" for name, arguments in reply.calls)
    return f"{calls}\nfinish {reply.finish}"


def verdict(wrong: int, helped: int) -> str:
    """Return the demo's result in one line."""
    total = len(CASES)
    if wrong:
        return f"FAILED: {wrong} of {total} replies are not what the model meant."
    return f"OK: all {total} replies are what the model meant; {helped} of them would be lost without the proxy."


if __name__ == "__main__":
    sys.exit(main())
