import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from autorubric import CannotAssessConfig, Criterion, CriterionVerdict
from autorubric.core.judgment import AggregatedMultiChoiceVerdict, JudgeVote, MultiChoiceJudgeVote, MultiChoiceVerdict
from autorubric.core.report import (
    CriterionReport,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    EvaluationReport,
    find_worst,
    score_reports,
)
from autorubric.core.usage import TokenUsage, aggregate_completion_cost, aggregate_evaluation_usage
from tests.offenders import each

MET, UNMET, CANNOT_ASSESS = CriterionVerdict
OPTIONS = [{"label": "No", "value": 0.0}, {"label": "Yes", "value": 1.0}]


def test_the_published_fields_have_their_published_defaults() -> None:
    report = EnsembleEvaluationReport(score=None)
    assert (report.raw_score, report.llm_raw_score, report.report, report.judge_scores) == (None, None, None, {})
    assert (report.mean_agreement, report.cannot_assess_count, report.error) == (None, 0, None)
    assert (report.token_usage, report.completion_cost) == (None, None)
    vote = JudgeVote(judge_id="a", verdict=MET, reason=None)
    assert (vote.weight, vote.error, vote.reasoning, vote.probabilities) == (1.0, None, None, None)
    assert (vote.confidence, vote.superseded, vote.is_error) == (None, False, False)
    entry = EnsembleCriterionReport(criterion=Criterion(requirement="r"), final_verdict=MET, final_reason=None)
    assert (entry.votes, entry.agreement, entry.final_multi_choice_verdict) == ([], 0.0, None)
    assert (entry.multi_choice_votes, entry.error, entry.escalated) == ([], None, False)
    with pytest.raises(ValidationError, match="reason"):
        CriterionReport(requirement="r")  # type: ignore[call-arg]


def test_a_report_can_be_changed_and_a_vote_cannot() -> None:
    report = EvaluationReport(score=0.5)
    report.score = 0.25
    vote = JudgeVote(judge_id="a", verdict=MET, reason=None)
    with pytest.raises(ValidationError, match="frozen"):
        vote.weight = 2.0  # type: ignore[misc]


@each(
    ("fields", "value", "is_na"),
    [
        ({"verdict": MET}, 1.0, False),
        ({"verdict": UNMET}, 0.0, False),
        ({"verdict": CANNOT_ASSESS}, None, True),
        ({"error": "parse: empty"}, None, False),
        ({"multi_choice_verdict": MultiChoiceVerdict(selected_index=1, value=1.0)}, 1.0, False),
        ({"multi_choice_verdict": MultiChoiceVerdict(value=0.0, na=True)}, None, True),
        ({"multi_choice_verdict": AggregatedMultiChoiceVerdict(value=0.0, aggregated_value=0.3)}, 0.3, False),
    ],
)
def test_a_criterion_is_judged_abstained_or_failed(fields: dict[str, Any], value: float | None, is_na: bool) -> None:
    report = CriterionReport(requirement="r", reason=None, **fields)
    assert (report.score_value, report.is_na, report.is_error) == (value, is_na, "error" in fields)
    again = CriterionReport.model_validate_json(report.model_dump_json())
    assert again == report
    assert again.score_value == value


def votes(*verdicts: CriterionVerdict | None) -> list[JudgeVote]:
    return [
        JudgeVote(judge_id=str(n), verdict=verdict, reason=None, error=None if verdict else "parse: empty")
        for n, verdict in enumerate(verdicts)
    ]


def test_agreement_is_the_share_of_counting_votes_that_say_the_final_word() -> None:
    def agreement(found: list[JudgeVote], **fields: Any) -> float:
        given: dict[str, Any] = {"criterion": Criterion(requirement="r"), "final_verdict": MET, "final_reason": None}
        return EnsembleCriterionReport(**(given | {"votes": found} | fields)).agreement

    assert agreement(votes(MET, MET, UNMET, CANNOT_ASSESS)) == 0.5
    assert agreement(votes(MET, None)) == 1.0  # a failed judge is no vote
    old = votes(UNMET)[0].model_copy(update={"superseded": True})
    assert agreement([old, *votes(MET)]) == 1.0
    assert agreement(votes(MET), agreement=0.25) == 0.25
    failed = EnsembleCriterionReport(
        criterion=Criterion(requirement="r"), final_verdict=None, final_reason=None, error="parse: empty"
    )
    assert failed.as_row(1)["agreement"] is None  # in a table, nobody voted is not nobody agreed
    assert agreement(votes(None), final_verdict=None, error="parse: empty") == 0.0


def test_agreement_on_options_is_by_index() -> None:
    cast = [
        MultiChoiceJudgeVote(judge_id=str(n), selected_index=index, selected_label="l", value=0.0, reason=None)
        for n, index in enumerate((1, 1, 0))
    ]
    entry = EnsembleCriterionReport(
        criterion=Criterion.model_validate({"requirement": "r", "options": OPTIONS}),
        final_verdict=None,
        final_reason=None,
        final_multi_choice_verdict=AggregatedMultiChoiceVerdict(selected_index=1, value=1.0, aggregated_value=2 / 3),
        multi_choice_votes=cast,
    )
    assert entry.agreement == pytest.approx(2 / 3)
    assert entry.score_value == pytest.approx(2 / 3)


def test_reports_are_scored_by_the_one_rule_and_a_failure_is_no_score() -> None:
    config = CannotAssessConfig()
    met = CriterionReport(requirement="r", weight=10, verdict=MET, reason=None)
    penalty = CriterionReport(requirement="r", weight=-4, verdict=MET, reason=None)
    failed = CriterionReport(requirement="r", reason=None, error="infrastructure: 503")
    assert score_reports([met, penalty], config) == 0.6  # (10 - 4) / 10
    assert score_reports([met, penalty], config, normalize=False) == 6.0
    assert score_reports([met, failed], config) is None
    assert score_reports([], config) is None


def test_the_worst_value_follows_the_sign() -> None:
    assert find_worst(Criterion(requirement="r", weight=3)) == 0.0
    assert find_worst(Criterion(requirement="r", weight=-3)) == 1.0
    assert find_worst(Criterion.model_validate({"requirement": "r", "weight": -3, "options": OPTIONS})) == 1.0


def test_usages_are_summed_and_unknown_costs_are_not_zero() -> None:
    assert sum([TokenUsage(1, 2, 3, 4, 5), TokenUsage(10, 20, 30, 40, 50)]) == TokenUsage(11, 22, 33, 44, 55)
    assert aggregate_completion_cost([0.0, None]) == 0.0
    assert aggregate_completion_cost([]) is None
    reports: list[EvaluationReport | EnsembleEvaluationReport] = [
        EvaluationReport(score=None, token_usage=TokenUsage(1, 2, 3)),
        EnsembleEvaluationReport(score=1.0, completion_cost=0.5),
    ]
    assert aggregate_evaluation_usage(reports) == (TokenUsage(1, 2, 3), 0.5)
    with pytest.raises(TypeError):
        TokenUsage() + 1  # type: ignore[operator]


def test_reports_can_be_sent_to_another_process() -> None:
    entry = EnsembleCriterionReport(
        criterion=Criterion(requirement="r"), final_verdict=MET, final_reason="x", votes=votes(MET)
    )
    report = EnsembleEvaluationReport(score=1.0, report=[entry])
    assert pickle.loads(pickle.dumps(report)) == report


def test_the_word_of_a_choice_is_its_label() -> None:
    def word(verdict: MultiChoiceVerdict | None) -> str | None:
        return CriterionReport(requirement="r", reason=None, multi_choice_verdict=verdict).word

    assert word(MultiChoiceVerdict(selected_label="Deep", value=1.0)) == "Deep"
    assert word(MultiChoiceVerdict(value=0.0)) == "CANNOT_ASSESS"
    assert word(None) is None
