"""How far a synthesis run is, as its directory shows it from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autorubric.llm.failure_groups import FailureGroups
from autorubric.llm.records.view import LedgerView
from autorubric.runs.status import Standing, counted


def synthesis_standing(directory: Path, manifest: Mapping[str, Any], view: LedgerView | None) -> Standing:
    """Rows that went through every step, and rows with a failed one.

    The manifest counts both, but is written now and then only; in between the ledger shows for how many rows the
    model of the last step has answered.

    Example:
        >>> synthesis_standing(Path("run"), {"counts": {"rows": 9, "finished": 4}, "models": {"merge": "a/b"}}, None)
        Standing(rows=9, done=4, failed=0, calls_per_row=1.0, groups=())
    """
    held = counted(directory, manifest, view)
    models, steps = manifest.get("models"), manifest.get("steps")
    role = str(steps[-1]).removesuffix("s") if isinstance(steps, list) and steps else ""
    slots = [str(slot).split("_")[0] for slot in models] if isinstance(models, Mapping) else []
    taken = {str(step).removesuffix("s") for step in steps} if isinstance(steps, list) else set(slots)
    calls = sum(slot in taken for slot in slots)
    done = held.done
    if view is not None and manifest.get("status") == "running" and role:
        done = max(done, view.answered(role) - held.failed)
    counts = manifest.get("counts")
    groups = FailureGroups.from_list(counts.get("failure_groups") if isinstance(counts, Mapping) else None)
    return Standing(held.rows, done, held.failed, float(calls) or None, tuple(groups))
