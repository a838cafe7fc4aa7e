"""Rollouts that are given again after a restart count once; equal rollouts of one step count each."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

from autorubric import Criterion, Note, Rubric
from autorubric.runs.run_folder import open_ledger
from autorubric.training.observations import Observer, Replays
from autorubric.training.rewards import RewardRule
from tests.offenders import each

STEP_1 = [("a", 1), ("a", 1), ("b", 1)]


def counted(replays: Replays, rollouts: list[tuple[str, int | None]]) -> list[int]:
    """The places of the rollouts that count."""
    return [place for place, one in enumerate(rollouts) if replays.is_new(one, one[1])]


@each(
    ("earlier", "asked", "expected"),
    [
        # One session: equal rollouts of a step, and a rollout that comes again at a later step.
        ([], [*STEP_1, ("a", 2)], [0, 1, 2, 3]),
        # A restarted service: all of it again, more of it than before, and a part that was lost at the kill.
        (STEP_1, STEP_1, []),
        (STEP_1, [*STEP_1, ("a", 1)], [3]),
        (STEP_1[:1], STEP_1, [1, 2]),
        # A trainer that resumes at step 1 with the service still up; what it had not reached counts.
        ([], [*STEP_1, ("c", 2), *STEP_1, ("c", 2), ("d", 2)], [0, 1, 2, 3, 8]),
        # A late rollout of step 1 is not a resumed trainer.
        ([], [("a", 1), ("c", 2), ("b", 1), ("c", 2)], [0, 1, 2, 3]),
        # Without steps only a restart of the service shows.
        ([], [("a", None), ("a", None)], [0, 1]),
        ([("a", None)], [("a", None), ("a", None)], [1]),
    ],
)
def test_each_rollout_counts_once(
    earlier: list[tuple[str, int | None]], asked: list[tuple[str, int | None]], expected: list[int]
) -> None:
    assert counted(Replays(earlier), asked) == expected


def test_gates_that_changed_between_sessions_are_noted(tmp_path: Path) -> None:
    rubric = Rubric(
        [Criterion(name="Kind", requirement="Is kind."), Criterion(name="Brief", requirement="Is brief.")]
    )

    async def record(gates: tuple[str, ...]) -> None:
        with open_ledger(tmp_path) as ledger:
            Observer(ledger, rule=RewardRule(gates=gates)).record_rubric(rubric)

    for gates in ((), (), ("Kind",)):
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", Note)
            asyncio.run(record(gates))
        told = [str(note.message).partition(":")[0] for note in notes]
        changed = "the gates of a rubric were [] in an earlier session and are ['Kind'] now"
        assert told == ([changed] if gates else [])
