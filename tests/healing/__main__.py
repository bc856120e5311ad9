"""`python -m tests.healing`: the share of tries that are accepted without loss, with and without healing.

A try renders one shape of a conversation or of tools with one chat template of the shared folder. `--product` combines
each shape of a conversation with each shape of tools. By default, the proxy only builds its requests; with `--http`,
each try is a request through the whole proxy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack

from tests.healing.ask import Ask, direct, of_unknown_family, over_http, through
from tests.healing.measure import Try, tries
from tests.healing.shapes import bodies, products
from tests.support.chat_templates import FOLDER, templates

WAYS = {"direct": direct, "healed": through, "healed, family unknown": of_unknown_family}
# The share of healed tries that must be accepted without loss.
LEAST = 0.98


def share(found: Sequence[Try]) -> float:
    """Return the share of tries that were accepted without loss."""
    return sum(not each.wrong for each in found) / len(found)


def main() -> int:
    """Print the table. Return 1 if too few tries are accepted without loss."""
    parser = argparse.ArgumentParser(description="which requests chat templates accept without loss")
    parser.add_argument("--all", action="store_true", help="print each try that fails with healing")
    parser.add_argument("--product", action="store_true", help="combine conversations with tools")
    parser.add_argument("--http", action="store_true", help="send each try through the whole proxy")
    given = parser.parse_args()
    if not templates():
        print(f"no templates in {FOLDER}")
        return 1
    with ExitStack() as stack:
        ways: dict[str, Ask] = {**WAYS}
        if given.http:
            ways = {"direct": direct, "healed": stack.enter_context(over_http())}
        shapes = products if given.product else bodies
        found = {name: [*tries(way, shapes)] for name, way in ways.items()}
    _print_shapes(found)
    for name, ones in found.items():
        print(f"{share(ones):7.2%} of {len(ones)} tries, {name}")
    _print_failures(found["healed"], every=given.all)
    return int(share(found["healed"]) < LEAST)


def _print_shapes(found: dict[str, list[Try]]) -> None:
    shapes = [each.shape for each in found["direct"]]
    print(f"accepted without loss, of {shapes.count(shapes[0])} tries of each shape: {', '.join(found)}")
    for shape in dict.fromkeys(shapes):
        arrived = (sum(each.shape == shape and not each.wrong for each in ones) for ones in found.values())
        print(f"{shape:32}", *(f"{number:5}" for number in arrived))


def _print_failures(found: list[Try], *, every: bool) -> None:
    """Print the tries that fail, by template and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in found:
        if each.wrong:
            reasons.setdefault((each.template, each.wrong), []).append(each.shape)
    for (template, wrong), shapes in reasons.items():
        names = [*dict.fromkeys(shapes)]
        named = ", ".join(names if every else names[:3])
        print(f"{template}: {len(shapes)} tries ({named}, …): {wrong}")


if __name__ == "__main__":
    raise SystemExit(main())
