"""requirements.lock: what setup.cfg asks for and all that this needs, each in one version, with digests."""

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
    """Each requirement of a lock with its digests, by name."""
    text = re.sub(r"(?m)^ *#.*\n", "", lock.read_text()).replace("\\\n", " ")
    found = [line.split(" --hash=") for line in text.splitlines() if line.strip()]
    requirements = [(Requirement(first), [each.strip() for each in digests]) for first, *digests in found]
    return {canonicalize_name(requirement.name): (requirement, digests) for requirement, digests in requirements}


def asked() -> list[Requirement]:
    """What setup.cfg asks for at run time."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return [Requirement(line) for line in config["options"]["install_requires"].split("\n") if line.strip()]


def needed() -> list[Requirement]:
    """What the packages that setup.cfg asks for need on Linux, as far as they are installed here."""
    todo, seen = [canonicalize_name(each.name) for each in asked()], dict[str, list[Requirement]]()
    while todo:
        name = todo.pop()
        if name not in seen:
            found = [Requirement(text) for text in distribution(name).requires or ()]
            seen[name] = [each for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]
            todo += [canonicalize_name(each.name) for each in seen[name]]
    return [each for requirements in seen.values() for each in requirements]


def version(requirement: Requirement) -> str:
    """The one version that an entry of a lock allows."""
    (one,) = requirement.specifier
    assert one.operator == "==" and "*" not in one.version
    return one.version


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_each_entry_is_one_version_with_digests(lock: Path) -> None:
    locked = entries(lock)
    assert locked
    for requirement, digests in locked.values():
        assert version(requirement) and requirement.marker is None, "it holds for all Pythons and machines"
        assert digests and all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)


def test_what_setup_cfg_asks_for_is_there_in_a_version_that_will_do() -> None:
    locked = entries(LOCKS[0])
    for requirement in asked():
        assert requirement.specifier.contains(version(locked[canonicalize_name(requirement.name)][0])), requirement


def test_what_those_need_is_there_in_a_version_that_will_do() -> None:
    """Otherwise pip would refuse the whole file for want of one digest."""
    locked = entries(LOCKS[0])
    for requirement in needed():
        assert requirement.specifier.contains(version(locked[canonicalize_name(requirement.name)][0])), requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_it_says_how_it_was_made_and_names_no_index(lock: Path) -> None:
    text = lock.read_text()
    assert "make lock" in text and "://" not in text and "--index" not in text
