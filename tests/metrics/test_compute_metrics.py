"""Agreement of runs with labels: the published figures, and each published fault shown to be absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, CriterionReport, EvaluationReport, InputError, Rubric, RubricDataset
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.core.report import Report
from autorubric.core.scoring import ScoreRule
from autorubric.metrics import CriterionMetrics, OrdinalCriterionMetrics, compute_metrics
from autorubric.metrics.compare import compare_judges
from autorubric.metrics.labelled_run import read_labelled_run
from autorubric.metrics.reading_runs import read_table
from autorubric.metrics.scores import score_rows
from tests.metrics.conftest import FAILED
from tests.oracles import sk

Make = Callable[..., Any]

BRIEF = Criterion(name="Brief", weight=10, requirement="Is brief")
LIES = Criterion(name="Lies", weight=-4, requirement="Invents a source")


def scale(*labels: tuple[str, float], kind: Any = "ordinal", na: bool = False, name: str = "Quality") -> Criterion:
    options: list[Any] = [{"label": label, "value": value} for label, value in labels]
    if na:
        options.append({"label": "N/A", "value": 0.0, "na": True})
    return Criterion(name=name, weight=5, requirement=f"How good is the {name}?", options=options, scale_type=kind)


IN_ORDER = scale(("Low", 0.0), ("Mid", 0.5), ("High", 1.0))
OUT_OF_ORDER = scale(("High", 1.0), ("Low", 0.0), ("Mid", 0.5))


def test_binary_figures_by_hand(graded: Make) -> None:
    # Truth M M M U U, judged M M U M U: TP 2, FN 1, FP 1, TN 1.
    made = graded([BRIEF])
    for label, said in zip("MMMUU", "MMUMU", strict=True):
        made.add(["MET" if label == "M" else "UNMET"], ["MET" if said == "M" else "UNMET"])
    found = compute_metrics(made.run, made.dataset)
    [criterion] = found.per_criterion
    assert criterion.confusion_matrix is not None
    assert criterion.confusion_matrix.matrix == [[2, 1], [1, 1]]
    assert isinstance(criterion, CriterionMetrics)
    assert (criterion.support_true, criterion.support_pred) == (3, 3)
    # One of three MET is missed, one of two UNMET is taken for MET.
    assert (criterion.fnr, criterion.fpr) == pytest.approx((1 / 3, 1 / 2))
    assert found.criterion_accuracy == pytest.approx(0.6)
    assert found.criterion_precision == pytest.approx(2 / 3)
    assert found.criterion_recall == pytest.approx(2 / 3)
    # p_o = 0.6, p_e = 0.6·0.6 + 0.4·0.4 = 0.52; κ = 0.08/0.48.
    assert found.mean_kappa == pytest.approx(0.08 / 0.48)
    assert found.majority_baseline == pytest.approx(0.6)
    assert (found.n_items, found.n_samples, found.n_criteria, found.n_scores) == (5, 5, 1, 5)
    # Scores 1 1 0 1 0 against 1 1 1 0 0: two errors of 1 in five.
    assert found.score_rmse == pytest.approx((2 / 5) ** 0.5)
    assert found.bias.mean_bias == pytest.approx(0.0)


def test_one_pair_has_an_accuracy_and_no_agreement_beyond_chance(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"])
    [criterion] = compute_metrics(made.run, made.dataset).per_criterion
    assert (criterion.accuracy, criterion.kappa, criterion.is_degenerate, criterion.n_judges) == (1.0, None, True, 1)


def test_kappa_counts_the_options_that_nobody_chose(graded: Make) -> None:
    # Four options; nobody chooses "Poor". scikit-learn with all labels given is the reference.
    criterion = scale(("Bad", 0.0), ("Poor", 1 / 3), ("Fair", 2 / 3), ("Good", 1.0))
    truth, said = ["Bad", "Fair", "Good", "Good", "Bad"], ["Bad", "Good", "Good", "Fair", "Fair"]
    made = graded([criterion])
    for label, word in zip(truth, said, strict=True):
        made.add([label], [word])
    places = {option.label: place for place, option in enumerate(criterion.options or [])}
    expected = sk.cohen_kappa_score(
        [places[t] for t in truth], [places[s] for s in said], labels=range(4), weights="quadratic"
    )
    [found] = compute_metrics(made.run, made.dataset).per_criterion
    assert found.kappa == pytest.approx(expected, abs=1e-9)


def test_ordinal_figures_go_by_value_and_not_by_the_order_of_declaration(graded: Make) -> None:
    pairs = [("High", "Low"), ("Low", "High"), ("Mid", "Mid"), ("High", "Mid")]
    results = []
    for criterion in (IN_ORDER, OUT_OF_ORDER):
        made = graded([criterion])
        for label, word in pairs:
            made.add([label], [word])
        [found] = compute_metrics(made.run, made.dataset).per_criterion
        assert isinstance(found, OrdinalCriterionMetrics)
        results.append((found.adjacent_accuracy, found.weighted_kappa, found.rmse, found.spearman.coefficient))
    # High for Low is two places off in either rubric: two of four pairs lie within one place.
    assert results[0][0] == 0.5
    assert results[0] == pytest.approx(results[1])


def test_a_mixed_rubric_counts_every_criterion(graded: Make) -> None:
    made = graded([BRIEF, IN_ORDER])
    made.add(["MET", "Low"], ["MET", "High"]).add(["UNMET", "High"], ["UNMET", "Low"])
    found = compute_metrics(made.run, made.dataset)
    assert found.criterion_accuracy == 0.5
    assert found.macro_accuracy == 0.5
    assert (found.n_binary_criteria, found.n_ordinal_criteria, found.n_samples) == (1, 1, 4)


def test_excluded_options_are_excluded_from_every_accuracy(graded: Make) -> None:
    made = graded([scale(("Low", 0.0), ("High", 1.0), kind="nominal", na=True)])
    made.add(["Low"], ["Low"]).add(["N/A"], ["High"]).add(["High"], ["High"]).add(["High"], ["N/A"])
    found = compute_metrics(made.run, made.dataset)
    assert found.criterion_accuracy == 1.0
    assert found.per_criterion[0].accuracy == 1.0
    assert found.coverage_stats is not None
    assert (found.coverage_stats.n_covered, found.coverage_stats.n_total) == (2, 4)
    assert found.na_stats is not None
    assert (found.na_stats.na_count_true, found.na_stats.na_false_positive, found.na_stats.na_false_negative) == (
        1,
        1,
        1,
    )


def test_not_applicable_is_compared_on_the_criteria_that_have_such_an_option(graded: Make) -> None:
    with_option = scale(("Low", 0.0), ("High", 1.0), kind="nominal", na=True)
    without = scale(("Old", 0.0), ("New", 1.0), kind="nominal").model_copy(update={"name": "Other"})
    made = graded([with_option, without])
    made.add(["N/A", "Old"], ["N/A", "Old"]).add(["Low", "New"], ["N/A", "New"])
    made.add(["N/A", "Old"], ["High", "New"]).add(["High", "Old"], ["High", "Old"])
    found = compute_metrics(made.run, made.dataset).na_stats
    # Of the four pairs of the first criterion two agree; both sides abstain on half: κ = (1/2 - 1/2) / (1 - 1/2) = 0.
    assert found is not None and found.na_kappa == pytest.approx(0.0)
    assert (found.na_count_true, found.na_count_pred) == (2, 2)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("strategy", list(CannotAssessStrategy))
def test_a_perfect_judge_has_no_score_error_whatever_the_runs_rule(
    graded: Make, normalize: bool, strategy: CannotAssessStrategy
) -> None:
    made = graded([BRIEF, LIES], normalize, CannotAssessConfig(strategy=strategy))
    for words in (["MET", "MET"], ["MET", "CANNOT_ASSESS"], ["CANNOT_ASSESS", "UNMET"], ["UNMET", "MET"]):
        made.add(words, words)
    found = compute_metrics(made.run, made.dataset)
    assert found.score_rmse == pytest.approx(0.0, abs=1e-12)
    run = made.run
    run.grader_config = {"normalize": normalize, "cannot_assess": {"strategy": strategy.value}}
    assert compute_metrics(run, made.dataset).score_rmse == pytest.approx(0.0, abs=1e-12)


def test_a_length_penalty_lowers_the_true_score_too(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["UNMET"], ["UNMET"])
    run = made.run
    run.item_results[0].report.score = 0.75
    run.grader_config = {"normalize": True, "cannot_assess": {}, "length_penalty": {"free_budget": 1}}
    found = compute_metrics(run, made.dataset)
    assert found.score_rmse == pytest.approx(0.0)
    assert any("length penalty" in warning for warning in found.warnings)


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_the_mean_of_a_panels_options_is_what_its_score_is_made_of(graded: Make, penalty: float) -> None:
    made = graded([IN_ORDER]).add(["Mid"], ["Mid"]).add(["Low"], ["Low"])
    run = made.run
    # Two judges said Mid and one High: 2/3 on average, which is Mid when it has to be an option.
    [entry] = run.item_results[0].report.report
    mean = entry.final_multi_choice_verdict.model_copy(update={"aggregated_value": 2 / 3})
    run.item_results[0].report.report = [entry.model_copy(update={"final_multi_choice_verdict": mean})]
    run.item_results[0].report.score = 2 / 3 - penalty
    if penalty:
        run.grader_config = {"normalize": True, "cannot_assess": {}, "length_penalty": {"free_budget": 1}}
    found = compute_metrics(run, made.dataset)
    # The label scores 1/2, and the penalty takes as much of it: the error is 1/6 on one of two items either way.
    assert found.bias.mean_bias == pytest.approx(1 / 12)
    assert [w for w in found.warnings if "verdicts make them" in w] == []
    assert found.per_criterion[0].accuracy == 1.0


@pytest.mark.parametrize(("mode", "covered"), [("exclude", 1), ("as_unmet", 3), ("as_category", 3)])
def test_coverage_counts_what_is_compared_in_every_mode(graded: Make, mode: Any, covered: int) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["CANNOT_ASSESS"], ["MET"]).add(["MET"], ["CANNOT_ASSESS"])
    found = compute_metrics(made.run, made.dataset, cannot_assess=mode, per_judge=True)
    assert found.coverage_stats is not None and found.per_judge is not None
    every = [found.coverage_stats, found.per_criterion[0].coverage_stats, found.per_judge["default"].coverage_stats]
    assert [part.n_covered for part in every if part] == [covered] * 3
    assert found.n_samples == covered and found.coverage_stats.union_exclusion_rate == pytest.approx(1 - covered / 3)


def test_scores_that_are_equal_on_paper_are_ties(graded: Make) -> None:
    from scipy import stats

    criteria = [Criterion(name=name, requirement=name, weight=w) for name, w in (("a", 0.1), ("b", 0.2), ("c", 0.3))]
    made = graded([*criteria, Criterion(name="d", requirement="d", weight=0.4)])
    met, unmet = "MET", "UNMET"
    # 0.1 + 0.2 is not 0.3 to the last digit, and neither is its share of 1.0.
    rows = [[met, met, unmet, unmet], [unmet, unmet, met, unmet], [met, met, met, met], [unmet] * 4]
    labels = [[unmet, unmet, met, unmet], [met, unmet, unmet, unmet], [met, met, met, met], [unmet] * 4]
    for truth, said in zip(labels, rows, strict=True):
        made.add(truth, said)
    found = compute_metrics(made.run, made.dataset)
    assert found.score_spearman.coefficient == pytest.approx(stats.spearmanr([3, 3, 10, 0], [3, 1, 10, 0])[0])
    assert found.score_kendall.coefficient == pytest.approx(stats.kendalltau([3, 3, 10, 0], [3, 1, 10, 0])[0])


WORDS = st.sampled_from(["MET", "UNMET", "CANNOT_ASSESS"])


@given(
    rows=st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["Low", "Mid", "High", "N/A"])), min_size=1, max_size=6),
    weights=st.tuples(*[st.sampled_from([-4.0, 0.0, 2.5])] * 3),
    strategy=st.sampled_from(list(CannotAssessStrategy)),
    normalize=st.booleans(),
)
def test_scores_of_many_items_at_once_are_those_of_the_scoring_core(
    rows: Any, weights: Any, strategy: CannotAssessStrategy, normalize: bool
) -> None:
    options = scale(("Low", 0.0), ("Mid", 0.5), ("High", 1.0), na=True)
    criteria = [c.model_copy(update={"weight": w}) for c, w in zip((BRIEF, LIES, options), weights, strict=True)]
    rubric = Rubric(criteria)
    dataset = RubricDataset("Explain.", rubric)
    reports: list[Report | None] = []
    for n, row in enumerate(rows):
        dataset.add_item(f"Text {n}.", "", list(row))
        entries = [CriterionReport(**c.model_dump(), reason=None, error="parse: empty") for c in rubric]
        reports.append(EvaluationReport(score=None, report=entries))
    table = read_table(reports, dataset)
    config = CannotAssessConfig(strategy=strategy)
    made = score_rows(table, table.points.truth, ScoreRule(config, normalize))
    expected = [rubric.compute_score(item.ground_truth or [], normalize, strategy) for item in dataset]
    assert [None if np.isnan(score) else float(score) for score in made] == expected


def own(*names: str) -> Rubric:
    return Rubric([Criterion(name=name, requirement=f"Has {name}") for name in names])


def test_the_pooled_path_honours_abstentions_modes_bootstrap_and_judges(graded: Make) -> None:
    made = graded([], shared=False)
    made.add(["MET", "CANNOT_ASSESS"], {"a": ["MET", "UNMET"], "b": ["MET", "MET"]}, own("A", "B"))
    made.add(["UNMET"], {"a": ["UNMET"], "b": ["MET"]}, own("C"))
    made.add(["MET"], {"a": ["MET"], "b": ["MET"]}, own("D"))
    excluded = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=50, per_judge=True, seed=1)
    assert excluded.pooled_by_scale is not None
    [binary] = excluded.pooled_by_scale
    # The abstention leaves the pair out: the other three agree.
    assert (binary.n_points, binary.exact_accuracy, binary.kappa, binary.n_abstain) == (3, 1.0, 1.0, 1)
    assert (excluded.per_criterion, excluded.n_criteria) == ([], 3)
    assert excluded.bootstrap is not None and excluded.bootstrap.rmse_ci is not None
    assert excluded.per_judge is not None
    assert excluded.per_judge["a"].criterion_accuracy == 1.0
    assert excluded.per_judge["b"].criterion_accuracy == pytest.approx(2 / 3)
    category = compute_metrics(made.run, made.dataset, cannot_assess="as_category").pooled_by_scale
    assert category is not None and category[0].exact_accuracy == 0.75
    unmet = compute_metrics(made.run, made.dataset, cannot_assess="as_unmet").pooled_by_scale
    assert unmet is not None and unmet[0].exact_accuracy == 1.0


def test_pooled_values_are_correlated_where_all_of_them_have_one(graded: Make) -> None:
    made = graded([], shared=False)
    # Truth 0, 0.5, 1 and verdicts 0, 1, 0.5: covariance 0.25, both variances 0.5; the ranks are the values.
    for label, said, name in (("Low", "Low", "A"), ("Mid", "High", "B"), ("High", "Mid", "C")):
        made.add([label], [said], Rubric([IN_ORDER.model_copy(update={"name": name})]))
    [ordinal] = compute_metrics(made.run, made.dataset).pooled_by_scale or []
    assert (ordinal.value_spearman, ordinal.value_pearson) == pytest.approx((0.5, 0.5))
    assert ordinal.n_judges == 1
    made = graded([], shared=False).add(["UNMET"], ["UNMET"], own("A")).add(["MET"], ["MET"], own("B"))
    made.add(["MET"], ["MET"], own("D"))
    for abstained, values in ((False, 1.0), (True, None)):
        if abstained:
            made.add(["MET"], ["CANNOT_ASSESS"], own("C"))
        [binary] = compute_metrics(made.run, made.dataset, cannot_assess="as_category").pooled_by_scale or []
        assert (binary.value_spearman, binary.value_pearson) == (values, values)


def test_pooled_f1_is_zero_and_not_undefined_where_nothing_is_found(graded: Make) -> None:
    made = graded([], shared=False)
    made.add(["MET"], ["UNMET"], own("A")).add(["UNMET"], ["MET"], own("B"))
    [binary] = compute_metrics(made.run, made.dataset).pooled_by_scale or []
    assert (binary.precision, binary.recall, binary.f1) == (0.0, 0.0, 0.0)


def test_an_item_with_a_rubric_of_its_own_is_read_with_that_rubric(graded: Make) -> None:
    # Both rubrics have one criterion: the item's own must not be read as the dataset's.
    made = graded([BRIEF])
    made.add(["MET"], ["MET"]).add(["UNMET"], ["UNMET"]).add(["High"], ["High"], Rubric([IN_ORDER]))
    found = compute_metrics(made.run, made.dataset)
    assert [(c.name, c.n_samples) for c in found.per_criterion] == [("Brief", 2), ("Quality", 1)]
    assert (found.criterion_accuracy, found.n_items) == (1.0, 3)


def test_what_is_undefined_is_none_and_never_zero(graded: Make) -> None:
    made = graded([BRIEF]).add(["UNMET"], ["UNMET"]).add(["UNMET"], ["UNMET"])
    found = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=20)
    [criterion] = found.per_criterion
    assert isinstance(criterion, CriterionMetrics)
    assert (criterion.precision, criterion.recall, criterion.f1, criterion.kappa) == (None, None, None, None)
    assert (criterion.phi, criterion.balanced_accuracy, criterion.mcc) == (None, None, None)
    assert criterion.kappa_interpretation == "undefined"
    assert (criterion.is_degenerate, criterion.accuracy, criterion.majority_baseline) == (True, 1.0, 1.0)
    assert (found.mean_kappa, found.score_spearman.interpretation) == (None, "insufficient data")
    assert found.bootstrap is not None and found.bootstrap.kappa_ci is None
    assert any("Brief" in warning for warning in found.warnings)


def test_options_without_a_pair_have_no_interval_and_keep_none_from_the_rest(graded: Make) -> None:
    made = graded([BRIEF, scale(("Low", 0.0), ("Mid", 0.5), ("High", 1.0), na=True)])
    for word in ("MET", "UNMET", "MET"):
        made.add([word, "N/A"], [word, "High"])
    found = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=20, seed=1)
    assert [(c.n_samples, c.kappa, c.kappa_ci is None) for c in found.per_criterion] == [
        (3, 1.0, False),
        (0, None, True),
    ]


def test_a_run_without_binary_criteria_has_no_kappa_of_binary_pairs(graded: Make) -> None:
    made = graded([IN_ORDER])
    for word in ("Low", "High", "Low"):
        made.add([word], [word])
    found = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=20, seed=1)
    assert found.micro_kappa is None and found.bootstrap is not None and found.bootstrap.micro_kappa_ci is None
    assert not any("micro_kappa" in note for note in found.warnings)


def test_failed_judgments_are_counted_and_never_verdicts(graded: Make) -> None:
    made = graded([BRIEF, LIES])
    made.add(["MET", "UNMET"], ["MET", "failed"]).add(["UNMET", "MET"], ["UNMET", "MET"])
    made.add(["MET", "MET"], ["failed", "failed"])
    found = compute_metrics(made.run, made.dataset)
    assert found.coverage_stats is not None
    # The third item has no judgment at all and is none of the two; of the four points of the others one failed.
    assert (found.n_items, found.n_samples, found.n_scores) == (2, 3, 1)
    assert (found.coverage_stats.n_total, found.coverage_stats.n_errored) == (6, 3)
    assert (found.coverage_stats.n_covered, found.coverage_stats.coverage) == (3, 0.5)
    assert [part.coverage_stats.n_errored for part in found.per_criterion if part.coverage_stats] == [1, 2]
    assert found.criterion_accuracy == 1.0
    assert any("every one failed" in warning for warning in found.warnings)
    assert "1 of 4 labelled judgments failed and are left out" in found.warnings
    assert found.coverage_stats.n_not_requested == 0


@pytest.mark.parametrize(("mode", "accuracy"), [("exclude", 1.0), ("as_unmet", 2 / 3), ("as_category", 2 / 3)])
def test_cannot_assess_modes(graded: Make, mode: Any, accuracy: float) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["MET"], ["CANNOT_ASSESS"])
    made.add(["CANNOT_ASSESS"], ["UNMET" if mode == "as_unmet" else "CANNOT_ASSESS"])
    found = compute_metrics(made.run, made.dataset, cannot_assess=mode)
    assert found.criterion_accuracy == pytest.approx(accuracy)
    assert found.cannot_assess_mode == mode


def test_an_option_that_is_not_applicable_counts_as_the_worst_by_the_sign_of_the_weight(graded: Make) -> None:
    options = scale(("Low", 0.0), ("High", 1.0), na=True)
    for weight, agrees in ((5.0, "Low"), (-5.0, "High")):
        made = graded([options.model_copy(update={"weight": weight})])
        made.add(["N/A"], [agrees]).add([agrees], [agrees])
        assert compute_metrics(made.run, made.dataset, na_mode="as_unmet").criterion_accuracy == 1.0
    made = graded([options]).add(["N/A"], ["Low"]).add(["Low"], ["Low"])
    with pytest.raises(InputError, match="no place among the ordered options of 'Quality'"):
        compute_metrics(made.run, made.dataset, na_mode="as_category")


def test_unknown_modes_are_refused(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"])
    with pytest.raises(InputError, match="as_worst"):
        compute_metrics(made.run, made.dataset, na_mode=cast("Any", "as_worst"))
    with pytest.raises(InputError, match="per_item_metrics"):
        compute_metrics(made.run, made.dataset, per_item_metrics=cast("Any", "each"))
    with pytest.raises(InputError, match="confidence"):
        compute_metrics(made.run, made.dataset, confidence_level=95)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_bootstrap": 2.5}, "n_bootstrap=2.5; expected a whole number, 2 or more"),
        ({"n_bootstrap": 1}, "n_bootstrap=1; expected a whole number, 2 or more"),
        ({"seed": -1}, "seed=-1; expected a whole number, 0 or more, or None"),
        ({"seed": "x"}, "seed='x'; expected a whole number, 0 or more, or None"),
    ],
)
def test_wrong_replicates_and_seeds_are_named(graded: Make, wrong: dict[str, Any], message: str) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["UNMET"], ["UNMET"])
    with pytest.raises(InputError, match=message):
        compute_metrics(made.run, made.dataset, bootstrap=True, **wrong)
    settings = {name.replace("bootstrap", "replicates"): value for name, value in wrong.items()}
    with pytest.raises(InputError, match=message.replace("bootstrap", "replicates")):
        compare_judges(made.run, made.run, made.dataset, **settings)
    whole: dict[str, Any] = {"n_bootstrap": np.int64(20), "seed": np.int64(0)}
    assert compute_metrics(made.run, made.dataset, bootstrap=True, **whole).bootstrap is not None


def test_chance_agreement_is_said_to_be_unknown_only_where_kappa_is(graded: Make) -> None:
    made = graded([BRIEF, LIES])
    made.add(["MET", "UNMET"], ["MET", "UNMET"]).add(["UNMET", "UNMET"], ["MET", "UNMET"])
    found = compute_metrics(made.run, made.dataset)
    # All verdicts on "Brief" are MET and its labels are not: p_o = p_e = 1/2, and κ is 0.
    assert [(c.kappa, c.mcc is None, c.is_degenerate) for c in found.per_criterion] == [
        (0.0, True, False),
        (None, True, True),
    ]
    [sentence] = [warning for warning in found.warnings if "kappa is undefined" in warning]
    assert sentence == "kappa is undefined where all labels and verdicts are one category: Lies"


def test_a_run_on_other_items_is_named(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"])
    other = graded([BRIEF]).add(["MET"], ["MET"]).dataset
    other.items[0].submission = "Another text."
    with pytest.raises(InputError, match="none of the 1 graded items is in the dataset"):
        compute_metrics(made.run, other)


def test_labels_in_another_order_or_for_a_part_of_the_items_find_their_reports(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["UNMET"], ["UNMET"]).add(["MET"], ["UNMET"])
    dataset = made.dataset
    dataset.items = [dataset.items[2], dataset.items[0]]
    found = compute_metrics(made.run, dataset)
    assert (found.n_items, found.criterion_accuracy) == (2, 0.5)
    assert any("1 of 3 graded items are not in the dataset" in warning for warning in found.warnings)


def test_labels_of_other_criteria_are_named(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"])
    other = graded([LIES]).add(["MET"], ["MET"]).dataset
    with pytest.raises(
        InputError, match="item 0: the report judges 'Brief', which its rubric in the dataset does not have"
    ):
        compute_metrics(made.run, other)


def test_a_run_without_labels_is_refused(graded: Make) -> None:
    made = graded([BRIEF]).add(None, ["MET"])
    with pytest.raises(InputError, match="no graded item has both ground truth and a judgment"):
        compute_metrics(made.run, made.dataset)


def test_judges_that_differ_between_items_are_refused(graded: Make) -> None:
    made = graded([BRIEF])
    made.add(["MET"], {"a": ["MET"], "b": ["MET"]}).add(["MET"], {"a": ["MET"], "c": ["MET"]})
    with pytest.raises(InputError, match="judge 'b' voted on 'Brief' for 1 of 2 items"):
        compute_metrics(made.run, made.dataset, per_judge=True)


def test_each_judge_and_the_panel_without_it(graded: Make) -> None:
    made = graded([BRIEF])
    for label, a, b, c in ("MMMU", "UUUM", "MMUM", "UUUU"):
        word = {"M": "MET", "U": "UNMET"}
        made.add([word[label]], {"a": [word[a]], "b": [word[b]], "c": [word[c]]})
    found = compute_metrics(made.run, made.dataset, per_judge=True)
    assert found.per_judge is not None
    assert [found.per_judge[judge].criterion_accuracy for judge in "abc"] == [1.0, 0.75, 0.5]
    # c says U M M U to the labels M U M U. Votes of a, b, c: M M U, U U M, M U M, U U U →
    # the panel says M U M U: all right. Without a: b and c are
    # M U, U M, U M, U U, and ties go to UNMET: U U U U, two of four right.
    change = {influence.judge_id: influence.accuracy_change for influence in found.without_judge}
    assert change["a"] == pytest.approx(-0.5)


def test_agreement_among_judges_is_in_the_criterion(graded: Make) -> None:
    made = graded([IN_ORDER])
    for label, a, b in (("Low", "Low", "Low"), ("Mid", "Mid", "High"), ("High", "High", "High")):
        made.add([label], {"a": [a], "b": [b]})
    [found] = compute_metrics(made.run, made.dataset).per_criterion
    import krippendorff

    expected = krippendorff.alpha([[0, 1, 2], [0, 2, 2]], level_of_measurement="ordinal", value_domain=[0, 1, 2])
    assert found.krippendorff_alpha == pytest.approx(expected)
    assert found.n_judges == 2


def test_only_a_judge_without_any_vote_is_no_judge_of_a_criterion(graded: Make) -> None:
    made = graded([BRIEF, IN_ORDER])
    # "a" always takes the first category, "c" always fails; "b" differs from "a" on one of four.
    for b, level in (("MET", "Low"), ("MET", "Low"), ("MET", "Low"), ("UNMET", "High")):
        made.add(["MET", "Low"], {"a": ["MET", "Low"], "b": [b, level], "c": [FAILED, FAILED]})
    binary, ordinal = compute_metrics(made.run, made.dataset).per_criterion
    assert (binary.n_judges, ordinal.n_judges) == (2, 2)
    # Seven MET and one UNMET: D_o = 2/8, D_e = 2·7·1/(8·7) = 2/8; alpha is 1 - D_o/D_e.
    assert binary.krippendorff_alpha == pytest.approx(0.0)
    assert isinstance(ordinal, OrdinalCriterionMetrics)
    # Values 0 0 0 0 and 0 0 0 1: the mean squares of items and rest are both 1/8, so the agreement is 0.
    assert ordinal.icc == pytest.approx(0.0)


def test_agreement_among_judges_has_no_regard_to_the_labels_and_counts_missing_votes(graded: Make) -> None:
    import krippendorff

    made = graded([BRIEF])
    unsure, met, unmet = "CANNOT_ASSESS", "MET", "UNMET"
    rows = [(met, met, met), (met, unmet, met), (unmet, unmet, unmet), (unsure, met, unmet), (met, met, unsure)]
    for a, b, c in rows:
        # The panel says what a says, and the labels can say nothing of the first two: neither is a word of b and c.
        made.add([unsure if len(made.labels) < 2 else met], {"a": [a], "b": [b], "c": [c]})
    coded = np.array([[{met: 0.0, unmet: 1.0}.get(word, np.nan) for word in row] for row in rows]).T
    [found] = compute_metrics(made.run, made.dataset).per_criterion
    assert found.n_samples == 2
    assert found.krippendorff_alpha == pytest.approx(krippendorff.alpha(coded, level_of_measurement="nominal"))
    # Without a as well: b and c alone.
    without = compute_metrics(made.run, made.dataset, per_judge=True).without_judge[0].alpha_without
    assert without == pytest.approx(krippendorff.alpha(coded[1:], level_of_measurement="nominal"))
    [found] = compute_metrics(made.run, made.dataset, cannot_assess="as_category").per_criterion
    third = np.where(np.isnan(coded), 2.0, coded)
    assert found.krippendorff_alpha == pytest.approx(krippendorff.alpha(third, level_of_measurement="nominal"))
    influence = compute_metrics(made.run, made.dataset, cannot_assess="as_category", per_judge=True).without_judge[0]
    expected = krippendorff.alpha(third[1:], level_of_measurement="nominal")
    assert influence.alpha_without == pytest.approx(expected)


def test_options_in_order_keep_their_weights_where_other_abstentions_are_a_category(graded: Make) -> None:
    made = graded([scale(("Low", 0.0), ("Mid", 0.5), ("High", 1.0), na=True)])
    for label, said in (("Low", "Low"), ("Mid", "High"), ("High", "High"), ("Low", "Mid")):
        made.add([label], [said])
    figures = [
        compute_metrics(made.run, made.dataset, na_mode=mode).per_criterion[0] for mode in ("exclude", "as_category")
    ]
    # Places Low 0, Mid 1, High 2: truth 0 1 2 0, judged 0 2 2 1.
    expected = sk.cohen_kappa_score([0, 1, 2, 0], [0, 2, 2, 1], weights="quadratic")
    assert [found.kappa for found in figures] == pytest.approx([expected, expected])
    assert figures[0] == figures[1]


def noisy(made: Any, n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    words = np.array(["MET", "UNMET"])
    for _ in range(n):
        truth = rng.integers(0, 2, len(made.criteria))
        said = np.where(rng.random(len(truth)) < 0.8, truth, 1 - truth)
        made.add(words[truth].tolist(), words[said].tolist())
    return made


def test_intervals_repeat_with_a_seed_and_hold_the_estimate(graded: Make) -> None:
    made = noisy(graded([BRIEF, LIES]), 60)
    first, second, other = (
        compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=200, seed=seed) for seed in (3, 3, 4)
    )
    assert first.bootstrap == second.bootstrap != other.bootstrap
    assert first.bootstrap is not None and first.bootstrap.accuracy_ci is not None
    low, high = first.bootstrap.accuracy_ci
    assert low < (first.criterion_accuracy or 0) < high
    assert first.per_criterion[0].kappa_ci is not None


def test_verdicts_that_are_all_right_have_an_interval_that_is_no_point(graded: Make) -> None:
    made = graded([BRIEF, LIES])
    for words in (["MET", "UNMET"], ["UNMET", "MET"]) * 5:
        made.add(words, words)
    found = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=50, seed=1)
    # Right verdicts alone do not vary. Wilson's lower end for 10 of 10: 1/(1 + 1.96²/10) = 0.7225.
    assert found.bootstrap is not None and found.accuracy_ci is not None
    assert found.bootstrap.accuracy_ci == (found.accuracy_ci.lower, found.accuracy_ci.upper)
    assert found.bootstrap.accuracy_ci == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert found.bootstrap.kappa_ci is not None and found.bootstrap.kappa_ci[1] == 1.0
    assert found.bootstrap.micro_kappa_ci is not None and found.bootstrap.micro_kappa_ci[1] == 1.0
    [told] = [note for note in found.warnings if "no interval" in note]
    assert told == "no interval for the bias: all score differences are equal"
    assert found.bootstrap.bias_ci is None
    # Half an item of the other kind weighs Beta(1/2, 10.5): its 97.5 % quantile is 0.2172 (scipy.stats.beta).
    assert found.bootstrap.mae_ci is not None
    assert found.bootstrap.mae_ci == pytest.approx((0.0, 0.2172), abs=0.06)


def test_statistics_from_sums_are_the_statistics_themselves(graded: Make) -> None:
    from autorubric.metrics.agreement_sums import sum_items

    made = noisy(graded([BRIEF, LIES]), 30)
    found = compute_metrics(made.run, made.dataset)
    whole = read_labelled_run(made.run, made.dataset)
    layout, sums = sum_items(whole.table.columns, len(whole.table.items), whole.points, whole.scores)
    expected = [found.criterion_accuracy, found.mean_kappa, found.micro_kappa, found.score_rmse, found.bias.mean_bias]
    assert layout.summarize(sums.sum(axis=0))[:5].tolist() == pytest.approx(expected)


def test_the_summary_the_file_and_the_table_hold_the_figures(graded: Make, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is an option of the user's")
    found = compute_metrics(noisy(graded([BRIEF, LIES]), 20).run, noisy(graded([BRIEF, LIES]), 20).dataset)
    text = found.summary(verbose=True)
    assert text.startswith("20 labelled items, 40 pairs of label and verdict")
    assert "Brief" in text and "Lies" in text
    found.to_file(tmp_path / "metrics.json")
    assert json.loads((tmp_path / "metrics.json").read_text())["n_items"] == 20
    frame = found.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["name"]) == ["overall", "Brief", "Lies"]
    assert frame["accuracy_micro"][0] == found.criterion_accuracy


def test_a_run_needs_no_more_than_item_results(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"])
    bare = SimpleNamespace(
        item_results=[
            SimpleNamespace(item_idx=r.item_idx, report=r.report, error=None) for r in made.run.item_results
        ]
    )
    assert compute_metrics(bare, made.dataset).criterion_accuracy == 1.0
