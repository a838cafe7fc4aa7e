"""How a reward moves while a policy trains against it: what saturates, what is gamed, where the judge fails.

Rewards are cut into windows of as many rewards each, in the order in which they were given. Rollouts of one query
under one rubric are a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autorubric.training.drift.saturation import FEWEST_VALUES, CriterionDrift, Verdicts
from autorubric.training.drift.windows import Window, window_of
from autorubric.training.observations import Rewarded


@dataclass(frozen=True, slots=True)
class Drift:
    """How the reward of a run moved.

    Attributes:
        windows: in the order of time.
        criteria: those with a verdict: the saturated ones first, of these the heaviest first.
        saturated_weight: the share of the weight of all criteria with enough verdicts that is saturated; None where
            there are no such criteria.
    """

    windows: Sequence[Window]
    criteria: Sequence[CriterionDrift]
    saturated_weight: float | None


def drift_of(
    rewards: Iterable[tuple[float, Rewarded]],
    count: int,
    rubrics: Iterable[Mapping[str, Any]] = (),
    seconds: Iterable[tuple[float, Mapping[str, Any]]] = (),
    windows: int = 8,
) -> Drift:
    """How rewards moved. Memory is four bytes a verdict, and one window of rewards.

    Args:
        rewards: time and reward, oldest first.
        count: how many there are.
        rubrics: the notes of their rubrics (`rubric_note`).
        seconds: time and comparison of each submission that a second judge saw.
        windows: into how many stretches the rewards are cut; fewer where there are fewer rewards.

    Example:
        >>> def given(n):
        ...     return n, Rewarded("r", "g", str(n), 100 + n, n % 2, None, [1.0, n % 2])
        >>> drift = drift_of(map(given, range(32)), 32, [], [], 2)
        >>> [(w.rewards, w.reward, w.characters, w.silent) for w in drift.windows]
        [(16, 0.5, 107.5, 0.0), (16, 0.5, 123.5, 0.0)]
        >>> [(c.name, c.recent, c.saturated) for c in drift.criteria]
        [('C1', 1.0, 'met'), ('C2', 0.5, None)]
    """
    size = max(1, math.ceil(count / max(1, windows)))
    verdicts = Verdicts()
    compared = sorted(seconds, key=lambda pair: pair[0])
    made: list[Window] = []
    for stretch in _stretches(rewards, size):
        for _, one in stretch:
            verdicts.add(one.rubric, one.values)
        last = len(made) + 1 == math.ceil(count / size)
        end = math.inf if last else stretch[-1][0]
        inside = [value for at, value in compared if at <= end]
        compared = compared[len(inside) :]
        made.append(window_of(stretch, inside))
    criteria = verdicts.criteria({note["rubric"]: note["criteria"] for note in rubrics})
    known = [c for c in criteria if c.count >= FEWEST_VALUES]
    whole = sum(abs(c.weight) for c in known)
    saturated = sum(abs(c.weight) for c in known if c.saturated)
    return Drift(made, criteria, saturated / whole if whole else None)


def _stretches(rewards: Iterable[tuple[float, Rewarded]], size: int) -> Iterator[list[tuple[float, Rewarded]]]:
    held: list[tuple[float, Rewarded]] = []
    for one in rewards:
        held.append(one)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held
