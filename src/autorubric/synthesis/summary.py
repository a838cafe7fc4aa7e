"""What a synthesis run came to: rows, criteria, calls, money, and everything that is not finished."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autorubric.files import atomic_writer
from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.records.accounts import Totals
from autorubric.synthesis.export import Exported
from autorubric.synthesis.full.tally import GateTally
from autorubric.synthesis.plan import Plan
from autorubric.synthesis.queries import Query
from autorubric.synthesis.spool import Spool
from autorubric.synthesis.steps import Replaced

UNFINISHED_FILE = "unfinished.jsonl"


@dataclass(slots=True)
class Summary:
    """The figures of a run.

    Attributes:
        rows: usable input rows.
        finished: rows that went through every stage without a failure.
        failed: rows with at least one failed stage; `unfinished.jsonl` lists them with reasons.
        not_reached: rows the run did not come to, or not to the end, because it was stopped.
        skipped: input rows left out, with reasons.
        failures: failed stages, grouped by stage and cause.
        notes: what had to be overlooked to read replies, counted.
        reused: values that came from the input or another pipeline's files, by stage.
        stale: imported values asked anew because what they were made from had changed, by stage.
        overwritten: input values that stood in a stage's field and were none of its values, by stage.
        replaced: rows of the step files that gave way to rows with another question, or under another key.
        totals: calls, tokens and cost by role and model, earlier sessions included.
        calls: calls this session paid for.
        exported: what the final files hold; None when the run ended before the export.
        gates: what each gate kept, rewrote and rejected; None where the plan has no gates.
        stopped: why the run was stopped early; empty when it was not.
        seconds: wall time.
    """

    rows: int
    finished: int = 0
    failed: int = 0
    skipped: tuple[str, ...] = ()
    failures: FailureGroups = field(default_factory=FailureGroups)
    notes: Counter[str] = field(default_factory=Counter)
    reused: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    overwritten: Counter[str] = field(default_factory=Counter)
    replaced: Replaced = field(default_factory=lambda: Replaced(0, 0))
    totals: list[Totals] = field(default_factory=list)
    calls: int = 0
    exported: Exported | None = None
    gates: GateTally | None = None
    stopped: str = ""
    seconds: float = 0.0

    @property
    def not_reached(self) -> int:
        """Rows without an end of their own."""
        return self.rows - self.finished - self.failed

    @property
    def complete(self) -> bool:
        """True when every input row is finished."""
        return self.finished == self.rows and not self.skipped

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values, for the manifest."""
        return {
            "rows": self.rows,
            "finished": self.finished,
            "failed": self.failed,
            "not_reached": self.not_reached,
            "skipped": len(self.skipped),
            "failures": self.failures.counts(),
            "failure_groups": self.failures.to_list(),
            "notes": dict(self.notes.most_common()),
            "reused": dict(self.reused),
            "asked_anew": dict(self.stale),
            "overwritten": dict(self.overwritten),
            "replaced": self.replaced._asdict(),
            "calls_this_session": self.calls,
            "exported_rows": self.exported.rows if self.exported else 0,
            "exported_criteria": self.exported.criteria if self.exported else 0,
            "remarks": list(self.exported.remarks) if self.exported else [],
            "stopped": self.stopped,
            "seconds": round(self.seconds, 3),
            **({"gates": self.gates.as_dict()} if self.gates else {}),
        }


def write_unfinished(directory: Path, plan: Plan, queries: Iterable[Query], spool: Spool) -> None:
    """List every row with a failed stage: its id, its line, and each failure with its reason."""
    path = directory / UNFINISHED_FILE
    if not spool.failed:
        path.unlink(missing_ok=True)
        return
    with atomic_writer(path) as file:
        for query in queries:
            if query.index not in spool.failed:
                continue
            fields = json.loads("{" + ", ".join(p for p in spool.pieces(query.index) or [] if p) + "}")
            failures = {s.name: fields[f"{s.name}_error"] for s in plan.stages if f"{s.name}_error" in fields}
            row = {"record_id": query.record_id, "line": query.index + 1, "failures": failures}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
