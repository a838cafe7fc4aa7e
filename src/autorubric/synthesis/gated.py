"""The end of the full profile: the decisions of the gates, and the rubric that is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from autorubric.llm.request import Failure
from autorubric.synthesis.candidate import (
    Candidate,
    GateContext,
    consensus,
    criterion_row,
    read_criteria,
    read_pool,
    read_relevance_rows,
    read_responses,
    replace_rewritten,
)
from autorubric.synthesis.gates import GateDecision, decide, evolved_share, find_final_decisions
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.stages import Fields, Models, Outcome, Stage, find_missing, query_in
from autorubric.synthesis.thresholds import GateSettings

OUTCOMES = ("kept", "rewrite", "rejected", "undecided")
"""What a gate can decide."""

_LEFT_OUT = ("pitfalls_left_out", "left_out")


class RubricCounts:
    """Sums over rubrics, taken one at a time; for the manifest, the summary and the dataset card.

    Attributes:
        order: the gates in the order in which they are listed.
        rows: rubrics.
        criteria: criteria in them.
        pitfalls: criteria with a negative weight among those.
        checks: criteria that a check decides among those.
        points: weights added up, whatever their sign.
        evolved_points: those of evolved criteria.
        left_out: pitfalls that passed the gates and are not in the rubrics.
        rejected: criteria that a gate rejected.
        draws: relevance draws on criteria on which their worth was measured, and `votes`: what those are worth.
    """

    def __init__(self, order: Sequence[str] = ()) -> None:
        self.order = order
        self.rows = self.criteria = self.pitfalls = self.checks = self.left_out = self.rejected = 0
        self.points = self.evolved_points = self.draws = self.votes = 0.0
        self._gates: dict[str, Counter[str]] = {}
        self._quality: dict[str, tuple[float, int]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count the rubric of a row of `final_full` or `final`, or of the field `gated`."""
        criteria = row.get("criteria") or row.get("rubrics") or []
        left_out = [one for name in _LEFT_OUT for one in row.get(name) or ()]
        rejected, rewritten = row.get("rejected") or (), row.get("rewritten") or ()
        self.rows += 1
        self.criteria += len(criteria)
        self.left_out += len(left_out)
        self.rejected += len(rejected)
        for one in criteria:
            weight = find_weight(one)
            self.pitfalls += weight < 0
            self.checks += bool(one.get("check"))
            self.points += abs(weight)
            self.evolved_points += abs(weight) * (one.get("origin") == "evolved")
        for one in (*criteria, *left_out, *rejected, *rewritten):
            for decision in one.get("gates") or ():
                self._gates.setdefault(decision["gate"], Counter())[decision["outcome"]] += 1
                self._count_votes(decision)
        for name, value in (row.get("quality") or {}).items():
            if value is not None:
                total, rows = self._quality.get(name, (0.0, 0))
                self._quality[name] = total + value, rows + 1

    def _count_votes(self, decision: Mapping[str, Any]) -> None:
        figures = decision.get("figures")
        if decision["gate"] == "licensed" and isinstance(figures, Mapping) and figures.get("votes"):
            self.draws += figures["draws"]
            self.votes += figures["votes"]

    @property
    def evolved_share(self) -> float | None:
        """The share of points that evolved criteria hold; None where there are no points."""
        return self.evolved_points / self.points if self.points else None

    @property
    def quality(self) -> dict[str, tuple[float, int]]:
        """The mean of each measure over the rubrics that have it, and how many those are."""
        return {name: (total / rows, rows) for name, (total, rows) in self._quality.items()}

    @property
    def gates(self) -> dict[str, dict[str, int]]:
        """How often each gate decided what."""
        names = [name for name in dict.fromkeys((*self.order, *sorted(self._gates))) if name in self._gates]
        return {name: {outcome: self._gates[name][outcome] for outcome in OUTCOMES} for name in names}

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON values, for the manifest."""
        from autorubric.synthesis.quality import MEASURES

        quality = self.quality
        return {
            "kept": self.criteria,
            "pitfalls_left_out": self.left_out,
            "rejected": self.rejected,
            "evolved_share": self.evolved_share,
            "by_gate": self.gates,
            "quality": {name: quality[name][0] if name in quality else None for name in MEASURES},
        }

    def lines(self) -> Iterator[str]:
        """The lines of the summary; none where nothing was kept."""
        if not self.criteria:
            return
        left_out = f", {self.left_out} pitfalls left out of the files" if self.left_out else ""
        yield f"gates: {self.criteria} criteria kept, {self.rejected} rejected{left_out}"
        gates = self.gates
        width = max(map(len, gates), default=0)
        if gates:
            heads = ("kept", "rewritten", "rejected", "undecided")
            yield "  " + " " * width + "".join(f"{name:>11}" for name in heads)
        for gate, outcomes in gates.items():
            yield f"  {gate:<{width}}" + "".join(f"{count:>11,}" for count in outcomes.values())
        if self.votes:
            draws, votes = (total / sum(gates["licensed"].values()) for total in (self.draws, self.votes))
            yield f"{draws:.1f} relevance draws are worth {votes:.1f} independent votes"
        share = self.evolved_share
        yield f"evolved criteria hold {share:.1%} of the points" if share is not None else "no criterion has points"
        means = self.as_dict()["quality"]
        known = [f"{name} {mean:.2f}" for name, mean in means.items() if mean is not None]
        lost = [name for name, mean in means.items() if mean is None]
        yield f"quality: {', '.join(known)}" + (f"; without evidence: {', '.join(lost)}" if lost else "")


def find_weight(criterion: Mapping[str, Any]) -> float:
    """The weight of a criterion of `final_full`, or its points in `final`."""
    weight = criterion.get("weight")
    return float(criterion.get("points", 0) if weight is None else weight)


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
        """All fields."""
        return (*self.criteria, *self.verdicts, *([self.relevance] if self.relevance else []))

    def context(self, fields: Fields) -> GateContext:
        """The evidence of a row; rewritten criteria replace the old ones."""
        return GateContext(
            query_in(fields),
            replace_rewritten(read_criteria(fields, self.criteria)),
            read_pool(fields, self.judges, self.verdicts),
            read_relevance_rows(fields.get(self.relevance)),
        )

    @staticmethod
    def find_kept(context: GateContext, settings: GateSettings) -> tuple[Candidate, ...]:
        """The criteria that no gate rejects."""
        final = find_final_decisions(decide(context, settings))
        return tuple(one for one in context.candidates if one.id not in final or final[one.id].outcome != "rejected")


def gated_stage(before: Evidence, after: Evidence, texts: Sequence[str], settings: FullSettings) -> Stage:
    """The stage that writes `gated`: the rubric that is left, and its evidence.

    `criteria` and `rejected` hold each criterion with its decisions, `rewritten` those that were replaced, and
    `left_out` pitfalls that passed where they are dropped. A criterion that should have been rewritten and was not
    is rejected. A criterion that no gate could decide stays.
    """

    def build(fields: Fields, models: Models) -> Outcome:
        return find_missing(fields, after.reads) or _gate(fields, before, after, settings)

    return Stage(
        "gated",
        5,
        ("question", "pool", *texts, *dict.fromkeys((*before.reads, *after.reads))),
        build,
        finished=lambda value: isinstance(value, dict) and bool(value.get("criteria")),
        tally=("gates", partial(RubricCounts, settings.gates.order)),
    )


def _gate(fields: Fields, before: Evidence, after: Evidence, settings: FullSettings) -> Outcome:
    from autorubric.synthesis.compiling import compiled, proposals
    from autorubric.synthesis.quality import measures

    context = after.context(fields)
    decisions = decide(context, settings.gates)
    final = find_final_decisions(decisions)
    stopped = {one: decision for one, decision in final.items() if decision.outcome in ("rejected", "rewrite")}
    kept = [one for one in context.candidates if one.id not in stopped]
    if not any(one.weight > 0 for one in kept):
        return Outcome(failure=Failure("missing_input", "missing criteria: the gates kept none that gives points"))
    shown = [one for one in kept if not one.pitfall or settings.pitfalls == "keep"]
    proposed = proposals(context.query_text, shown, context.pool, settings.compile) if settings.compile.on else []
    rubric = compiled(shown, proposed)
    ids, earlier = {one.id for one in context.candidates}, read_criteria(fields, before.criteria)
    old = [one for one in earlier if one.id not in ids]
    if old:  # criteria that were rewritten are shown with the decisions before the rewrite
        decisions += [one for one in decide(before.context(fields), settings.gates) if one.candidate not in ids]
    scored = consensus(rubric, context.pool)
    value = {
        "criteria": [_show(one, decisions) for one in rubric],
        "left_out": [_show(one, decisions) for one in kept if one not in shown],
        "rejected": [
            _show(one, decisions) | _explain(stopped[one.id]) for one in context.candidates if one.id in stopped
        ],
        "rewritten": [_show(one, decisions) for one in old],
        "checks": [one.record() for one in proposed],
        "scores": dict(zip(read_responses(fields), scored.scores, strict=True)),
        "rank_agreement": scored.rank_agreement,
        "evolved_dropped": [one for name in before.criteria for one in fields[name].get("dropped", ())],
        "pairs": [fields[name]["pair"] for name in before.criteria if fields[name].get("pair")],
        "evolved_share": evolved_share(rubric),
        "evolved_share_before": evolved_share(earlier),
        "quality": measures(context.query, rubric, context.pool, context.relevance),
    }
    return Outcome(value, "gates")


def _show(one: Candidate, decisions: Sequence[GateDecision]) -> dict[str, Any]:
    """A criterion with each gate's decision on it."""
    own = [decision for decision in decisions if decision.candidate == one.id]
    return criterion_row(one) | {
        "gates": [{"gate": d.gate, "outcome": d.outcome, "figures": dict(d.figures), "reason": d.reason} for d in own]
    }


def _explain(last: GateDecision) -> dict[str, str]:
    reason = last.reason if last.outcome == "rejected" else f"{last.reason}; it was not rewritten"
    return {"gate": last.gate, "reason": reason}
