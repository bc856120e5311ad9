"""Audit records: every id is in a table, and the documentation is generated from the tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from documentation.tables import REPAIRS
from proxy.engine.choice import DROPPED
from proxy.exchange.attempt import FIX
from proxy.healing.heal import HEALINGS, REPEATS, record_id
from proxy.repair.arguments import FORMS
from proxy.repair.schema_fixes import FIXES
from tests.test_house import MODULES

RECORDS = [record[0] for record in REPAIRS["records"]]
# Ids that are expressions, and their possible values. They are empty if the id is in another table or names a rule.
SAID = {
    "piece.row": (*DROPPED,),
    "FIX": (FIX,),
    "record_id(name)": (record_id(REPEATS),),
    "form.id": (),
    "step.fix.id": (),
    "f'rule:{rule.name}'": (),
}


def said_ids() -> Iterator[ast.expr]:
    """Yield the first argument of every call that creates a record."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Repair":
                yield node.args[0]


@pytest.mark.slow
def test_every_id_in_the_code_is_in_the_table_and_vice_versa() -> None:
    found: set[str] = set()
    for said in said_ids():
        found |= {str(said.value)} if isinstance(said, ast.Constant) else {*SAID[ast.unparse(said)]}
    assert found - {form.id for form in FORMS} == {*RECORDS}


def test_each_id_is_in_only_one_table() -> None:
    ids = [*RECORDS, *(form.id for form in FORMS), *(fix.id for fix in FIXES)]
    ids += [record_id(healing.id) for healing in HEALINGS]
    assert sorted(ids) == sorted({*ids})
