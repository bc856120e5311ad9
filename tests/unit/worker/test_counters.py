"""What a worker counts: by name, by many threads, and never without bound."""

from __future__ import annotations

import threading

from proxy.worker.counters import MAX_NAME, MAX_NAMES, OTHERS, Counters


def test_fixes_refusals_and_empty_calls_add_up_in_order() -> None:
    counters = Counters()
    counters.count({"name": 2, "closers": 1}, {"not offered": 1}, 1)
    counters.count({"name": 1}, {"not offered": 2, "cut off": 1}, 0)
    assert counters.shown() == {
        "fixes": {"closers": 1, "name": 3},
        "refusals": {"cut off": 1, "not offered": 3},
        "calls_with_empty_arguments": 1,
    }
    assert list(counters.shown()["fixes"] or ()) == ["closers", "name"]  # type: ignore[arg-type]


def test_names_that_somebody_invents_cannot_fill_the_memory() -> None:
    """C7."""
    counters = Counters()
    for number in range(5000):
        counters.count({}, {f"{number} " + "x" * 1000: 1}, 0)
    counters.count({}, {"0 " + "x" * 1000: 1}, 0)
    refusals = counters.shown()["refusals"]
    assert isinstance(refusals, dict)
    assert len(refusals) == MAX_NAMES + 1 and refusals[OTHERS] == 5000 - MAX_NAMES
    assert refusals["0 " + "x" * (MAX_NAME - 2)] == 2
    assert max(map(len, refusals)) == MAX_NAME


def test_many_threads_lose_no_count() -> None:
    counters = Counters()

    def work() -> None:
        for _ in range(2000):
            counters.count({"a": 1}, {"b": 1}, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.shown() == {"fixes": {"a": 8000}, "refusals": {"b": 8000}, "calls_with_empty_arguments": 8000}
