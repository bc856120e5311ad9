"""How the modules of a package hang together: which imports which, and how much their classes hold."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """What a module says: many tests ask for the same ones."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module."""
    return tuple(ast.walk(tree_of(path)))


def arrows(folder: Path) -> set[tuple[str, str]]:
    """Which module of a package imports which: `proxy.web.app`, `proxy.errors`."""
    paths = {".".join(path.relative_to(folder.parent).with_suffix("").parts): path for path in folder.rglob("*.py")}
    named = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found: set[tuple[str, str]] = set()
    for name, path in named.items():
        package = list(path.relative_to(folder.parent).parent.parts)
        for imported in _imported(nodes_of(path), package):
            found.add((name, _module_of(imported, named)))
    return {(source, target) for source, target in found if target not in ("", source)}


def _imported(nodes: Iterable[ast.AST], package: list[str]) -> Iterator[str]:
    """The names, with their modules, that a module of a package imports; `from ..web import app` is `proxy.web.app`."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _module_of(imported: str, modules: Collection[str]) -> str:
    """The module of the package that is imported so, itself or for a name that it has; "" for another's."""
    if imported in modules:
        return imported
    module = imported.rpartition(".")[0]
    return module if module in modules else ""


def between_packages(imports: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which package imports of which: `proxy.web`, `proxy.engine`. What stands in no package is one together."""
    pairs = {(_package(source), _package(target)) for source, target in imports}
    return {(source, target) for source, target in pairs if source != target}


def _package(module: str) -> str:
    return ".".join(module.split(".")[1:2]) if module.count(".") > 1 else ""


@dataclass(frozen=True, slots=True)
class Attributes:
    """How many attributes a class has, fields and what its methods set, and how many of them are true or false."""

    name: str
    count: int
    booleans: int


def attributes_of(nodes: Iterable[ast.AST]) -> Iterator[Attributes]:
    """Those of each class among the nodes of a module."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            stored = [*_stored(node)]
            found = dict(stored)
            booleans = {name for name, boolean in stored if boolean}
            yield Attributes(node.name, len(found), len(booleans))


def _stored(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    """Each place where an attribute of a class is said or set, and if it is said to be true or false there."""
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign):
            boolean = isinstance(each.annotation, ast.Name) and each.annotation.id == "bool"
            yield from ((name, boolean) for name in _own(each.target, field=each in node.body))
        elif isinstance(each, ast.Assign):
            boolean = isinstance(each.value, ast.Constant) and isinstance(each.value.value, bool)
            yield from ((name, boolean) for target in each.targets for name in _own(target))
        elif isinstance(each, ast.AugAssign):
            yield from ((name, False) for name in _own(each.target))


def _own(target: ast.expr, *, field: bool = False) -> Iterator[str]:
    """The attributes of `self` in what is assigned to, or the name of a field."""
    if field and isinstance(target, ast.Name):
        yield target.id
    for each in ast.walk(target):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
            yield each.attr
