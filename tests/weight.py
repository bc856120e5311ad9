"""Print the tokens of each package of `proxy`, without comments, docstrings and layout tokens.

Run it with `python -m tests.weight`.
"""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "proxy"
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
LAYOUT.add(tokenize.ENCODING)


def weigh(path: Path) -> int:
    """Return the number of tokens of a module; a docstring is one token."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = sum(
        isinstance(node, documented) and ast.get_docstring(node) is not None
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )
    with path.open("rb") as file:
        return sum(token.type not in LAYOUT for token in tokenize.tokenize(file.readline)) - docstrings


def main() -> None:
    """Print one line per package, the heaviest first, and the sum."""
    weights: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        weights[path.relative_to(PACKAGE).parts[0]] += weigh(path)
    for name, tokens in weights.most_common():
        print(f"{tokens:8,}  {name}")
    print(f"{weights.total():8,}  total")


if __name__ == "__main__":
    main()
