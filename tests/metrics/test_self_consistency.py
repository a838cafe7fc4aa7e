"""How far a judge agrees with itself, with figures derived by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from autorubric import (
    Criterion,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    JudgeVote,
    MultiChoiceJudgeVote,
    Rubric,
    RubricDataset,
)
from autorubric.metrics import compute_metrics
from autorubric.metrics.results import JudgeSelfConsistency
from tests.offenders import each
from tests.oracles import proportion_confint, stats

BRIEF = Criterion(name="Brief", requirement="Is brief")
OPTIONS = [{"label": "No", "value": 0.0}, {"label": "Partly", "value": 0.5}, {"label": "Yes", "value": 1.0}]
SCALE = Criterion(name="Right", requirement="Is it right?", options=OPTIONS)


def verdicts(*words: str | None) -> EnsembleCriterionReport:
    """A judge that said these words; None for a repeat that failed."""
    repeats = [
        JudgeVote(judge_id=f"a#{n}", verdict=word, reason=None, error=None if word else "parse: nothing")
        for n, word in enumerate(words, start=1)
    ]
    vote = JudgeVote(judge_id="a", verdict="MET", reason=None, repeats=repeats)
    return EnsembleCriterionReport(criterion=BRIEF, final_verdict="MET", final_reason=None, votes=[vote])


def choices(*indices: int) -> EnsembleCriterionReport:
    def chosen(name: str, index: int, repeats: Sequence[MultiChoiceJudgeVote] = ()) -> MultiChoiceJudgeVote:
        value = (0.0, 0.5, 1.0)[index]
        return MultiChoiceJudgeVote(
            judge_id=name,
            selected_index=index,
            selected_label=("No", "Partly", "Yes")[index],
            value=value,
            reason=None,
            repeats=list(repeats),
        )

    votes = [chosen("a", indices[0], [chosen(f"a#{n}", index) for n, index in enumerate(indices, start=1)])]
    return EnsembleCriterionReport(criterion=SCALE, final_verdict=None, final_reason=None, multi_choice_votes=votes)


def consistency(*items: Sequence[EnsembleCriterionReport]) -> JudgeSelfConsistency:
    # One labelled item that was judged once, so that there is agreement to measure.
    once = JudgeVote(judge_id="a", verdict="MET", reason=None)
    plain = EnsembleCriterionReport(criterion=BRIEF, final_verdict="MET", final_reason=None, votes=[once])
    dataset, results = RubricDataset("Explain."), []
    for place, given in enumerate([[plain], *items]):
        named = [entry.criterion.model_copy(update={"name": f"{n}"}) for n, entry in enumerate(given)]
        entries = [e.model_copy(update={"criterion": c}) for e, c in zip(given, named, strict=True)]
        rubric = Rubric(named)
        dataset.add_item(f"Text {place}.", "", ["MET"] if place == 0 else None, rubric=rubric)
        report = EnsembleEvaluationReport(score=1.0, report=list(entries))
        results.append(SimpleNamespace(item_idx=place, report=report, error=None))
    [found] = compute_metrics(SimpleNamespace(item_results=results), dataset).self_consistency
    return found


@each(
    ("items", "agreement", "unanimous", "variance"),
    [
        # 3 of 3 pairs agree; then 1 of 3.
        ([[verdicts("MET", "MET", "MET")], [verdicts("MET", "UNMET", "MET")]], 2 / 3, 0.5, 1 / 6),
        # 4 repeats, 2 and 2: 1 + 1 of 6 pairs; the variance of 1, 1, 0, 0 is 4 * 0.25 / 3.
        ([[verdicts("MET", "MET", "UNMET", "UNMET")]], 1 / 3, 0.0, 1 / 3),
        # An abstention is another word, and has no value: the variance of 1, 1 is 0.
        ([[verdicts("MET", "MET", "CANNOT_ASSESS")]], 1 / 3, 0.0, 0.0),
        ([[verdicts("CANNOT_ASSESS", "CANNOT_ASSESS")]], 1.0, 1.0, None),
        # A repeat that failed says nothing.
        ([[verdicts("MET", None, "MET")]], 1.0, 1.0, 0.0),
        # Options 0, 0.5, 1: no pair agrees; the variance is 0.25.
        ([[choices(0, 1, 2)]], 0.0, 0.0, 0.25),
        # A judgment with one repeat left says nothing about consistency.
        ([[verdicts("MET", None), verdicts("MET", "UNMET")]], 0.0, 0.0, 0.5),
    ],
)
def test_the_figures_are_means_over_judgments(
    items: list[list[EnsembleCriterionReport]], agreement: float, unanimous: float, variance: float | None
) -> None:
    found = consistency(*items)
    assert (found.agreement, found.unanimous) == pytest.approx((agreement, unanimous))
    assert found.variance == (None if variance is None else pytest.approx(variance))


def test_the_interval_takes_items_as_clusters() -> None:
    found = consistency(
        [verdicts("MET", "MET"), verdicts("MET", "MET")], [verdicts("MET", "UNMET")], [verdicts("MET", "MET")]
    )
    # Sums 2, 0, 1 over 2, 1, 1 judgments; without each item 1/2, 1 and 2/3, so that the jackknife's variance is 7/81.
    worth = 3 / 4 * 1 / 4 / (7 / 81)
    level = 2 * stats.norm.sf(stats.t.ppf(0.975, 2))
    expected = proportion_confint(0.75 * worth, worth, alpha=level, method="wilson")
    assert found.agreement_ci is not None
    assert (found.agreement_ci.lower, found.agreement_ci.upper) == pytest.approx(expected)


def test_items_that_are_all_alike_count_as_one_observation_each() -> None:
    found = consistency(*[[verdicts("MET", "MET", "UNMET")] * 2] * 5).agreement_ci
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx(proportion_confint(5 / 3, 5, method="wilson"))


def test_a_panel_has_one_vote_of_a_judge_that_was_repeated(graded: Callable[..., Any]) -> None:
    made = graded([BRIEF])
    for number in range(6):
        label = "MET" if number % 2 else "UNMET"
        made.add([label], {"a": [label], "b": ["MET"]})
    run, plain = made.run, made.run
    for result in run.item_results:
        [entry] = result.report.report
        again = [entry.votes[0].model_copy(update={"judge_id": f"a#{n}"}) for n in range(1, 6)]
        entry.votes[0] = entry.votes[0].model_copy(update={"repeats": again})
    repeated = compute_metrics(run, made.dataset, per_judge=True)
    without = compute_metrics(plain, made.dataset, per_judge=True)
    assert [found.judge_id for found in repeated.self_consistency] == ["a"]
    assert without.self_consistency == []
    # Nothing else differs: five repeats of one judge are no five judges.
    assert repeated.model_copy(update={"self_consistency": []}) == without
    assert "self-consistency of a: two repeats agree in 1.000" in repeated.summary()
