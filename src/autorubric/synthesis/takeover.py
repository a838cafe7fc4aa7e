"""Takes over an output directory of the public RubricHub pipeline: what is finished there is not asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from autorubric.llm.records.ledger import ImportRow, Ledger
from autorubric.synthesis.answering import inputs_digest
from autorubric.synthesis.plan import AnyStage, Plan
from autorubric.synthesis.steps import FULL_STEP_FILES, read_rows, record_id_of


def take_over(directory: Path, plan: Plan, ledger: Ledger) -> Counter[str]:
    """Import every finished field of the step files in `directory`; returns how many by field.

    A field is finished by the seed's rule: present, not blank, and without an error beside it; for evolved
    criteria an empty list is finished too. Each value is kept with a digest of the row fields it was made
    from, so that it stands only as long as those stay as they were.
    """
    counts: Counter[str] = Counter()
    for stage in plan.stages:
        path = directory / FULL_STEP_FILES[stage.step]
        if path.exists():
            finished = _finished(stage, path)
            while rows := list(islice(finished, 500)):
                ledger.record_imports(rows)
                counts[stage.name] += len(rows)
    return counts


def _finished(stage: AnyStage, path: Path) -> Iterator[ImportRow]:
    name = stage.name
    for row in read_rows(path):
        if name in row and stage.holds(row[name]) and not row.get(f"{name}_error"):
            value = {"value": row[name], "model": str(row.get(f"{name}_model") or "unknown")}
            yield ImportRow(record_id_of(row), name, inputs_digest(stage, row), value)
