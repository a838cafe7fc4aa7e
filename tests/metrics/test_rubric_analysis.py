from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autorubric import Criterion, CriterionVerdict, Rubric, RubricDataset
from autorubric.core.judgment import JudgeVote, MultiChoiceVerdict
from autorubric.core.report import (
    CriterionReport,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    EvaluationReport,
    Report,
)
from autorubric.errors import InputError
from autorubric.metrics import CriterionAnalysis, analyze_rubric
from autorubric.metrics.example_run import example_run
from autorubric.metrics.item_analysis import (
    compute_item_rest_correlations,
    compute_score_shares,
    correlate_columns,
    count_effective_criteria,
    estimate_correlation,
    estimate_group_variance,
)
from autorubric.metrics.reading_runs import read_table
from tests.oracles import proportion_confint, stats

RNG = np.random.default_rng(6)
MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET


def run_of(table: npt.NDArray[np.bool_], weights: list[float]) -> tuple[RubricDataset, list[Report | None]]:
    rubric = Rubric([Criterion(name=f"c{n}", weight=weight, requirement=f"r{n}") for n, weight in enumerate(weights)])
    dataset = RubricDataset("Explain", rubric)
    reports: list[Report | None] = []
    for number, row in enumerate(table):
        dataset.add_item(f"s{number}", "")
        said = [MET if met else UNMET for met in row]
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=verdict, reason=None)
            for criterion, verdict in zip(rubric, said, strict=True)
        ]
        reports.append(EvaluationReport(score=rubric.compute_score(said), report=entries))
    return dataset, reports


def criteria_of(reports: Sequence[Report | None], dataset: RubricDataset) -> list[CriterionAnalysis]:
    return analyze_rubric(reports, dataset).criteria


def labelled(dataset: RubricDataset, table: npt.NDArray[np.bool_]) -> RubricDataset:
    items = [
        replace(item, ground_truth=[MET if met else UNMET for met in row])
        for item, row in zip(dataset.items, table, strict=True)
    ]
    return replace(dataset, items=items)


def test_correlations_with_gaps_are_those_of_the_pairs_that_are_there() -> None:
    table = RNG.random((60, 4)).round(1)
    table[RNG.random(table.shape) < 0.2] = np.nan
    found = correlate_columns(table)
    for left in range(4):
        for right in range(4):
            both = ~np.isnan(table[:, left]) & ~np.isnan(table[:, right])
            expected = stats.pearsonr(table[both, left], table[both, right]).statistic
            assert found[left, right] == pytest.approx(expected, abs=1e-9)


def test_a_constant_criterion_has_no_correlation() -> None:
    table = np.column_stack([np.ones(10), np.arange(10.0)])
    assert np.isnan(correlate_columns(table)[0]).all()
    estimate = estimate_correlation(float("nan"), 10)
    assert (estimate.value, estimate.reason) == (None, "one side is constant")


def test_fishers_interval_is_that_of_scipy() -> None:
    x, y = RNG.random(40), RNG.random(40)
    result = stats.pearsonr(x, y)
    found = estimate_correlation(result.statistic, 40)
    assert found.interval is not None
    assert found.interval[:2] == pytest.approx(tuple(result.confidence_interval()), abs=1e-9)


def test_the_item_rest_correlation_leaves_the_criterion_itself_out() -> None:
    table = (RNG.random((50, 3)) < 0.5).astype(float)
    weights = np.array([3.0, 1.0, -2.0])
    rest = table[:, [1, 2]] @ weights[[1, 2]]
    assert compute_item_rest_correlations(table, weights)[0] == pytest.approx(
        stats.pearsonr(table[:, 0], rest).statistic
    )
    others = table[:, [0, 1]] @ weights[[0, 1]]
    assert compute_item_rest_correlations(table, weights)[2] == pytest.approx(
        stats.pearsonr(-table[:, 2], others).statistic
    )


def test_copies_of_one_criterion_count_once_and_constants_not_at_all() -> None:
    one = np.array([0.0, 1.0, 1.0, 0.0])
    other = np.array([0.0, 0.0, 1.0, 1.0])
    assert count_effective_criteria(np.column_stack([one, one, one])) == pytest.approx(1.0)
    # one and other are uncorrelated.
    assert count_effective_criteria(np.column_stack([one, other, np.ones(4)])) == pytest.approx(2.0)
    assert count_effective_criteria(np.ones((4, 2))) is None


def test_the_effective_number_is_that_of_the_eigenvalues() -> None:
    table = RNG.random((200, 5)) + RNG.random((200, 1))
    values = np.linalg.eigvalsh(np.corrcoef(table.T))
    assert count_effective_criteria(table) == pytest.approx(values.sum() ** 2 / (values**2).sum())


def test_shares_of_the_score_sum_to_one_and_a_constant_decides_nothing() -> None:
    table = np.column_stack([RNG.random(30) < 0.5, RNG.random(30) < 0.5, np.ones(30)]).astype(float)
    shares = compute_score_shares(table, [5, 2, 9])
    assert shares is not None
    assert shares.sum() == pytest.approx(1.0) and shares[2] == pytest.approx(0.0)
    assert compute_score_shares(np.ones((5, 2)), [1, 1]) is None


def test_the_variance_of_a_group_is_that_of_its_rollouts() -> None:
    # Query a: 0 0 1 1 has variance 1/3; b: 1 1 has 0. Pooled: (1 + 0) / (3 + 1) = 1/4; for n = 2 half of it.
    found = estimate_group_variance([0, 0, 1, 1, 1, 1, float("nan")], list("aaaabba"), 2)
    assert (found.within, found.expected, found.queries) == (0.25, 0.125, 2)
    # Pairs that are equal: 2 of 6 in a, 1 of 1 in b.
    assert found.silent == pytest.approx((2 / 6 + 1) / 2)
    assert estimate_group_variance([0, 1], ["a", "b"], 2).within is None
    assert estimate_group_variance([0, 1], ["a", "a"], 3).silent is None
    with pytest.raises(InputError, match="n=1"):
        estimate_group_variance([0], ["a"], 1)
    with pytest.raises(InputError, match="1 reward for 2 queries"):
        estimate_group_variance([0], ["a", "b"], 2)


def test_a_criterion_that_all_meet_is_to_be_dropped_and_comes_first() -> None:
    table = RNG.random((200, 4)) < 0.5
    table[:, 2] = True
    dataset, reports = run_of(table, [1, 1, 1, 1])
    rows = criteria_of(reports, dataset)
    assert (rows[0].name, rows[0].advice, rows[0].saturated) == ("c2", "drop", True)
    assert rows[0].discrimination.value is None and rows[0].partner is None
    assert {row.advice for row in rows[1:]} == {"keep"}


def test_of_two_criteria_that_say_the_same_the_lighter_is_to_be_merged() -> None:
    table = RNG.random((200, 4)) < 0.5
    table[:, 3] = table[:, 0]
    table[0, 3] = ~table[0, 3]
    dataset, reports = run_of(table, [5, 1, 1, 2])
    rows = {row.name: row for row in criteria_of(reports, dataset)}
    assert rows["c3"].advice == "merge" and rows["c3"].partner == "c0"
    assert rows["c3"].same_verdicts.value == pytest.approx(199 / 200)
    assert rows["c0"].advice == "keep"


def test_a_criterion_that_goes_against_the_rest_is_to_be_sharpened() -> None:
    ability = RNG.random((300, 1))
    table = RNG.random((300, 4)) < ability
    table[:, 1] = RNG.random(300) < 1 - ability[:, 0]
    dataset, reports = run_of(table, [1, 1, 1, 1])
    rows = criteria_of(reports, dataset)
    assert (rows[0].name, rows[0].advice) == ("c1", "sharpen")
    assert "contradicts" in rows[0].reason
    assert rows[0].slope is not None and rows[0].slope < 0


def test_a_judge_that_misses_the_labels_asks_for_new_labels() -> None:
    table = RNG.random((100, 3)) < 0.5
    dataset, reports = run_of(table, [1, 1, 1])
    truth = table.copy()
    truth[:, 0] ^= RNG.random(100) < 0.4
    rows = criteria_of(reports, labelled(dataset, truth))
    assert (rows[0].name, rows[0].advice) == ("c0", "relabel")
    assert rows[1].label_agreement.value == 1.0


def test_a_judge_that_is_one_step_off_on_an_ordered_scale_agrees_in_part() -> None:
    options = [{"label": str(n), "value": n / 4} for n in range(5)]
    one = Criterion(name="Tone", requirement="How kind?", options=options)
    places, steps = np.tile([0, 1, 2, 3], 30), np.tile([0, 1, 1], 40)
    for scale, expected, advice in (("ordinal", 1.0 - steps.mean() / 4, "keep"), ("nominal", 1 / 3, "relabel")):
        criterion = one.model_copy(update={"scale_type": scale})
        dataset = RubricDataset("Why?", Rubric([criterion]))
        reports: list[Report | None] = []
        for place, step in zip(places.tolist(), steps.tolist(), strict=True):
            dataset.add_item("So.", "", ground_truth=[str(place)])
            choice = MultiChoiceVerdict(
                selected_index=place + step, selected_label=str(place + step), value=(place + step) / 4
            )
            entry = CriterionReport(**criterion.model_dump(), multi_choice_verdict=choice, reason="")
            reports.append(EvaluationReport(score=choice.value, report=[entry]))
        [found] = criteria_of(reports, dataset)
        assert found.label_agreement.value == pytest.approx(expected)
        assert found.advice == advice


def test_judges_that_differ_ask_for_sharper_words() -> None:
    rubric = Rubric(
        [Criterion(name="vague", requirement="Is good"), Criterion(name="clear", requirement="Has a date")]
    )
    dataset = RubricDataset("Explain", rubric)
    reports: list[Report | None] = []
    for number in range(40):
        dataset.add_item(f"s{number}", "")
        entries = []
        for criterion in rubric:
            words = [MET, UNMET, MET] if criterion.name == "vague" else [MET if number % 2 else UNMET] * 3
            votes = [JudgeVote(judge_id=j, verdict=v, reason=None) for j, v in zip("abc", words, strict=True)]
            entries.append(
                EnsembleCriterionReport(criterion=criterion, final_verdict=words[0], final_reason=None, votes=votes)
            )
        # Of three pairs of votes, two differ.
        reports.append(EnsembleEvaluationReport(score=0.5, report=entries))
    rows = {row.name: row for row in criteria_of(reports, dataset)}
    assert rows["vague"].disagreement == pytest.approx(2 / 3) and rows["clear"].disagreement == 0.0
    # All 40 are MET: the interval reaches from 0.94 and does not lie beyond 0.95.
    assert rows["vague"].advice == "sharpen"


def test_judges_that_are_one_step_apart_on_an_ordered_scale_hardly_disagree(graded: Callable[..., Any]) -> None:
    options = [{"label": str(n), "value": n / 4} for n in range(5)]
    for scale, expected in (("ordinal", (0.25 + 0.25 + 0.5) / 3), ("nominal", 1.0)):
        criterion = Criterion.model_validate({"requirement": "How?", "options": options, "scale_type": scale})
        made = graded([criterion])
        for _ in range(30):
            made.add(None, {"a": ["1"], "b": ["2"], "c": ["3"]})
        [found] = analyze_rubric(made.run, made.dataset).criteria
        assert found.disagreement == pytest.approx(expected)
        assert found.advice == "sharpen"
    ordered = Criterion.model_validate({"requirement": "How?", "options": options})
    made = graded([ordered])
    for place in (1, 2, 3) * 10:
        made.add(None, {"a": [str(place)], "b": [str(place + 1)], "c": [str(place)]})
    [found] = analyze_rubric(made.run, made.dataset).criteria
    # Two of three pairs of votes are a quarter of the scale apart.
    assert found.disagreement == pytest.approx(0.5 / 3)
    assert found.advice == "keep"


def test_a_criterion_that_all_meet_has_no_difficulty() -> None:
    table = RNG.random((40, 4)) < 0.5
    table[:, 2] = True
    dataset, reports = run_of(table, [1.0] * 4)
    rows = {row.name: row for row in criteria_of(reports, dataset)}
    assert (rows["c2"].slope, rows["c2"].difficulty) == (None, None)
    assert None not in (rows["c0"].slope, rows["c1"].slope, rows["c3"].slope)


def test_failures_and_abstentions_are_no_verdicts() -> None:
    dataset, reports = example_run()
    first = reports[0]
    assert isinstance(first, EvaluationReport) and first.report is not None
    entries = [
        first.report[0].model_copy(update={"verdict": None, "error": "parse: empty"}),
        first.report[1].model_copy(update={"verdict": CriterionVerdict.CANNOT_ASSESS}),
        first.report[2],
    ]
    table = read_table([EvaluationReport(score=None, report=entries), *reports[1:]], dataset)
    assert np.isnan(table.values[:3]).tolist() == [True, True, False]
    rows = {
        row.name: row.n for row in criteria_of([EvaluationReport(score=None, report=entries), *reports[1:]], dataset)
    }
    assert rows == {"Causes": 5, "Style": 5, "Errors": 6}


def test_a_row_is_json_values_with_the_ends_of_its_intervals() -> None:
    dataset, reports = example_run()
    row = next(row for row in criteria_of(reports, dataset) if row.name == "Style").to_row()
    low, high = proportion_confint(3, 6, method="wilson")
    assert row["pass_rate"] == pytest.approx({"value": 0.5, "low": low, "high": high, "n": 6})


def test_the_rubric_as_a_whole_comes_with_its_criteria() -> None:
    dataset, reports = example_run()
    found = analyze_rubric(reports, dataset, rollouts=6)
    assert len(found.criteria) == 3 and found.group.queries == 1
    assert found.group.silent == 0.0


def test_a_run_that_does_not_fit_its_dataset_is_refused() -> None:
    dataset, reports = example_run()
    with pytest.raises(InputError, match="5 reports for 6 items"):
        criteria_of(reports[:5], dataset)
    with pytest.raises(InputError, match="no report with criteria"):
        criteria_of([None] * 6, dataset)
    own = Rubric([Criterion(requirement=f"own {n}") for n in range(3)])
    other = replace(dataset, items=[replace(item, rubric=own if n == 2 else None) for n, item in enumerate(dataset)])
    with pytest.raises(InputError, match="item 2: the report judges 'Causes', which its rubric in the dataset"):
        criteria_of(reports, other)
    entries = [CriterionReport(**criterion.model_dump(), verdict=MET, reason=None) for criterion in own]
    of_own = [*reports[:2], EvaluationReport(score=1.0, report=entries), *reports[3:]]
    with pytest.raises(InputError, match="items 2 have other criteria than item 0"):
        criteria_of(of_own, other)
