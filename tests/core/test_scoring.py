import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import CannotAssessConfig, CannotAssessStrategy, Criterion, CriterionVerdict, Rubric
from autorubric.core.scoring import Cell, build_cell, score
from tests.offenders import each

SKIP, ZERO, PARTIAL, FAIL = CannotAssessStrategy
OPTIONS = [
    {"label": "Bad", "value": 0.0},
    {"label": "Good", "value": 1.0},
    {"label": "NA", "value": 0.0, "na": True},
]


def rubric(*weights: float) -> Rubric:
    return Rubric([Criterion(weight=weight, requirement=f"r{n}") for n, weight in enumerate(weights)])


@each(
    ("weights", "verdicts", "expected"),
    [
        ((10, 5), ["MET", "UNMET"], 10 / 15),
        ((10, 5, -6), ["MET", "MET", "MET"], (10 + 5 - 6) / 15),
        ((10, -30), ["MET", "MET"], 0.0),  # 10 - 30 < 0: clamped
        ((10, 5), ["MET", "CANNOT_ASSESS"], 1.0),  # 10 / 10
        ((-4, -6), ["UNMET", "UNMET"], 1.0),  # 1 + 0 / 10
        ((-4, -6), ["MET", "UNMET"], 0.6),  # 1 - 4 / 10
        ((0.5, 0.25), ["MET", "UNMET"], 2 / 3),  # weights that sum to less than 1 are weights too
        ((0.5, -0.25), ["MET", "MET"], 0.5),  # (0.5 - 0.25) / 0.5
        ((-0.5, -0.25), ["MET", "UNMET"], 1 / 3),  # 1 - 0.5 / 0.75
        ((0, 0), ["MET", "MET"], 0.0),
        ((10, 5), ["CANNOT_ASSESS"] * 2, None),
        ((10, -5), ["CANNOT_ASSESS", "UNMET"], None),  # pitfalls alone say nothing about the positive weight
        ((0, -5), ["CANNOT_ASSESS", "UNMET"], 1.0),
    ],
)
def test_a_score_is_the_sum_over_the_positive_weights(
    weights: tuple[float, ...], verdicts: list[CriterionVerdict | str], expected: float | None
) -> None:
    assert rubric(*weights).compute_score(verdicts) == pytest.approx(expected)


# Weights 10 (met), 4 and -6 (abstained): SKIP 10/10; ZERO 10/14; PARTIAL at 0.5 (10 + 2)/14;
# FAIL (10 + 0 - 6)/14.
@each(
    ("strategy", "expected", "raw"),
    [(SKIP, 1.0, 10.0), (ZERO, 10 / 14, 10.0), (PARTIAL, 12 / 14, 12.0), (FAIL, 4 / 14, 4.0)],
)
def test_an_abstention_is_scored_as_the_strategy_says(
    strategy: CannotAssessStrategy, expected: float, raw: float
) -> None:
    verdicts: list[CriterionVerdict | str] = ["MET", "CANNOT_ASSESS", "CANNOT_ASSESS"]
    made = rubric(10, 4, -6)
    assert made.compute_score(verdicts, cannot_assess_strategy=strategy) == pytest.approx(expected)
    assert made.compute_score(verdicts, normalize=False, cannot_assess_strategy=strategy) == raw


def test_an_abstention_on_options_is_left_out() -> None:
    made = Rubric([Criterion.model_validate({"weight": 4, "requirement": "q", "options": OPTIONS}), *rubric(6)])
    for verdict in ("CANNOT_ASSESS", "NA"):
        assert made.compute_score([verdict, "MET"]) == 1.0
        # The worst option counts 0: 6 / 10.
        assert made.compute_score([verdict, "MET"], cannot_assess_strategy=FAIL) == pytest.approx(0.6)


def test_the_worst_case_of_an_option_that_is_not_applicable_is_the_worst_option() -> None:
    positive = Criterion.model_validate({"weight": 4, "requirement": "q", "options": OPTIONS})
    negative = Criterion.model_validate({"weight": -4, "requirement": "r", "options": OPTIONS})
    made = Rubric([positive, negative])
    # Positive: Bad, 0 · 4; negative: Good, 1 · -4.
    assert made.compute_score(["NA", "na "], normalize=False, cannot_assess_strategy=FAIL) == -4.0
    assert made.compute_score(["NA", "NA"]) is None
    assert made.compute_score(["good", "NA"]) == 1.0


def test_bad_verdicts_and_credits_have_their_messages() -> None:
    made = Rubric(
        [
            Criterion(requirement="q", name="Q"),
            Criterion.model_validate({"requirement": "r", "name": "R", "options": OPTIONS}),
        ]
    )
    with pytest.raises(ValueError, match="Expected 2 verdicts, got 1"):
        made.compute_score(["MET"])
    with pytest.raises(ValueError, match=r"Invalid binary verdict 'good'\. Must be"):
        made.compute_score(["good", "Good"])
    with pytest.raises(ValueError, match="'R' requires a label string, got CriterionVerdict"):
        made.compute_score(["MET", CriterionVerdict.MET])
    with pytest.raises(ValueError, match="Label 'Fine' not found"):
        made.compute_score(["MET", "Fine"])
    with pytest.raises(ValueError, match="partial_credit"):
        made.compute_score(["MET", "Good"], partial_credit=5)


def test_partial_credit_is_for_positive_weights_however_small() -> None:
    verdicts: list[CriterionVerdict | str] = ["MET", "CANNOT_ASSESS", "CANNOT_ASSESS"]
    # 0.5 for MET, half of 0.5 for the first abstention, nothing off for the second.
    found = rubric(0.5, 0.5, -0.5).compute_score(verdicts, cannot_assess_strategy=PARTIAL, normalize=False)
    assert found == pytest.approx(0.75)


def test_the_worst_case_goes_by_the_sign_however_small_the_weight() -> None:
    verdicts: list[CriterionVerdict | str] = ["CANNOT_ASSESS"] * 2
    # 0.5 · 0 and -0.25 · 1.
    assert rubric(0.5, -0.25).compute_score(verdicts, cannot_assess_strategy=FAIL, normalize=False) == -0.25


def test_an_abstention_counts_as_nothing_where_no_worst_case_is_stated() -> None:
    assert score([Cell(5.0, None), Cell(5.0, 1.0)], CannotAssessConfig(strategy=FAIL)) == 0.5


@each(
    ("weight", "worst"),
    [(2.0, 0.0), (0.5, 0.0), (-0.5, 1.0), (0.0, 0.0)],  # what a criterion of no weight says costs nothing
)
def test_an_abstention_keeps_the_value_that_costs_most(weight: float, worst: float) -> None:
    [criterion] = rubric(weight)
    assert build_cell(criterion, "CANNOT_ASSESS") == Cell(weight, None, worst)


cells = st.lists(
    st.builds(
        Cell,
        st.floats(-100, 100),
        st.none() | st.floats(0, 1),
        st.floats(0, 1),
    ),
    max_size=8,
)


@given(cells, st.sampled_from(list(CannotAssessStrategy)), st.floats(0, 1))
def test_a_score_is_in_the_unit_interval_or_none(
    made: list[Cell], strategy: CannotAssessStrategy, credit: float
) -> None:
    config = CannotAssessConfig(strategy=strategy, partial_credit=credit)
    found = score(made, config)
    scored = [cell for cell in made if cell.value is not None or (strategy is not SKIP and not cell.failed)]
    left = [cell.weight > 0 for cell in scored]
    assert (found is None) == (not scored or any(cell.weight > 0 for cell in made) > any(left))
    assert found is None or 0.0 <= found <= 1.0


@given(cells, st.integers(0, 7))
def test_meeting_a_positive_criterion_never_lowers_a_score(made: list[Cell], place: int) -> None:
    if place >= len(made) or made[place].value is None or made[place].weight <= 0:
        return
    better = [*made[:place], made[place]._replace(value=1.0), *made[place + 1 :]]
    before, after = score(made), score(better)
    assert before is not None
    assert after is not None
    assert after >= before - 1e-9
