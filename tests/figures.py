"""The figures of the house: how large and how dense its code is. `python -m tests.figures [COMMIT]` prints them,
`python -m tests.figures --write` puts them into docs/architecture.md, unless one is out of its bounds,
`python -m tests.figures --most` says where most of it is, and `python -m tests.figures --start` prints how long a
worker's imports take.

Functions: lines of the body without the docstring; cyclomatic complexity as radon counts it (`and`/`or` and inline `if`
included). Code lines: without blanks, comments and docstrings.
"""

from __future__ import annotations

import argparse
import ast
import io
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import zip_longest
from pathlib import Path

from radon.visitors import ComplexityVisitor

from tests.support.sources import at_commit
from tests.support.structure import arrows, attributes_of, between_packages, nodes_of, tree_of

ROOT = Path(__file__).parents[1]
# Complexity from which a function counts as dense.
DENSE = 10
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
PAGE = ROOT / "docs/architecture.md"
# What none of these may grow beyond: today's figure and 5 % of it, or what docs/architecture.md and issue 14 ask for.
MOST = {
    "module_lines_max": 500,
    "function_lines_p95": 18,
    "function_lines_max": 57,
    "complexity_max": 12,
    "complexity_mean": 3.4,
    "complexity_per_10_lines": 5.66,
    "dense_share": 1.0,
    "and_or_per_100": 4.35,
    "inline_if_per_100": 1.8,
    "comprehensions_per_100": 2.65,
    "code_line_length_mean": 38.5,
    "parameters_p95": 3,
    "parameters_max": 10,
    "functions_over_5_parameters": 17,
    "attributes_max": 58,
    "booleans_max": 8,
    "imports_of_one_max": 44,
    "packages_importing": 122,
    "test_lines_p95": 15,
    "test_lines_per_line": 1.9,
}
# What none of these may fall below.
LEAST = {
    "comments_per_100": 3.7,
    "docstring_lines_per_100": 17.3,
    "public_with_docstring_share": 100.0,
    "annotated_share": 100.0,
}
# How far a figure may go before the page is no longer true: else each commit had to touch the page.
NEAR = 0.03
# 4,079 or 36.7
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# The table on that page, from its head on.
_TABLE = re.compile(r"^\| \| `[0-9a-f]+` \| now \|\n(?:\|.*\n)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Figures:
    """What is counted of a package and its tests; names are the lines that are printed."""

    files: int
    lines: int
    code_lines: int
    code_line_length_mean: float
    module_lines_median: int
    module_lines_p95: int
    module_lines_max: int
    functions: int
    function_lines_median: int
    function_lines_p90: int
    function_lines_p95: int
    function_lines_max: int
    functions_over_40_lines: int
    parameters_p95: int
    parameters_max: int
    functions_over_5_parameters: int
    complexity_mean: float
    complexity_max: int
    complexity_per_10_lines: float
    dense_functions: int
    dense_share: float
    and_or_per_100: float
    inline_if_per_100: float
    comprehensions_per_100: float
    comments_per_100: float
    docstring_lines_per_100: float
    public_with_docstring_share: float
    annotated_share: float
    isinstance_calls: int
    attributes_max: int
    booleans_max: int
    imports: int
    imports_of_one_max: int
    imported_by_max: int
    packages_importing: int
    tests: int
    test_lines_median: int
    test_lines_p95: int
    test_lines_per_line: float


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method: where it is, the lines of its body, its complexity, and its parameters without `self`.

    `slots` are those and what it returns, `annotated` how many of them have a type. `documented` is None where the
    function is for its own module or class.
    """

    name: str
    lines: int
    complexity: int
    parameters: int
    slots: int
    annotated: int
    documented: bool | None


@cache
def functions_of(path: Path) -> tuple[Function, ...]:
    """The functions and methods of a module."""
    text = path.read_text("utf-8")
    complexities = _complexities(text)
    found = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)]
    public = {*_public(tree_of(path))}
    return tuple(_function(path, node, complexities.get(node.lineno, 1), node in public) for node in found)


def _public(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The functions of a module, and the methods of its classes, that others use."""
    for each in node.body:
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
            yield from _public(each)
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            yield each


def _function(path: Path, node: ast.FunctionDef, complexity: int, public: bool) -> Function:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    parameters = [each for each in every if each.arg not in ("self", "cls")]
    types = [*(each.annotation for each in parameters), node.returns]
    return Function(
        name=f"{path.stem}.{node.name}",
        lines=body_lines(node),
        complexity=complexity,
        parameters=len(parameters),
        slots=len(types),
        annotated=sum(each is not None for each in types),
        documented=ast.get_docstring(node) is not None if public else None,
    )


def body_lines(node: ast.FunctionDef) -> int:
    """The lines of a function's body without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


@cache
def measure(root: Path) -> Figures:
    """The figures of all modules of a checkout's package, and of its tests."""
    folder = root / "proxy"
    paths = sorted(folder.rglob("*.py"))
    texts = [path.read_text("utf-8") for path in paths]
    nodes = [node for path in paths for node in nodes_of(path)]
    functions = [function for path in paths for function in functions_of(path)]
    docstrings = sum(_docstring_lines(node) for node in nodes)
    comments, code, characters = _comments_and_code(texts)
    code -= docstrings
    characters -= sum(_docstring_length(node) for node in nodes)
    public = [function.documented for function in functions if function.documented is not None]
    parameters = [function.parameters for function in functions]
    dense = [function for function in functions if function.complexity > DENSE]
    lengths = [function.lines for function in functions]
    modules = [len(text.splitlines()) for text in texts]
    per = 100 / code
    held = [attributes for path in paths for attributes in attributes_of(nodes_of(path))]
    imports = arrows(folder)
    tests = _tests(root / "tests")
    return Figures(
        files=len(paths),
        lines=sum(modules),
        code_lines=code,
        code_line_length_mean=round(characters / code, 1),
        module_lines_median=percentile(modules, 50),
        module_lines_p95=percentile(modules, 95),
        module_lines_max=max(modules),
        functions=len(functions),
        function_lines_median=percentile(lengths, 50),
        function_lines_p90=percentile(lengths, 90),
        function_lines_p95=percentile(lengths, 95),
        function_lines_max=max(lengths),
        functions_over_40_lines=sum(length > 40 for length in lengths),
        parameters_p95=percentile(parameters, 95),
        parameters_max=max(parameters),
        functions_over_5_parameters=sum(count > 5 for count in parameters),
        complexity_mean=round(sum(function.complexity for function in functions) / len(functions), 2),
        complexity_max=max(function.complexity for function in functions),
        complexity_per_10_lines=round(10 * sum(function.complexity for function in functions) / sum(lengths), 2),
        dense_functions=len(dense),
        dense_share=round(100 * len(dense) / len(functions), 1),
        and_or_per_100=round(per * sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp)), 1),
        inline_if_per_100=round(per * sum(isinstance(node, ast.IfExp) for node in nodes), 1),
        comprehensions_per_100=round(per * sum(isinstance(node, _COMPREHENSIONS) for node in nodes), 1),
        comments_per_100=round(per * comments, 1),
        docstring_lines_per_100=round(per * docstrings, 1),
        public_with_docstring_share=round(100 * sum(public) / len(public), 1),
        annotated_share=round(
            100 * sum(function.annotated for function in functions) / sum(function.slots for function in functions), 1
        ),
        isinstance_calls=sum(_is_isinstance(node) for node in nodes),
        attributes_max=max(each.count for each in held),
        booleans_max=max(each.booleans for each in held),
        imports=len(imports),
        imports_of_one_max=max(Counter(source for source, _ in imports).values()),
        imported_by_max=max(Counter(target for _, target in imports).values()),
        packages_importing=len(between_packages(imports)),
        tests=len(tests),
        test_lines_median=percentile(tests, 50),
        test_lines_p95=percentile(tests, 95),
        test_lines_per_line=round(_lines(root / "tests") / sum(modules), 1),
    )


def _tests(folder: Path) -> list[int]:
    """The lines of each test function."""
    trees = (ast.parse(path.read_text("utf-8")) for path in folder.rglob("test_*.py"))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [body_lines(node) for node in functions if node.name.startswith("test_")]


def _lines(folder: Path) -> int:
    """The lines of all modules below a folder."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.py"))


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


def _docstring_length(node: ast.AST) -> int:
    """The characters of the lines of a docstring, without the blanks around them."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        return 0
    said = ast.get_docstring(node, clean=False)
    if not said:
        return 0
    return sum(len(line.strip()) for line in said.splitlines()) + 2 * len('"""')


def _is_isinstance(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"


def _comments_and_code(texts: Sequence[str]) -> tuple[int, int, int]:
    """The comments; the lines that hold more than a comment; their characters, without the blanks around them."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    comments, code, characters = 0, 0, 0
    for text in texts:
        rows: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            comments += token.type == tokenize.COMMENT
            if token.type not in silent:
                rows.update(range(token.start[0], token.end[0] + 1))
        code += len(rows)
        lines = text.splitlines()
        characters += sum(len(lines[row - 1].strip()) for row in rows)
    return comments, code, characters


def out_of_bounds(figures: Figures) -> list[str]:
    """What has grown beyond its bound, or has fallen below it, in words."""
    grown = ((name, getattr(figures, name), most) for name, most in MOST.items())
    fallen = ((name, getattr(figures, name), least) for name, least in LEAST.items())
    return [
        *(f"{_words(name)}: {now}, and at most {most} are allowed" for name, now, most in grown if now > most),
        *(f"{_words(name)}: {now}, and at least {least} are asked for" for name, now, least in fallen if now < least),
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")


def cells(figures: Figures) -> dict[str, str]:
    """The rows of the table on the page, each by its name."""
    lengths = (
        f"{figures.function_lines_median}, {figures.function_lines_p90}, {figures.function_lines_p95}, "
        f"{figures.function_lines_max}"
    )
    modules = f"{figures.module_lines_median}, {figures.module_lines_p95}, {figures.module_lines_max}"
    tests = f"{figures.test_lines_median}, {figures.test_lines_p95}; {figures.test_lines_per_line}"
    parameters = f"{figures.parameters_p95}, {figures.parameters_max}; {figures.functions_over_5_parameters}"
    return {
        "files, lines, code lines": f"{figures.files:,}, {figures.lines:,}, {figures.code_lines:,}",
        "functions over complexity 10; the most": (
            f"{figures.dense_functions} ({figures.dense_share} %); {figures.complexity_max}"
        ),
        "complexity: mean, per 10 lines": f"{figures.complexity_mean}, {figures.complexity_per_10_lines}",
        "`and`/`or`, inline `if` per 100 code lines": f"{figures.and_or_per_100}, {figures.inline_if_per_100}",
        "comprehensions per 100 code lines; characters of a code line": (
            f"{figures.comprehensions_per_100}; {figures.code_line_length_mean}"
        ),
        "comments, lines of docstrings per 100 code lines": (
            f"{figures.comments_per_100}, {figures.docstring_lines_per_100}"
        ),
        "functions; lines of one: median, p90, p95, most": f"{figures.functions:,}; {lengths}",
        "functions over 40 lines": f"{figures.functions_over_40_lines}",
        "parameters: p95, most; functions with more than 5": parameters,
        "lines of a module: median, p95, most": modules,
        "public functions with a docstring; annotated slots": (
            f"{figures.public_with_docstring_share} %; {figures.annotated_share} %"
        ),
        "`isinstance` calls": f"{figures.isinstance_calls}",
        "attributes of a class, booleans among them: most": f"{figures.attributes_max}, {figures.booleans_max}",
        "imports among the modules; most of one module, most of one": (
            f"{figures.imports:,}; {figures.imports_of_one_max}, {figures.imported_by_max}"
        ),
        "pairs of packages of which one imports the other": f"{figures.packages_importing}",
        "tests, in hundreds; lines of one: median, p95; lines of tests per line of code": (
            f"{round(figures.tests, -2):,}; {tests}"
        ),
    }


def cells_on_page(page: str) -> dict[str, str]:
    """What the page's table says of now, by the name of the row."""
    return {row[1]: row[3] for row in _rows(page)}


def are_near(said: dict[str, str], now: dict[str, str]) -> bool:
    """Whether what is said is near enough to what is now: the same rows, and no number more than 3 % away."""
    return said.keys() == now.keys() and all(_is_near(said[name], now[name]) for name in now)


def _is_near(said: str, now: str) -> bool:
    """Whether two cells hold about the same numbers: `4,079; 4, 13` and `4,080; 4, 13`."""
    pairs = zip_longest(_numbers(said), _numbers(now), fillvalue=math.inf)
    return all(math.isclose(one, other, rel_tol=NEAR) for one, other in pairs)


def _numbers(cell: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(cell)]


def _rows(page: str) -> list[list[str]]:
    """The cells of the table's rows, without its head, and with an empty one at each end."""
    found = _TABLE.search(page)
    assert found, "the page has no table of figures"
    return [[cell.strip() for cell in line.split("|")] for line in found[0].splitlines()[2:]]


def with_figures(page: str, figures: Figures) -> str:
    """The page with these figures as those of now."""
    now = cells(figures)
    for _, name, before, said, _ in _rows(page):
        page = page.replace(f"| {name} | {before} | {said} |", f"| {name} | {before} | {now[name]} |")
    return page


def _at(commit: str) -> Figures:
    """The figures of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        return measure(at_commit(commit, Path(folder, "tree"), "proxy", "tests"))


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
    """Import what a worker does, without looking for garbage, as it does; in an interpreter of its own. Give what that
    says on stderr.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *options, "-c", "import gc; gc.disable(); import proxy.app"]
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


def hot_spots(folder: Path, count: int = 8) -> Iterator[str]:
    """Where most is: a line for the functions of the greatest complexity and most parameters, the classes with most
    attributes, and the modules that are imported by most others, import most others, and are longest.
    """
    paths = sorted(folder.rglob("*.py"))
    functions = [function for path in paths for function in functions_of(path)]
    held = [each for path in paths for each in attributes_of(nodes_of(path))]
    imports = arrows(folder)
    lengths = Counter({path.stem: len(path.read_text("utf-8").splitlines()) for path in paths})
    for title, found in (
        ("complexity", Counter({function.name: function.complexity for function in functions})),
        ("parameters", Counter({function.name: function.parameters for function in functions})),
        ("attributes", Counter({each.name: each.count for each in held})),
        ("booleans", Counter({each.name: each.booleans for each in held})),
        ("fan-in", Counter(target for _, target in imports)),
        ("fan-out", Counter(source for source, _ in imports)),
        ("lines", lengths),
    ):
        yield f"{title}: " + ", ".join(f"{name} {number}" for name, number in found.most_common(count))


def write() -> None:
    """Put the figures of this tree into the page. Raises SystemExit, and writes nothing, if any is out of bounds."""
    figures = measure(ROOT)
    if wrong := out_of_bounds(figures):
        raise SystemExit("\n".join([*wrong, "`python -m tests.figures --most` says where most of it is"]))
    PAGE.write_text(with_figures(PAGE.read_text("utf-8"), figures), "utf-8")


def main() -> None:
    """Print a line for each figure; with a commit, what it was there, too."""
    parser = argparse.ArgumentParser(description="print the figures of the code")
    parser.add_argument("commit", nargs="?", help="a commit to compare with")
    parser.add_argument("--start", action="store_true", help="how long a worker's imports take, instead")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/architecture.md, instead")
    parser.add_argument("--most", action="store_true", help="where most of it is, instead")
    given = parser.parse_args()
    if given.write:
        write()
        return
    if given.start:
        print_start()
        return
    if given.most:
        print(*hot_spots(ROOT / "proxy"), sep="\n")
        return
    columns = [_at(given.commit)] if given.commit else []
    columns.append(measure(ROOT))
    for field in fields(Figures):
        values = (getattr(column, field.name) for column in columns)
        print(f"{_words(field.name):26}", *(f"{value:>10}" for value in values))


if __name__ == "__main__":
    main()
