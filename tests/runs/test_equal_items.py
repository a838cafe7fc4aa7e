"""Equal items of a dataset: a request each by default, one for all where the user says so, and stable on resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionGrader, DataItem, Rubric, RubricDataset, evaluate
from autorubric.core.judgment import Judgment
from autorubric.core.report import EnsembleEvaluationReport
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.judge import Ask, JudgeInput
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Request
from autorubric.runs.run import estimate
from autorubric.testing import ScriptedModel

from .conftest import MET, UNMET

pytestmark = pytest.mark.filterwarnings("ignore:the files of the earlier run")

KIND, BRIEF, POLITE = (Criterion(requirement=words) for words in ("Is kind", "Is brief", "Is polite"))


def texts(*submissions: str, criteria: tuple[Criterion, ...] = (KIND,)) -> RubricDataset:
    items = [DataItem(text, "", id=f"{text}{n}") for n, text in enumerate(submissions)]
    return RubricDataset("Explain.", Rubric(list(criteria)), items, name="texts")


def numbered(request: Request) -> str:
    """MET for the first copy, UNMET for the others: so that replies can be told apart."""
    return UNMET if request.copy else MET


async def run(dataset: RubricDataset, folder: Path, **settings: Any) -> tuple[list[float], int]:
    """The scores, and how many calls were made."""
    model = ScriptedModel(numbered)
    grader = CriterionGrader(judge=CriterionJudge(model, "judge"))
    result = await evaluate(dataset, grader, experiments_dir=folder, experiment_name="e", **settings)
    return result.get_scores(), len(model.requests)


async def test_each_of_three_equal_items_has_a_reply_of_its_own(tmp_path: Path) -> None:
    assert await run(texts("a", "b", "a", "a"), tmp_path) == ([1.0, 1.0, 0.0, 0.0], 4)
    assert await run(texts("a", "b", "a", "a"), tmp_path) == ([1.0, 1.0, 0.0, 0.0], 0)


async def test_equal_items_share_a_reply_where_the_user_says_so(tmp_path: Path) -> None:
    assert await run(texts("a", "b", "a", "a"), tmp_path, share_equal=True) == ([1.0, 1.0, 1.0, 1.0], 2)
    # What was shared is the reply to the first; the others are asked about when sharing ends.
    again = await run(texts("a", "b", "a", "a"), tmp_path, replace=True)
    assert again == ([1.0, 1.0, 0.0, 0.0], 2)


@pytest.mark.parametrize(
    ("then", "calls"),
    [
        (("b", "a", "a"), 0),  # one of three equal ones is gone
        (("a", "a", "a", "b"), 0),  # moved
        (("b", "a", "a", "a"), 0),
        (("c", "a", "b", "a", "a"), 1),  # another one in front
        (("a", "a", "b", "a", "a"), 1),  # one more equal one in front
        (("a", "b", "a", "a", "a"), 1),  # or at the end
        (("b",), 0),
    ],
)
async def test_items_that_are_added_removed_or_moved_cost_only_what_is_new(
    tmp_path: Path, then: tuple[str, ...], calls: int
) -> None:
    await run(texts("a", "b", "a", "a"), tmp_path)
    scores, asked = await run(texts(*then), tmp_path, replace=True)
    assert asked == calls
    # Of the equal ones the first in the dataset has the first reply, wherever it stands.
    first = then.index("a") if "a" in then else None
    assert scores == [0.0 if text == "a" and place != first else 1.0 for place, text in enumerate(then)]


async def test_a_submission_is_equal_only_with_its_prompt_reference_and_guidelines(tmp_path: Path) -> None:
    dataset = texts("a", "a", "a", "a")
    items = [
        dataset.items[0],
        replace(dataset.items[1], prompt="Explain better."),
        replace(dataset.items[2], reference_submission="The exemplar."),
        replace(dataset.items[3], rubric=Rubric([KIND], guidelines="Be strict.")),
    ]
    assert await run(replace(dataset, items=items), tmp_path) == ([1.0] * 4, 4)


async def test_items_of_one_text_with_rubrics_of_their_own_are_numbered_criterion_by_criterion(
    tmp_path: Path,
) -> None:
    dataset = texts("a", "a")
    items = [
        replace(dataset.items[0], rubric=Rubric([KIND, BRIEF])),
        replace(dataset.items[1], rubric=Rubric([BRIEF, POLITE])),
    ]
    # "Is brief" is asked about both, the second time as a copy; "Is polite" is new. (10 * 0 + 10 * 1) / 20.
    assert await run(replace(dataset, items=items), tmp_path) == ([1.0, 0.5], 4)


async def test_the_whole_rubric_in_one_call_is_a_request_for_each_equal_item(tmp_path: Path) -> None:
    said = '{"judgments": [{"criterion_id": "c0", "explanation": "So.", "criterion_status": "MET"}]}'
    model = ScriptedModel({"judge": said})
    grader = CriterionGrader(judge=RubricJudge(model, "judge"))
    await evaluate(texts("a", "a", "b"), grader, experiments_dir=tmp_path, experiment_name="e")
    assert sorted((request.item, request.copy) for request in model.requests) == [("a0", 0), ("a1", 1), ("b2", 0)]


class WithoutCopy(CriterionJudge):
    """A judge whose requests say nothing of equal items."""

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        return await CriterionJudge.judge(self, replace(inputs, copies=()), wanted, ask)


@pytest.mark.parametrize(("share_equal", "scores"), [(False, [1.0, 1.0, 0.0, 0.0]), (True, [1.0] * 4)])
async def test_equal_items_have_replies_of_their_own_from_a_judge_that_does_not_number_them(
    tmp_path: Path, share_equal: bool, scores: list[float]
) -> None:
    for calls in (len(set(scores)) * 2, 0):
        model = ScriptedModel(numbered)
        grader = CriterionGrader(judge=WithoutCopy(model, "judge"))
        result = await evaluate(
            texts("a", "b", "a", "a"), grader, experiments_dir=tmp_path, experiment_name="e", share_equal=share_equal
        )
        assert (result.get_scores(), len(model.requests)) == (scores, calls)


async def test_an_interrupted_run_gives_each_item_the_reply_that_an_uninterrupted_one_gives(tmp_path: Path) -> None:
    dataset = texts("a", "a", "a", "a")
    whole, _ = await run(dataset, tmp_path / "whole")
    await run(replace(dataset, items=dataset.items[:2]), tmp_path / "broken")
    again, asked = await run(dataset, tmp_path / "broken")
    assert (again, asked) == (whole, 2)


@pytest.mark.parametrize(("share_equal", "calls"), [(False, 4), (True, 2)])
async def test_an_estimate_counts_the_calls_that_are_made(share_equal: bool, calls: int) -> None:
    grader = CriterionGrader(judge=CriterionJudge(ScriptedModel(numbered), "judge"))
    with Ledger.in_memory() as ledger:
        [row] = await estimate(texts("a", "b", "a", "a"), grader, Executor(ledger), share_equal=share_equal)
    assert (row.calls, row.recorded) == (calls, 0)


async def test_everything_that_is_asked_again_is_asked_for_each_equal_item(tmp_path: Path) -> None:
    await run(texts("a", "a"), tmp_path)
    assert (await run(texts("a", "a"), tmp_path, resume=False))[1] == 2
    assert (await run(texts("a", "a"), tmp_path))[1] == 0


async def test_reports_of_equal_items_keep_their_own_reasons(tmp_path: Path) -> None:
    model = ScriptedModel(numbered)
    grader = CriterionGrader(judge=CriterionJudge(model, "judge"))
    result = await evaluate(texts("a", "a"), grader, experiments_dir=tmp_path, experiment_name="e")
    reasons = []
    for found in result.item_results:
        assert isinstance(found.report, EnsembleEvaluationReport) and found.report.report is not None
        reasons.append(found.report.report[0].final_reason)
    assert reasons == ["It is there.", "It is missing."]
