"""What a synthesis run returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autorubric.synthesis.estimate import Estimate
    from autorubric.synthesis.summary import Summary


@dataclass(frozen=True)
class SynthesisResult:
    """The result of `autorubric.synthesize`.

    Attributes:
        out: the run directory, with the final files, the step files and the manifest.
        summary: counts of rows, failures and calls; None for a dry run.
        estimate: requests, tokens and cost; None unless it was a dry run.
        negotiated: parameters that endpoints turned out not to accept.
        interrupted: whether a person stopped the run.
    """

    out: Path
    summary: Summary | None = None
    estimate: Estimate | None = None
    negotiated: Sequence[str] = field(default_factory=list)
    interrupted: bool = False

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `final.jsonl`: question, id, rubrics as criterion and points."""
        return self._read("final.jsonl")

    @cached_property
    def full_rows(self) -> list[dict[str, Any]]:
        """The rows of `final_full.jsonl`, with provenance and evidence; empty in the basic profile."""
        return self._read("final_full.jsonl")

    @property
    def complete(self) -> bool:
        """Whether every query is finished."""
        return self.summary is not None and self.summary.complete

    @property
    def cost(self) -> float | None:
        """Dollars spent in this directory, all sessions; None if a price is unknown."""
        totals = self.summary.totals if self.summary else []
        return None if any(total.unpriced for total in totals) else sum(total.cost for total in totals)

    @property
    def failures(self) -> dict[str, int]:
        """Failed stages by kind of failure."""
        return self.summary.failures.counts() if self.summary else {}

    def __repr__(self) -> str:
        if self.summary is None:
            calls = self.estimate.calls if self.estimate else 0
            return f"SynthesisResult(dry run, {calls} calls to make)"
        summary, cost = self.summary, self.cost
        criteria = summary.exported.criteria if summary.exported else 0
        parts = [f"{summary.finished} of {summary.rows} queries finished", f"{criteria} criteria"]
        parts.append("unknown cost" if cost is None else f"${cost:.2f}")
        parts += [f"failures {self.failures}"] if self.failures else []
        return f"SynthesisResult({', '.join(parts)}, out={str(self.out)!r})"

    def _read(self, name: str) -> list[dict[str, Any]]:
        path = self.out / name
        if self.summary is None or not path.exists():
            return []
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
