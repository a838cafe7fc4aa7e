"""Runs that are not what labels expect: told by name, or counted as what they are."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, CriterionOption, DataItem, Rubric, RubricDataset
from autorubric.core.scoring import LengthPenalty, compute_length_penalty
from autorubric.errors import InputError
from autorubric.metrics import compute_metrics, ks_test
from autorubric.metrics.confusion import icc
from autorubric.metrics.joining import relabel
from autorubric.metrics.reading_runs import read_table
from tests.metrics.conftest import Graded
from tests.offenders import each
from tests.oracles import stats

BRIEF, POLITE = Criterion(name="Brief", requirement="Is brief"), Criterion(name="Polite", requirement="Is polite")


def choice(*options: tuple[str, float]) -> Criterion:
    made = [CriterionOption(label=label, value=value) for label, value in options]
    return Criterion(name="Quality", requirement="How good is it?", options=made)


@pytest.mark.parametrize("now", [(("High", 1.0), ("Low", 0.0)), (("Low", 0.0), ("Mid", 0.5), ("High", 1.0))])
def test_options_are_known_by_their_labels_in_whatever_order(now: Any, graded: Callable[..., Graded]) -> None:
    made = graded([choice(("Low", 0.0), ("High", 1.0))])
    for label in ("High", "Low", "High"):
        made.add([label], {"a": [label], "b": [label]})
    labels = RubricDataset("Explain.", Rubric([choice(*now)]), made.dataset.items)
    found = compute_metrics(made.run, labels, per_judge=True)
    assert found.criterion_accuracy == 1.0
    assert found.per_judge is not None and found.per_judge["b"].criterion_accuracy == 1.0


def test_words_of_another_kind_of_criterion_are_refused(graded: Callable[..., Graded]) -> None:
    yes_no = choice(("No", 0.0), ("Yes", 1.0))
    binary = Criterion(name="Quality", requirement="How good is it?")
    made = graded([yes_no]).add(["Yes"], ["Yes"])
    labels = RubricDataset("Explain.", Rubric([binary]), [DataItem("Text 0.", "", ["MET"])])
    with pytest.raises(InputError, match="'Quality' is binary, but the run has the option 'Yes' for it"):
        compute_metrics(made.run, labels)
    other = graded([binary]).add(["MET"], ["MET"])
    labels = RubricDataset("Explain.", Rubric([yes_no]), [DataItem("Text 0.", "", ["Yes"])])
    with pytest.raises(InputError, match="'Quality' has options, but the run has the verdict MET for it"):
        compute_metrics(other.run, labels)
    labels = RubricDataset(
        "Explain.", Rubric([choice(("No", 0.0), ("Maybe", 1.0))]), [DataItem("Text 0.", "", ["No"])]
    )
    with pytest.raises(InputError, match="'Quality' has no option 'Yes', which the run chose"):
        compute_metrics(made.run, labels)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ([("t0", "Text A."), ("t1", "Text B.")], "its items have the same ids, but other submissions"),
        ([("a", "Text A."), ("b", "Text B.")], "its items have other submissions"),
        ([(None, "Text A."), (None, "Text B.")], "its items have other submissions"),
        (
            [(None, "Text 1."), (None, "Text 0."), (None, "Text 1."), (None, "Text 0.")],
            "its items with the same submissions occur more than once and have no id that distinguishes them",
        ),
        ([], "it has 0 items"),
    ],
)
def test_labels_that_fit_no_item_are_told_apart(
    labels: list[tuple[str | None, str]], why: str, graded: Callable[..., Graded]
) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["UNMET"], ["UNMET"])
    run, dataset = made.run, made.dataset
    for number, result in enumerate(run.item_results):
        result.item.id = dataset.items[number].id = f"t{number}"
    items = [DataItem(text, "", ["MET"], id=name) for name, text in labels]
    others = RubricDataset("Explain.", Rubric([BRIEF]), items)
    message = f"none of the 2 graded items is in the dataset; {why}"
    for read in (lambda: compute_metrics(run, others), lambda: relabel(dataset, others)):
        with pytest.raises(InputError) as caught:
            read()
        assert caught.value.problems == (message,)


def test_an_item_that_is_in_a_run_twice_is_named(graded: Callable[..., Graded]) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["UNMET"], ["UNMET"])
    twice = SimpleNamespace(item_results=[*made.run.item_results, made.run.item_results[1]])
    for read in (lambda: compute_metrics(twice, made.dataset), lambda: read_table(twice, made.dataset)):
        with pytest.raises(InputError, match="item 1 is in the run more than once"):
            read()


def test_an_equal_text_counts_once_for_one_label(graded: Callable[..., Graded]) -> None:
    made = graded([BRIEF]).add(["MET"], ["MET"]).add(["UNMET"], ["UNMET"])
    first, second = made.run.item_results
    again = SimpleNamespace(item_idx=7, item=first.item, report=first.report, error=None)
    run = SimpleNamespace(item_results=[first, second, again])
    found = compute_metrics(run, made.dataset)
    assert found.n_items == 2
    assert "1 of 3 graded items have the same text as an earlier item and are left out" in found.warnings
    assert read_table(run, made.dataset).items.tolist() == [0, 1]


def test_a_criterion_that_is_twice_in_a_rubric_is_two(graded: Callable[..., Graded]) -> None:
    same = Criterion(requirement="Is brief")
    made = graded([same, same]).add(["MET", "UNMET"], ["MET", "MET"]).add(["UNMET", "MET"], ["UNMET", "MET"])
    found = compute_metrics(made.run, made.dataset)
    assert [(part.name, part.n_samples, part.accuracy) for part in found.per_criterion] == [
        ("C1", 2, 1.0),
        ("C2", 2, 0.5),
    ]


def test_unnamed_criteria_of_different_rubrics_have_names_of_their_own(graded: Callable[..., Graded]) -> None:
    made = graded([], shared=False)
    for requirement in ("Is brief", "Names two causes of the war and says which of them mattered more"):
        made.add(["MET"], ["MET"], Rubric([Criterion(requirement=requirement)]))
    found = compute_metrics(made.run, made.dataset, per_item_metrics="per_criterion")
    assert [part.name for part in found.per_criterion] == [
        "C1 (Is brief)",
        "C1 (Names two causes of the war and says wh…)",
    ]


def test_true_scores_leave_out_what_the_scores_leave_out(graded: Callable[..., Graded]) -> None:
    made = graded([BRIEF, POLITE])
    for labels in (["MET", "UNMET"], ["UNMET", "MET"], ["MET", "MET"], ["UNMET", "UNMET"]):
        made.add(labels, [labels[0], "failed"]).add(labels, labels)
    run = made.run
    for result, said in zip(run.item_results, made.said, strict=True):
        if "failed" in said:
            score = float(said[0] == "MET")
            result.report = result.report.model_copy(update={"score": score, "error": None})
            result.error = None
    run.grader_config = {"normalize": True, "cannot_assess": {}, "on_failure": "skip"}
    found = compute_metrics(run, made.dataset)
    # Each verdict there is is right.
    assert (found.n_scores, found.score_mae) == (8, 0.0)
    assert any(w.startswith("criteria without a verdict are left out of 4 scores") for w in found.warnings)


def test_a_length_penalty_takes_from_a_true_score_what_it_hides_in_a_score_of_0(
    graded: Callable[..., Graded],
) -> None:
    made = graded([BRIEF, POLITE])
    made.add(["MET", "UNMET"], ["MET", "MET"]).add(["MET", "UNMET"], ["MET", "UNMET"])
    made.add(["MET", "MET"], ["UNMET", "UNMET"]).add(["UNMET", "UNMET"], ["UNMET", "UNMET"])
    penalty = LengthPenalty(free_budget=0, max_cap=2, penalty_at_cap=0.2)
    assert compute_length_penalty("Text 0.", penalty) == 0.2
    run, lowered = made.run, []
    for result in run.item_results:
        lowered.append(max(0.0, result.report.score - 0.2))
        result.report = result.report.model_copy(update={"score": lowered[-1]})
    run.grader_config = {
        "normalize": True,
        "cannot_assess": {},
        "length_penalty": penalty.model_dump(exclude={"count_fn"}),
    }
    # Scores 0.8, 0.3, 0 and 0; true scores 0.5, 0.5, 1 and 0 less 0.2, none below 0: off by 0.5, 0, 0.8 and 0.
    assert compute_metrics(run, made.dataset).score_mae == pytest.approx(1.3 / 4)
    # By a length that is not the one of the settings: off by 0.5, 0, 1 and 0, and what is not known is told.
    stated = run.grader_config["length_penalty"]
    stated["free_budget"] = stated["max_cap"] = 50
    found = compute_metrics(run, made.dataset)
    assert found.score_mae == pytest.approx(1.5 / 4)
    assert "1 of the scores are 0, so their true scores may have a smaller length penalty" in found.warnings


@each(("n", "m", "shift"), [(3000, 3000, 0.04), (10_000, 10_000, 0.06), (2000, 6000, 0.06), (9, 4, 0.5)])
def test_large_samples_have_exact_p_values(n: int, m: int, shift: float) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random(n), rng.random(m) + shift
    expected = stats.ks_2samp(first, second, method="exact").pvalue
    assert ks_test(first, second).p_value == pytest.approx(expected, rel=1e-8)


def test_samples_that_do_not_overlap_differ_whatever_their_size() -> None:
    values = np.arange(3000) / 3000
    assert ks_test(values, values + 2).p_value == 0.0
    assert ks_test(values, values).p_value == 1.0


@each("value", [0.1, 0.2, 0.3, 0.7, 1 / 3])
def test_scores_that_are_all_the_same_have_no_intraclass_correlation(value: float) -> None:
    for shape in ((3, 3), (7, 3), (6, 2)):
        assert icc(np.full(shape, value)) is None
    assert icc([[value, 1.0]] * 5) == 0.0
    assert icc([[value, value], [1.0, 1.0]]) == pytest.approx(1.0)
