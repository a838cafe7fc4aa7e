"""Puts the results of the last benchmark runs into the guides: `python -m tools.bench_tables`.

A guide marks the results of a benchmark. A table is between `<!-- bench: NAME/TABLE -->` and `<!-- /bench -->`.
A single figure, or how it was measured (`conditions`, `date`, `machine`), is between the same marks; `all/missed` is
the table of the limits that the last runs missed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LAST = ROOT / "benchmarks" / "last.json"

_MARKED = re.compile(r"(<!-- bench: (\w+)/(\w+) -->)(.*?)(<!-- /bench -->)", re.DOTALL)


def guides() -> list[Path]:
    """The pages that may have figures."""
    return [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def shown(record: Mapping[str, Any], benchmark: str, name: str) -> str:
    """A table or a figure of a benchmark, as a guide has it.

    Raises:
        KeyError: the last runs have no such figure.

    Example:
        >>> record = {"speed": {"date": "2026-11-23", "figures": {"ratio": "1.06"}, "tables": {}}}
        >>> shown(record, "speed", "ratio"), shown(record, "speed", "date")
        ('1.06', '2026-11-23')
    """
    if (benchmark, name) == ("all", "missed"):
        return "\n".join(["", "| benchmark | limit missed |", "| --- | --- |", *_list_missed(record), ""])
    found = record[benchmark]
    if name in found["tables"]:
        return "\n".join(["", *found["tables"][name], ""])
    return str(found["figures"][name] if name in found["figures"] else found[name])


def _list_missed(record: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the limits that were not met, whether a guide states the miss or the run failed."""
    for name, found in record.items():
        yield from (f"| `{name}` | {one} |" for one in [*found.get("missed", ()), *found.get("known", ())])


def filled(text: str, record: Mapping[str, Any]) -> str:
    """A page with the figures of the record.

    Example:
        >>> record = {"speed": {"figures": {"ratio": "1.06"}, "tables": {}}}
        >>> filled("It takes <!-- bench: speed/ratio -->9<!-- /bench --> times the floor.", record)
        'It takes <!-- bench: speed/ratio -->1.06<!-- /bench --> times the floor.'
    """
    return _MARKED.sub(lambda one: f"{one[1]}{shown(record, one[2], one[3])}{one[5]}", text)


def stale(record: Mapping[str, Any], pages: Mapping[str, str]) -> Iterator[str]:
    """The differences from the record, by page."""
    for name, text in pages.items():
        for _, benchmark, figure, said, _ in _MARKED.findall(text):
            try:
                expected = shown(record, benchmark, figure)
            except KeyError:
                yield f"{name}: {benchmark}/{figure} is not in the record of the last runs"
                continue
            if said != expected:
                yield f"{name}: {benchmark}/{figure} is {said.strip()[:80]!r}; measured {expected.strip()[:80]!r}"


if __name__ == "__main__":
    last = json.loads(LAST.read_text("utf-8"))
    for page in guides():
        before = page.read_text("utf-8")
        after = filled(before, last)
        if after != before:
            page.write_text(after, "utf-8")
            print(f"{page.relative_to(ROOT)}: figures of the last runs")
