"""What groups teach: effective criteria, decisive ones, noise of the judge, and what is recommended."""

from __future__ import annotations

import numpy as np
import pytest

from autorubric.metrics.confidence_sequence import Growth
from autorubric.metrics.intervals import Interval
from autorubric.training.audit_log import AuditSummary, CriterionGap
from autorubric.training.group_signals import RewardNoise, measure_noise, measure_signals, recommend
from autorubric.training.observations import Repeat, RewardRecord

NOTES = [{"name": name, "requirement": f"{name}.", "weight": 1.0} for name in ("A", "B", "C")]


def records(rows: list[list[float | None]], size: int = 4) -> list[RewardRecord]:
    return [
        RewardRecord("r", f"g{number // size}", f"a{number}", 10, sum(v or 0.0 for v in row) / 3, None, row)
        for number, row in enumerate(rows)
    ]


def test_copies_of_a_criterion_count_once_and_the_means_of_groups_do_not_count() -> None:
    # A and B always agree; C is independent of them within groups. Group means differ, which is no signal.
    half: list[list[float | None]] = [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    found = measure_signals(records(half * 4), {"r": NOTES}, 0.1, None)
    # Correlations 1, 0, 0: the trace squared over the sum of squares is 9 / (3 + 2) = 1.8.
    assert (found.groups, found.criteria) == (4, 3)
    assert found.effective == pytest.approx(9 / 5)
    constant: list[list[float | None]] = [[1.0, 1.0, 1.0]] * 8
    found = measure_signals(records(constant), {"r": NOTES}, 0.0, None)
    assert (found.effective, found.decisive, found.noise_share) == (None, [], None)


def test_a_criterion_that_decides_most_of_the_variance_is_named() -> None:
    random = np.random.default_rng(1)
    rows: list[list[float | None]] = [
        [float(random.random() < 0.5), float(n % 8 == 0), float(n % 8 == 4)] for n in range(64)
    ]
    notes = [{**note, "weight": weight} for note, weight in zip(NOTES, (9.0, 1.0, 1.0), strict=True)]
    found = measure_signals(records(rows), {"r": notes}, 0.2, None)
    assert [(one.name, one.weight) for one in found.decisive] == [("A", 9.0)]
    assert 0.9 < found.decisive[0].share <= 1.1
    [words] = recommend([], None, found)
    assert words.startswith("reweigh 'A' (weight 9): it decides ")
    assert words.endswith(f"(64 submissions): {NOTES[0]['requirement']}")  # rubrics of rows repeat the name C1


def test_the_noise_of_a_judge_is_half_the_mean_square_of_differences() -> None:
    random = np.random.default_rng(2)
    pairs = random.normal(0.5, 0.1, (4000, 2))
    repeats = [Repeat("g", str(n), None, float(pair[0]), float(pair[1])) for n, pair in enumerate(pairs)]
    noise = measure_noise([*repeats, Repeat("g", "x", None, 0.5, None, "timeout")])
    assert noise is not None and noise.variance is not None
    assert (noise.pairs, noise.failures) == (4000, 1)
    assert noise.variance == pytest.approx(0.01, rel=0.06)
    assert noise.half == pytest.approx(1.96 * 0.1, rel=0.03)
    found = measure_signals(records([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]] * 4), {"r": NOTES}, 0.0125, noise)
    assert found.noise_share == pytest.approx(0.8, rel=0.06)
    assert any(
        "use more judgments" in words and "4,000 submissions judged twice" in words
        for words in recommend([], None, found)
    )
    assert measure_noise([]) is None
    assert measure_noise([Repeat("g", "a", 1, 0.5, None, "timeout")]) == RewardNoise(0, 1, None, None)


def test_recommendations_carry_their_evidence() -> None:
    growth = Growth(50, 200, 0.0, 0.4, Interval(0.1, 0.7, 0.95))
    exploited = [
        CriterionGap("r", "Both", "States the cause and lists three remedies.", 2.0, 200, 0.3, growth, growth, ()),
        CriterionGap("r", "Kind", "Is kind.", 2.0, 40, 0.2, None, None, ()),
        CriterionGap("r", "Few", "Is brief.", 2.0, 3, 1.0, None, None, ()),
    ]
    audit = AuditSummary(200, {}, None, 0.2, None, growth, growth, 0.0, "gap", exploited)
    told = list(recommend([("Short", "met", 1.0, 64, "Has at most 50 words.")], audit, None))
    assert (
        told[0]
        == "drop or replace 'Short': recently met by nearly all (mean 1.00, 64 verdicts): Has at most 50 words."
    )
    assert told[1].startswith(
        "split 'Both': the training judge gives +0.30 more than the audit's judge in 200 audits"
    )
    assert (
        told[2] == "reword 'Kind': the training judge gives +0.20 more than the audit's judge in 40 audits: Is kind."
    )
    assert len(told) == 3
