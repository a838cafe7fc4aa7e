"""The result of a synthesis run: rows, calls, cost, unfinished rows, and the counts of criteria and gates."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.errors import pluralize
from autorubric.files import atomic_writer
from autorubric.llm.failure_groups import NOT_MADE, FailureGroups, quote_text
from autorubric.llm.records.accounts import UsageTotals
from autorubric.synthesis.final_files import Exported
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.stage_runner import Row
from autorubric.synthesis.stages import Plan
from autorubric.synthesis.steps import RowStore

if TYPE_CHECKING:
    from autorubric.llm.records.ledger_view import LedgerView
    from autorubric.runs.run_status import RowCounts
    from autorubric.synthesis.plan_estimate import PlanEstimate

UNFINISHED_FILE = "unfinished.jsonl"
# The parts in which notes of one kind differ; a word as weight ("weight is 'High'") is the reason and stays.
_VARYING = re.compile(r"""\d+|(?!(?<=weight is )'[^\W\d_]{1,12}')(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\")""")


@dataclass(slots=True)
class Summary:
    """The counts of a run.

    Attributes:
        rows: usable input rows.
        finished: rows that went through every stage without a failure.
        failed: rows with at least one failed stage; `unfinished.jsonl` lists them with reasons.
        skipped: input rows left out, with reasons.
        failures: failed stages, grouped by stage and cause.
        notes: what was ignored or corrected when replies were read, counted by kind: without numbers and quotations.
        examples: a note of each kind, the first in alphabetical order.
        reused: values that came from the input or another pipeline's files, by stage.
        stale: imported values that were not used because their inputs had changed, by stage.
        overwritten: unusable input values in a stage's field, by stage.
        replaced: rows of the step files that were replaced, as `write_steps` counts them.
        totals: calls, tokens and cost by role and model, earlier sessions included.
        calls: calls this session paid for.
        exported: what the final files contain; None if the run ended before the export.
        tallies: the counts of stages that have any, by name.
        stopped: why the run was stopped early; empty if it was not.
        seconds: wall time.
    """

    rows: int
    finished: int = 0
    failed: int = 0
    skipped: tuple[str, ...] = ()
    failures: FailureGroups = field(default_factory=FailureGroups)
    notes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    reused: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    overwritten: Counter[str] = field(default_factory=Counter)
    replaced: Counter[str] = field(default_factory=lambda: Counter(changed=0, moved=0))
    totals: list[UsageTotals] = field(default_factory=list)
    calls: int = 0
    exported: Exported | None = None
    tallies: Mapping[str, RubricCounts] = field(default_factory=dict)
    stopped: str = ""
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """True when every input row is finished."""
        return self.finished == self.rows and not self.skipped

    def add(self, row: Row, plan: Plan, *, failed: bool) -> None:
        """Count a row that ended; `failed` if one of its stages failed."""
        own = [(name, failure) for name, failure in row.failures.items() if failure.kind not in NOT_MADE]
        # A missing input is caused by another failure, or by filters or gates that left nothing.
        for name, failure in [one for one in own if one[1].kind != "missing_input"] or own[:1]:
            self.failures.add(failure.kind, failure.message, row.query.record_id, name)
        for note in (note for outcome in row.outcomes.values() for note in outcome.notes):
            kind = _VARYING.sub("#", note)
            self.notes[kind] += 1
            self.examples[kind] = min(note, self.examples.get(kind, note))
        for stage in plan.stages:
            if stage.tally and row.fields.get(stage.name):
                self.tallies[stage.tally[0]].add(row.fields[stage.name])
        self.finished += not row.failures
        self.failed += failed

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values, for the manifest."""
        return {
            "rows": self.rows,
            "finished": self.finished,
            "failed": self.failed,
            "not_reached": self.rows - self.finished - self.failed,
            "skipped": len(self.skipped),
            "failures": self.failures.count_by_kind(),
            "failure_groups": self.failures.to_list(),
            "notes": self.count_notes(),
            "reused": dict(self.reused),
            "asked_anew": dict(self.stale),
            "overwritten": dict(self.overwritten),
            "replaced": dict(self.replaced),
            "calls_this_session": self.calls,
            "exported_rows": self.exported.rows if self.exported else 0,
            "exported_criteria": self.exported.criteria if self.exported else 0,
            "remarks": list(self.exported.remarks) if self.exported else [],
            "stopped": self.stopped,
            "seconds": round(self.seconds, 3),
            **{name: tally.as_dict() for name, tally in self.tallies.items()},
        }

    def count_notes(self) -> dict[str, int]:
        """Return an example of each kind of note with the number of its notes, the most frequent first."""
        return {self.examples.get(kind, kind): count for kind, count in self.notes.most_common()}

    def restore(self, counts: Mapping[str, Any]) -> None:
        """Restore the counts of a finished run, as `as_dict` returns them, and what it `exported`."""
        self.finished = counts["finished"]
        self.notes, self.reused = Counter(counts["notes"]), Counter(counts["reused"])
        self.stale, self.overwritten = Counter(counts["asked_anew"]), Counter(counts["overwritten"])
        if (exported := counts["exported"]) is not None:
            self.exported = Exported(**(exported | {"remarks": tuple(exported["remarks"])}))


def write_unfinished(directory: Path, plan: Plan, queries: Iterable[Query], store: RowStore) -> None:
    """Write every row with a failed stage: its id, its line, and each failure with its reason."""
    with atomic_writer(directory / UNFINISHED_FILE) as file:
        for query in (one for one in queries if one.index in store.failed):
            fields = store.read(query.index)
            failures = {s.name: fields[f"{s.name}_error"] for s in plan.stages if f"{s.name}_error" in fields}
            row = {"record_id": query.record_id, "line": query.index + 1, "failures": failures}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def find_progress(directory: Path, manifest: Mapping[str, Any], view: LedgerView | None) -> RowCounts:
    """Read the progress of a run from its files: rows that went through every step, and rows with a failed step.

    The manifest counts both, but is written only from time to time; in between, the ledger shows for how many rows
    the model of the last step has replied.
    """
    from autorubric.runs.run_status import RowCounts, count_rows

    counts, steps = count_rows(directory, manifest, view), manifest.get("steps")
    role = str(steps[-1]).removesuffix("s") if isinstance(steps, list) and steps else ""
    slots = [str(slot).split("_")[0] for slot in manifest.get("models") or ()]
    taken = {str(step).removesuffix("s") for step in steps} if isinstance(steps, list) else set(slots)
    calls = sum(slot in taken for slot in slots)
    done = counts.done
    if view is not None and manifest.get("status") == "running" and role:
        done = max(done, view.count_answered_items(role) - counts.failed)
    groups = FailureGroups.from_list((manifest.get("counts") or {}).get("failure_groups"))
    return RowCounts(counts.rows, done, counts.failed, float(calls) or None, tuple(groups))


@dataclass(frozen=True)
class SynthesisResult:
    """The result of `autorubric.synthesize`.

    Attributes:
        out: the run directory, with the final files, the step files and the manifest.
        summary: counts of rows, failures and calls; None for a dry run.
        estimate: requests, tokens and cost; None unless it was a dry run.
        negotiated: for each model, the parameters that its endpoint did not accept, if that may affect replies.
        interrupted: whether the run was interrupted.
        advice: what to do about the failure that stopped it.

    Example:
        >>> import tempfile
        >>> from autorubric import synthesize
        >>> made = synthesize(["Why does ice float?"], models="builtin/offline", out=tempfile.mkdtemp())
        >>> made.complete, made.rows[0]["question"], sorted(made.rows[0]["rubrics"][0])
        (True, 'Why does ice float?', ['criterion', 'points'])
    """

    out: Path
    summary: Summary | None = None
    estimate: PlanEstimate | None = None
    negotiated: Sequence[str] = field(default_factory=list)
    interrupted: bool = False
    advice: str = ""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `final.jsonl`: question, id, rubrics as criterion and points."""
        path = self.out / "final.jsonl"
        if self.summary is None or not path.exists():
            return []
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]

    @property
    def stopped(self) -> str | None:
        """Why the run ended early (budget, a refused key); None if it did not."""
        return (self.summary and self.summary.stopped) or None

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
        return self.summary.failures.count_by_kind() if self.summary else {}

    def __repr__(self) -> str:
        if self.summary is None:
            calls = self.estimate.calls if self.estimate else 0
            return f"SynthesisResult(dry run, {pluralize(calls, 'call')} to make)"
        summary, cost = self.summary, self.cost
        criteria = summary.exported.criteria if summary.exported else 0
        parts = [
            f"{summary.finished} of {pluralize(summary.rows, 'query')} finished",
            pluralize(criteria, "criterion"),
            "unknown cost" if cost is None else f"${cost:.2f}",
        ]
        parts += [f"failures {self.failures}"] if self.failures else []
        parts += self.negotiated
        parts += [f"stopped: {quote_text(self.stopped)}"] if self.stopped else []
        return f"SynthesisResult({', '.join(parts)}, out={str(self.out)!r})"


OUTCOMES = ("kept", "rewrite", "rejected", "undecided")
"""The possible decisions of a gate."""

_LEFT_OUT = ("pitfalls_left_out", "left_out")


class RubricCounts:
    """Sums over rubrics, added one at a time, for the manifest, the summary and the dataset card.

    Attributes:
        order: the gates in the order in which they are listed.
        rows: the number of rubrics.
        criteria: the number of their criteria.
        pitfalls: the number of criteria with a negative weight.
        checks: the number of criteria decided by a check.
        points: the sum of the positive weights.
        evolved_points: the sum of the positive weights of evolved criteria.
        left_out: pitfalls that passed the gates and are not in the rubrics.
        rejected: criteria that a gate rejected.
        draws: relevance draws whose worth was measured; `votes`: the number of independent votes that they are worth.
    """

    def __init__(self, order: Sequence[str] = ()) -> None:
        self.order = order
        self.rows = self.criteria = self.pitfalls = self.checks = self.left_out = self.rejected = 0
        self.points = self.evolved_points = self.draws = self.votes = 0.0
        self._gates: dict[str, Counter[str]] = {}
        self._quality: dict[str, list[float]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count the rubric of a row of `final_full` or `final`, or of the field `gated`."""
        criteria = row.get("criteria") or row.get("rubrics") or []
        left_out = [criterion for name in _LEFT_OUT for criterion in row.get(name) or ()]
        rejected, rewritten = row.get("rejected") or (), row.get("rewritten") or ()
        self.rows += 1
        self.criteria += len(criteria)
        self.left_out += len(left_out)
        self.rejected += len(rejected)
        for criterion in criteria:
            weight = find_weight(criterion)
            self.pitfalls += weight < 0
            self.checks += bool(criterion.get("check"))
            self.points += max(weight, 0)
            self.evolved_points += max(weight, 0) * (criterion.get("origin") == "evolved")
        for criterion in (*criteria, *left_out, *rejected, *rewritten):
            for decision in criterion.get("gates") or ():
                outcome = decision["outcome"]
                if outcome == "rewrite" and criterion in rejected:  # the rewrite failed
                    outcome = "rejected"
                self._gates.setdefault(decision["gate"], Counter())[outcome] += 1
                self._count_votes(decision)
        for name, value in (row.get("quality") or {}).items():
            if value is not None:
                self._quality.setdefault(name, []).append(value)

    def _count_votes(self, decision: Mapping[str, Any]) -> None:
        figures = decision.get("figures")
        if decision["gate"] == "licensed" and isinstance(figures, Mapping) and figures.get("votes"):
            self.draws += figures["draws"]
            self.votes += figures["votes"]

    @property
    def evolved_share(self) -> float | None:
        """Evolved criteria's share of the points; None without points."""
        return self.evolved_points / self.points if self.points else None

    @property
    def quality(self) -> dict[str, tuple[float, int]]:
        """The mean of each measure over the rubrics that have it, and the number of these rubrics."""
        return {name: (math.fsum(found) / len(found), len(found)) for name, found in self._quality.items()}

    @property
    def gates(self) -> dict[str, dict[str, int]]:
        """The number of decisions by gate and outcome."""
        names = [name for name in dict.fromkeys((*self.order, *sorted(self._gates))) if name in self._gates]
        return {name: {outcome: self._gates[name][outcome] for outcome in OUTCOMES} for name in names}

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values, for the manifest."""
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

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of the summary; none if nothing was kept."""
        if not self.criteria:
            return
        left_out = f", {self.left_out} pitfalls left out of the files" if self.left_out else ""
        yield f"gates: {pluralize(self.criteria, 'criterion')} kept, {self.rejected} rejected{left_out}"
        gates = self.gates
        width = max(map(len, gates), default=0)
        if gates:
            yield "  " + " " * width + "".join(f"{head:>11}" for head in ("kept", "rewritten", *OUTCOMES[2:]))
        for gate, outcomes in gates.items():
            yield f"  {gate:<{width}}" + "".join(f"{count:>11,}" for count in outcomes.values())
        if self.votes:
            draws, votes = (total / sum(gates["licensed"].values()) for total in (self.draws, self.votes))
            yield f"relevance: {draws:.1f} draws per criterion, equivalent to {votes:.1f} independent votes"
        share = self.evolved_share
        yield f"evolved criteria have {share:.1%} of the points" if share is not None else "no criterion has points"
        means = self.as_dict()["quality"]
        known = [f"{name} {mean:.2f}" for name, mean in means.items() if mean is not None]
        lost = [name for name, mean in means.items() if mean is None]
        yield f"quality: {', '.join(known)}" + (f"; without evidence: {', '.join(lost)}" if lost else "")


def find_weight(criterion: Mapping[str, Any]) -> float:
    """Return the weight of a criterion of `final_full`, or its points in `final`."""
    weight = criterion.get("weight")
    return float(criterion.get("points", 0) if weight is None else weight)
