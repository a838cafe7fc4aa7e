"""The training signal in groups of rollouts: how many criteria discriminate, which ones decide, and the noise."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autorubric.errors import clip, pluralize
from autorubric.linting import lint_rubric
from autorubric.linting.rules.compound_demands import SEVERAL_DEMANDS
from autorubric.metrics.intervals import normal_quantile
from autorubric.metrics.item_analysis import compute_score_shares, count_effective_criteria
from autorubric.training.audit_log import AuditSummary
from autorubric.training.observations import Repeat, RewardRecord

_MIN_ROWS = 8
_DECISIVE = 0.6  # a criterion that decides this share of the variance within groups, of three or more
_NOISY = 0.5  # noise that is this share of the variance within groups
_MIN_PAIRS = 10
_MIN_AUDITS = 20
_MUCH = 0.1  # a mean gap between the judges on a criterion
_MOST = 3  # recommendations of a kind


@dataclass(frozen=True, slots=True)
class RewardNoise:
    """The noise of the training judge, measured by judging submissions twice.

    Attributes:
        pairs: submissions judged twice.
        failures: repetitions without a reward.
        variance: of a single reward around its mean over judgments; None for fewer than two pairs.
        half: half the width of a single reward's 95% interval (normal approximation); None for fewer than two pairs.
    """

    pairs: int
    failures: int
    variance: float | None
    half: float | None


@dataclass(frozen=True, slots=True)
class Decisive:
    """A criterion that decides much of the variance within groups."""

    name: str
    requirement: str
    weight: float
    share: float
    submissions: int


@dataclass(frozen=True, slots=True)
class GroupSignals:
    """The training signal in the groups of the last window.

    Attributes:
        groups: the number of groups of two or more rewards.
        variance: the variance of rewards within groups; None if no group has two.
        criteria: the mean number of criteria in their rubrics; None without groups.
        effective: the effective number of independent criteria within groups; None if all are constant.
        decisive: criteria that decide most of the variance within groups, the strongest first.
        noise: the training judge's noise over the whole run; None without repeated judgments.
        noise_share: the share of the variance within groups that is the judge's noise, at most 1; None if unknown.
    """

    groups: int
    variance: float | None
    criteria: float | None
    effective: float | None
    decisive: Sequence[Decisive]
    noise: RewardNoise | None
    noise_share: float | None


def measure_noise(repeats: Sequence[Repeat]) -> RewardNoise | None:
    """Return the noise of the training judge; None without repeated judgments.

    Example:
        >>> noise = measure_noise([Repeat("g", "a", 1, 0.5, 0.7), Repeat("g", "b", 1, 0.5, 0.5)])
        >>> round(noise.variance, 3), round(noise.half, 3)
        (0.01, 0.196)
    """
    if not repeats:
        return None
    squares = [(repeat.first - repeat.again) ** 2 for repeat in repeats if repeat.again is not None]
    # The difference of two judgments has twice the variance of one.
    variance = math.fsum(squares) / len(squares) / 2 if len(squares) > 1 else None
    half = None if variance is None else normal_quantile(0.975) * math.sqrt(variance)
    return RewardNoise(len(squares), len(repeats) - len(squares), variance, half)


def measure_signals(
    records: Sequence[RewardRecord],
    notes: Mapping[str, Sequence[Mapping[str, Any]]],
    variance: float | None,
    noise: RewardNoise | None,
) -> GroupSignals:
    """Measure the training signal in groups of rollouts.

    Args:
        records: the rewards of the last window.
        notes: the recorded criteria by the rubric's digest.
        variance: the variance of these rewards within groups.
        noise: the training judge's noise.
    """
    groups: dict[tuple[str, str, int | None], list[RewardRecord]] = {}
    for record in records:
        if record.reward is not None:
            groups.setdefault(record.rollouts, []).append(record)
    several = {key: members for key, members in groups.items() if len(members) > 1}
    apart: dict[str, list[npt.NDArray[np.float64]]] = {}
    for (rubric, *_), members in several.items():
        apart.setdefault(rubric, []).append(_compute_deviations(members))
    effective: list[tuple[float, int]] = []
    decisive: list[Decisive] = []
    for rubric, tables in apart.items():
        table = np.concatenate(tables)
        if len(table) >= _MIN_ROWS and (found := count_effective_criteria(table)) is not None:
            effective.append((found, len(table)))
            decisive += _find_decisive(table, notes.get(rubric, ()))
    rows = sum(count for _, count in effective)
    share = None
    if noise is not None and noise.variance is not None and noise.pairs >= _MIN_PAIRS and variance:
        share = min(1.0, noise.variance / variance)
    return GroupSignals(
        len(several),
        variance,
        sum(len(members[0].values) for members in several.values()) / len(several) if several else None,
        sum(found * count for found, count in effective) / rows if rows else None,
        sorted(decisive, key=lambda one: -one.share),
        noise,
        share,
    )


def _compute_deviations(members: Sequence[RewardRecord]) -> npt.NDArray[np.float64]:
    """Return the values of each criterion minus their mean over the group; NaN where a rollout has no value."""
    table = np.array([record.values for record in members], dtype=float)
    seen = ~np.isnan(table)
    means = np.where(seen, table, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return np.asarray(table - means)


def _find_decisive(table: npt.NDArray[np.float64], criteria: Sequence[Mapping[str, Any]]) -> Iterator[Decisive]:
    shares = (
        compute_score_shares(table, [criterion["weight"] for criterion in criteria]) if len(criteria) > 2 else None
    )
    for note, share in zip(criteria, () if shares is None else shares, strict=False):
        if share >= _DECISIVE:
            yield Decisive(note["name"], note["requirement"], note["weight"], float(share), len(table))


def recommend(
    saturated: Sequence[tuple[str, str, float, int, str]], audit: AuditSummary | None, signals: GroupSignals | None
) -> Iterator[str]:
    """Yield recommendations for the rubric or the judge, with the evidence, one sentence each.

    Args:
        saturated: name, kind, recent mean, verdict count and text of saturated criteria, heaviest first.
        audit: the findings of audits.
        signals: the training signal in groups.
    """
    for name, end, recent, count, requirement in saturated[:_MOST]:
        seen = f"mean {recent:.2f}, {pluralize(count, 'verdict')}"
        yield f"drop or replace {name!r}: recently {end} by nearly all ({seen}): {clip(requirement, 70)}"
    for gap in [] if audit is None else audit.criteria:
        if gap.alarm is not None or (gap.count >= _MIN_AUDITS and gap.mean >= _MUCH):
            evidence = f"the training judge gives {gap.mean:+.2f} more than the audit's judge in {gap.count:,} audits"
            rubric = [{"requirement": gap.requirement}] if gap.requirement else []
            found = [one.message for one in lint_rubric(rubric, rules=(SEVERAL_DEMANDS,))]
            told = f", and it has several demands ({found[0]})" if found else ""
            yield f"{'split' if found else 'reword'} {gap.name!r}: {evidence}{told}: {clip(gap.requirement, 70)}"
    if signals is None:
        return
    for each in signals.decisive[:_MOST]:
        yield (
            f"reweigh {each.name!r} (weight {each.weight:g}): it decides {each.share:.0%} of the variance within "
            f"groups ({pluralize(each.submissions, 'submission')}): {clip(each.requirement, 70)}"
        )
    if signals.noise is not None and signals.noise_share is not None and signals.noise_share >= _NOISY:
        yield (
            f"use more judgments (--repeat, or a panel): the judge's noise is {signals.noise_share:.0%} of the "
            f"variance within groups ({pluralize(signals.noise.pairs, 'submission')} judged twice)"
        )
