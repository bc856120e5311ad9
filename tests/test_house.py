"""The structure of the tree: import layers, no cycles, no I/O in the engine and below.

The layers are in setup.cfg (`importlinter`).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "proxy"
TESTS = ROOT / "tests"
MODULES = sorted(PACKAGE.rglob("*.py"))
# The engine, the packages below it, and the dialects do no I/O.
SANS_IO = ("repair", "notations", "engine", "healing", "dialects")
# Modules of other packages that do no I/O either.
SANS_IO_MODULES = (
    *("errors", "limits", "display", "json", "secrets", "sse"),
    *("config.rules", "config.yaml_nodes", "config.settings"),
    *("upstream.context_overflow", "upstream.model_list", "web.routes"),
    *("exchange.plan", "exchange.reply_stream", "exchange.second_try", "exchange.whole_answer", "exchange.outcome"),
)
FORBIDDEN = {"flask", "requests", "socket", "threading", "time", "os", "logging", "select", "asyncio", "gunicorn"}


def name_of(path: Path) -> str:
    """Return a module's dotted name below `proxy`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # gunicorn's master loads `server` under another name.
            assert node.level == 0 or path.parent.name == "server", f"{path}: relative import"
            yield f"proxy.server.{node.module}" if node.level else node.module or ""
            # A name imported from a package may be a module.
            yield from (f"{node.module}.{alias.name}" for alias in node.names if not node.level)


@pytest.mark.parametrize("package", SANS_IO)
def test_sans_io_packages_import_no_io_clock_or_framework(package: str) -> None:
    paths = [path for path in MODULES if name_of(path).split(".")[0] == package]
    assert paths
    assert {str(path): found for path in paths if (found := io_imports(path))} == {}


@pytest.mark.parametrize("name", SANS_IO_MODULES)
def test_pure_modules_import_no_io_clock_or_framework(name: str) -> None:
    assert io_imports(PACKAGE / f"{name.replace('.', '/')}.py") == set()


def io_imports(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)} & FORBIDDEN


def test_gunicorns_master_never_imports_the_package() -> None:
    """The master runs these modules. A reload could not load new code of anything that they import."""
    alone = ("pump_worker", "pump", "pumped_stream", "log_queue")
    for path in (PACKAGE / "gunicorn_conf.py", *(PACKAGE / "server" / f"{name}.py" for name in alone)):
        ours = {name for name in imported(path) if name.startswith("proxy")}
        assert ours <= {f"proxy.server.{name}" for name in alone}


WITHOUT_LINUX = """
import os, select, sys
for module, names in ((select, ("epoll", "EPOLL", "POLLRDHUP")), (os, ("eventfd", "EFD_"))):
    for name in [name for name in dir(module) if name.startswith(names)]:
        delattr(module, name)
from proxy.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("command", ["doctor --upstream http://127.0.0.1:9", "setup claude --url http://127.0.0.1:9"])
def test_doctor_and_setup_run_without_epoll_and_eventfd(command: str) -> None:
    """macOS has neither."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LINUX, *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3 and "connection refused at http://127.0.0.1:9" in done.stderr, done


def test_every_cited_failure_is_in_the_table() -> None:
    """Comments and tests cite failures (`F28`, `F22 to F24`) from the table in docs/contracts.md."""
    rows = (line.split("|")[1] for line in (ROOT / "docs/contracts.md").read_text().splitlines() if line[:3] == "| F")
    documented = {number for row in rows for number in failure_numbers(row)}
    cited = {number for path in [*MODULES, *TESTS.rglob("*.py")] for number in failure_numbers(path.read_text())}
    assert cited - documented == set()


def failure_numbers(text: str) -> set[int]:
    found = re.finditer(r"\bF([1-9][0-9]?)(?: to F([1-9][0-9]?))?\b", text)
    return {number for match in found for number in range(int(match[1]), int(match[2] or match[1]) + 1)}


def test_every_package_has_a_layer() -> None:
    layers = (ROOT / "setup.cfg").read_text().partition("layers =")[2].partition("\n\n")[0].split()
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= {layer.removeprefix("proxy.") for layer in layers}


def test_modules_import_each_other_without_cycles() -> None:
    # The package imports the library only when one of its names is used.
    modules = [path for path in MODULES if path.parent != PACKAGE or path.name != "__init__.py"]
    edges = {f"proxy.{name_of(path)}".removesuffix(".__init__"): set(imported(path)) for path in modules}
    while edges:
        leaves = [name for name, targets in edges.items() if not targets & (edges.keys() - {name})]
        assert leaves, f"import cycle among {sorted(edges)}"
        for name in leaves:
            del edges[name]
