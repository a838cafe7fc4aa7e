"""What is said of the judges of a panel, one by one and together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autorubric import Criterion, InputError, JudgeVote
from autorubric.metrics import compute_metrics

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
    assert (x.accuracy_without, x.n_both, x.accuracy_change) == (0.8, 10, pytest.approx(0.3))


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
