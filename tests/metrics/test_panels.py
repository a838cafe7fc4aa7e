"""What is said of the judges of a panel, one by one and together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autorubric import Criterion, InputError, JudgeVote, Rubric
from autorubric.cli.agreement_report import show_agreement
from autorubric.metrics import MetricsResult, compute_metrics
from autorubric.metrics.rubric_analysis import analyze_rubric
from tests.oracles import inter_rater, krippendorff

Make = Callable[..., Any]

BRIEF = Criterion(name="Brief", requirement="Is brief")
STYLE = Criterion(
    name="Style",
    requirement="Which style is it?",
    options=[{"label": "Plain", "value": 0.0}, {"label": "Rich", "value": 1.0}],
    scale_type="nominal",
)


def test_a_panel_without_a_judge_is_compared_where_both_decide(graded: Make) -> None:
    made = graded([BRIEF])
    for number in range(10):
        label, wrong = ("MET", "UNMET") if number % 2 else ("UNMET", "MET")
        if number < 5:
            made.add([label], {"x": [wrong], "y": ["CANNOT_ASSESS"], "z": ["CANNOT_ASSESS"]})
        else:
            made.add([label], {"x": [label], "y": [label], "z": [label]})
    x, y, _ = compute_metrics(made.run, made.dataset, per_judge=True).without_judge
    # Only x decides the first five, wrongly. On the others the panel is right with x and without.
    assert (x.accuracy_without, x.n_pairs, x.accuracy_change, x.n_both) == (1.0, 5, 0.0, 5)
    assert (y.accuracy_without, y.n_pairs, y.accuracy_change, y.n_both) == (0.5, 10, 0.0, 10)
    x = compute_metrics(made.run, made.dataset, per_judge=True, cannot_assess="as_unmet").without_judge[0]
    # Now y and z say UNMET of the first five, which three of them are; the whole panel says there what x says.
    assert (x.accuracy_without, x.n_both, x.accuracy_change) == pytest.approx((0.8, 10, 0.3))


def test_a_judge_that_alone_decides_leaves_no_change_to_tell(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], {"x": ["MET"], "y": ["CANNOT_ASSESS"], "z": ["CANNOT_ASSESS"]})
    x = compute_metrics(made.run, made.dataset, per_judge=True).without_judge[0]
    assert (x.accuracy_without, x.accuracy_change, x.n_pairs, x.n_both) == (None, None, 0, 0)


@pytest.mark.parametrize(("criterion", "one", "other"), [(BRIEF, "MET", "UNMET"), (STYLE, "Plain", "Rich")])
def test_two_votes_of_one_judge_are_refused(graded: Make, criterion: Criterion, one: str, other: str) -> None:
    made = graded([criterion])
    made.add([one], {"a": [one], "b": [one]}).add([one], {"a": [one], "c": [other], "b": [one]})
    run = made.run
    [entry] = run.item_results[1].report.report
    votes = entry.votes or entry.multi_choice_votes
    votes[1] = votes[1].model_copy(update={"judge_id": "a"})
    with pytest.raises(InputError, match=f"item 1: judge 'a' voted more than once on {criterion.name!r}"):
        compute_metrics(run, made.dataset)


def test_a_repeated_vote_on_an_item_without_labels_is_not_blamed_on_the_next_item(graded: Make) -> None:
    made = graded([BRIEF]).add(None, {"a": ["MET"], "b": ["MET"]}).add(["MET"], {"a": ["MET"]})
    run = made.run
    [entry] = run.item_results[0].report.report
    entry.votes[1] = entry.votes[1].model_copy(update={"judge_id": "a"})
    assert compute_metrics(run, made.dataset).criterion_accuracy == 1.0


def test_a_vote_that_another_of_the_same_judge_supersedes_is_no_second_one(graded: Make) -> None:
    made = graded([BRIEF]).add(["MET"], {"a": ["MET"], "b": ["MET"]}).add(["MET"], {"a": ["MET"], "b": ["MET"]})
    run = made.run
    [entry] = run.item_results[0].report.report
    entry.votes.insert(0, JudgeVote(judge_id="a", verdict="UNMET", reason=None, superseded=True))
    found = compute_metrics(run, made.dataset, per_judge=True)
    assert found.per_judge is not None and found.per_judge["a"].criterion_accuracy == 1.0
    # The other way round the vote that was given up would be the one that counts.
    entry.votes.append(entry.votes.pop(0))
    with pytest.raises(InputError, match="judge 'a' voted more than once"):
        compute_metrics(run, made.dataset)


def pooled_panel(graded: Make, **modes: Any) -> MetricsResult:
    """Items whose rubrics are their own; the third judge says nothing of some."""
    made = graded([], shared=False)
    for number, (label, *votes) in enumerate(POOLED):
        kind = next(kind for kind, labels in KINDS.items() if label in labels)
        options = [{"label": each, "value": value} for each, value in KINDS[kind].items()]
        words = [label, *votes]
        if number % 2 and kind == "ordinal":
            # The same values by other names: only the values tell what is near.
            options = [{**option, "label": f"{option['label']}er"} for option in options]
            words = [f"{word}er" if word in KINDS[kind] else word for word in words]
        criterion = Criterion(
            requirement=f"Own {number}",
            options=None if kind == "binary" else options,
            scale_type="ordinal" if kind == "ordinal" else "nominal",
        )
        said = {judge: [word] for judge, word in zip("abc", words[1:], strict=True)}
        made.add(words[:1], said, Rubric([criterion]))
    found: MetricsResult = compute_metrics(made.run, made.dataset, per_judge=True, **modes)
    return found


KINDS: dict[str, dict[str, float]] = {
    "binary": {"MET": 1.0, "UNMET": 0.0},
    "ordinal": {"Low": 0.0, "Mid": 0.4, "High": 1.0},
    "nominal": {"Plain": 0.0, "Rich": 1.0},
}
POOLED = [
    ("MET", "MET", "MET", "UNMET"),
    ("MET", "MET", "UNMET", "CANNOT_ASSESS"),
    ("UNMET", "UNMET", "UNMET", "UNMET"),
    ("UNMET", "UNMET", "MET", "failed"),
    ("Low", "Low", "Low", "Mid"),
    ("Mid", "Mid", "High", "failed"),
    ("High", "High", "High", "High"),
    ("Low", "Low", "Mid", "Low"),
    ("Plain", "Plain", "Plain", "Rich"),
    ("Rich", "Rich", "Rich", "Rich"),
]


def expected_alpha(kind: str, level: Any, unsure: float = math.nan) -> float:
    values = KINDS[kind] | {"CANNOT_ASSESS": unsure, "failed": math.nan}
    rows = [[values[word] for word in votes] for label, *votes in POOLED if label in KINDS[kind]]
    alpha: float = krippendorff.alpha(np.array(rows).T, level_of_measurement=level)
    return alpha


def test_judges_of_items_with_rubrics_of_their_own_have_an_alpha_for_each_kind(graded: Make) -> None:
    found = pooled_panel(graded)
    assert found.pooled_by_scale is not None
    scales = {scale.scale_type: scale for scale in found.pooled_by_scale}
    assert scales["binary"].krippendorff_alpha == pytest.approx(expected_alpha("binary", "nominal"))
    assert scales["ordinal"].krippendorff_alpha == pytest.approx(expected_alpha("ordinal", "interval"))
    assert scales["nominal"].krippendorff_alpha == pytest.approx(expected_alpha("nominal", "nominal"))
    assert [scale.n_judges for scale in found.pooled_by_scale] == [3, 3, 3]
    assert f"among 3 judges, ordinal: alpha {scales['ordinal'].krippendorff_alpha:.3f}" in found.summary(verbose=True)


@pytest.mark.parametrize(("mode", "unsure"), [("as_unmet", 0.0), ("as_category", 2.0)])
def test_the_alpha_of_a_kind_settles_abstentions(graded: Make, mode: Any, unsure: float) -> None:
    binary = (pooled_panel(graded, cannot_assess=mode).pooled_by_scale or [])[0]
    assert binary.krippendorff_alpha == pytest.approx(expected_alpha("binary", "nominal", unsure))


def test_options_that_differ_without_an_order_have_no_common_alpha(graded: Make) -> None:
    made = graded([], shared=False)
    for number, labels in enumerate((["Plain", "Rich"], ["Old", "New"])):
        options = [{"label": label, "value": float(value)} for value, label in enumerate(labels)]
        criterion = Criterion(requirement=f"Own {number}", options=options, scale_type="nominal")
        made.add([labels[0]], {"a": [labels[0]], "b": [labels[1]]}, Rubric([criterion]))
    [scale] = compute_metrics(made.run, made.dataset).pooled_by_scale or []
    assert (scale.krippendorff_alpha, scale.n_judges) == (None, 2)


def test_pooled_kinds_have_rows_and_intervals(graded: Make) -> None:
    pytest.importorskip("pandas", reason="pandas is an option of the user's")
    found = pooled_panel(graded, bootstrap=True, n_bootstrap=100, seed=1)
    assert found.pooled_by_scale is not None
    frame = found.to_dataframe()
    judges = frame[frame["level"] == "judge"]
    assert list(judges["name"]) == list(found.per_judge or {}) and len(judges) > 1
    frame = frame[frame["level"] != "judge"]
    assert list(frame["name"]) == ["overall", "binary", "ordinal", "nominal"]
    assert frame["n_samples"].tolist() == [10, 4, 4, 2]
    assert frame["krippendorff_alpha"][2] == found.pooled_by_scale[1].krippendorff_alpha
    assert (frame["accuracy_micro"][1], frame["majority_baseline"][1], frame["coverage"][1]) == (1.0, 0.5, 1.0)


def test_the_summary_has_the_intervals_of_pooled_kinds(graded: Make) -> None:
    made = graded([], shared=False)
    for number in range(20):
        label, other = ("MET", "UNMET") if number % 2 else ("UNMET", "MET")
        made.add([label], [other if number < 5 else label], Rubric([Criterion(requirement=f"Own {number}")]))
    found = compute_metrics(made.run, made.dataset, bootstrap=True, n_bootstrap=100, seed=1)
    [scale] = found.pooled_by_scale or []
    assert scale.accuracy_ci is not None and scale.kappa_ci is not None
    shown = [f"[{ci.lower:.3f}, {ci.upper:.3f}]" for ci in (scale.accuracy_ci, scale.kappa_ci)]
    assert (
        f"  binary: accuracy 0.750 {shown[0]} (baseline 0.500), kappa 0.500 {shown[1]}, n=20"
        in found.summary().splitlines()
    )


def test_a_judge_has_the_intervals_of_a_run_by_it_alone(graded: Make) -> None:
    polite = Criterion(name="Polite", requirement="Is polite")
    panel, alone = graded([BRIEF, polite]), graded([BRIEF, polite])
    rng = np.random.default_rng(3)
    for _ in range(40):
        labels = ["MET" if met else "UNMET" for met in rng.random(2) < 0.5]
        said = {judge: ["MET" if met else "UNMET" for met in rng.random(2) < 0.5] for judge in ("a", "b")}
        panel.add(labels, said)
        alone.add(labels, said["b"])
    whole = compute_metrics(panel.run, panel.dataset, bootstrap=True, n_bootstrap=200, per_judge=True, seed=5)
    single = compute_metrics(alone.run, alone.dataset, bootstrap=True, n_bootstrap=200, seed=5)
    assert whole.per_judge is not None and single.bootstrap is not None
    judge = whole.per_judge["b"]
    assert judge.accuracy_ci == single.accuracy_ci
    assert judge.accuracy_ci is not None and judge.micro_kappa_ci is not None
    assert judge.accuracy_ci != judge.kappa_ci != judge.micro_kappa_ci
    shown = {row["judge"]: row for row in show_agreement(whole, "judge").rows}["b"]
    assert shown["accuracy"].interval == judge.accuracy_ci
    assert shown["kappa"].interval == judge.micro_kappa_ci  # `kappa_ci` is of the mean over criteria
    assert shown["AC"] == judge.gwet  # no interval is made for it
    by_name = {row["criterion"]: row for row in show_agreement(whole, "criterion").rows}
    for criterion in whole.per_criterion:
        assert criterion.kappa_ci is not None and by_name[criterion.name]["kappa"].interval == criterion.kappa_ci
    for found, expected in (
        (judge.kappa_ci, single.bootstrap.kappa_ci),
        (judge.micro_kappa_ci, single.bootstrap.micro_kappa_ci),
    ):
        assert found is not None and (found.lower, found.upper) == expected
    assert compute_metrics(panel.run, panel.dataset, per_judge=True).per_judge["b"].kappa_ci is None  # type: ignore[index]


def test_fleiss_kappa_is_among_the_judges_of_a_criterion_whoever_judges_the_others(graded: Make) -> None:
    # The second criterion is decided by a check, which has no vote on the first.
    made, counts = graded([BRIEF, Criterion(name="Short", requirement="Contains at most 3 words.")]), []
    for number in range(12):
        said = {judge: ["MET" if number % divisor else "UNMET", "MET"] for judge, divisor in (("x", 3), ("y", 4))}
        made.add(["MET", "MET"], said)
        counts.append([sum(words[0] == label for words in said.values()) for label in ("MET", "UNMET")])
    run = made.run
    for result in run.item_results:
        first, second = result.report.report
        check = JudgeVote(judge_id="check", verdict="MET", reason=None)
        result.report = result.report.model_copy(
            update={"report": [first, second.model_copy(update={"votes": [check]})]}
        )
    found = compute_metrics(run, made.dataset).per_criterion
    assert found[0].fleiss_kappa == pytest.approx(inter_rater.fleiss_kappa(np.array(counts)))
    assert (found[0].n_judges, found[1].n_judges, found[1].fleiss_kappa) == (2, 1, None)


def test_a_panel_whose_option_is_the_label_agrees_with_it_also_where_its_mean_is_another_value(graded: Make) -> None:
    made = graded([STYLE])
    for label, words in (("Rich", "Rich"), ("Plain", "Plain"), ("Rich", "Plain")):
        made.add([label], [words])
    run = made.run
    for result in run.item_results:
        [entry] = result.report.report
        choice = entry.final_multi_choice_verdict
        mean = 2 / 3 if choice.value else 1 / 3  # of three judges, one of whom says the other
        update = {"final_multi_choice_verdict": choice.model_copy(update={"aggregated_value": mean})}
        result.report = result.report.model_copy(update={"report": [entry.model_copy(update=update)]})
    [found] = analyze_rubric(run, made.dataset).criteria
    assert found.label_agreement.value == pytest.approx(2 / 3)
    assert compute_metrics(run, made.dataset).criterion_accuracy == pytest.approx(2 / 3)
