"""Cases that share an item all run, and each that fails is told by its name."""

from __future__ import annotations

import pytest

from tests.support.each_case import VARIABLE

pytest_plugins = ["pytester"]

MODULE = """
import pytest
from tests.support.each_case import each_case

RAN = []

@pytest.mark.parametrize("other", [10, 20])
@each_case("one, two", [(1, 2), (3, 3), pytest.param(5, 5, id="five"), (7, 8)], size=3)
def test_pairs(one, two, other, tmp_path):
    RAN.append((one, other))
    assert tmp_path.exists()
    assert one != two

@each_case("word", ["a", "a", "b"], ids=str.upper)
def test_words(word):
    assert word == "a"

def test_all_ran():
    assert sorted(RAN) == [(one, other) for one in (1, 3, 5, 7) for other in (10, 20)]
"""


def test_all_run_and_those_that_fail_are_told(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    pytester.makepyfile(MODULE)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.re_match_lines(
        [r".*2 of 3 cases failed.*", r".*in the case \(3, 3\)", r".*in the case five", r".*in the case B"]
    )
    assert "in the case (1, 2)" not in result.stdout.str()
