"""requirements.lock: the dependencies in setup.cfg and theirs, each pinned to one version with digests."""

from __future__ import annotations

import configparser
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = [ROOT / "requirements.lock", ROOT / "systemd" / "pip.lock"]


def entries(lock: Path) -> dict[str, tuple[Requirement, list[str]]]:
    """Return each requirement of a lock with its digests, by name."""
    text = re.sub(r"(?m)^ *#.*\n", "", lock.read_text()).replace("\\\n", " ")
    found = [line.split(" --hash=") for line in text.splitlines() if line.strip()]
    requirements = [(Requirement(first), [each.strip() for each in digests]) for first, *digests in found]
    return {canonicalize_name(requirement.name): (requirement, digests) for requirement, digests in requirements}


def asked() -> list[Requirement]:
    """Return the run-time requirements in setup.cfg."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return [Requirement(line) for line in config["options"]["install_requires"].split("\n") if line.strip()]


def needed() -> list[Requirement]:
    """Return the requirements of the packages in setup.cfg, and the requirements of these, as installed here."""
    todo, seen = [canonicalize_name(each.name) for each in asked()], dict[str, list[Requirement]]()
    while todo:
        name = todo.pop()
        if name not in seen:
            found = [Requirement(text) for text in distribution(name).requires or ()]
            seen[name] = [each for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]
            todo += [canonicalize_name(each.name) for each in seen[name]]
    return [each for requirements in seen.values() for each in requirements]


def version(requirement: Requirement) -> str:
    """Return the only version that a lock entry allows."""
    (one,) = requirement.specifier
    assert one.operator == "==" and "*" not in one.version
    return one.version


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_each_entry_has_one_version_and_digests(lock: Path) -> None:
    locked = entries(lock)
    assert locked
    for requirement, digests in locked.values():
        assert version(requirement) and requirement.marker is None, "the entry must apply to all Pythons and machines"
        assert digests and all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)


def test_requirements_of_setup_cfg_are_locked_in_an_allowed_version() -> None:
    locked = entries(LOCKS[0])
    for requirement in asked():
        assert requirement.specifier.contains(version(locked[canonicalize_name(requirement.name)][0])), requirement


def test_indirect_requirements_are_locked_in_an_allowed_version() -> None:
    """pip rejects the whole file if one digest is missing."""
    locked = entries(LOCKS[0])
    for requirement in needed():
        assert requirement.specifier.contains(version(locked[canonicalize_name(requirement.name)][0])), requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_header_names_the_lock_command_and_no_index(lock: Path) -> None:
    text = lock.read_text()
    assert "make lock" in text and "://" not in text and "--index" not in text
