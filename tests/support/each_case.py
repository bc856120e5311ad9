"""Run many short cases in one test item, because pytest's overhead per item exceeds the time of a case.

    @each_case("row", ROWS, ids=by_name)
    def test_row(row: Row) -> None:

is `pytest.mark.parametrize` with SIZE cases in each item. All cases run; failures are reported together, by name. With
the variable TESTS_EACH, each case is a separate item, which `-k` can select.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest

SIZE = 25
VARIABLE = "TESTS_EACH"


@dataclass(frozen=True, slots=True)
class Case:
    """The arguments of one case by name, and the case's name."""

    name: str
    arguments: Mapping[str, Any]


class _Current:
    name = ""


def current() -> str:
    """Return the names of the running item and case."""
    return f"{os.environ.get('PYTEST_CURRENT_TEST', '')} {_Current.name}"


def each_case(
    names: str, cases: Iterable[Any], ids: Iterable[str] | Callable[[Any], object] | None = None, size: int = SIZE
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator like `pytest.mark.parametrize` with `size` cases in each item."""
    named = [*_named([each.strip() for each in names.split(",")], cases, ids)]
    groups = [*_groups(named, 1 if os.environ.get(VARIABLE) else size)]
    titles = [group[0].name if len(group) == 1 else f"{group[0].name}..{group[-1].name}" for group in groups]

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def test(cases: Sequence[Case], **fixed: Any) -> None:
            failed: list[Exception] = []
            for case in cases:
                with _collected(case.name, failed):
                    check(**fixed, **case.arguments)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(cases)} cases failed", failed)

        parameters = inspect.signature(check).parameters.values()
        taken = {name for case in named for name in case.arguments}
        others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters if each.name not in taken]
        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        own = inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([own, *others])  # type: ignore[attr-defined]
        test.pytestmark = [*getattr(check, "pytestmark", ())]  # type: ignore[attr-defined]
        marked: Callable[..., None] = pytest.mark.parametrize("cases", groups, ids=titles)(test)
        return marked

    return decorate


def _named(
    names: Sequence[str], cases: Iterable[Any], ids: Iterable[str] | Callable[[Any], object] | None
) -> Iterator[Case]:
    given = None if ids is None or callable(ids) else [*ids]
    seen: Counter[str] = Counter()
    for number, case in enumerate(cases):
        values: Sequence[Any] = (case,) if len(names) == 1 else case
        title = repr(case) if isinstance(case, str | int | tuple) else str(number)
        if hasattr(case, "values") and hasattr(case, "marks"):  # pytest.param
            assert not case.marks
            values, title = case.values, case.id or str(number)
        elif callable(ids):
            title = str(ids(case))
        elif given is not None:
            title = given[number]
        # Equal names get a number, as in pytest.
        seen[title] += 1
        told = title if seen[title] == 1 else f"{title}-{seen[title]}"
        yield Case(told, dict(zip(names, values, strict=True)))


def _groups(cases: Iterable[Case], size: int) -> Iterator[tuple[Case, ...]]:
    rest = iter(cases)
    while group := tuple(islice(rest, size)):
        yield group


@contextmanager
def _collected(name: str, failed: list[Exception]) -> Iterator[None]:
    """Record the failure of a case with its name, and continue."""
    _Current.name = name
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case {name}")
        failed.append(error)
    finally:
        _Current.name = ""
