"""Rollouts of a query with their verdicts, from which its rubric evolves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autorubric.core.report import AnyCriterionReport, Report
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.graders.judge import Query
from autorubric.runs.items_file import parse_report, read_items
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE
from autorubric.training.candidates import read_graded_run

Verdicts = Mapping[str, bool | None]
"""Verdicts by requirement; None or missing if there is no verdict."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One answer of the policy.

    Attributes:
        submission: the text.
        reward: its reward; None if a judgment failed.
        verdicts: verdicts by requirement; a multi-choice criterion counts as met if its value is at least 0.5.
    """

    submission: str
    reward: float | None
    verdicts: Verdicts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """The rollouts of one query under one rubric, oldest first."""

    query: Query | None
    rubric: Rubric
    rollouts: tuple[Rollout, ...]


def map_verdicts(requirements: Iterable[str], values: Iterable[float | None]) -> dict[str, bool | None]:
    """Return verdicts for the values of criteria.

    Example:
        >>> map_verdicts(["Is brief.", "Is kind.", "Is right."], [1.0, 0.0, None])
        {'Is brief.': True, 'Is kind.': False, 'Is right.': None}
    """
    return {name: None if value is None else value >= 0.5 for name, value in zip(requirements, values, strict=False)}


def collect_verdicts(report: Report) -> dict[str, bool | None]:
    """Return the verdicts of a report; None for a failed or abstained judgment."""
    entries: Sequence[AnyCriterionReport] = report.report or ()
    values = [None if entry.is_error else entry.score_value for entry in entries]
    return map_verdicts((entry.criterion.requirement for entry in entries), values)


def read_graded_rollouts(folder: Path) -> list[RolloutGroup]:
    """Return the rollouts of a finished run of `grade` or `select`, by query and rubric.

    Raises:
        InputError: the run is damaged or has not finished, or an item has no prompt.
    """
    run = read_graded_run(folder)
    dataset = RubricDataset.from_stored(folder / DATASET_FILE)
    reports = {record["item_idx"]: parse_report(record["report"]) for record in read_items(folder / ITEMS_FILE)}
    rollouts: dict[str, list[Rollout]] = {query.id: [] for query in run.queries}
    places: dict[str, int] = {}
    for scored in run.scored:
        places.setdefault(scored.candidate.query, scored.place)
        rollout = Rollout(scored.candidate.answer, scored.score, collect_verdicts(reports[scored.place]))
        rollouts[scored.candidate.query].append(rollout)
    return [
        RolloutGroup(dataset.get_item_prompt(places[query.id]), query.rubric, tuple(rollouts[query.id]))
        for query in run.queries
    ]


def choose_rollouts(rollouts: Sequence[Rollout], most: int) -> list[Rollout]:
    """Choose at most `most` rollouts with rewards and distinct texts, spread evenly over the rewards, in their order.

    Example:
        >>> answers = [Rollout(text, reward) for text, reward in zip("abcde", (0.0, 0.2, 0.4, 0.6, None))]
        >>> [one.submission for one in choose_rollouts(answers, 3)]
        ['a', 'c', 'd']
    """
    distinct = {" ".join(rollout.submission.split()): rollout for rollout in rollouts if rollout.reward is not None}
    ranked = sorted(distinct.values(), key=lambda rollout: rollout.reward or 0.0)
    if len(ranked) > most:
        step = (len(ranked) - 1) / (most - 1) if most > 1 else 0.0
        ranked = [ranked[round(place * step)] for place in range(most)]
    chosen = {id(rollout) for rollout in ranked}
    return [rollout for rollout in rollouts if id(rollout) in chosen]
