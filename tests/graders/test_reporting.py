import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from autorubric import CannotAssessConfig, CannotAssessStrategy, Criterion, CriterionVerdict
from autorubric.core.judgment import Judgment, JudgmentFailure, Quote
from autorubric.core.report import EnsembleEvaluationReport, score_reports
from autorubric.core.scoring import LengthPenalty
from autorubric.core.usage import TokenUsage
from autorubric.errors import ConfigError
from autorubric.graders.judge import JudgeInput
from autorubric.graders.panel import Panel
from autorubric.graders.reporting import Scoring, report_on, with_length_penalty
from autorubric.graders.without_model import ScriptedJudge, Word, no_model

LOST = JudgmentFailure("parse", "the reply holds no verdict", "Well, ...")
OPTIONS = [{"label": "No", "value": 0.0}, {"label": "Partly", "value": 0.5}, {"label": "Yes", "value": 1.0}]
NO_OPTIONS: list[dict[str, Any]] = []


def criterion(weight: float, options: list[dict[str, Any]] = NO_OPTIONS) -> Criterion:
    fields: dict[str, Any] = {"weight": weight, "requirement": "r"}
    return Criterion.model_validate(fields | ({"options": options} if options else {}))


async def reported(
    criteria: list[Criterion], *scripts: list[Word], scoring: Scoring | None = None, **panel: Any
) -> EnsembleEvaluationReport:
    case = JudgeInput("Yes.", tuple(criteria))
    inner = [ScriptedJudge(name, script) for name, script in zip("abc", scripts, strict=False)]
    judge = inner[0] if len(inner) == 1 else Panel(inner, **panel)
    judgments = await judge.judge(case, range(len(criteria)), no_model)
    return report_on(case, judgments, scoring or Scoring())


async def test_a_report_holds_the_score_and_what_it_rests_on() -> None:
    # MET of 10, UNMET of 5, MET of -3: (10 - 3) / 15.
    report = await reported([criterion(10), criterion(5), criterion(-3)], ["MET", "UNMET", "MET"])
    assert report.score == pytest.approx(7 / 15)
    assert (report.raw_score, report.llm_raw_score) == (7.0, 7.0)
    assert report.judge_scores == {"a": pytest.approx(7 / 15)}
    assert (report.coverage, report.failed_count, report.error) == (1.0, 0, None)
    assert report.mean_agreement == 1.0


async def test_a_report_is_made_with_every_field_that_its_model_declares() -> None:
    found = await reported([criterion(1), criterion(1, OPTIONS), criterion(1)], ["MET", 2, LOST], ["UNMET", 1, "MET"])
    parts: list[BaseModel] = [found]
    for one in parts:
        values = vars(one)
        assert set(values) == set(type(one).model_fields), type(one).__name__
        inner = [part for value in values.values() for part in (value if isinstance(value, list) else [value])]
        parts += (part for part in inner if isinstance(part, BaseModel) and not isinstance(part, Criterion))
    made = {type(one).__name__ for one in parts}
    assert made >= {"EnsembleCriterionReport", "JudgeVote", "MultiChoiceJudgeVote", "AggregatedMultiChoiceVerdict"}


async def test_each_judge_has_a_score_of_its_own_and_agreement_is_averaged() -> None:
    # Finals: MET (2 of 3), UNMET (3 of 3); a: 1/1+1... over weights 1 and 3.
    report = await reported([criterion(1), criterion(3)], ["MET", "UNMET"], ["MET", "UNMET"], ["UNMET", "UNMET"])
    assert report.score == 0.25
    assert report.judge_scores == {"a": 0.25, "b": 0.25, "c": 0.0}
    assert report.mean_agreement == pytest.approx((2 / 3 + 1) / 2)


async def test_a_failed_judgment_leaves_no_score_and_says_why() -> None:
    report = await reported([criterion(10), criterion(5), criterion(5)], ["MET", LOST, LOST])
    assert (report.score, report.raw_score) == (None, None)
    assert report.judge_scores == {"a": None}
    assert report.error == "2 of 3 criteria failed: parse: the reply holds no verdict (and 1 other error)"
    assert report.failed_count == 2
    assert report.coverage == pytest.approx(1 / 3)
    assert report.report is not None
    failed = report.report[1]
    assert (failed.is_error, failed.is_na, failed.final_verdict, failed.score_value) == (True, False, None, None)
    assert failed.votes[0].verdict is None


async def test_failures_are_skipped_only_when_the_caller_chose_so() -> None:
    skip = Scoring(on_failure="skip")
    report = await reported([criterion(10), criterion(5), criterion(5)], ["MET", "UNMET", LOST], scoring=skip)
    assert report.score == pytest.approx(10 / 15)
    assert (report.error, report.failed_count) == (None, 1)
    pitfall = await reported([criterion(10), criterion(-5)], [LOST, "UNMET"], scoring=skip)
    assert (pitfall.score, pitfall.raw_score, pitfall.judge_scores) == (None, None, {"a": None})
    assert pitfall.error == "1 of 2 criteria failed: parse: the reply holds no verdict"
    nothing = await reported([criterion(10)] * 3, [LOST] * 3, scoring=skip)
    assert nothing.score is None
    assert nothing.error == (
        "Every criterion's judgment failed: parse: the reply holds no verdict (and 2 other errors)"
    )
    assert nothing.mean_agreement is None


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        # MET of 10; abstained: 4 and -6. SKIP 10/10, ZERO 10/14, PARTIAL (10 + 2)/14, FAIL (10 + 0 - 6)/14.
        (CannotAssessStrategy.SKIP, 1.0),
        (CannotAssessStrategy.ZERO, 10 / 14),
        (CannotAssessStrategy.PARTIAL, 12 / 14),
        (CannotAssessStrategy.FAIL, 4 / 14),
    ],
)
async def test_abstentions_are_scored_as_configured(strategy: CannotAssessStrategy, expected: float) -> None:
    scoring = Scoring(CannotAssessConfig(strategy=strategy))
    words: list[Word] = ["MET", "CANNOT_ASSESS", "CANNOT_ASSESS"]
    report = await reported([criterion(10), criterion(4), criterion(-6)], words, scoring=scoring)
    assert report.score == pytest.approx(expected)
    assert (report.cannot_assess_count, report.coverage, report.failed_count) == (2, 1.0, 0)
    assert score_reports(report.report or [], scoring.cannot_assess) == pytest.approx(expected)


async def test_an_ordinal_mean_is_scored_as_the_mean_with_the_option_beside() -> None:
    # Options 0, 0, 0.5 of weight 10: mean 1/6, nearest No. The published package scores 0.
    report = await reported([criterion(10, OPTIONS)], [0], [0], [1])
    assert report.report is not None
    final = report.report[0].final_multi_choice_verdict
    assert final is not None
    assert (final.selected_index, final.selected_label, final.value) == (0, "No", 0.0)
    assert final.aggregated_value == pytest.approx(1 / 6)
    assert report.score == pytest.approx(1 / 6)
    assert report.report[0].agreement == pytest.approx(2 / 3)
    assert report.judge_scores == {"a": 0.0, "b": 0.0, "c": 0.5}


async def test_the_not_applicable_option_that_judges_add_is_shown_in_the_criterion() -> None:
    report = await reported([criterion(10, OPTIONS), criterion(5, OPTIONS)], [3, 2])
    assert report.report is not None
    added, plain = report.report
    assert added.criterion.options is not None
    assert len(added.criterion.options) == 4
    assert added.final_multi_choice_verdict is not None
    assert added.final_multi_choice_verdict.selected_label == "Cannot assess / not applicable"
    assert (added.is_na, added.score_value) == (True, None)
    assert (len(plain.criterion.options or []), report.score) == (3, 1.0)


async def test_an_abstention_without_an_option_for_it_has_no_index() -> None:
    report = await reported([criterion(10, OPTIONS)], ["CANNOT_ASSESS"])
    assert report.report is not None
    [entry] = report.report
    assert entry.final_multi_choice_verdict is not None
    assert (entry.final_multi_choice_verdict.selected_index, entry.is_na) == (None, True)
    assert (report.score, report.error, report.cannot_assess_count) == (None, None, 1)


async def test_the_bare_sum_is_given_where_normalizing_is_off() -> None:
    scoring = Scoring(normalize=False)
    report = await reported([criterion(10), criterion(-30)], ["MET", "MET"], scoring=scoring)
    assert (report.score, report.raw_score, report.judge_scores) == (-20.0, -20.0, {"a": -20.0})


def test_tokens_and_cost_are_those_of_every_reply_once() -> None:
    leaf = Judgment("a", verdict=CriterionVerdict.MET, usage=TokenUsage(90, 10, 100), cost=0.25)
    free = replace(leaf, judge_id="check", usage=None, cost=None)
    escalated = replace(leaf, votes=(replace(leaf, superseded=True), replace(leaf, judge_id="b")))
    case = JudgeInput("Yes.", (criterion(1), criterion(1), criterion(1)))
    report = report_on(case, [leaf, free, escalated])
    assert report.token_usage == TokenUsage(270, 30, 300)
    assert report.completion_cost == 0.75
    unknown = report_on(JudgeInput("Yes.", (criterion(1),)), [free])
    assert (unknown.token_usage, unknown.completion_cost) == (None, None)


def test_what_a_reply_cost_is_counted_also_where_it_could_not_be_read() -> None:
    failed = Judgment("a", failure=LOST, usage=TokenUsage(90, 10, 100), cost=0.25)
    assert report_on(JudgeInput("Yes.", (criterion(1),)), [failed]).completion_cost == 0.25


def test_quotes_and_flags_of_the_votes_that_count_are_shown() -> None:
    quote = Quote("two causes", 4, 14)
    old = Judgment("a", verdict=CriterionVerdict.MET, quotes=(Quote("else"),), flags=("old",), superseded=True)
    new = Judgment("b", verdict=CriterionVerdict.MET, quotes=(quote,), flags=("unsupported", "unsupported"))
    judgment = replace(new, votes=(old, new))
    report = report_on(JudgeInput("Yes.", (criterion(1),)), [judgment], flags=["addresses the judge"])
    assert report.report is not None
    assert report.report[0].quotes == [quote]
    assert report.report[0].flags == ["unsupported"]
    assert report.flags == ["addresses the judge"]


async def test_a_report_survives_json_whole() -> None:
    criteria = [criterion(10), criterion(5, OPTIONS), criterion(5)]
    report = await reported(criteria, ["MET", 1, LOST], ["UNMET", 2, "MET"])
    again = EnsembleEvaluationReport.model_validate(json.loads(report.model_dump_json()))
    assert again == report
    assert again.report is not None
    assert again.report[1].final_multi_choice_verdict == (report.report or [])[1].final_multi_choice_verdict


def test_the_length_penalty_comes_off_the_score_and_not_off_the_raw_one() -> None:
    penalty = LengthPenalty(free_budget=1, max_cap=3, penalty_at_cap=0.5, exponent=1.0)
    report = report_on(JudgeInput("a b", (criterion(2),)), [Judgment("a", verdict=CriterionVerdict.MET)])
    # Two words: half way from 1 to 3, so half of 0.5.
    penalised = with_length_penalty(report, "a b", penalty)
    assert (penalised.score, penalised.raw_score) == (0.75, 2.0)
    assert report.score == 1.0
    low = report.model_copy(update={"score": 0.1})
    assert with_length_penalty(low, "a b c", penalty).score == 0.0
    assert with_length_penalty(low, "a b c", penalty, normalize=False).score == pytest.approx(-0.4)
    failed = report.model_copy(update={"score": None})
    assert with_length_penalty(failed, "a b c", penalty).score is None


def test_a_failure_can_be_skipped_and_never_be_a_zero() -> None:
    with pytest.raises(ConfigError, match="on_failure='zero' is not one of none, skip"):
        Scoring(on_failure="zero")  # type: ignore[arg-type]
