"""What the gates of a whole run kept, rewrote and rejected, what evolution holds, and the measures of quality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_PARTS = ("criteria", "left_out", "rejected", "rewritten")
OUTCOMES = ("kept", "rewrite", "rejected", "undecided")


@dataclass(slots=True)
class GateTally:
    """Figures over all queries.

    Attributes:
        order: of the gates.
        outcomes: how often each gate decided what, by (gate, outcome).
        kept: criteria in the rubrics that are left.
        left_out: pitfalls that passed and are dropped.
        rejected: criteria that a gate rejected.
        points: points of the criteria that are left, whatever their sign.
        evolved_points: those of evolved ones.
        quality: by measure, its sum over the rubrics that have it, and how many those are.
    """

    order: Sequence[str] = ()
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: int = 0
    left_out: int = 0
    rejected: int = 0
    points: int = 0
    evolved_points: int = 0
    quality: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, gated: Mapping[str, Any]) -> None:
        """Count one row's `gated` field in.

        Example:
            >>> tally = GateTally()
            >>> said = [{"gate": "licensed", "outcome": "kept"}]
            >>> tally.add({"criteria": [{"weight": 8, "origin": "evolved", "gates": said}], "left_out": [],
            ...     "rejected": [], "rewritten": [], "quality": {"clarity": 0.5, "stability": None}})
            >>> tally.outcomes["licensed", "kept"], tally.evolved_share, tally.means["clarity"]
            (1, 1.0, 0.5)
        """
        self.kept += len(gated["criteria"])
        self.left_out += len(gated["left_out"])
        self.rejected += len(gated["rejected"])
        for row in gated["criteria"]:
            self.points += abs(row["weight"])
            self.evolved_points += abs(row["weight"]) * (row["origin"] == "evolved")
        for row in (row for part in _PARTS for row in gated[part]):
            self.outcomes.update((said["gate"], said["outcome"]) for said in row["gates"])
        for name, value in gated["quality"].items():
            if value is not None:
                total, n = self.quality.get(name, (0.0, 0))
                self.quality[name] = total + value, n + 1

    @property
    def evolved_share(self) -> float | None:
        """The share of all points that evolved criteria hold; None where there are no points."""
        return self.evolved_points / self.points if self.points else None

    @property
    def means(self) -> dict[str, float | None]:
        """Each of the thirteen measures as its mean over the rubrics that have it; None where none has."""
        from autorubric.synthesis.quality import MEASURES

        sums = {name: self.quality.get(name, (0.0, 0)) for name in MEASURES}
        return {name: total / n if n else None for name, (total, n) in sums.items()}

    def by_gate(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Each gate with its counts by outcome."""
        found = {gate for gate, _ in self.outcomes}
        for gate in [gate for gate in dict.fromkeys((*self.order, *sorted(found))) if gate in found]:
            yield gate, {outcome: self.outcomes[gate, outcome] for outcome in OUTCOMES}

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values, for the manifest."""
        return {
            "kept": self.kept,
            "pitfalls_left_out": self.left_out,
            "rejected": self.rejected,
            "evolved_share": self.evolved_share,
            "by_gate": dict(self.by_gate()),
            "quality": self.means,
        }
