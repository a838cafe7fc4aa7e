"""The results of a benchmark: tables that are printed and recorded, and limits that can fail.

`make bench` writes them to `last.json`, from which `python -m tools.bench_tables` fills the tables of the guides.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LAST = Path(__file__).parent / "last.json"


@dataclass
class Record:
    """The results of one benchmark.

    Attributes:
        conditions: what the figures hold for, such as the data and the number of repetitions.
        tables: by name, as lines of Markdown.
        figures: by name, as they are written in the guides.
        missed: limits that were not met.
        known: claims that were not met, where a guide says so next to the figure.
    """

    conditions: str = ""
    tables: dict[str, list[str]] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)

    def table(self, name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table and record it."""
        lines = [_line(header), _line(["---"] * len(header)), *(_line([str(cell) for cell in row]) for row in rows)]
        self.tables[name] = lines
        print(f"\n{name}\n", *lines, sep="\n", flush=True)

    def figure(self, name: str, shown: str) -> None:
        """Print one figure and record it."""
        self.figures[name] = shown
        print(f"{name}: {shown}", flush=True)

    def limit(
        self, name: str, value: float, *, least: float | None = None, most: float | None = None, known: bool = False
    ) -> None:
        """Fail the benchmark, once it has ended, if a value lies outside its limits.

        A limit is a claim if it follows from what the method promises, such as a nominal coverage less the error of
        the simulation (`less_error`), or from the floor of the same run. Any other limit is a guard against
        regressions, and the file says so.

        Args:
            name: what was measured.
            value: the result.
            least: the minimum.
            most: the maximum.
            known: whether a guide states that this claim is missed. A miss is then recorded and does not fail.
        """
        if not ((least is None or value >= least) and (most is None or value <= most)):
            bounds = [f"{word} {end:g}" for word, end in (("at least", least), ("at most", most)) if end is not None]
            (self.known if known else self.missed).append(f"{name}: {value:.4g}; expected {' and '.join(bounds)}")
            print(f"MISSED{', as the guide says' if known else ''} {name}: {value:.4g}", flush=True)

    def as_dict(self, name: str) -> dict[str, Any]:
        """JSON values, with command, date, and the machine with its load at the end."""
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.0f}"
        when = datetime.now(UTC).date().isoformat()
        return {"command": f"python -m benchmarks {name}", "date": when, "machine": machine, **asdict(self)}


def less_error(nominal: float, repetitions: int) -> float:
    """A nominal percentage less three standard errors of its estimate from so many repetitions.

    Example:
        >>> round(less_error(95, 400), 2)
        91.73
    """
    return nominal - 3.0 * math.sqrt(nominal * (100.0 - nominal) / repetitions)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def keep(found: Mapping[str, Record], path: Path = LAST) -> None:
    """Put these benchmarks into the record of the last runs; those that did not run keep their figures."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known |= {name: record.as_dict(name) for name, record in found.items()}
    path.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")
