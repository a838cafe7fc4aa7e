"""What a second run asks: nothing that is on record, everything that changed, and what failed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, EvalResult, EvaluationReport, Grader, Rubric, RubricDataset, evaluate
from autorubric.errors import InputError, RunLockedError
from autorubric.llm.records.lock import run_lock
from autorubric.llm.request import Failure, Request
from autorubric.runs.plan import ExperimentPlan
from autorubric.runs.runner import run_experiment
from autorubric.runs.stopping import Stop
from autorubric.testing.scripted import PromptSections

from .conftest import Bench, essays, says

pytestmark = pytest.mark.filterwarnings("ignore:the files of the earlier run")


async def run(dataset: RubricDataset, grader: Grader[Any], folder: Path, **settings: Any) -> EvalResult:
    return await evaluate(dataset, grader, experiments_dir=folder, experiment_name="e", **settings)


async def test_a_finished_run_asks_nothing_again_and_says_the_same(bench: Bench, tmp_path: Path) -> None:
    first = await run(essays(), bench.grader, tmp_path)
    # (3 · 1 + 1 · 0) / 4
    assert first.get_scores() == [0.75] * 4
    assert len(bench.asked) == 8
    items = (tmp_path / "e" / "items.jsonl").read_bytes()
    again = Bench()
    second = await run(essays(), again.grader, tmp_path)
    assert again.asked == []
    assert second.get_reports() == first.get_reports()
    assert second.timing_stats.items_per_second == 0.0
    assert (tmp_path / "e" / "items.jsonl").read_bytes() == items


async def test_a_run_that_is_stopped_again_keeps_every_result_that_it_had(tmp_path: Path) -> None:
    def failing(failure: Failure) -> Bench:
        return Bench(lambda request: failure if request.item == "e0" else says(request))

    first = await run(essays(20), failing(Failure("server", "HTTP 503: busy")).grader, tmp_path)
    assert (len(first.get_scores()), first.failed_items) == (19, 1)
    refused = failing(Failure("quota", "HTTP 402: no credit"))
    again = await run(essays(30), refused.grader, tmp_path, max_concurrent_items=1)
    assert again.stopped == "HTTP 402: no credit"
    assert (len(again.get_scores()), again.failed_items) == (19, 1)
    assert {item for item, _ in refused.asked} == {"e0"}


async def test_items_that_have_moved_keep_their_results_when_the_run_is_stopped(tmp_path: Path) -> None:
    await run(essays(12), Bench().grader, tmp_path)
    moved = essays(20)
    moved.items[:] = [*moved.items[12:], *moved.items[11::-1]]
    refused = Bench(lambda request: Failure("quota", "HTTP 402: no credit"))
    again = await run(moved, refused.grader, tmp_path, max_concurrent_items=1)
    assert [found.item.id for found in again.filter_successful()] == [f"e{n}" for n in range(11, -1, -1)]
    assert {item for item, _ in refused.asked} == {"e12"}
    read = EvalResult.from_experiment(tmp_path / "e")
    assert [found.item_idx for found in read.filter_successful()] == list(range(8, 20))
    assert read.get_scores() == [0.75] * 12


async def test_a_run_that_a_person_stops_again_keeps_every_result_that_it_had(tmp_path: Path) -> None:
    await run(essays(6), Bench().grader, tmp_path)
    dataset, stop = essays(9), Stop()
    stop()
    plan = ExperimentPlan(dataset, Bench().grader, tmp_path / "e")
    result = await run_experiment(plan, dataset.to_json().encode(), stop=stop)
    assert (result.stopped, len(result.get_scores())) == ("interrupted", 6)
    assert len(EvalResult.from_experiment(tmp_path / "e").get_scores()) == 6


async def test_a_run_that_ends_at_its_first_failure_keeps_every_result_that_it_had(tmp_path: Path) -> None:
    await run(essays(6), Bench().grader, tmp_path)
    dataset = essays(7)
    dataset.items.insert(0, dataset.items.pop())
    failing = Bench(lambda request: Failure("server", "HTTP 503: busy"))
    with pytest.raises(RuntimeError, match="Evaluation failed at item 0"):
        await run(dataset, failing.grader, tmp_path, fail_fast=True, max_concurrent_items=1)
    assert len(EvalResult.from_experiment(tmp_path / "e").get_scores()) == 6


async def test_a_changed_submission_is_the_only_one_asked_about(bench: Bench, tmp_path: Path) -> None:
    await run(essays(), bench.grader, tmp_path)
    dataset = essays()
    dataset.items[2] = replace(dataset.items[2], submission="Another essay.")
    again = Bench()
    await run(dataset, again.grader, tmp_path, replace=True)
    assert again.asked == [("e2", "Is kind"), ("e2", "Names a cause")]


async def test_a_changed_criterion_is_the_only_one_asked_about(bench: Bench, tmp_path: Path) -> None:
    dataset = essays()
    await run(dataset, bench.grader, tmp_path)
    assert dataset.rubric is not None
    changed = Rubric([dataset.rubric[0], Criterion(weight=1, requirement="Is polite")])
    again = Bench()
    await run(replace(dataset, rubric=changed), again.grader, tmp_path, replace=True)
    assert again.asked == [(f"e{n}", "Is polite") for n in range(4)]


async def test_another_weight_is_scored_anew_and_nothing_is_asked(bench: Bench, tmp_path: Path) -> None:
    dataset = essays()
    await run(dataset, bench.grader, tmp_path)
    assert dataset.rubric is not None
    heavier = Rubric([dataset.rubric[0].model_copy(update={"weight": 1.0}), dataset.rubric[1]])
    again = Bench()
    result = await run(replace(dataset, rubric=heavier), again.grader, tmp_path, replace=True)
    assert again.asked == []
    assert result.get_scores() == [0.5] * 4


@pytest.mark.parametrize("change", ["prompt", "reference", "judge"])
async def test_what_every_prompt_shows_and_who_judges_are_asked_about_anew(
    bench: Bench, tmp_path: Path, change: str
) -> None:
    await run(essays(), bench.grader, tmp_path)
    dataset, again = essays(), Bench(name="another" if change == "judge" else "scripted")
    if change == "prompt":
        dataset = replace(dataset, prompt="Explain better.")
    if change == "reference":
        dataset = replace(dataset, reference_submission="The exemplar.")
    await run(dataset, again.grader, tmp_path, replace=True)
    assert len(again.asked) == 8


async def test_only_what_failed_is_asked_again(tmp_path: Path) -> None:
    def breaks(request: Request) -> str | Failure:
        broken = request.item == "e1" and PromptSections(request)["criterion"] == "Names a cause"
        return Failure("server", "HTTP 503: overloaded") if broken else says(request)

    first = await run(essays(), Bench(breaks).grader, tmp_path)
    assert [item.item_idx for item in first.filter_failed()] == [1]
    assert first.item_results[1].report.score is None
    assert first.errors == [(1, "1 of 2 criteria failed: infrastructure: server: HTTP 503: overloaded")]
    healthy = Bench()
    second = await run(essays(), healthy.grader, tmp_path)
    assert healthy.asked == [("e1", "Names a cause")]
    assert second.get_scores() == [0.75] * 4
    assert json.loads((tmp_path / "e" / "manifest.json").read_text())["status"] == "completed"


async def test_without_resume_everything_is_asked_anew_and_the_old_replies_stay(bench: Bench, tmp_path: Path) -> None:
    await run(essays(), bench.grader, tmp_path)
    again, third = Bench(), Bench()
    await run(essays(), again.grader, tmp_path, resume=False)
    assert len(again.asked) == 8
    result = await run(essays(), third.grader, tmp_path)
    assert third.asked == []
    # 16 calls were paid for, and each is counted once.
    assert result.total_completion_cost == pytest.approx(
        sum(_cost(request) for request in (*bench.model.requests, *again.model.requests))
    )


def _cost(request: Request) -> float:
    from autorubric.testing.completion import estimate_tokens

    prompt = estimate_tokens(sum(len(message.content) for message in request.messages))
    said = says(request)
    assert isinstance(said, str)
    return (prompt + estimate_tokens(len(said))) / 1e6


class Counting(Grader[EvaluationReport]):
    def __init__(self, print_: str | None = None) -> None:
        super().__init__()
        self.graded: list[str] = []
        self._print = print_

    def fingerprint(self) -> str | None:
        return self._print

    async def judge(self, to_grade: str, *_: Any) -> Any:
        self.graded.append(to_grade)
        if to_grade == "Broken.":
            raise OSError("the disk is gone")
        return 1.0

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        return EvaluationReport(score=judge_results)


async def test_a_grader_of_ones_own_without_a_fingerprint_grades_everything_again(tmp_path: Path) -> None:
    for _ in range(2):
        grader = Counting()
        assert (await run(essays(2), grader, tmp_path)).get_scores() == [1.0, 1.0]
        assert grader.graded == ["Essay 0.", "Essay 1."]


async def test_a_fingerprint_keeps_finished_items_and_only_those(tmp_path: Path) -> None:
    dataset = essays(3)
    dataset.items[1] = replace(dataset.items[1], submission="Broken.")
    first = await run(dataset, Counting("v1"), tmp_path)
    assert first.errors == [(1, "unknown: OSError: the disk is gone")]
    again = Counting("v1")
    dataset.items[2] = replace(dataset.items[2], submission="Changed.")
    await run(dataset, again, tmp_path, replace=True)
    assert again.graded == ["Broken.", "Changed."]
    other = Counting("v2")
    with pytest.raises(InputError, match="fingerprint: v1 before, now v2"):
        await run(dataset, other, tmp_path)
    await run(dataset, other, tmp_path, replace=True)
    assert len(other.graded) == 3


async def test_two_processes_cannot_work_in_one_experiment(bench: Bench, tmp_path: Path) -> None:
    with (
        run_lock(tmp_path / "e" / "ledger"),
        pytest.raises(RunLockedError, match=r"another run of this process .* in Python: out or experiment_name"),
    ):
        await run(essays(), bench.grader, tmp_path)
    assert bench.asked == []
