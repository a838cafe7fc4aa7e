"""What the gates of a whole run kept, rewrote and rejected, and what evolution holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_PARTS = ("criteria", "left_out", "rejected", "rewritten")
OUTCOMES = ("kept", "rewrite", "rejected", "undecided")


@dataclass(slots=True)
class GateTally:
    """Figures over all queries.

    Attributes:
        outcomes: how often each gate decided what, by (gate, outcome), in the order of the gates.
        kept: criteria in the rubrics that are left.
        left_out: pitfalls that passed and are dropped.
        rejected: criteria that a gate rejected.
        points: points of the criteria that are left, whatever their sign.
        evolved_points: those of evolved ones.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: int = 0
    left_out: int = 0
    rejected: int = 0
    points: int = 0
    evolved_points: int = 0

    def add(self, gated: Mapping[str, Any]) -> None:
        """Count one row's `gated` field in.

        Example:
            >>> tally = GateTally()
            >>> said = [{"gate": "licensed", "outcome": "kept"}]
            >>> tally.add({"criteria": [{"weight": 8, "origin": "evolved", "gates": said}], "left_out": [],
            ...     "rejected": [], "rewritten": []})
            >>> tally.outcomes["licensed", "kept"], tally.evolved_share
            (1, 1.0)
        """
        self.kept += len(gated["criteria"])
        self.left_out += len(gated["left_out"])
        self.rejected += len(gated["rejected"])
        for row in gated["criteria"]:
            self.points += abs(row["weight"])
            self.evolved_points += abs(row["weight"]) * (row["origin"] == "evolved")
        for row in (row for part in _PARTS for row in gated[part]):
            self.outcomes.update((said["gate"], said["outcome"]) for said in row["gates"])

    @property
    def evolved_share(self) -> float | None:
        """The share of all points that evolved criteria hold; None where there are no points."""
        return self.evolved_points / self.points if self.points else None

    def by_gate(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Each gate with its counts by outcome."""
        for gate in dict.fromkeys(gate for gate, _ in self.outcomes):
            yield gate, {outcome: self.outcomes[gate, outcome] for outcome in OUTCOMES}

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values, for the manifest."""
        return {
            "kept": self.kept,
            "pitfalls_left_out": self.left_out,
            "rejected": self.rejected,
            "evolved_share": self.evolved_share,
            "by_gate": dict(self.by_gate()),
        }
