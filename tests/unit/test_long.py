"""Which tests are long, by what pytest says of their durations."""

from __future__ import annotations

from tests.long import long_ones

LOG = """
============================= slowest durations ==============================
5.30s call     tests/unit/test_a.py::test_one
3.00s call     tests/unit/test_a.py::test_cases[a b]
1.50s setup    tests/unit/test_a.py::test_cases[c]
0.60s teardown tests/unit/test_a.py::test_cases[tests/b.py::x]
4.99s call     tests/unit/test_a.py::test_short
4.00s call     tests/unit/test_b.py::Test::test_method[x]
1.00s call     tests/unit/test_b.py::Test::test_method[y]
(73086 durations < 0.02s hidden.)
FAILED tests/unit/exchange/test_b.py::test_three - assert (9.9s call)
"""


def test_all_cases_of_a_test_count_together() -> None:
    ours = [f"tests/unit/{name}" for name in ("test_a.py::test_cases", "test_a.py::test_one")]
    assert long_ones(LOG) == [*ours, "tests/unit/test_b.py::Test::test_method"]
