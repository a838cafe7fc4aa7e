"""The end of the full profile: each gate's decisions, the rubric that is left, and the counts of a whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from autorubric.llm.request import Failure
from autorubric.synthesis.candidate import (
    Candidate,
    Relevance,
    consensus,
    criterion_row,
    read_criteria,
    read_pool,
    read_responses,
    replace_rewritten,
)
from autorubric.synthesis.gates import GateContext, GateDecision, decide, evolved_share, find_final_decisions
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.stages import Fields, Models, Outcome, Stage, missing, query_in
from autorubric.synthesis.thresholds import GateSettings

_PARTS = ("criteria", "left_out", "rejected", "rewritten")
OUTCOMES = ("kept", "rewrite", "rejected", "undecided")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The fields that decisions on criteria are based on.

    Attributes:
        judges: who gave each row of verdicts; one judge's draws share its name.
        criteria: the fields that hold criteria, the merged ones first.
        verdicts: the fields that hold verdicts.
        relevance: the field that holds relevance; empty where no gate needs it.
    """

    judges: tuple[str, ...]
    criteria: tuple[str, ...]
    verdicts: tuple[str, ...]
    relevance: str

    @property
    def reads(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.criteria, *self.verdicts, *([self.relevance] if self.relevance else []))

    def context(self, fields: Fields) -> GateContext:
        """What the gates are shown of a row; rewritten criteria replace the old ones."""
        return GateContext(
            query_in(fields),
            replace_rewritten(read_criteria(fields, self.criteria)),
            read_pool(fields, self.judges, self.verdicts),
            {one: Relevance(**said) for one, said in (fields.get(self.relevance) or {}).items()},
        )

    def decide(self, fields: Fields, settings: GateSettings) -> list[GateDecision]:
        """The gates' decisions on a row's criteria."""
        return decide(self.context(fields), settings)

    def find_kept(self, fields: Fields, settings: GateSettings) -> tuple[Candidate, ...]:
        """The criteria of a row that no gate rejects."""
        final = find_final_decisions(self.decide(fields, settings))
        candidates = self.context(fields).candidates
        return tuple(one for one in candidates if one.id not in final or final[one.id].outcome != "rejected")


def gated_stage(before: Evidence, after: Evidence, texts: Sequence[str], settings: FullSettings) -> Stage:
    """The stage that writes `gated`: the rubric that is left, and its evidence.

    `criteria` and `rejected` hold each criterion with its decisions, `rewritten` those that were replaced, and
    `left_out` pitfalls that passed where they are dropped. A criterion that should have been rewritten and was not
    is rejected. A criterion that no gate could decide stays.
    """

    def build(fields: Fields, models: Models) -> Outcome:
        absent = [name for name in after.reads if fields.get(name) is None]
        if absent:
            return missing(absent[0])
        return _gate(fields, before, after, settings)

    return Stage(
        "gated",
        5,
        ("question", "pool", *texts, *dict.fromkeys((*before.reads, *after.reads))),
        build,
        finished=lambda value: isinstance(value, dict) and bool(value.get("criteria")),
        tally=("gates", partial(GateTally, settings.gates.order)),
    )


def _gate(fields: Fields, before: Evidence, after: Evidence, settings: FullSettings) -> Outcome:
    from autorubric.synthesis.compiling import compiled, proposals
    from autorubric.synthesis.quality import measures

    context = after.context(fields)
    decisions = decide(context, settings.gates)
    final = find_final_decisions(decisions)
    kept = [one for one in context.candidates if _stays(final.get(one.id))]
    if not any(one.weight > 0 for one in kept):
        return Outcome(failure=Failure("missing_input", "missing criteria: the gates kept none that gives points"))
    shown = [one for one in kept if not one.pitfall or settings.pitfalls == "keep"]
    compiling = settings.compile
    proposed = proposals(context.query_text, shown, context.pool, compiling) if compiling.on else []
    rubric = compiled(shown, proposed)
    ids = {one.id for one in context.candidates}
    old = [one for one in read_criteria(fields, before.criteria) if one.id not in ids]
    # If nothing was rewritten, the decisions before the rewrite are the ones now.
    earlier = before.decide(fields, settings.gates) if old else []
    said = [*decisions, *(one for one in earlier if one.candidate not in ids)]
    scored = consensus(rubric, context.pool)
    value = {
        "criteria": [_show_decisions(one, said) for one in rubric],
        "left_out": [_show_decisions(one, said) for one in kept if one not in shown],
        "rejected": [_show_rejection(one, said, final[one.id]) for one in context.candidates if one not in kept],
        "rewritten": [_show_decisions(one, said) for one in old],
        "checks": [one.record() for one in proposed],
        "scores": dict(zip(read_responses(fields), scored.scores, strict=True)),
        "rank_agreement": scored.rank_agreement,
        "evolved_dropped": [one for name in before.criteria for one in fields[name].get("dropped", ())],
        "pairs": [fields[name]["pair"] for name in before.criteria if fields[name].get("pair")],
        "evolved_share": evolved_share(rubric),
        "evolved_share_before": evolved_share(read_criteria(fields, before.criteria)),
        "quality": dict(measures(context.query, rubric, context.pool, context.relevance)),
    }
    return Outcome(value, "gates")


def _stays(decision: GateDecision | None) -> bool:
    return decision is None or decision.outcome in ("kept", "undecided")


def _show_decisions(one: Candidate, decisions: Sequence[GateDecision]) -> dict[str, Any]:
    """A criterion with each gate's decision on it."""
    said = [
        {"gate": d.gate, "outcome": d.outcome, "figures": dict(d.figures), "reason": d.reason}
        for d in decisions
        if d.candidate == one.id
    ]
    return criterion_row(one) | {"gates": said}


def _show_rejection(one: Candidate, decisions: Sequence[GateDecision], last: GateDecision) -> dict[str, Any]:
    reason = last.reason if last.outcome == "rejected" else f"{last.reason}; no rewrite of it came"
    return _show_decisions(one, decisions) | {"gate": last.gate, "reason": reason}


@dataclass(slots=True)
class GateTally:
    """Counts over all queries: what the gates kept and rejected, what evolution holds, and the quality measures.

    Attributes:
        order: of the gates.
        outcomes: counts by (gate, outcome).
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
        """Count one row's `gated` field."""
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
        """The share of all points that evolved criteria hold; None if there are no points."""
        return self.evolved_points / self.points if self.points else None

    @property
    def means(self) -> dict[str, float | None]:
        """The mean of each quality measure over the rubrics that have it; None where none has."""
        from autorubric.synthesis.quality import MEASURES

        sums = {name: self.quality.get(name, (0.0, 0)) for name in MEASURES}
        return {name: total / n if n else None for name, (total, n) in sums.items()}

    def by_gate(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Each gate with its counts by outcome."""
        found = {gate for gate, _ in self.outcomes}
        for gate in [gate for gate in dict.fromkeys((*self.order, *sorted(found))) if gate in found]:
            yield gate, {outcome: self.outcomes[gate, outcome] for outcome in OUTCOMES}

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON values, for the manifest."""
        return {
            "kept": self.kept,
            "pitfalls_left_out": self.left_out,
            "rejected": self.rejected,
            "evolved_share": self.evolved_share,
            "by_gate": dict(self.by_gate()),
            "quality": self.means,
        }

    def lines(self) -> Iterator[str]:
        """The lines of the summary; none where nothing was kept."""
        if not self.kept:
            return
        left_out = f", {self.left_out} pitfalls kept out of the files" if self.left_out else ""
        yield f"gates: {self.kept} criteria kept, {self.rejected} rejected{left_out}"
        counts = dict(self.by_gate())
        width = max(map(len, counts), default=0)
        if counts:
            yield (
                "  " + " " * width + "".join(f"{name:>11}" for name in ("kept", "rewritten", "rejected", "undecided"))
            )
        for gate, by_outcome in counts.items():
            yield f"  {gate:<{width}}" + "".join(f"{by_outcome[outcome]:>11,}" for outcome in OUTCOMES)
        share = self.evolved_share
        yield f"evolved criteria hold {share:.1%} of the points" if share is not None else "no criterion has points"
        known = [f"{name} {mean:.2f}" for name, mean in self.means.items() if mean is not None]
        lost = [name for name, mean in self.means.items() if mean is None]
        yield f"quality: {', '.join(known)}" + (f"; without evidence: {', '.join(lost)}" if lost else "")
