"""Which tests `make quick` runs for what changed."""

from __future__ import annotations

import pytest

from tests.changed import HOUSE, chosen_for


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("proxy/codec/sse.py", ["tests/unit/codec/test_sse.py"]),
        ("proxy/dialects/messages/blocks.py", ["tests/unit/dialects/messages/test_blocks.py"]),
        ("tests/unit/codec/test_sse.py", ["tests/unit/codec/test_sse.py"]),
        ("tests/contract/test_c7_linear.py", ["tests/contract/test_c7_linear.py"]),
        ("tests/integration/test_pump.py", []),
        ("tests/unit/codec/test_gone.py", []),
        ("proxy/errors.py", ["tests/unit/test_errors.py"]),
        ("proxy/app.py", []),
        ("README.md", []),
        ("proxy/ui/assets/page.js", []),
    ],
)
def test_a_file_has_its_own_tests(path: str, tests: list[str]) -> None:
    assert chosen_for([path]) == [HOUSE, *tests]


def test_a_module_without_a_file_of_its_name_has_those_that_import_it() -> None:
    found = chosen_for(["proxy/repair/policy.py"])
    assert "tests/unit/repair/test_rule_actions.py" in found and "tests/unit/repair" not in found


def test_a_module_that_no_test_of_its_folder_imports_has_the_folder() -> None:
    assert chosen_for(["proxy/repair/__init__.py"]) == [HOUSE, "tests/unit/repair"]


def test_each_is_run_once_whatever_else_changed() -> None:
    paths = ["proxy/codec/sse.py", "tests/unit/codec/test_sse.py", "tests/integration/test_pump.py", "CHANGELOG.md"]
    assert chosen_for(paths) == [HOUSE, "tests/unit/codec/test_sse.py"]
