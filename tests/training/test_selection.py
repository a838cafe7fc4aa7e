"""Which answers are kept, and the curve of K."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, EnsembleCriterionReport, EnsembleEvaluationReport
from autorubric.core.judgment import CannotAssessConfig, CannotAssessStrategy
from autorubric.errors import InputError
from autorubric.training.candidates import CandidateAnswer, ScoredCandidate
from autorubric.training.queries import read_queries
from autorubric.training.selection import KeepRule, compute_share, decide, parse_keep
from autorubric.training.selection_summary import (
    compute_best_of_k,
    compute_expected_best,
    compute_expected_kept,
    summarize,
)
from tests.offenders import each

SKIP = CannotAssessConfig()


def scored(*found: tuple[str, float | None]) -> list[ScoredCandidate]:
    return [
        ScoredCandidate(
            CandidateAnswer("q", answer, f"q-{n}"), score, None if score is not None else "timeout: none", n
        )
        for n, (answer, score) in enumerate(found)
    ]


def kept(candidates: list[ScoredCandidate], keep: KeepRule) -> list[str]:
    return [one.candidate.answer for one in decide(candidates, keep).chosen]


def test_the_best_candidate_strictly_above_the_threshold_is_kept() -> None:
    assert kept(scored(("a", 0.61), ("b", 0.9), ("c", 0.7)), KeepRule()) == ["b"]
    at_threshold = decide(scored(("a", 0.6)), KeepRule(threshold=0.6))
    assert (at_threshold.status, at_threshold.reason) == ("dropped", "no candidate is above 0.6")


def test_float_noise_does_not_lift_a_score_over_the_threshold() -> None:
    # 0.1 + 0.2 is 0.30000000000000004 in floats; 0.3 of weights is not above 0.3.
    found, keep = scored(("a", 0.1 + 0.2)), KeepRule(threshold=0.3)
    assert decide(found, keep).status == "dropped"
    [query] = read_queries(Path(__file__).parents[1] / "data" / "essay_grading_dataset.json").queries
    assert summarize([query], [found], [decide(found, keep)], keep).curve[0].kept == 0.0


def test_all_and_top_n_keep_more_of_them_best_first() -> None:
    found = scored(("a", 0.7), ("b", 0.9), ("c", 0.8), ("d", 0.5))
    assert kept(found, parse_keep("all")) == ["b", "c", "a"]
    assert kept(found, parse_keep("top-2")) == ["b", "c"]
    assert kept(found, parse_keep("top-9")) == ["b", "c", "a"]


def test_of_equal_scores_the_shorter_answer_goes_first_then_the_earlier_one() -> None:
    assert kept(scored(("long answer", 0.8), ("short", 0.8)), KeepRule()) == ["short"]
    assert decide(scored(("one", 0.8), ("two", 0.8)), KeepRule()).chosen[0].place == 0


def test_a_text_that_occurs_twice_is_kept_once() -> None:
    assert kept(scored(("same", 0.8), ("same", 0.8), ("other", 0.7)), parse_keep("all")) == ["same", "other"]


def test_a_pair_is_the_best_and_the_worst_that_is_far_enough_below() -> None:
    pairs = parse_keep("pairs", margin=0.2)
    decision = decide(scored(("best", 0.9), ("near", 0.75), ("worst", 0.3)), pairs)
    assert decision.rejected is not None
    assert (decision.chosen[0].candidate.answer, decision.rejected.candidate.answer) == ("best", "worst")
    assert decide(scored(("best", 0.9), ("near", 0.7)), pairs).rejected is not None  # exactly the margin
    none = decide(scored(("best", 0.9), ("near", 0.71)), pairs)
    assert (none.status, none.reason) == ("dropped", "no candidate is 0.2 below the best")


def test_of_equally_bad_answers_the_one_nearest_in_length_makes_the_pair() -> None:
    decision = decide(scored(("x" * 20, 0.9), ("y" * 90, 0.1), ("z" * 22, 0.1)), parse_keep("pairs"))
    assert decision.rejected is not None and decision.rejected.candidate.answer == "z" * 22


def test_a_text_that_was_graded_twice_makes_no_pair_with_itself() -> None:
    found = ("same", 0.9), ("same\n", 0.1)
    assert decide(scored(*found), parse_keep("pairs")).status == "dropped"
    pair = decide(scored(*found, ("other", 0.5)), parse_keep("pairs")).rejected
    assert pair is not None and pair.candidate.answer == "other"


def test_a_margin_of_zero_still_needs_a_worse_answer() -> None:
    assert decide(scored(("a", 0.9), ("b", 0.9)), parse_keep("pairs", margin=0)).status == "dropped"


def test_a_failed_candidate_is_never_kept_and_never_counted_as_bad() -> None:
    assert kept(scored(("failed", None), ("fine", 0.7)), parse_keep("all")) == ["fine"]
    only = decide(scored(("failed", None)), KeepRule())
    assert (only.status, only.reason) == ("undecided", "1 of 1 candidates have no score")
    mixed = decide(scored(("failed", None), ("low", 0.1)), KeepRule())
    assert mixed.status == "undecided"
    pair = decide(scored(("best", 0.9), ("failed", None)), parse_keep("pairs"))
    assert (pair.status, pair.rejected) == ("undecided", None)


@each("value", [-0.1, 1.1, float("nan"), True])
def test_a_threshold_outside_its_range_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"outside \[0, 1\]"):
        KeepRule(threshold=value)


def test_top_0_keeps_nothing_and_is_refused() -> None:
    with pytest.raises(InputError, match="top-0"):
        parse_keep("top-0")


def report(*entries: tuple[Criterion, Any]) -> EnsembleEvaluationReport:
    made = []
    for criterion, verdict in entries:
        record: dict[str, Any] = {"criterion": criterion, "final_verdict": None, "final_reason": None}
        if isinstance(verdict, float):
            record["final_multi_choice_verdict"] = {
                "selected_index": 0,
                "selected_label": "one",
                "value": verdict,
                "aggregated_value": verdict,
            }
        elif verdict is None:
            record["error"] = "timeout: none"
        else:
            record["final_verdict"] = verdict
        made.append(EnsembleCriterionReport.model_validate(record))
    return EnsembleEvaluationReport(score=0.125, report=made)


def test_the_score_is_what_was_achieved_over_what_could_be() -> None:
    def binary(weight: float) -> Criterion:
        return Criterion(weight=weight, requirement=f"asks {weight}")

    # (6 - 2) / (6 + 4)
    assert compute_share(report((binary(6), "MET"), (binary(4), "UNMET"), (binary(-2), "MET")), SKIP) == 0.4
    assert compute_share(report((binary(6), "MET"), (binary(4), None)), SKIP) is None
    # An abstention leaves both sums, or only the upper one.
    abstained = report((binary(6), "MET"), (binary(4), "CANNOT_ASSESS"))
    assert compute_share(abstained, SKIP) == 1.0
    assert compute_share(abstained, CannotAssessConfig(strategy=CannotAssessStrategy.ZERO)) == 0.6
    assert compute_share(report((binary(6), "CANNOT_ASSESS"), (binary(-2), "UNMET")), SKIP) is None
    # Nothing positive can be achieved: the report's own score.
    assert compute_share(report((binary(-2), "UNMET")), SKIP) == 0.125


def test_the_most_of_an_option_criterion_is_its_highest_option() -> None:
    options = [{"label": "one", "value": 0.2}, {"label": "two", "value": 0.8}]
    best = Criterion(weight=10, requirement="How good?", options=options)
    # 10 · 0.2 / (10 · 0.8)
    assert compute_share(report((best, 0.2)), SKIP) == 0.25
    assert compute_share(report((best, 0.8)), SKIP) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.floats(0, 1), st.data())
def test_the_curve_is_the_mean_over_all_subsets(scores: list[float], threshold: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(scores)))
    subsets = list(combinations(scores, k))
    assert compute_expected_best(scores, k) == pytest.approx(sum(map(max, subsets)) / len(subsets))
    kept_share = sum(max(subset) > threshold for subset in subsets) / len(subsets)
    assert compute_expected_kept(scores, threshold, k) == pytest.approx(kept_share)


def test_the_curve_of_a_query_with_thousands_of_candidates_is_computed() -> None:
    # Scores 1/n to n/n: the largest of k of the numbers 1 to n is (n + 1) * k / (k + 1) on average.
    n = 3000
    curve = compute_best_of_k([[score / n for score in range(1, n + 1)]], 0.0)
    assert [point.k for point in curve][62:] == [63, 64, 128, 256, 512, 1024, 2048, 3000]
    for point in curve:
        assert point.score == pytest.approx((n + 1) / n * point.k / (point.k + 1))
        assert point.kept == 1.0


def test_queries_with_too_few_candidates_leave_the_curve() -> None:
    curve = compute_best_of_k([[0.2, 0.4], [1.0], [], [0.1, 0.3, 0.5]], 0.5)
    # Of the three queries with candidates, two have two or more: means 0.3 and 0.3, best of two 0.4 and
    # (0.3 + 0.5 + 0.5) / 3.
    assert [(point.k, point.queries) for point in curve] == [(1, 2), (2, 2)]
    assert [point.score for point in curve] == pytest.approx([0.3, (0.4 + 1.3 / 3) / 2])
    assert compute_best_of_k([], 0.5) == []


@given(st.lists(st.one_of(st.none(), st.integers(0, 10)), max_size=6), st.integers(0, 10))
def test_every_kept_answer_was_judged_and_is_above_the_threshold(scores: list[int | None], threshold: int) -> None:
    candidates = scored(*((f"answer {n}", None if s is None else s / 10) for n, s in enumerate(scores)))
    for name in ("best", "all", "top-2", "pairs"):
        decision = decide(candidates, parse_keep(name, threshold / 10))
        assert all(one.score is not None and one.score > threshold / 10 for one in decision.chosen)
        assert bool(decision.chosen) == (decision.status == "selected")
        if decision.status == "dropped":
            assert None not in scores
