from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict
from autorubric.core.judgment import Judgment, JudgmentFailure
from autorubric.errors import ConfigError
from autorubric.graders.cascade import Cascade
from autorubric.graders.judge import JudgeInput
from autorubric.graders.panel import Panel
from autorubric.graders.reporting import report_on
from autorubric.graders.without_model import ScriptedJudge, Word, no_model
from tests.offenders import each

LOST = JudgmentFailure("parse", "the reply holds no verdict")
MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET


def sure(verdict: CriterionVerdict, confidence: float | None) -> Judgment:
    return Judgment("small", verdict=verdict, confidence=confidence)


def case_of(count: int) -> JudgeInput:
    return JudgeInput("Yes.", tuple(Criterion(name=f"c{n}", requirement=f"r{n}") for n in range(count)))


async def asked(first: Any, count: int, **options: Any) -> tuple[int, ...]:
    """The criteria that the second judge was asked about."""
    then = ScriptedJudge("big", ["MET"] * count)
    await Cascade(first, then, **options).judge(case_of(count), range(count), no_model)
    return then.asked[0] if then.asked else ()


async def test_the_second_judge_is_asked_where_the_first_fails_or_abstains() -> None:
    first = ScriptedJudge("small", ["MET", LOST, "UNMET", "CANNOT_ASSESS"])
    assert await asked(first, 4) == (1, 3)


async def test_without_a_threshold_confidence_does_not_matter() -> None:
    assert await asked(ScriptedJudge("small", [sure(MET, 0.1), sure(UNMET, None)]), 2) == ()


async def test_below_the_threshold_or_without_confidence_the_second_judge_is_asked() -> None:
    words: list[Word] = [sure(MET, 0.79), sure(MET, 0.8), sure(UNMET, None), sure(UNMET, 1.0)]
    assert await asked(ScriptedJudge("small", words), 4, threshold=0.8) == (0, 2)


async def test_a_criterion_may_have_its_own_threshold() -> None:
    words: list[Word] = [sure(MET, 0.7)] * 3
    first = ScriptedJudge("small", words)
    assert await asked(first, 3, threshold=0.6, per_criterion={"c1": 0.9}) == (1,)
    assert await asked(first, 3, per_criterion={"c2": 0.9}) == (2,)


async def test_a_split_panel_goes_on_unless_a_threshold_lets_its_share_stand() -> None:
    panel = Panel(
        [ScriptedJudge(name, [word, "MET"]) for name, word in zip("abc", ("MET", "UNMET", "MET"), strict=True)]
    )
    assert await asked(panel, 2) == (0,)
    assert await asked(panel, 2, threshold=0.6) == ()  # 2 of 3 say MET
    assert await asked(panel, 2, threshold=0.7) == (0,)


async def test_missing_votes_of_a_panel_lower_its_confidence() -> None:
    cases: list[tuple[tuple[Word, Word], tuple[int, ...], tuple[int, ...]]] = [
        (("MET", "MET"), (), ()),
        (("MET", "CANNOT_ASSESS"), (0,), (0,)),
        (("CANNOT_ASSESS", "CANNOT_ASSESS"), (0,), (0,)),
        (("MET", LOST), (), (0,)),  # the quorum allows it, but 1 of 2 is a confidence of 0.5
    ]
    for words, with_no_threshold, with_threshold in cases:
        panel = Panel([ScriptedJudge(name, [word]) for name, word in zip("ab", words, strict=True)], quorum=1)
        assert await asked(panel, 1) == with_no_threshold, words
        assert await asked(panel, 1, threshold=0.6) == with_threshold, words


async def test_the_second_word_counts_and_the_first_vote_stays_superseded() -> None:
    cascade = Cascade(ScriptedJudge("small", [LOST, "MET"]), ScriptedJudge("big", ["UNMET", "UNMET"]))
    case = case_of(2)
    report = report_on(case, await cascade.judge(case, [0, 1], no_model))
    assert report.report is not None
    one, two = report.report
    assert (one.final_verdict, one.escalated, one.agreement) == (UNMET, True, 1.0)
    assert [(vote.judge_id, vote.superseded, vote.is_error) for vote in one.votes] == [
        ("small", True, True),
        ("big", False, False),
    ]
    assert (two.final_verdict, two.escalated, len(two.votes)) == (MET, False, 1)
    assert report.score == 0.5


async def test_where_the_second_judge_fails_too_the_criterion_fails() -> None:
    cascade = Cascade(ScriptedJudge("small", [sure(MET, 0.2)]), ScriptedJudge("big", [LOST]), threshold=0.5)
    [judgment] = await cascade.judge(case_of(1), [0], no_model)
    assert judgment.failure is LOST


async def test_where_the_first_suffices_everywhere_the_second_is_not_called() -> None:
    then = ScriptedJudge("big", [])
    first = ScriptedJudge("small", ["MET", "UNMET"])
    await Cascade(first, then).judge(case_of(2), [0, 1], no_model)
    assert then.asked == []


async def test_cascades_nest_and_only_the_last_word_is_looked_at() -> None:
    words: list[Word] = ["CANNOT_ASSESS", "CANNOT_ASSESS"]
    inner = Cascade(ScriptedJudge("a", words), ScriptedJudge("b", ["MET", LOST]))
    outer = Cascade(inner, ScriptedJudge("c", ["UNMET", "UNMET"]))
    assert outer.judge_ids == ("a", "b", "c")
    judgments = await outer.judge(case_of(2), [0, 1], no_model)
    assert [judgment.judge_id for judgment in judgments] == ["b", "c"]
    assert [leaf.superseded for leaf in judgments[1].leaves()] == [True, True, False]


@each(
    ("options", "message"),
    [
        ({"threshold": 1.5}, "threshold=1.5; expected a number from 0 to 1"),
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"threshold": True}, "threshold=True"),
        ({"per_criterion": {"c1": "high"}}, r"per_criterion\['c1'\]='high'"),
    ],
)
def test_thresholds_that_are_no_shares_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Cascade(ScriptedJudge("a", []), ScriptedJudge("b", []), **options)


def test_a_judge_cannot_stand_on_both_steps() -> None:
    with pytest.raises(ConfigError, match="a cascade has the judge id 'a' twice"):
        Cascade(ScriptedJudge("a", []), Panel([ScriptedJudge("b", []), ScriptedJudge("a", [])]))
