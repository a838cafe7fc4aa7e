"""How a reward moved: windows, groups, saturation, the gap between judges."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, Rubric, drift
from autorubric.cli.app import run as command
from autorubric.training.adapters.trl import reward_function
from autorubric.training.observations import RewardRecord, is_training, parse_failure_kind
from autorubric.training.reward_drift import Drift, find_recommendations, find_warnings, measure_drift
from autorubric.training.rewarder import Sample, make_rewarder, rewards_now
from autorubric.training.rewards import RewardRule
from tests.offenders import each
from tests.processes import wait_until

Timed = tuple[float, RewardRecord]


def one(
    at: float,
    reward: float | None = 0.5,
    group: str = "g",
    characters: int = 100,
    values: Sequence[float | None] = (1.0,),
    failure: str | None = None,
) -> Timed:
    return at, RewardRecord("r", group, f"a{at}", characters, reward, failure, values)


def seen(rewards: Sequence[Timed], windows: int = 2, seconds: Sequence[tuple[float, dict[str, Any]]] = ()) -> Drift:
    criteria = [{"name": f"C{n}", "requirement": f"Requirement {n}", "weight": float(n)} for n in (1, 2, 3)]
    return measure_drift(rewards, len(rewards), [{"rubric": "r", "criteria": criteria}], seconds, windows)


def pair(at: int, first: float, second: float | None) -> tuple[float, dict[str, Any]]:
    values = [None] if second is None else [float(second > 0.5)]
    failure = "timeout" if second is None else None
    seen = {"group": "g", "answer": f"a{at}", "first": first, "second": second, "failure": failure}
    return at + 0.5, {**seen, "first_values": [1.0], "second_values": values}


def test_rewards_without_a_judgment_are_counted_by_kind_and_are_no_zeros() -> None:
    drift = seen([one(0, 1.0), one(1, None, failure="timeout"), one(2, 0.5), one(3, None, failure="timeout")], 1)
    [window] = drift.windows
    assert window.reward == 0.75
    assert (window.rewards, window.failures, window.failed) == (4, {"timeout": 2}, 0.5)
    assert any("50% of the last submissions have no reward (timeout: 2)" in words for words in find_warnings(drift))


def test_the_variance_is_that_within_groups_and_silent_groups_are_counted() -> None:
    # a: 0 and 1, mean 0.5, squares 0.5; b: all 0.2, squares 0; c stands alone. (0.5 + 0) / (1 + 2) = 1/6.
    rewards = [one(0, 0.0, "a"), one(1, 1.0, "a"), *(one(2 + n, 0.2, "b") for n in range(3)), one(9, 0.9, "c")]
    [window] = seen(rewards, 1).windows
    assert window.variance == pytest.approx(1 / 6)
    assert window.silent == 0.5


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100), st.integers(1, 500)), min_size=4, max_size=40))
def test_the_length_effect_is_pearsons_correlation_of_what_is_left_of_the_group_means(
    drawn: list[tuple[int, int, int]],
) -> None:
    # Rewards in steps of a hundredth: what differs less is rounding, and has no correlation worth the name.
    rows = [(group, reward / 100, characters) for group, reward, characters in drawn]
    [window] = seen([one(n, r, str(g), c) for n, (g, r, c) in enumerate(rows)], 1).windows
    left = []
    for group in {g for g, _, _ in rows}:
        found = np.array([(r, c) for g, r, c in rows if g == group], dtype=float)
        if len(found) > 1:
            left.append(found - found.mean(axis=0))
    table = np.concatenate(left) if left else np.zeros((0, 2))
    if window.length_effect is None:
        assert len(table) == 0 or (table[:, 0] @ table[:, 0]) * (table[:, 1] @ table[:, 1]) < 1e-12
    else:
        expected = np.corrcoef(table.T)[0, 1]
        assert window.length_effect == pytest.approx(expected, abs=1e-6)


def test_a_criterion_that_nearly_all_meet_or_miss_lately_is_saturated() -> None:
    # C1 is met from the 16th on, C2 by every other, C3 by none; 40 verdicts, the last quarter is 10.
    rewards = [one(n, n / 40, values=(float(n >= 16), float(n % 2), 0.0)) for n in range(40)]
    drift = seen(rewards)
    assert [(c.name, c.saturated, c.before, c.recent) for c in drift.criteria] == [
        ("C3", "missed", 0.0, 0.0),
        ("C1", "met", 0.2, 1.0),  # 4 of the first 20
        ("C2", None, 0.5, 0.5),
    ]
    # Weights 1, 2 and 3, of which 1 and 3 are saturated.
    assert drift.saturated_weight == pytest.approx(4 / 6)
    [words] = find_warnings(drift)
    assert words.startswith(
        "2 of 3 criteria are saturated, 67% of the weight (1 met by nearly all, 1 by nearly none)"
    )


async def test_a_gate_that_all_meet_has_its_effect_and_is_not_to_be_dropped(tmp_path: Path) -> None:
    names = {"Listed": (), "Tagged": ("gate",), "Free": ()}
    rubric = Rubric(
        [Criterion(name=name, requirement="Mentions the moon.", tags=tags) for name, tags in names.items()]
    )
    source = make_rewarder("builtin/offline", RewardRule(gates=("Listed",)), run_dir=tmp_path / "run")
    await source.rewards([Sample(f"The moon, {n}.", rubric, "Why?", step=1) for n in range(8)])
    await source.finish()
    found = drift(tmp_path / "run")
    assert {one.name: (one.recent, one.saturated) for one in found.criteria} == {
        "Free": (1.0, "met"),
        "Listed": (1.0, None),
        "Tagged": (1.0, None),
    }
    assert [words for words in find_recommendations(found) if "drop" in words] == [
        "drop or replace 'Free': recently met by nearly all (mean 1.00, 8 verdicts): Mentions the moon."
    ]


def test_too_few_verdicts_saturate_nothing_and_failed_ones_do_not_count() -> None:
    rewards = [one(n, values=(1.0, None)) for n in range(7)] + [one(8, values=(None, 1.0))]
    drift = seen(rewards)
    assert [(c.count, c.saturated) for c in drift.criteria] == [(1, None), (7, None)]
    assert drift.saturated_weight is None


def test_windows_hold_as_many_rewards_each_and_the_last_one_the_rest() -> None:
    drift = seen([one(n) for n in range(10)], 4)
    assert [window.rewards for window in drift.windows] == [3, 3, 3, 1]
    assert [(window.start, window.end) for window in drift.windows] == [(0, 2), (3, 5), (6, 8), (9, 9)]
    assert [window.rewards for window in seen([one(n) for n in range(2)], 8).windows] == [1, 1]


def test_growing_submissions_are_warned_of() -> None:
    grown = [one(n, reward=n / 100, characters=100 + 10 * n) for n in range(40)]
    [length] = [words for words in find_warnings(seen(grown)) if "grew" in words]
    # Means 195 and 395; length and reward rise together without a deviation.
    assert "from 195 to 395 characters" in length and "correlate by 1.00" in length
    assert not [words for words in find_warnings(seen([one(n) for n in range(40)])) if "grew" in words]
    # Few submissions a window say nothing of growth, and a small last window does not hide it.
    assert not [words for words in find_warnings(seen(grown[:14])) if "grew" in words]
    assert [words for words in find_warnings(seen(grown[:33], 4)) if "grew" in words]


def test_the_gap_between_the_judges_has_its_interval_and_a_warning_when_it_grows() -> None:
    rng = random.Random(3)
    rewards = [one(n) for n in range(200)]
    steady = [pair(n, 0.8, 0.8 + rng.gauss(0, 0.05)) for n in range(100)]
    parted = [pair(n, 0.9, 0.5 + rng.gauss(0, 0.05)) for n in range(100, 200)]
    drift = seen(rewards, 2, [*steady, *parted])
    first, last = (window.gap for window in drift.windows)
    assert first is not None and last is not None and last.half is not None
    gaps = np.array([value["first"] - value["second"] for _, value in parted])
    assert last.pairs == 100
    # 1.984217 is the 97.5th percentile of Student's t with 99 degrees of freedom.
    assert last.half == pytest.approx(1.984217 * gaps.std(ddof=1) / math.sqrt(100), rel=1e-6)
    assert abs(first.mean) < 0.02 and last.mean == pytest.approx(0.4, abs=0.03)
    assert any("lead over the audit's judge grew" in words for words in find_warnings(drift))


def test_a_late_audit_belongs_to_the_window_of_its_reward() -> None:
    rewards = [one(n) for n in range(4)]
    audited = [(99.0, {**pair(n, 0.8, 0.6)[1], **_key(rewards[n][1])}) for n in (0, 1, 2)]
    again = (4.0, rewards[0][1])  # a reward that is given again was audited the first time
    gaps = [window.gap for window in seen([*rewards, again], 3, audited).windows]
    assert [None if gap is None else gap.pairs for gap in gaps] == [2, 1, None]


def _key(record: RewardRecord) -> dict[str, Any]:
    return {"group": record.group, "answer": record.answer, "step": record.step}


def test_a_second_judge_that_failed_is_no_gap() -> None:
    drift = seen([one(n) for n in range(4)], 1, [pair(0, 0.8, None), pair(1, 0.8, 0.6)])
    gap = drift.windows[0].gap
    assert gap is not None
    assert (gap.pairs, gap.half) == (1, None)
    assert gap.mean == pytest.approx(0.2)


@each(
    ("failure", "kind"),
    [
        ("criterion 'Tone': infrastructure: timeout: no answer in 60 s", "timeout"),
        (
            "criterion 'a: b': infrastructure: rate_limit: HTTP 429: slow down (and 2 more of 3 criteria)",
            "rate_limit",
        ),
        ("criterion 'C1': parse: unreadable: the reply holds no JSON object", "unreadable"),
        ("criterion 'Tone': timeout: no answer in 60 s", "timeout"),
        ("criterion 'Tone': budget of 900 tokens reached after 1 call: 500 spent, and the next", "budget"),
        ("criterion 'C1': check: the text is no table", "check"),
        ("unknown: something broke", "unknown"),
        ("no criterion of positive weight, or a gate, could be assessed", "unassessed"),
    ],
)
def test_the_kind_of_a_failure_is_read_out_of_its_sentence(failure: str, kind: str) -> None:
    assert parse_failure_kind(failure) == kind


def test_rollouts_of_a_later_step_are_another_group() -> None:
    """A query whose rollouts are equal within each step teaches nothing, although its reward changes."""
    steps = [
        (float(at), RewardRecord("r", "g", f"a{at}", 100, float(at // 2 % 2), None, (1.0,), step=at // 2))
        for at in range(8)
    ]
    assert seen(steps, 1).windows[0].silent == 1.0
    one_group = [(at, replace(record, step=None)) for at, record in steps]
    assert seen(one_group, 1).windows[0].silent == 0.0


def test_rewards_of_evaluations_are_counted_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training rollouts mention the moon in steps 2 and 3 only; all of an evaluation do, with the same steps."""
    rubric = Rubric([Criterion(name="Moon", requirement="Mentions the moon.")])
    source = make_rewarder("builtin/offline", run_dir=tmp_path / "run")
    trained: list[float] = []
    evaluated: list[float | None] = []
    for step in range(4):
        texts = [f"{'The moon' if step > 1 else 'Nothing'} {step} {n}." for n in range(4)]
        samples = [Sample(text, rubric, "Why?", step=step) for text in texts]
        trained += [reward.value or 0.0 for reward in rewards_now(source, samples)]
        state = SimpleNamespace(global_step=step)
        columns = {"rubrics": [rubric.to_dict()] * 3, "trainer_state": state}
        said = [f"The moon, {step} {n}." for n in range(3)]
        evaluated += reward_function(source)(["Why?"] * 3, said, None, split=["test"] * 3, **columns)
    wait_until(lambda: drift(tmp_path / "run").evaluations == 12, "12 evaluations are not recorded")
    found = drift(tmp_path / "run", windows=4)
    assert [window.reward for window in found.windows] == [sum(trained[at : at + 4]) / 4 for at in range(0, 16, 4)]
    assert [window.steps for window in found.windows] == [(step, step) for step in range(4)]
    assert evaluated == [1.0] * 12
    assert found.criteria[0].count == 16
    assert command(["drift", str(tmp_path / "run")]) == 0
    assert "left out: 12 rewards of evaluations" in capsys.readouterr().out
    assert [is_training(split) for split in (None, "train", "train_sft", "Train[:90%]", "test")] == [True] * 4 + [
        False
    ]
