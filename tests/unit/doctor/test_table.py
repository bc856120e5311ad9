"""All probes together: what they find can be told apart."""

from __future__ import annotations

from collections import Counter

from proxy.doctor import calls, fields, server, shapes, streams, thoughts
from proxy.doctor.findings import NOT_EXAMINED
from proxy.doctor.table import PROBES


def test_each_table_is_in_it_and_the_server_comes_first() -> None:
    """What the server is decides what the others ask."""
    for module in (server, calls, streams, thoughts, fields, shapes):
        assert {*module.PROBES} <= {*PROBES}
    assert PROBES[: len(server.PROBES)] == server.PROBES


def test_each_probe_and_each_finding_has_a_name_of_its_own() -> None:
    probes = Counter(probe.id for probe in PROBES)
    findings = Counter(told.id for probe in PROBES for told in probe.tells)
    assert [name for counts in (probes, findings) for name, count in counts.items() if count > 1] == []
    assert NOT_EXAMINED not in findings
