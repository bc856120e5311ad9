"""The house: which room may know which, what the lower ones never touch, and how large anything may grow."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "proxy"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the bottom up: a module imports only from rooms above its own line, or from its own room's earlier modules.
ROOMS: tuple[tuple[str, ...], ...] = (
    ("__init__", "errors", "limits"),
    ("events",),
    (
        *("literals", "schema", "shapes", "spelling", "tools", "policy", "tool_rules", "rules_file"),
        *("tools_section", "rules", "urls", "keys", "models", "sse", "masking", "redact", "fast_path"),
    ),
    ("window", "reader"),
    ("unescaped", "ladder", "inference", "fixes", "repair"),
    ("arguments", "formats", "deltas", "pending", "call_chunks", "calls", "said", "echo"),
    ("choice", "engine"),
    (
        *("http1", "balance", "upstream", "encoding", "fleet", "pump", "overflow", "dialects", "rewrite", "auto"),
        *("tasks", "token_count"),
    ),
    ("answers", "reply", "observed", "capture"),
    ("stream", "relay", "loop_guard"),
    (
        *("client_request", "client_socket", "client_waits", "log_stream"),
        *("intake", "setting_checks", "settings", "config", "tally", "shared_memory", "counters", "audit", "logs"),
        *("metrics", "pages", "admin", "snapshot", "service"),
    ),
    ("visit", "asked", "views", "messages_views", "gate", "requestlog", "app"),
    ("explain", "replay", "summary", "cli", "__main__"),
)
# The engine and what is below it.
SANS_IO = (
    *("errors", "limits", "events", "literals", "schema", "shapes", "spelling", "tools", "policy", "tool_rules"),
    *("rules_file", "tools_section", "rules", "models", "sse", "fast_path", "window", "reader", "unescaped", "ladder"),
    *("inference", "fixes", "repair", "arguments", "deltas", "pending", "call_chunks", "calls", "said"),
    "echo",
)
SANS_IO_ROOMS = (
    *(*SANS_IO, "choice", "engine", "formats", "dialects", "rewrite", "auto", "tasks", "reply", "observed"),
    *("masking", "redact", "loop_guard", "token_count", "overflow", "urls", "balance"),
)
FORBIDDEN = {"flask", "requests", "socket", "threading", "time", "os", "logging", "select", "asyncio", "gunicorn"}
MAX_MODULE = 500
MAX_FUNCTION = 60
MANY_LINES = 20
MAX_PARAMETERS = 8


def room(path: Path) -> str:
    """The room of a module: its name, or its package's."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules that a file imports, and whether they are ours."""
    package = ["proxy", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name.startswith("proxy")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", (node.module or "").startswith("proxy")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from ((".".join([*base, str(name)]), True) for name in names)


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.name}:{node.name}", node


def public_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of modules and the methods of public classes; what is inside a function is its own matter."""
    for path in MODULES:
        tree = ast.parse(path.read_text())
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        for node in (child for parent in (tree, *classes) for child in parent.body):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{path.name}:{node.name}", node


def body_lines(node: ast.FunctionDef) -> int:
    """The lines of a function's body without its docstring."""
    first = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or 0) - first[0].lineno + 1 if first else 0


def level(name: str) -> int:
    found = [number for number, rooms in enumerate(ROOMS) if name in rooms]
    assert found, f"{name} has no room: say in ROOMS where it belongs"
    return found[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down_only(path: Path) -> None:
    mine = level(room(path)) if path.name != "gunicorn_conf.py" else 0
    for name, ours in imported(path):
        if ours and path.name != "gunicorn_conf.py":
            target = (name.split(".")[1:] or ["__init__"])[0]
            target = "__init__" if target in ("__version__", "__file__") else target
            assert level(target) <= mine, f"{path.name} imports {name}"


def test_no_room_imports_in_a_circle() -> None:
    """Modules of one room may know each other, in one direction."""
    edges = {room(path): set[str]() for path in MODULES}
    for path in MODULES:
        for name, ours in imported(path):
            if ours and len(name.split(".")) > 1 and name.split(".")[1] != room(path):
                edges[room(path)].add(name.split(".")[1])
    while edges:
        leaves = [name for name, targets in edges.items() if not targets & edges.keys()]
        assert leaves, f"a circle among {sorted(edges)}"
        for name in leaves:
            del edges[name]


@pytest.mark.parametrize("path", [path for path in MODULES if room(path) in SANS_IO_ROOMS], ids=lambda path: path.name)
def test_the_sans_io_half_imports_no_io_clock_or_framework(path: Path) -> None:
    assert {name.split(".")[0] for name, _ in imported(path)} & FORBIDDEN == set()


def test_gunicorns_configuration_never_imports_the_package() -> None:
    """The master executes it: a reload could not take new code of what the master had imported."""
    assert not any(ours for _, ours in imported(PACKAGE / "gunicorn_conf.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_MODULE


def test_functions_stay_short() -> None:
    lengths = {name: body_lines(node) for name, node in functions()}
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION} == {}
    assert statistics.median(lengths.values()) <= 8
    assert sum(length > MANY_LINES for length in lengths.values()) <= 0.1 * len(lengths)


def test_functions_take_few_parameters() -> None:
    many = {name: len(node.args.args) for name, node in functions() if len(node.args.args) > MAX_PARAMETERS}
    assert many == {}


def test_every_public_function_says_what_it_does() -> None:
    assert [name for name, node in public_functions() if not ast.get_docstring(node)] == []


def test_no_public_name_of_the_engine_says_any() -> None:
    for path in MODULES:
        if room(path) in SANS_IO[2:] and room(path) not in ("rules", "rules_file"):
            assert "Any" not in path.read_text().replace("Anything", ""), path.name
