from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.dataset.collection import RubricDataset
from autorubric.dataset.item import DataItem
from autorubric.graders.few_shot import FewShot, FewShotConfig, FewShotExample
from autorubric.graders.judge import JudgeInput

MET, UNMET, CANNOT = CriterionVerdict.MET, CriterionVerdict.UNMET, CriterionVerdict.CANNOT_ASSESS
TONE, DATES = Criterion(name="Tone", requirement="Is polite"), Criterion(name="Dates", requirement="Names a date")


def labelled(*verdicts: CriterionVerdict, reasons: bool = False) -> RubricDataset:
    """Submissions `text 0`, `text 1`, … with these verdicts on TONE."""
    data = RubricDataset("Say hello", Rubric([TONE]))
    for number, verdict in enumerate(verdicts):
        data.add_item(f"text {number}", "", [verdict], ground_truth_reasons=[f"why {number}"] if reasons else None)
    return data


def shown(
    few_shot: FewShot, case: JudgeInput | None = None, index: int = 0, judge_id: str = "default"
) -> list[FewShotExample]:
    return few_shot.choose_examples(case or JudgeInput("graded", (TONE,), query="Say hello"), index, judge_id)


def test_the_published_defaults_stand() -> None:
    config = FewShotConfig()
    assert (config.n_examples, config.balance_verdicts, config.include_reason, config.seed) == (3, True, False, None)
    assert FewShotExample("text", MET).reason is None


def test_examples_are_spread_over_the_verdicts() -> None:
    # 10 MET, 2 UNMET, 1 CANNOT_ASSESS; six places: two each, and the place CANNOT_ASSESS cannot fill goes to MET.
    data = labelled(*[MET] * 10, UNMET, UNMET, CANNOT)
    found = shown(FewShot(data, FewShotConfig(n_examples=6)))
    assert Counter(example.verdict for example in found) == {"MET": 3, "UNMET": 2, "CANNOT_ASSESS": 1}
    unbalanced = FewShot(data, FewShotConfig(n_examples=13, balance_verdicts=False))
    assert Counter(example.verdict for example in shown(unbalanced))["MET"] == 10


def test_the_same_seed_shows_the_same_examples_and_another_one_others() -> None:
    data = labelled(*[MET, UNMET] * 20)
    assert shown(FewShot(data)) == shown(FewShot(data))
    drawn = {
        tuple(example.submission for example in shown(FewShot(data, FewShotConfig(seed=seed)))) for seed in range(5)
    }
    assert len(drawn) > 1


def test_the_graded_submission_is_never_its_own_example() -> None:
    data = labelled(MET, UNMET, MET)
    few_shot = FewShot(data)
    for text in ("text 1", "  Text\n1 "):
        assert "text 1" not in [example.submission for example in shown(few_shot, JudgeInput(text, (TONE,)))]
    data.items[2].id = "row-2"
    case = JudgeInput("an edited text 2", (TONE,), item="row-2")
    assert "text 2" not in [example.submission for example in shown(FewShot(data), case)]


def test_examples_come_from_the_same_criterion_wherever_it_stands() -> None:
    few_shot = FewShot(labelled(MET, UNMET))
    both = JudgeInput("graded", (DATES, TONE), query="Say hello")
    assert shown(few_shot, both, 0) == []
    assert len(shown(few_shot, both, 1)) == 2
    assert shown(few_shot, JudgeInput("graded", (replace_requirement(TONE),)), 0) == []


def replace_requirement(criterion: Criterion) -> Criterion:
    return criterion.model_copy(update={"requirement": "Is rude"})


def test_labels_of_other_options_are_no_examples() -> None:
    def depth(*labels: str) -> Criterion:
        options = [CriterionOption(label=label, value=place) for place, label in enumerate(labels)]
        return Criterion(name="Depth", requirement="How deep?", options=options)

    data = RubricDataset("p", Rubric([depth("Flat", "Deep")]))
    data.add_item("a", "", ["Flat"])
    few_shot = FewShot(data)
    assert [example.verdict for example in shown(few_shot, JudgeInput("x", (depth("Flat", "Deep"),)))] == ["Flat"]
    assert shown(few_shot, JudgeInput("x", (depth("Flat", "Bottomless"),))) == []


def test_the_reason_is_shown_only_where_it_is_wanted() -> None:
    data = labelled(MET, reasons=True)
    assert shown(FewShot(data))[0].reason is None
    assert shown(FewShot(data, FewShotConfig(include_reason=True)))[0].reason == "why 0"


def test_an_example_of_another_query_brings_its_query_along() -> None:
    data = labelled(MET)
    data.items[0] = DataItem("text 0", "", [MET], prompt="Say goodbye")
    assert shown(FewShot(data))[0].query == "Say goodbye"
    assert shown(FewShot(labelled(MET)))[0].query is None


def test_items_without_labels_are_passed_over_and_data_without_any_is_refused() -> None:
    data = labelled(MET)
    data.add_item("unlabelled", "")
    assert [example.submission for example in shown(FewShot(data))] == ["text 0"]
    data.items[0] = replace(data.items[0], ground_truth=None)
    with pytest.raises(ValueError, match="no ground truth"):
        FewShot(data)
    with pytest.raises(ValueError, match="n_examples is -1"):
        FewShotConfig(n_examples=-1)


def said(index: int, label: str) -> str:
    return label


def test_whole_examples_cover_the_verdicts_of_all_criteria() -> None:
    data = RubricDataset("Say hello", Rubric([TONE, DATES]))
    for number in range(8):
        data.add_item(f"plain {number}", "", [MET, MET])
    data.add_item("rude", "", [UNMET, MET])
    data.add_item("dateless", "", [MET, UNMET])
    case = JudgeInput("graded", (DATES, TONE), query="Say hello")
    found = FewShot(data, FewShotConfig(n_examples=3)).choose_whole_examples(case, (0, 1), "default", said)
    # Two verdicts on each of two criteria: whichever comes first, three submissions show all four.
    pairs = {pair for example in found for pair in str(example.verdict).split(", ")}
    assert pairs == {"c0 MET", "c0 UNMET", "c1 MET", "c1 UNMET"}
    assert found[0].query is None
    others = FewShot(data).choose_whole_examples(JudgeInput("rude", (TONE,)), (0,), "default", said)
    assert others[0].submission != "rude"


@given(st.lists(st.sampled_from([MET, UNMET, CANNOT]), min_size=1, max_size=30), st.integers(0, 12))
def test_no_verdict_is_shown_twice_more_often_than_another_that_was_left(
    verdicts: list[CriterionVerdict], wanted: int
) -> None:
    found = shown(FewShot(labelled(*verdicts), FewShotConfig(n_examples=wanted)))
    assert len(found) == min(wanted, len(verdicts))
    counts, there = Counter(example.verdict for example in found), Counter(verdict.value for verdict in verdicts)
    for one in there:
        for other in there:
            if counts[one] < there[one]:
                assert counts[other] <= counts[one] + 1
