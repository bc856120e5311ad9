"""Throughput of the text reader alone, on one core: `python -m benchmarks.scanner [--quick]`.

Measures text per second: prose, code and JSON must be fast, and texts full of call openers must take linear time. Each
text is also read at a quarter of its length, so linear means a ratio of 4.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

from benchmarks import body, report
from benchmarks.report import Bound
from proxy.notations.front import Reader
from proxy.notations.stream import Piece
from proxy.notations.toolset import ToolSet, read_tools

FULL, QUICK = 5_000_000, 500_000
PIECE = 4_000
# Texts that would take more seconds than this are shortened and marked in the table.
MOST_SECONDS = 10.0
# Measurements shorter than SHORT_SECONDS are repeated TIMES times; the best one counts.
SHORT_SECONDS, TIMES = 1.0, 3
# The growth of shorter times is noise, so it is printed but not judged.
LEAST_SECONDS = 0.1

PROSE = (
    "The loop waits for both sockets at once, reads what has come and writes every whole event in one go. Nothing is "
    "kept back longer than it takes to see that no call begins in it; a stream that says much does not hold up one "
    "that says little, because each of them is read to the last byte that is there (see section 3, page 12). "
)
HTML = (
    '<div class="entry" id="entry-7">\n  <h2>Results of the <em>second</em> run</h2>\n  <p>All of them passed &amp; '
    'took <b>less</b> time.<br/>See <a href="/runs/2?all=1">the list</a>.</p>\n  <ul><li>one</li><li>two</li></ul>\n'
    "  <input type='text' name='path' value=\"a/b\">\n</div>\n"
)
MARKDOWN = """## What the function does

It reads `settings.json`, takes **each** entry of `paths` and returns [those](docs/paths.md) that exist:

```python
def existing(settings: dict[str, list[str]]) -> list[str]:
    \"\"\"The paths that are there.\"\"\"
    return [path for path in settings["paths"] if os.path.exists(path)]
```

The file looks so; `limit` is *optional*:

```json
{"paths": ["a.txt", "b/c.txt"], "limit": 10}
```

1. Run it with `python -m tool < settings.json > out.txt`.
2. Look at the table:

| path | size |
| --- | ---: |
| a.txt | 120 |

> A path that is not there is left out, and nothing says so.

"""

CODE = '''from __future__ import annotations

@dataclass(frozen=True)
class Entry:
    """A file of the cache, and when it was last read."""

    path: Path
    tags: dict[str, list[int]] = field(default_factory=dict)

    def newer(self, other: Entry) -> bool:
        return self.path.stat().st_mtime > other.path.stat().st_mtime and self.tags["size"] < other.tags["size"]

COLOURS = {
    "error": [255, 0, 0],
    "hint": [f"{each:02x}" for each in range(3)],
}

export async function load<T extends Row>(rows: Map<string, T>, limit = 10): Promise<T[]> {
  const found: Array<T> = [...rows.values()].filter((row) => row.size >= 1 && row.size <= limit);
  if (found.length === 0) {
    throw new Error(`no row in ${rows.size} rows`);
  }
  return found.map(({ id, ...rest }) => ({ ...rest, id: id << 1 }) as T);
}

#!/bin/bash
set -euo pipefail
[ -f "$1" ] || { echo "no file: $1" >&2; exit 1; }
while read -r line; do
  [[ $line == *.py ]] && count=$((count + 1))
done < <(find . -name "*.py" | sort)
echo "${count:-0} files" | tee -a out.log
'''
RECORD = (
    '{"id": 4711, "title": "The page is empty after a reload", "state": "open", "locked": false, "user": {"login": '
    '"mira", "id": 90125, "url": "https://api.example.com/users/mira"}, "labels": [{"id": 3, "name": "bug", "color": '
    '"d73a4a"}, {"id": 8, "name": "help wanted", "color": "008672"}], "comments": 2, "milestone": null, "body": "It '
    'says \\"no rows\\".\\n\\nSteps:\\n1. Open `/list`\\n2. Press F5", "created_at": "2026-03-02T08:15:00Z"}'
)


@dataclass(frozen=True, slots=True)
class Case:
    """A text: the part that is repeated after `start`, and the length of the pieces to feed.

    `least` is the minimum speed in MB/s.
    """

    name: str
    unit: str
    piece: int = PIECE
    least: float = 0.3
    start: str = ""


CASES = (
    Case("prose, in pieces of 20", PROSE, piece=20, least=3.0),
    Case("prose", PROSE, least=5.0),
    Case("a Markdown answer with code", MARKDOWN, least=5.0),
    Case("code", CODE, least=5.0),
    Case("JSON, an object per line", RECORD + "\n", least=5.0),
    Case("JSON, a list in one line", RECORD + ", ", least=5.0, start="["),
    Case("HTML", HTML),
    Case("spaces", " "),
    Case("{", "{"),
    Case("<tool_cal", "<tool_cal"),
    Case("<tool_call>", "<tool_call>"),
)
BOUNDS = (
    *(Bound(case.name, case.name, least=case.least, unit="MB/s") for case in CASES),
    Bound("time for 4 times the text, the most", "growth", most=5.0, unit="x"),
)


def main() -> int:
    """Measure every text and print the table and the verdicts; return 1 if a text was changed."""
    parser = argparse.ArgumentParser(description="the reading core's speed, on one core")
    parser.add_argument("--quick", action="store_true", help="shorter texts, for a first look")
    options = parser.parse_args()
    tools = read_tools([*body.tools()])
    began = time.monotonic()
    speeds, growths = dict[str, float](), list[float]()
    print(f"| {'text':<28} |   MB |  MB/s | / quarter |\n| {'-' * 28} | ---: | ----: | --------: |")
    for case in CASES:
        try:
            size, quarter, whole = _measured(case, tools, QUICK if options.quick else FULL)
        except ValueError as error:
            print(f"{case.name}: {error}", file=sys.stderr)
            return 1
        speeds[case.name] = size / whole / 1e6
        growth = whole / quarter
        if whole >= LEAST_SECONDS:
            growths.append(growth)
        print(f"| {case.name:<28} | {size / 1e6:4.2f} | {speeds[case.name]:5.1f} | {growth:9.1f} |", flush=True)
    print("\nNumbers to hold")
    print("\n".join(report.held(BOUNDS, {**speeds, "growth": max(growths, default=0.0)})))
    print(f"\n{time.monotonic() - began:.0f} s{', quick: the figures are coarse' if options.quick else ''}")
    return 0


def _measured(case: Case, tools: ToolSet, size: int) -> tuple[int, float, float]:
    """Return the measured length, and the seconds for a quarter of it and for all of it."""
    quarter = _seconds(case, tools, size // 4)
    while 4 * quarter > MOST_SECONDS:
        size //= 2
        quarter = _seconds(case, tools, size // 4)
    return size, quarter, _seconds(case, tools, size)


def _seconds(case: Case, tools: ToolSet, size: int) -> float:
    """Return the CPU time for a text of this length."""
    text = (case.start + case.unit * (size // len(case.unit) + 1))[:size]
    pieces = [text[at : at + case.piece] for at in range(0, size, case.piece)]
    best = scanned(pieces, tools)
    return best if best > SHORT_SECONDS else min(best, *(scanned(pieces, tools) for _ in range(TIMES - 1)))


def scanned(pieces: list[str], tools: ToolSet) -> float:
    """Return the CPU time of one run. Raise ValueError if text was lost or taken for a call."""
    reader = Reader(tools)
    found: list[Piece] = []
    began = time.process_time()
    for piece in pieces:
        found += reader.feed(piece)
    found += reader.finish()
    spent = time.process_time() - began
    # Dropped tokens are pieces without calls.
    if calls := [each.calls for each in found if each.calls]:
        raise ValueError(f"a call was found: {calls[0]}")
    if "".join(each.text for each in found) != "".join(pieces):
        raise ValueError("the text has changed")
    return spent


if __name__ == "__main__":
    sys.exit(main())
