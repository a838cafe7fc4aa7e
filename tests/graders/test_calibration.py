import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, CriterionVerdict, DataItem, Rubric, RubricDataset
from autorubric.core.judgment import Judgment, JudgmentFailure
from autorubric.core.report import EnsembleEvaluationReport
from autorubric.errors import InputError
from autorubric.graders.calibration import calibrate_cascade
from autorubric.graders.judge import JudgeInput
from autorubric.graders.panel import Panel
from autorubric.graders.reporting import report_on
from autorubric.graders.without_model import ScriptedJudge, Word, no_model

LOST = JudgmentFailure("parse", "the reply holds no verdict")
RUBRIC = Rubric([Criterion(name="right", requirement="Is right")])


def labelled(*labels: str, salt: str = "") -> RubricDataset:
    items = [DataItem(f"{salt}{n}", f"{n}", ground_truth=[CriterionVerdict(label)]) for n, label in enumerate(labels)]
    return RubricDataset("Is it?", RUBRIC, items)


def report(
    word: str | JudgmentFailure, confidence: float | None = None, cost: float | None = 0.0
) -> EnsembleEvaluationReport:
    made = (
        Judgment("a", failure=word, cost=cost)
        if isinstance(word, JudgmentFailure)
        else Judgment("a", verdict=CriterionVerdict(word), confidence=confidence, cost=cost)
    )
    return report_on(JudgeInput("x", tuple(RUBRIC)), [made])


# Four items, labels MET MET UNMET UNMET.
# first: MET .9 (right), UNMET .6 (wrong), UNMET .8 (right), MET .5 (wrong); then: right but for the third.
FIRST = [report("MET", 0.9, 0.01), report("UNMET", 0.6, 0.01), report("UNMET", 0.8, 0.01), report("MET", 0.5, 0.01)]
THEN = [report("MET", None, 1.0), report("MET", None, 1.0), report("MET", None, 1.0), report("UNMET", None, 1.0)]
LABELS = labelled("MET", "MET", "UNMET", "UNMET")


def test_the_curve_says_what_each_threshold_would_have_done() -> None:
    curve = calibrate_cascade(FIRST, THEN, LABELS)
    found = [(p.threshold, p.share, p.agreement, p.coverage, round(p.cost or 0, 2)) for p in curve.points]
    assert found == [
        (0.0, 0.0, 0.5, 1.0, 0.04),  # the first alone: items 1 and 3
        (0.5, 0.0, 0.5, 1.0, 0.04),  # 0.5 is not below 0.5
        (0.6, 0.25, 0.75, 1.0, 1.04),  # item 4 put right
        (0.8, 0.5, 1.0, 1.0, 2.04),  # item 2 as well
        (0.9, 0.75, 0.75, 1.0, 3.04),  # item 3 spoiled
        (1.0, 1.0, 0.75, 1.0, 4.04),
    ]
    assert curve.first_alone.agreement == 0.5
    assert curve.first_alone.cost == pytest.approx(0.04)
    assert (curve.then_alone.agreement, curve.then_alone.cost) == (0.75, 4.0)
    assert curve.cells == 4


def test_runs_are_read_by_the_numbers_of_their_items() -> None:
    def run(reports: list[EnsembleEvaluationReport]) -> SimpleNamespace:
        return SimpleNamespace(
            item_results=[SimpleNamespace(item_idx=n, report=r) for n, r in enumerate(reports)][::-1]
        )

    assert calibrate_cascade(run(FIRST), run(THEN), LABELS) == calibrate_cascade(FIRST, THEN, LABELS)
    # An unfinished run has no result of the last item.
    assert calibrate_cascade(run(FIRST[:3]), THEN, LABELS) == calibrate_cascade([*FIRST[:3], None], THEN, LABELS)


def test_the_best_threshold_agrees_best_and_asks_least() -> None:
    curve = calibrate_cascade(FIRST, THEN, LABELS)
    assert curve.best().threshold == 0.8
    assert curve.best(max_share=0.3).threshold == 0.6
    assert curve.best(tolerance=0.25).threshold == 0.6
    assert curve.best(tolerance=0.5).share == 0.0
    with pytest.raises(InputError, match=r"the lowest is 0\.000"):
        curve.best(max_share=-1)


def test_failures_abstentions_and_unknown_confidence_always_go_on() -> None:
    first = [report(LOST), report("CANNOT_ASSESS", 1.0), report("MET", None), report("UNMET", 0.1)]
    curve = calibrate_cascade(first, THEN, LABELS, thresholds=[0.0])
    # Items 1 and 2 become right by the second judge; the third, which the first had wrong, too is wrong there.
    [point] = curve.points
    assert (point.share, point.agreement) == (0.75, 0.75)


def test_a_failed_second_judge_has_no_word_and_is_no_disagreement() -> None:
    then = [report(LOST), None, report("MET"), report("UNMET")]
    point = calibrate_cascade(FIRST, then, LABELS, thresholds=[1.0]).points[0]
    # Two words of four: the third is wrong, the fourth right.
    assert (point.coverage, point.agreement) == (0.5, 0.5)


def test_an_unknown_price_gives_no_cost_where_it_is_part_of_the_sum() -> None:
    then = [report("MET", cost=None)] * 4
    curve = calibrate_cascade(FIRST, then, LABELS)
    assert curve.points[0].cost == pytest.approx(0.04)
    assert [point.cost for point in curve.points[2:]] == [None] * 4
    assert curve.then_alone.cost is None


async def test_the_confidence_of_a_panel_is_its_share_of_votes() -> None:
    panel = Panel([ScriptedJudge(name, [word]) for name, word in zip("abc", ("MET", "UNMET", "MET"), strict=True)])
    case = JudgeInput("x", tuple(RUBRIC))
    first = [report_on(case, await panel.judge(case, [0], no_model))]
    curve = calibrate_cascade(first, [report("UNMET")], labelled("UNMET"))
    assert [point.threshold for point in curve.points] == [0.0, pytest.approx(2 / 3), 1.0]
    assert curve.best().threshold == 1.0


async def test_options_are_compared_with_labels_by_index() -> None:
    options = [{"label": "No", "value": 0.0}, {"label": "Yes", "value": 1.0}, {"label": "NA", "value": 0, "na": True}]
    criterion = Criterion.model_validate({"requirement": "q", "options": options})
    items = [DataItem(f"{n}", "d", ground_truth=[label]) for n, label in enumerate(["yes ", "NA", "No"])]
    dataset = RubricDataset("p", Rubric([criterion]), items)
    case = JudgeInput("x", (criterion,))

    async def reports(*words: Word) -> list[EnsembleEvaluationReport]:
        return [report_on(case, await ScriptedJudge("a", [word]).judge(case, [0], no_model)) for word in words]

    first, then = await reports(1, 2, 1), await reports(1, 2, 0)
    curve = calibrate_cascade(first, then, dataset)
    assert curve.first_alone.agreement == pytest.approx(2 / 3)
    assert curve.then_alone.agreement == 1.0


def test_criteria_with_labels_enough_have_curves_of_their_own() -> None:
    assert calibrate_cascade(FIRST, THEN, LABELS).by_criterion == {}
    own = calibrate_cascade(FIRST, THEN, LABELS, min_cells=4).by_criterion
    assert own["right"].best().threshold == 0.8


def test_a_threshold_judged_by_the_data_it_was_made_from_is_warned_of() -> None:
    curve = calibrate_cascade(FIRST, THEN, LABELS)
    with pytest.warns(UserWarning, match="4 of 4 items were used to calibrate"):
        curve.held_out(FIRST, THEN, LABELS)
    other = labelled("MET", "MET", "UNMET", "UNMET", salt="other ")
    assert curve.held_out(FIRST, THEN, other).agreement == 1.0
    assert curve.held_out(FIRST, THEN, other, threshold=0.6).share == 0.25


def test_reports_that_do_not_fit_the_dataset_are_refused() -> None:
    with pytest.raises(InputError, match="3 reports of the second judge for 4 items"):
        calibrate_cascade(FIRST, THEN[:3], LABELS)
    with pytest.raises(InputError, match="no item of the dataset has ground truth"):
        calibrate_cascade([None], [None], RubricDataset("p", RUBRIC, [DataItem("a", "a")]))
    two = RubricDataset("p", Rubric([*RUBRIC, Criterion(requirement="r")]), [DataItem("a", "a", ["MET", "MET"])])
    with pytest.raises(InputError, match="item 0 has 1 criterion; its rubric has 2"):
        calibrate_cascade(FIRST[:1], THEN[:1], two)
    with pytest.raises(InputError, match=r"threshold 1\.5; expected a number from 0 to 1"):
        calibrate_cascade(FIRST, THEN, LABELS, thresholds=[0.5, 1.5])


words = st.tuples(st.sampled_from(["MET", "UNMET", "CANNOT_ASSESS"]), st.none() | st.floats(0, 1))


@given(st.lists(st.tuples(words, words, st.sampled_from(["MET", "UNMET"])), min_size=1, max_size=12))
def test_a_higher_threshold_asks_no_less_and_every_point_is_what_counting_gives(
    rows: list[tuple[tuple[str, float | None], tuple[str, float | None], str]],
) -> None:
    first = [report(word, confidence) for (word, confidence), _, _ in rows]
    then = [report(word, confidence) for _, (word, confidence), _ in rows]
    curve = calibrate_cascade(first, then, labelled(*(label for *_, label in rows)))
    shares = [point.share for point in curve.points]
    assert shares == sorted(shares)
    for point in curve.points:
        assert point.threshold is not None
        right = 0
        for (word, confidence), (better, _), label in rows:
            kept = word != "CANNOT_ASSESS" and confidence is not None and confidence >= point.threshold
            right += (word if kept else better) == label
        assert point.agreement is not None
        assert math.isclose(point.agreement, right / len(rows))
