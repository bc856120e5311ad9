"""`python -m tests.healing`: how many tries are accepted with nothing lost, without healing and with it.

A try is one chat template of the shared folder asked with one shape of a conversation, or of tools.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.healing.ask import direct, of_unknown_family, through
from tests.healing.measure import Try, tries
from tests.healing.templates import FOLDER, templates

WAYS = {"direct": direct, "healed": through, "healed, family unknown": of_unknown_family}
# Of all tries so many must arrive, healed.
LEAST = 0.98


def share(found: Sequence[Try]) -> float:
    """How many arrived, of all."""
    return sum(not each.wrong for each in found) / len(found)


def main() -> int:
    """Print the table; 1 if too few tries arrive."""
    parser = argparse.ArgumentParser(description="what chat templates accept with nothing lost")
    parser.add_argument("--all", action="store_true", help="print each try that fails healed")
    given = parser.parse_args()
    if not templates():
        print(f"there are no templates in {FOLDER}")
        return 1
    found = {name: [*tries(way)] for name, way in WAYS.items()}
    _print_shapes(found)
    for name, ones in found.items():
        print(f"{share(ones):7.2%} of {len(ones)} tries, {name}")
    _print_failures(found["healed"], every=given.all)
    return int(share(found["healed"]) < LEAST)


def _print_shapes(found: dict[str, list[Try]]) -> None:
    count = len(templates())
    print(f"accepted with nothing lost, of {count} templates: {', '.join(found)}")
    for shape in dict.fromkeys(each.shape for each in found["direct"]):
        arrived = (sum(each.shape == shape and not each.wrong for each in ones) for ones in found.values())
        print(f"{shape:32}", *(f"{number:5}" for number in arrived))


def _print_failures(found: list[Try], *, every: bool) -> None:
    """The tries that fail, by template and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in found:
        if each.wrong:
            reasons.setdefault((each.template, each.wrong), []).append(each.shape)
    for (template, wrong), shapes in reasons.items():
        named = ", ".join(shapes if every else shapes[:3])
        print(f"{template}: {len(shapes)} shapes ({named}, …): {wrong}")


if __name__ == "__main__":
    raise SystemExit(main())
