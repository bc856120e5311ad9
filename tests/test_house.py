"""The house: what the lower packages never touch, and how large and dense anything may grow.

Which package may import which is in setup.cfg (`importlinter`), checked by `make lint` and here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tests.figures
from tests import long
from tests.figures import PAGE, Figures, are_near, cells, cells_on_page, measure, out_of_bounds, with_figures, write
from tests.support.each_case import each_case
from tests.support.structure import nodes_of, tree_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "proxy"
MODULES = sorted(PACKAGE.rglob("*.py"))
# The engine and what is below it, and the dialects: bytes and values in, bytes and values out.
SANS_IO = ("codec", "agents", "tools", "repair", "parsing", "formats", "engine", "healing", "dialects")
# Modules of other packages that touch nothing either.
SANS_IO_MODULES = (
    *("errors", "limits", "audit_record", "transitions"),
    *("config.rules", "config.yaml_nodes", "config.tool_rules_parser", "config.server_url"),
    *("upstream.http1", "upstream.context_overflow", "upstream.model_list", "exchange.routing"),
    *("exchange.plan", "exchange.retry", "exchange.task", "exchange.reply_stream", "exchange.observe"),
    *("exchange.loop_guard", "exchange.outcome", "upstream.paths", "web.routes"),
)
FORBIDDEN = {"flask", "requests", "socket", "threading", "time", "os", "logging", "select", "asyncio", "gunicorn"}
# No public name of the engine and below says Any; YAML is read by what may hold anything.
MAY_SAY_ANY = ("config.rules", "config.yaml_nodes")
TESTS = ROOT / "tests"
# They only say names, numbers and the fields of values: there is nothing that a test of theirs could call.
DECLARATIONS = (
    *("limits", "upstream.paths", "activity.record", "parsing.calls", "repair.policy"),
    *("dialects.base", "dialects.model_options"),
)
# They only join others, and are seen at work by every test that starts a proxy: what gunicorn loads, and the process
# of a proxy that ends with another one (tests/integration/test_launch_upstream.py).
WIRING = ("app", "commands.serve_beside")
# All that they do is done to real connections, so that their tests stand in tests/integration under the same name.
AT_SOCKETS = ("server.accepted", "server.client_socket", "server.client_waits", "server.pump", "upstream.client")
# What no unit test touches: a process, a socket, a sleep, and what starts or opens one for it.
NOT_IN_UNITS = {
    *("subprocess", "multiprocessing", "requests", "client.HTTPConnection", "request.urlopen", "time.sleep"),
    *("socket.socket", "socket.socketpair", "socket.create_server", "socket.create_connection"),
    *("os.fork", "os.system", "os.popen", "os.posix_spawn", "asyncio.sleep"),
    *("scripted.Upstream", "scripted.Client", "llama.LlamaServer", "processes.running", "processes.free_port"),
    *("conftest.Start", "conftest.Front", "conftest.Proxy"),
}
# A fixture that starts a process, and gives a plain string.
LLAMA = "llama"
MAX_MODULE = 500
# Without `self`, keyword-only ones included.
MAX_PARAMETERS = 6
# Those that have more, and may not get any: each one's own bound.
MANY_PARAMETERS = {
    "config.settings._setting": 8,
    "engine.call_assembler.__init__": 9,
    "engine.call_writer.__init__": 8,
    "exchange.reply_stream.__init__": 8,
    "exchange.task.make_task": 8,
    "formats.scanner.__init__": 10,
}


@cache
def figures_now() -> Figures:
    """Those of this tree: to take them reads all of it, and several tests ask for them."""
    return measure(ROOT)


def name_of(path: Path) -> str:
    """A module's name below `proxy`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def is_sans_io(path: Path) -> bool:
    name = name_of(path)
    return name.split(".")[0] in SANS_IO or name in SANS_IO_MODULES


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""


def public_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of modules and the methods of public classes; what is inside a function is its own matter."""
    for path in MODULES:
        tree = tree_of(path)
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        for node in [*tree.body, *(child for each in classes for child in each.body)]:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{name_of(path)}.{node.name}", node


def test_imports_point_down_only() -> None:
    """The layers of setup.cfg; import-linter reads what is imported, so it needs no list of modules."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_has_its_layer() -> None:
    layers = (ROOT / "setup.cfg").read_text().partition("layers =")[2].partition("\n\n")[0].split()
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= {layer.removeprefix("proxy.") for layer in layers}


def test_no_module_imports_in_a_circle() -> None:
    """Modules of one package may know each other, in one direction."""
    edges = {f"proxy.{name_of(path)}".removesuffix(".__init__"): set(imported(path)) for path in MODULES}
    while edges:
        leaves = [name for name, targets in edges.items() if not targets & (edges.keys() - {name})]
        assert leaves, f"a circle among {sorted(edges)}"
        for name in leaves:
            del edges[name]


@each_case("path", [path for path in MODULES if is_sans_io(path)], ids=name_of, size=len(MODULES))
def test_the_sans_io_half_imports_no_io_clock_or_framework(path: Path) -> None:
    assert {name.split(".")[0] for name in imported(path)} & FORBIDDEN == set()


def test_gunicorns_side_never_imports_the_package() -> None:
    """The master executes it: a reload could not take new code of what the master had imported."""
    for path in (PACKAGE / "gunicorn_conf.py", *(PACKAGE / "server").glob("*.py")):
        assert [name for name in imported(path) if name.split(".")[0] == "proxy"] == []


def unit_tests(path: Path) -> Path:
    """Where the unit tests of a module stand."""
    return TESTS / "unit" / path.relative_to(PACKAGE).with_name(f"test_{path.name}")


def test_each_module_has_a_file_of_tests() -> None:
    """`tests/unit` mirrors `proxy`; what is left out says why above, and is left out no longer than it must be."""
    without = {name_of(path) for path in MODULES if path.stem[:2] != "__" and not unit_tests(path).exists()}
    assert without == {*DECLARATIONS, *WIRING, *AT_SOCKETS}
    for name in AT_SOCKETS:
        assert (TESTS / "integration" / f"test_{name.rpartition('.')[2]}.py").exists(), name


UNITS = sorted((TESTS / "unit").rglob("test_*.py"))


@each_case("path", UNITS, ids=lambda path: str(path.relative_to(TESTS)), size=len(UNITS))
def test_unit_tests_start_no_process_open_no_socket_and_never_sleep(path: Path) -> None:
    """What needs one stands in `tests/integration`."""
    assert touched(ast.parse(path.read_text())) == set()


def touched(tree: ast.Module) -> set[str]:
    """What a file of tests uses of NOT_IN_UNITS, whatever name it imported that by, and the fixture that starts
    a server.
    """
    names = {name for node in ast.walk(tree) for name in _names_used(node)}
    fixtures = {
        each.arg
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for each in node.args.args
    }
    return {word for word in NOT_IN_UNITS if any(_is_or_is_in(name, word) for name in names)} | fixtures & {LLAMA}


# What a name with dots is made of.
_DOTTED = (ast.Attribute, ast.Name, ast.expr_context)


def _names_used(node: ast.AST) -> Iterator[str]:
    """The dotted names that a node imports, or takes of a module; packages of the tests are left out."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{(node.module or '').rpartition('tests.')[2]}.{alias.name}".lstrip(".") for alias in node.names)
    elif isinstance(node, ast.Attribute) and all(isinstance(each, _DOTTED) for each in ast.walk(node)):
        yield ast.unparse(node)


def _is_or_is_in(name: str, word: str) -> bool:
    """True for a module or what it has, whatever package it is of."""
    return f"{name}.".startswith(f"{word}.") or ("." in word and name.endswith(f".{word}"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\ntime.sleep(1)", {"time.sleep"}),
        ("from time import sleep", {"time.sleep"}),
        ("import subprocess as started", {"subprocess"}),
        ("from subprocess import run", {"subprocess"}),
        ("import socket\nwith socket.create_server(()): ...", {"socket.create_server"}),
        ("from tests.support.scripted import HELD, Upstream", {"scripted.Upstream"}),
        ("from tests.support import scripted\nscripted.Upstream()", {"scripted.Upstream"}),
        ("import urllib.request\nurllib.request.urlopen('')", {"request.urlopen"}),
        ("def test_it(llama: str) -> None: ...", {"llama"}),
        ("import time, socket\ntime.monotonic(), socket.AF_INET\ndef made(front: str) -> None: ...", set()),
    ],
)
def test_what_a_unit_test_touches_is_seen(source: str, found: set[str]) -> None:
    assert touched(ast.parse(source)) == found


@each_case("path", [PACKAGE / f"{name.replace('.', '/')}.py" for name in DECLARATIONS], ids=name_of)
def test_declarations_do_nothing(path: Path) -> None:
    """A function in one of them, but for those of a protocol, which have no body, would need a test."""
    functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)]
    assert [node.name for node in functions if len(node.body) > 1 or not ast.get_docstring(node)] == []


@each_case("path", MODULES, ids=name_of, size=len(MODULES))
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_MODULE


def test_functions_stay_short_and_plain() -> None:
    """The figures that `python -m tests.figures` prints: none of them may grow beyond its bound."""
    assert out_of_bounds(figures_now()) == []


def with_one(name: str, value: Any) -> Figures:
    """Those of this tree, but for one."""
    return replace(figures_now(), **{name: value})


@pytest.mark.parametrize(("name", "value"), [("complexity_max", 13), ("dense_share", 1.1), ("comments_per_100", 3.0)])
def test_what_is_out_of_its_bounds_is_told_and_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: float
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    monkeypatch.setattr(tests.figures, "PAGE", page)
    monkeypatch.setattr(tests.figures, "measure", lambda _: with_one(name, value))
    with pytest.raises(SystemExit, match=f"{name.replace('_', ' ')}: {value}"):
        write()
    assert page.read_text() == PAGE.read_text()


def test_the_map_names_what_there_is() -> None:
    """Every module and package of the pages for developers, and each package in the picture."""
    modules = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    suffixes = {name[at:] for name in modules for at in _beginnings(name)}
    for page in ("docs/architecture.md", "CONTRIBUTING.md"):
        named = re.findall(r"`([a-z_/0-9]+\.py)`", (ROOT / page).read_text())
        assert named, page
        assert [name for name in named if name not in suffixes and not (ROOT / name).exists()] == [], page
    picture = (ROOT / "docs/architecture.md").read_text().split("```")[1]
    shown = {word for line in picture.splitlines() for word in line.split("  ")[0].split(", ")}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= shown, packages - shown


def test_every_failure_that_is_cited_has_its_row() -> None:
    """The codes that comments and tests cite, `F28` or `F22 to F24`, are in the table of docs/contracts.md."""
    rows = (line.split("|")[1] for line in (ROOT / "docs/contracts.md").read_text().splitlines() if line[:3] == "| F")
    told = {number for row in rows for number in _failures(row)}
    cited = {number for path in [*MODULES, *TESTS.rglob("*.py")] for number in _failures(path.read_text())}
    assert cited - told == set(), "docs/contracts.md has no row of these"


def _failures(text: str) -> set[int]:
    found = re.finditer(r"\bF([1-9][0-9]?)(?: to F([1-9][0-9]?))?\b", text)
    return {number for match in found for number in range(int(match[1]), int(match[2] or match[1]) + 1)}


# What the page names of others': a library, gunicorn's hook, Python's own function.
NO_NAMES = {"requests", "post_request", "sys.setswitchinterval"}


@pytest.mark.parametrize("title", ["Where is what", "Six walks", "Threads, and the pump"])
def test_the_map_names_functions_that_there_are(title: str) -> None:
    """A name in brackets behind a module is that module's; any other one is of some module."""
    text = " ".join(section(PAGE.read_text(), title).split())
    missing = [
        f"{name} is not in {module} any more"
        for module, inside in re.findall(r"`([a-z_/0-9]+\.py)` \(([^()]*)\)", text)
        for name in _names(inside)
        if not any(defines(path, name) for path in MODULES if str(path).endswith(f"/{module}"))
    ]
    missing += [f"{name} is nowhere in proxy/" for name in _names(text) if not _is_somewhere(name)]
    assert missing == [], f"docs/architecture.md, {title!r}: name what does it now"


def test_each_walk_is_a_chain() -> None:
    walks = section(PAGE.read_text(), "Six walks").split("\n\n**")[1:]
    assert len(walks) == 6
    for walk in walks:
        assert walk.count("→") > 3 and len(re.findall(r"\.py` \(`", walk)) > 3, walk[:40]


def test_a_name_that_went_is_missed() -> None:
    path = PACKAGE / "tools/toolset.py"
    assert defines(path, "ToolSet.resolve") and defines(path, "ToolSet") and _is_somewhere("toolset.ToolSet")
    assert not defines(path, "ToolSet.solve") and not defines(path, "Engine") and not _is_somewhere("_new_ids_of_calls")


def section(page: str, title: str) -> str:
    """What stands under a heading of a page, pictures left out."""
    return re.sub(r"```.*?```", "", page.partition(f"\n## {title}\n")[2].partition("\n## ")[0], flags=re.DOTALL)


def _names(text: str) -> list[str]:
    """What is written as a name of the code: `ToolSet.resolve`, `NewIds`."""
    found = re.findall(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`", text)
    return [name for name in found if not name.endswith(".py") and name not in NO_NAMES]


def _is_somewhere(name: str) -> bool:
    """True for a name of a module, for a module or a package, and for a module's name with its own before it."""
    owner, _, last = name.rpartition(".")
    if any(defines(path, name) or name in path.relative_to(PACKAGE).with_suffix("").parts for path in MODULES):
        return True
    return any(path.stem == owner and defines(path, last) for path in MODULES)


def defines(path: Path, name: str) -> bool:
    """True if a module has this function, class, constant or attribute; `Owner.name` is one of a class of it."""
    owner, _, last = name.rpartition(".")
    return last in _defined(path).get(owner, set()) if owner else name in _defined(path)[""]


@cache
def _defined(path: Path) -> dict[str, set[str]]:
    """The names that the classes of a module have, by class, and under "" all of them and those outside of classes."""
    tree = tree_of(path)
    classes = {node.name: set(_own_names(node)) for node in nodes_of(path) if isinstance(node, ast.ClassDef)}
    return {**classes, "": {*_own_names(tree), *(name for names in classes.values() for name in names)}}


def _own_names(tree: ast.AST) -> Iterator[str]:
    """What is defined, assigned, or set as an attribute in a part of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def _beginnings(name: str) -> list[int]:
    """Where a path, or one of its parts, begins: a page may leave out the package that its sentence is about."""
    return [0, *(at + 1 for at, letter in enumerate(name) if letter == "/")]


def test_functions_take_few_parameters() -> None:
    many: dict[str, int] = {}
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef) and count_parameters(node) > MAX_PARAMETERS:
                many[f"{name_of(path)}.{node.name}"] = count_parameters(node)
    # One that has fewer now lowers its own bound, too.
    assert many == MANY_PARAMETERS


def count_parameters(node: ast.FunctionDef) -> int:
    """How many parameters a caller may give, keyword-only ones included."""
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


@pytest.mark.parametrize(
    ("source", "count"),
    [("def f(): ...", 0), ("def f(self, a, /, b, *, c, d=1): ...", 4), ("def f(cls): ...", 0), ("def f(*, a): ...", 1)],
)
def test_keyword_only_parameters_count(source: str, count: int) -> None:
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    assert count_parameters(node) == count


def test_the_page_says_the_figures_of_now() -> None:
    """`python -m tests.figures --write` renews them."""
    said, now = cells_on_page(PAGE.read_text()), cells(figures_now())
    assert are_near(said, now), f"the page says {said}, and now it is {now}"


@pytest.mark.parametrize(
    ("said", "now", "near"),
    [
        ("4,079; 4, 13", "4,080; 4, 13", True),
        ("30 (0.7 %); 12", "30 (0.7 %); 13", False),
        ("36,000", "38,000", False),
        ("4, 13", "4", False),
    ],
)
def test_a_figure_on_the_page_may_be_three_per_cent_away(said: str, now: str, near: bool) -> None:
    assert are_near({"row": said}, {"row": now}) is near


def test_the_page_has_all_rows() -> None:
    assert not are_near({"one": "1"}, {"one": "1", "two": "2"})


def test_figures_are_written_where_the_page_says_those_of_now() -> None:
    figures = figures_now()
    row = "complexity: mean, per 10 lines"
    page = with_figures(PAGE.read_text(), figures)
    old = page.replace(f"| {cells(figures)[row]} |", "| 0.1 |")
    assert cells_on_page(old)[row] == "0.1"
    assert with_figures(old, figures) == page


def test_every_public_function_says_what_it_does() -> None:
    assert [name for name, node in public_functions() if not ast.get_docstring(node)] == []


def test_no_public_name_of_the_engine_says_any() -> None:
    for path in MODULES:
        name = name_of(path)
        if is_sans_io(path) and name not in MAY_SAY_ANY and not name.startswith(("dialects", "exchange")):
            assert "Any" not in path.read_text().replace("Anything", ""), path


def test_the_long_tests_are_there() -> None:
    """A test that was renamed or taken out is none of them; `python -m tests.long` writes the list anew."""
    for name in long.names():
        file, *_, function = name.split("::")
        assert f"def {function}(" in (ROOT / file).read_text(), name
