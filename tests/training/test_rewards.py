"""From a report to a reward."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, EnsembleCriterionReport, EnsembleEvaluationReport, Rubric
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.errors import ConfigError, InputError
from autorubric.training.rewards import RewardFailed, RewardRule, SoftOverlong, compute_reward
from tests.offenders import each


def entry(weight: float, verdict: str | None, name: str | None = None, **more: Any) -> EnsembleCriterionReport:
    """A judged criterion; a verdict of None is a failed judgment."""
    criterion = Criterion(weight=weight, requirement=f"asks {weight}", name=name, **more)
    error = "timeout: no answer in 60 s" if verdict is None else None
    return EnsembleCriterionReport.model_validate(
        {"criterion": criterion, "final_verdict": verdict, "final_reason": None, "error": error}
    )


def report(*entries: EnsembleCriterionReport) -> EnsembleEvaluationReport:
    return EnsembleEvaluationReport(score=None, report=list(entries))


def test_the_paper_s_form_is_the_met_share_of_positive_weight() -> None:
    # Met: 3 + 2 of 3 + 5 + 2; the pitfall of weight -4 is left out.
    found = compute_reward(
        report(entry(3, "MET"), entry(5, "UNMET"), entry(2, "MET"), entry(-4, "MET")), RewardRule("positive")
    )
    assert found.value == 0.5
    assert list(found.criteria.values()) == [1.0, 0.0, 1.0, 1.0]
    assert found.coverage == 1.0


@each(("formula", "expected"), [("signed", -0.4), ("clipped", 0.0)])
def test_healthbench_s_form_subtracts_pitfalls_raw_or_clipped(formula: Any, expected: float) -> None:
    # (3 - 7) / (3 + 7)
    found = compute_reward(report(entry(3, "MET"), entry(7, "UNMET"), entry(-7, "MET")), RewardRule(formula=formula))
    assert found.value == pytest.approx(expected)


def test_an_option_counts_with_its_value() -> None:
    options = [{"label": "No", "value": 0}, {"label": "Partly", "value": 0.5}, {"label": "Yes", "value": 1}]
    criterion = Criterion(weight=4, requirement="How well?", options=options)
    chosen = EnsembleCriterionReport.model_validate(
        {
            "criterion": criterion,
            "final_verdict": None,
            "final_reason": None,
            "final_multi_choice_verdict": {
                "selected_index": 1,
                "selected_label": "Partly",
                "value": 0.5,
                "aggregated_value": 0.5,
            },
        }
    )
    # (4 · 0.5 + 4 · 1) / 8
    assert compute_reward(report(chosen, entry(4, "MET"))).value == 0.75


def test_a_failed_judgment_is_no_reward_and_never_zero() -> None:
    failed = report(entry(3, "MET"), entry(1, None, "Kind"))
    found = compute_reward(failed)
    assert found.value is None
    assert found.failure == "criterion 'Kind': timeout: no answer in 60 s"
    assert found.criteria["Kind"] is None
    assert found.coverage == 0.5
    value = compute_reward(failed, RewardRule(on_failure="nan")).value
    assert value is not None and math.isnan(value)
    assert compute_reward(failed, RewardRule(on_failure="neutral", neutral=0.4)).value == 0.4
    with pytest.raises(RewardFailed, match="Kind"):
        compute_reward(failed, RewardRule(on_failure="raise"))


@each(("failed", "more"), [(1, ""), (2, " (and 1 more of 3 criteria)"), (3, " (and 2 more of 3 criteria)")])
def test_the_first_failure_is_told_and_the_others_are_counted(failed: int, more: str) -> None:
    judged = [entry(1, None if place < failed else "MET", f"c{place}") for place in range(3)]
    found = compute_reward(report(*judged))
    assert found.failure == f"criterion 'c0': timeout: no answer in 60 s{more}"
    assert (found.value, found.penalty, found.coverage) == (None, 0.0, (3 - failed) / 3)


def test_a_failure_that_cannot_change_the_reward_does_not_take_it() -> None:
    failed_pitfall = report(entry(3, "MET"), entry(-1, None))
    assert compute_reward(failed_pitfall, RewardRule(formula="positive")).value == 1.0
    assert compute_reward(failed_pitfall).value is None
    assert compute_reward(failed_pitfall, RewardRule(formula="signed")).value is None


def test_a_report_without_criteria_is_a_failure_and_names_its_error() -> None:
    found = compute_reward(EnsembleEvaluationReport(score=None, error="unknown: disk full"))
    assert (found.value, found.failure) == (None, "unknown: disk full")


def test_a_gate_that_is_not_met_makes_the_reward_zero() -> None:
    rule = RewardRule(gates=("Safe",))
    assert compute_reward(report(entry(1, "UNMET", "Safe"), entry(9, "MET")), rule).value == 0.0
    assert compute_reward(report(entry(1, "MET", "Safe"), entry(9, "UNMET")), rule).value == 0.1
    closed = compute_reward(report(entry(1, "UNMET", "Safe"), entry(9, None)), rule)
    assert (closed.value, closed.closed, closed.failure) == (0.0, ("Safe",), None)


def test_a_gate_can_be_a_tag_or_a_pitfall() -> None:
    tagged = [entry(1, "MET"), entry(-5, "MET", "Invents", tags=["gate"])]
    assert compute_reward(report(*tagged)).value == 0.0
    assert compute_reward(report(tagged[0], entry(-5, "UNMET", "Invents", tags=["gate"]))).value == 1.0


def test_a_gate_without_a_weight_is_one_that_has_to_be_met() -> None:
    for verdict, expected in (("MET", 1.0), ("UNMET", 0.0)):
        assert compute_reward(report(entry(0, verdict, "Safe", tags=["gate"]), entry(2, "MET"))).value == expected


def test_a_failed_gate_follows_the_policy_and_so_does_one_that_nobody_can_assess() -> None:
    rule = RewardRule(gates=("Safe",), on_failure="neutral", neutral=0.3)
    assert compute_reward(report(entry(-1, None, "Safe"), entry(9, "MET")), rule).value == 0.3
    unknown = compute_reward(report(entry(1, "CANNOT_ASSESS", "Safe"), entry(9, "MET")), rule)
    assert (unknown.value, unknown.failure) == (0.3, "the gate 'Safe' could not be assessed")
    strict = RewardRule(
        gates=("Safe",), cannot_assess=CannotAssessConfig(strategy=CannotAssessStrategy.FAIL), on_failure="raise"
    )
    assert compute_reward(report(entry(1, "CANNOT_ASSESS", "Safe"), entry(9, "MET")), strict).value == 0.0


def test_abstentions_are_left_out_unless_told_otherwise() -> None:
    abstained = report(entry(3, "MET"), entry(1, "CANNOT_ASSESS"))
    assert compute_reward(abstained).value == 1.0
    zero = RewardRule(cannot_assess=CannotAssessConfig(strategy=CannotAssessStrategy.ZERO))
    assert compute_reward(abstained, zero).value == 0.75
    assert compute_reward(abstained, RewardRule(cannot_assess="zero")).value == 0.75
    nothing = compute_reward(report(entry(1, "CANNOT_ASSESS")))
    assert nothing.value is None and nothing.failure is not None and "assessed" in nothing.failure
    # Pitfalls alone give no reward: a judge that abstains on everything else would give the highest one.
    for formula, word in product(("clipped", "positive", "signed"), ("MET", "UNMET")):
        left = compute_reward(report(entry(1, "CANNOT_ASSESS"), entry(-1, word)), RewardRule(cast("Any", formula)))
        assert (left.value, left.failure) == (None, "no criterion with a positive weight could be assessed")


@each(("length", "penalty"), [(0, 0.0), (4096, 0.0), (4097, 0.5 / 4096), (6144, 0.25), (8192, 0.5), (20_000, 0.5)])
def test_the_overlong_penalty_is_linear_in_the_buffer(length: int, penalty: float) -> None:
    found = compute_reward(report(entry(1, "MET")), RewardRule(overlong=SoftOverlong()), length=length)
    assert found.penalty == pytest.approx(penalty)
    assert found.value == pytest.approx(1 - penalty)


def test_a_penalty_without_a_length_is_refused() -> None:
    with pytest.raises(InputError, match="length in tokens"):
        compute_reward(report(entry(1, "MET")), RewardRule(overlong=SoftOverlong()))


@each(
    ("settings", "told"),
    [
        ({"formula": "mean"}, "formula='mean' is not one of clipped, positive, signed"),
        ({"on_failure": "zero"}, "on_failure='zero' is not one of raise, none, nan, neutral"),
        ({"on_failure": "neutral"}, "needs the neutral value"),
        ({"neutral": 0.5}, "neutral=0.5 is given, but on_failure='none'"),
        ({"on_failure": "neutral", "neutral": math.nan}, "expected a finite number"),
        ({"gates": "Safe"}, "expected a tuple"),
        ({"overlong": True}, r"overlong=True; expected SoftOverlong\(\.\.\.\) or None"),
        ({"cannot_assess": "half"}, "cannot_assess='half' is not one of skip, zero, partial, fail"),
        ({"cannot_assess": {}}, "cannot_assess={} is not one of skip"),
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RewardRule(**settings)


@each("length", [0, -1, 1.5, "100", True, None])
def test_an_overlong_length_that_is_no_whole_number_from_1_is_refused(length: Any) -> None:
    for name in ("max_length", "buffer"):
        with pytest.raises(ConfigError, match=f"overlong {name}={length!r}; expected a whole number of at least 1"):
            SoftOverlong(**{name: length})


def test_the_whole_limit_may_be_the_buffer() -> None:
    # A quarter of the buffer beyond 100 - 100 tokens.
    assert SoftOverlong(max_length=100, buffer=100, factor=1.0).penalty(25) == 0.25


def test_an_overlong_buffer_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="longer than max_length"):
        SoftOverlong(max_length=100, buffer=200)
    with pytest.raises(ConfigError, match="factor"):
        SoftOverlong(factor=-1)


@each("formula", ["positive", "signed"])
def test_a_weight_of_0_is_nothing_to_divide_by(formula: Any) -> None:
    rule, worthless = RewardRule(formula), Criterion(weight=0, requirement="Is blue")
    with pytest.raises(InputError, match="no criterion has a positive weight"):
        rule.check([worthless, Criterion(weight=-1, requirement="Lies")])
    rule.check([worthless, Criterion(weight=0.5, requirement="Is kind")])


def test_a_rubric_that_lacks_a_gate_or_a_positive_weight_is_refused_beforehand() -> None:
    with pytest.raises(InputError) as caught:
        RewardRule("signed", gates=("Safe",)).check([Criterion(weight=-1, requirement="Lies")])
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError, match="every criterion has weight 0"):
        RewardRule().check([Criterion(weight=0, requirement="Is brief")])


@each(
    ("judged", "expected"),
    [
        # (10 - 5) / 20, clipped; pitfalls only: 1 - 4/4, 1 - 0/4; options count with their value
        ([(10, "MET"), (10, "UNMET"), (-5, "MET")], 0.25),
        ([(3, "MET"), (-9, "MET")], 0.0),
        ([(-4, "MET")], 0.0),
        ([(-4, "UNMET")], 1.0),
    ],
)
def test_the_default_reward_is_the_score_of_the_rubric(judged: list[tuple[float, str]], expected: float) -> None:
    rubric = Rubric([Criterion(weight=weight, requirement=f"R{n}") for n, (weight, _) in enumerate(judged)])
    assert rubric.compute_score([word for _, word in judged]) == pytest.approx(expected)
    assert compute_reward(report(*(entry(*one) for one in judged))).value == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(1, 10), st.booleans()), min_size=1), st.integers(1, 10))
def test_meeting_one_more_criterion_never_lowers_a_reward(cells: list[tuple[int, bool]], weight: int) -> None:
    def judged(last: str) -> EnsembleEvaluationReport:
        return report(*(entry(w, "MET" if met else "UNMET") for w, met in cells), entry(weight, last))

    for formula in ("positive", "signed", "clipped"):
        rule = RewardRule(formula=formula)
        more, less = compute_reward(judged("MET"), rule).value, compute_reward(judged("UNMET"), rule).value
        assert more is not None and less is not None and 0 <= less < more <= 1
