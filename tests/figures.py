"""The figures of the house: how large and how dense its code is. `python -m tests.figures [COMMIT]` prints them, and
`python -m tests.figures --start` how long a worker's imports take.

Functions: lines of the body without the docstring; cyclomatic complexity as radon counts it (`and`/`or` and inline `if`
included). Code lines: without blanks, comments and docstrings.
"""

from __future__ import annotations

import argparse
import ast
import io
import math
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from radon.visitors import ComplexityVisitor

ROOT = Path(__file__).parents[1]
# Complexity from which a function counts as dense.
DENSE = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """What is counted of a package; names are the rows of the table."""

    files: int
    lines: int
    code_lines: int
    module_lines_median: int
    module_lines_max: int
    functions: int
    function_lines_median: int
    function_lines_p95: int
    function_lines_max: int
    complexity_mean: float
    complexity_max: int
    dense_functions: int
    dense_share: float
    and_or_per_100: float
    inline_if_per_100: float
    comments_per_100: float
    docstring_lines_per_100: float


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method: where it is, the lines of its body, and its complexity."""

    name: str
    lines: int
    complexity: int


def functions_of(path: Path) -> list[Function]:
    """The functions and methods of a module."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    complexities = _complexities(text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [Function(f"{path.stem}.{node.name}", body_lines(node), complexities.get(node.lineno, 1)) for node in found]


def body_lines(node: ast.FunctionDef) -> int:
    """The lines of a function's body without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def measure(folder: Path) -> Figures:
    """The figures of all modules below a folder."""
    paths = sorted(folder.rglob("*.py"))
    texts = [path.read_text("utf-8") for path in paths]
    trees = [ast.parse(text) for text in texts]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [function for path in paths for function in functions_of(path)]
    docstrings = sum(_docstring_lines(node) for node in nodes)
    comments, code = _comments_and_code(texts)
    code -= docstrings
    dense = [function for function in functions if function.complexity > DENSE]
    lengths = [function.lines for function in functions]
    modules = [len(text.splitlines()) for text in texts]
    per = 100 / code
    return Figures(
        files=len(paths),
        lines=sum(modules),
        code_lines=code,
        module_lines_median=percentile(modules, 50),
        module_lines_max=max(modules),
        functions=len(functions),
        function_lines_median=percentile(lengths, 50),
        function_lines_p95=percentile(lengths, 95),
        function_lines_max=max(lengths),
        complexity_mean=round(sum(function.complexity for function in functions) / len(functions), 2),
        complexity_max=max(function.complexity for function in functions),
        dense_functions=len(dense),
        dense_share=round(100 * len(dense) / len(functions), 1),
        and_or_per_100=round(per * sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp)), 1),
        inline_if_per_100=round(per * sum(isinstance(node, ast.IfExp) for node in nodes), 1),
        comments_per_100=round(per * comments, 1),
        docstring_lines_per_100=round(per * docstrings, 1),
    )


def percentile(values: Sequence[int], percent: int) -> int:
    """The value that so many per cent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _complexities(text: str) -> dict[int, int]:
    """The complexity of each function by its line."""
    found: dict[int, int] = {}
    pending = list(ComplexityVisitor.from_code(text).blocks)
    while pending:
        block = pending.pop()
        for inner in ("methods", "closures", "inner_classes"):
            pending += getattr(block, inner, ())
        if not hasattr(block, "methods"):
            found[block.lineno] = block.complexity
    return found


def _docstring_lines(node: ast.AST) -> int:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) or not ast.get_docstring(node):
        return 0
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1


def _comments_and_code(texts: Sequence[str]) -> tuple[int, int]:
    """The comments, and the lines that hold more than a comment."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    comments, code = 0, 0
    for text in texts:
        rows: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            comments += token.type == tokenize.COMMENT
            if token.type not in silent:
                rows.update(range(token.start[0], token.end[0] + 1))
        code += len(rows)
    return comments, code


def _at(commit: str) -> Figures:
    """The figures of a commit."""
    archive = subprocess.run(["git", "archive", commit, "proxy"], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
        return measure(Path(folder) / "proxy")


def start_seconds(rounds: int = 5) -> float:
    """The median CPU seconds, of so many, of a fresh interpreter that imports what a worker does.

    The modules are compiled before.
    """
    _import_worker()
    return statistics.median(_seconds_of_import() for _ in range(rounds))


def _seconds_of_import() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _import_worker()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _import_worker(*options: str) -> str:
    """Import what a worker does in an interpreter of its own; give what that says on stderr."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *options, "-c", "import proxy.app"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stderr


def heaviest_imports(count: int = 15) -> list[tuple[float, str]]:
    """The imports that take longest, all that they import included: milliseconds and name.

    `-X importtime` writes `import time: self [us] | cumulative | name`, the name indented by its depth.
    """
    rows = (line.split("|") for line in _import_worker("-X", "importtime").splitlines())
    found = [(int(row[1]) / 1000, row[2].strip()) for row in rows if len(row) == 3 and row[1].strip().isdigit()]
    return sorted(found, reverse=True)[:count]


def print_start() -> None:
    """Print how long the imports of a worker take, and which of them longest."""
    print(f"a worker's imports: {start_seconds():.2f} s of CPU, the median of 5")
    for milliseconds, name in heaviest_imports():
        print(f"{milliseconds:8.1f} ms  {name}")


def main() -> None:
    """Print a line for each figure; with a commit, what it was there, too."""
    parser = argparse.ArgumentParser(description="print the figures of the code")
    parser.add_argument("commit", nargs="?", help="a commit to compare with")
    parser.add_argument("--start", action="store_true", help="how long a worker's imports take, instead")
    given = parser.parse_args()
    if given.start:
        print_start()
        return
    columns = [_at(given.commit)] if given.commit else []
    columns.append(measure(ROOT / "proxy"))
    for field in fields(Figures):
        values = (getattr(column, field.name) for column in columns)
        print(f"{field.name.replace('_', ' '):26}", *(f"{value:>10}" for value in values))


if __name__ == "__main__":
    main()
