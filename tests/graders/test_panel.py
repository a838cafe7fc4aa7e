from typing import Any

import pytest

from autorubric import CannotAssessConfig, Criterion, CriterionVerdict
from autorubric.core.criterion import AggregationStrategy
from autorubric.core.judgment import Judgment, JudgmentFailure
from autorubric.errors import ConfigError
from autorubric.graders.judge import JudgeInput
from autorubric.graders.panel import Panel, VoteDraw, make_draws
from autorubric.graders.reporting import Scoring, report_on
from autorubric.graders.without_model import ScriptedJudge, Word, no_model
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Message, Reply, Request
from autorubric.testing import ScriptedModel
from tests.offenders import each

LOST = JudgmentFailure("infrastructure", "the endpoint answered 503")
OPTIONS = [{"label": "No", "value": 0.0}, {"label": "Partly", "value": 0.5}, {"label": "Yes", "value": 1.0}]
WITH_NA = [*OPTIONS, {"label": "NA", "value": 0.0, "na": True}]
BINARY = Criterion(name="b", requirement="Is brief")


def choice(**fields: object) -> Criterion:
    return Criterion.model_validate({"name": "m", "requirement": "Is right", "options": OPTIONS, **fields})


def judges(*words: Word) -> list[ScriptedJudge]:
    return [ScriptedJudge(name, [word]) for name, word in zip("abcdefgh", words, strict=False)]


async def said(panel: Any, criterion: Criterion = BINARY) -> Judgment:
    [judgment] = await panel.judge(JudgeInput("Yes.", (criterion,)), [0], no_model)
    assert isinstance(judgment, Judgment)
    return judgment


async def test_a_panel_says_what_its_rule_makes_of_the_votes_and_keeps_them() -> None:
    judgment = await said(Panel(judges("MET", "UNMET", "MET")))
    assert judgment.verdict is CriterionVerdict.MET
    assert judgment.confidence == pytest.approx(2 / 3)
    assert [vote.judge_id for vote in judgment.votes] == ["a", "b", "c"]


async def test_a_panel_of_one_fails_with_the_failure_of_its_judge_and_one_of_two_with_a_count() -> None:
    for words, told in (([LOST], str(LOST)), ([LOST, "MET"], "1 of 2 judges failed where all are needed")):
        [found] = await Panel(judges(*words)).judge(JudgeInput("Yes.", (BINARY,)), [0], no_model)
        assert isinstance(found, Judgment) and found.failure is not None
        assert told in str(found.failure)
        assert (len(words) == 1) == (found.failure == LOST)


async def test_one_draw_of_a_judge_is_a_panel_too() -> None:
    assert (await said(Panel(make_draws(ScriptedJudge("a", ["MET"]), 1)))).verdict is CriterionVerdict.MET


async def test_only_the_wanted_criteria_are_judged_in_the_order_wanted() -> None:
    inner = [ScriptedJudge(name, ["MET", "UNMET", "CANNOT_ASSESS"]) for name in "ab"]
    judgments = await Panel(inner).judge(JudgeInput("Yes.", (BINARY,) * 3), [2, 0], no_model)
    assert [judgment.verdict for judgment in judgments] == ["CANNOT_ASSESS", "MET"]
    assert inner[1].asked == [(2, 0)]


async def test_abstentions_are_set_aside_before_the_rule() -> None:
    # Of the two that can say, all say MET: no majority of three is needed, and unanimity is not broken.
    rules: tuple[AggregationStrategy, ...] = ("majority", "weighted", "unanimous", "any")
    for rule in rules:
        judgment = await said(Panel(judges("CANNOT_ASSESS", "MET", "CANNOT_ASSESS"), binary=rule))
        assert judgment.verdict is CriterionVerdict.MET
        assert judgment.confidence == 1 / 3


async def test_where_all_abstain_the_panel_abstains() -> None:
    binary = await said(Panel(judges("CANNOT_ASSESS", "CANNOT_ASSESS")))
    assert binary.verdict is CriterionVerdict.CANNOT_ASSESS
    assert binary.reason == "All judges could not assess"
    own = await said(Panel(judges(3, 3)), choice(options=WITH_NA))
    assert own.option == 3
    added = await said(Panel(judges(3, "CANNOT_ASSESS")), choice())  # 3 is the option that judges add
    assert added.option == 3
    without = await said(Panel(judges("CANNOT_ASSESS", "CANNOT_ASSESS")), choice())
    assert without.verdict is CriterionVerdict.CANNOT_ASSESS


async def test_not_applicable_is_no_vote_for_the_value_it_carries() -> None:
    # NA carries 0.0; the mean of the others is 1.0.
    judgment = await said(Panel(judges(3, 2, 2)), choice(options=WITH_NA))
    assert (judgment.option, judgment.value) == (2, 1.0)


async def test_nominal_judges_that_must_agree_and_do_not_leave_the_criterion_unscored() -> None:
    criterion = choice(scale_type="nominal", weight=4)
    case = JudgeInput("Yes.", (criterion, choice(weight=4)))
    panel = Panel([ScriptedJudge("a", [0, 2]), ScriptedJudge("b", [2, 2])], nominal="unanimous")
    report = report_on(case, await panel.judge(case, [0, 1], no_model))
    assert report.report is not None
    assert (report.report[0].is_na, report.report[0].agreement) == (True, 0.0)
    assert (report.score, report.cannot_assess_count) == (1.0, 1)


async def test_one_failed_judge_fails_the_panel_and_says_who() -> None:
    judgment = await said(Panel(judges("MET", LOST, "MET")))
    assert judgment.verdict is None
    assert str(judgment.failure) == (
        "infrastructure: 1 of 3 judges failed where all are needed: b: infrastructure: the endpoint answered 503"
    )
    assert len(judgment.votes) == 3


@pytest.mark.parametrize(
    ("words", "quorum", "expected"),
    [
        (("MET", LOST, "MET"), 2, CriterionVerdict.MET),
        (("MET", LOST, LOST), 2, None),
        (("MET", LOST, LOST), 1, CriterionVerdict.MET),
        (("CANNOT_ASSESS", LOST, "UNMET"), 2, CriterionVerdict.UNMET),  # an abstention is no failure
        ((LOST, LOST, LOST), 1, None),
    ],
)
async def test_a_quorum_says_how_many_judges_must_not_fail(
    words: tuple[Word, ...], quorum: int, expected: CriterionVerdict | None
) -> None:
    judgment = await said(Panel(judges(*words), quorum=quorum))
    assert judgment.verdict is expected
    assert (judgment.failure is None) == (expected is not None)


async def test_a_failure_is_never_a_vote_for_the_worst_case() -> None:
    # As votes for UNMET the two failures would win.
    judgment = await said(Panel(judges(LOST, LOST, "MET"), quorum=1))
    assert judgment.verdict is CriterionVerdict.MET


async def test_a_criterions_own_rule_goes_before_the_panels() -> None:
    inner = judges("MET", "UNMET", "UNMET")
    judgment = await said(Panel(inner), Criterion(requirement="r", aggregation="any"))
    assert judgment.verdict is CriterionVerdict.MET


async def test_panels_nest_and_a_panels_mean_counts_unrounded() -> None:
    # Inside: (0 + 0.5) / 2 = 0.25, shown as No. Outside: (0.25 + 1) / 2 = 0.625, nearest 0.5.
    inner = Panel([ScriptedJudge("a", [0]), ScriptedJudge("b", [1])])
    outer = Panel([inner, ScriptedJudge("c", [2])])
    assert outer.judge_ids == ("a", "b", "c")
    judgment = await said(outer, choice())
    assert (judgment.option, judgment.value) == (1, 0.625)
    assert judgment.votes[0].option == 0
    assert [leaf.judge_id for leaf in judgment.leaves()] == ["a", "b", "c"]


async def test_a_panel_has_a_weight_of_its_own_in_a_panel() -> None:
    inner = Panel([ScriptedJudge("a", ["UNMET"])], weight=3.0)
    outer = Panel([inner, ScriptedJudge("b", ["MET"]), ScriptedJudge("c", ["MET"])], binary="weighted")
    assert (await said(outer)).verdict is CriterionVerdict.UNMET  # 3 > 2


async def test_reasons_are_joined_with_their_judges() -> None:
    words = [Judgment(name, verdict=CriterionVerdict.MET, reason=reason) for name, reason in (("a", "x"), ("b", "y"))]
    judgment = await said(Panel(judges(*words)))
    assert judgment.reason == "a: x | b: y"


@each(
    ("arguments", "message"),
    [
        ({"judges": []}, "at least one judge"),
        ({"judges": judges("MET", "MET"), "quorum": 3}, "quorum=3; expected a whole number from 1 to the 2 judges"),
        ({"judges": judges("MET", "MET"), "quorum": 0}, "quorum=0"),
        ({"judges": judges("MET", "MET"), "quorum": True}, "quorum=True"),
        ({"judges": judges("MET"), "binary": "majorty"}, "did you mean 'majority'"),
        ({"judges": [*judges("MET"), *judges("MET")]}, "a panel has the judge id 'a' twice"),
        ({"judges": [Panel(judges("MET", "MET")), *judges("MET")]}, "'a' twice"),
    ],
)
def test_a_panel_that_cannot_work_is_refused_when_it_is_made(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Panel(**arguments)


class Asking:
    """A simple judge that asks its model for the verdict, as a bare text."""

    judge_ids = ("gpt",)

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model

    async def judge(self, case: JudgeInput, wanted: Any, ask: Any) -> list[Judgment]:
        judgments = []
        for index in wanted:
            request = Request((Message("user", case.criteria[index].requirement),), role="judge")
            answer = await ask(self.model, request, lambda reply: Answer(reply.text, reply), lambda first, *_: first)
            word = (
                Judgment("gpt", failure=JudgmentFailure("infrastructure", str(answer)))
                if isinstance(answer, Failure)
                else Judgment("gpt", verdict=CriterionVerdict(answer.value))
            )
            judgments.append(word)
        return judgments


async def test_draws_of_one_judge_are_different_calls_that_vote() -> None:
    verdicts = ["MET", "UNMET", "MET"]
    model = ScriptedModel(lambda request: Reply(verdicts[request.draw]))
    panel = Panel(make_draws(Asking(model), 3))
    with Ledger.in_memory() as ledger:
        executor = Executor(ledger)
        for _ in range(2):
            [judgment] = await panel.judge(JudgeInput("Yes.", (BINARY,)), [0], executor.ask_for)
    assert judgment.verdict is CriterionVerdict.MET
    assert [leaf.judge_id for leaf in judgment.leaves()] == ["gpt#1", "gpt#2", "gpt#3"]
    assert [leaf.verdict for leaf in judgment.leaves()] == verdicts
    assert sorted(request.draw for request in model.requests) == [0, 1, 2]


async def test_draws_of_a_panel_of_draws_never_share_a_call() -> None:
    model = ScriptedModel(lambda request: Reply("MET"))
    await said_by_model(Panel(make_draws(Panel(make_draws(Asking(model), 2)), 3)))
    assert len({request.draw for request in model.requests}) == 6


async def said_by_model(panel: Panel) -> None:
    with Ledger.in_memory() as ledger:
        await panel.judge(JudgeInput("Yes.", (BINARY,)), [0], Executor(ledger).ask_for)


def test_the_first_draw_is_the_judge_itself_whatever_the_number_of_draws() -> None:
    # draw · of + number, and a judge asks draw 0: its answers of before are found again.
    assert [VoteDraw(ScriptedJudge("a", []), number, 5).number for number in range(2)] == [0, 1]
    for count in (0, -1, True, 2.0):
        with pytest.raises(ConfigError, match="expected a whole number, 1 or more"):
            make_draws(ScriptedJudge("a", []), count)  # type: ignore[arg-type]


async def test_a_panel_with_a_failed_judge_has_no_score_and_is_not_a_zero() -> None:
    case = JudgeInput("Yes.", (BINARY, BINARY))
    panel = Panel([ScriptedJudge("a", ["MET", "MET"]), ScriptedJudge("b", ["MET", LOST])])
    judgments = await panel.judge(case, [0, 1], no_model)
    assert report_on(case, judgments).score is None
    assert report_on(case, judgments, Scoring(CannotAssessConfig(), on_failure="skip")).score == 1.0
