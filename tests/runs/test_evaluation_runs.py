"""Runs: their directory, their result read back, and how they end early."""

from __future__ import annotations

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from autorubric import (
    Criterion,
    CriterionGrader,
    CriterionVerdict,
    DataItem,
    EvalConfig,
    EvalResult,
    EvalRunner,
    EvalTimingStats,
    EvaluationReport,
    Grader,
    ItemResult,
    Rubric,
    RubricDataset,
    evaluate,
    evaluate_sync,
    fill_ground_truth,
    fill_ground_truth_sync,
)
from autorubric.errors import InputError, MissingFileError
from autorubric.llm.request import Failure, Request
from autorubric.testing.scripted import PromptSections
from tests.offenders import each

from .conftest import Bench, essays, says


@each("name", ["../up", "a/b", "..", ".hidden", "", "a b", "/tmp", "x" * 101])
def test_a_name_that_could_leave_the_directory_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a plain name"):
        EvalConfig(experiment_name=name)


@each("most", [0, -1, 2.5, True])
def test_a_number_of_open_items_that_is_none_is_refused(most: Any) -> None:
    with pytest.raises(ValueError, match="max_concurrent_items"):
        EvalConfig(max_concurrent_items=most)


def test_what_is_no_dataset_or_no_grader_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    grader: Any = CriterionGrader.of_checks()
    dataset: Any = RubricDataset("Why?", Rubric([Criterion(requirement="Is brief")]))
    table: list[tuple[Any, Any, str]] = [
        (None, grader, "dataset is None; expected a RubricDataset"),
        (grader, grader, "dataset is <.*; expected a RubricDataset"),
        (dataset, None, "grader is None; expected a CriterionGrader or another object that grades"),
    ]
    for data, judge, message in table:
        with pytest.raises(InputError, match=f"^{message}$"):
            evaluate_sync(data, judge, experiments_dir=tmp_path, show_progress=False)
    assert list(tmp_path.iterdir()) == []


async def test_the_default_name_is_the_same_for_the_same_dataset(bench: Bench, tmp_path: Path) -> None:
    first = await evaluate(essays(), bench.grader, experiments_dir=tmp_path)
    second = await evaluate(essays(), bench.grader, experiments_dir=tmp_path)
    other = await evaluate(essays(1), bench.grader, experiments_dir=tmp_path)
    assert first.experiment_name == second.experiment_name
    assert str(first.experiment_name).startswith("essays-")
    assert other.experiment_name != first.experiment_name


async def test_a_result_read_back_is_the_result(bench: Bench, tmp_path: Path) -> None:
    done = await evaluate(essays(), bench.grader, experiments_dir=tmp_path)
    assert done.experiment_dir is not None
    read = EvalResult.from_experiment(done.experiment_dir)
    assert [item.item for item in read.item_results] == essays().items
    assert read.get_reports() == done.get_reports()
    assert read.total_token_usage == done.total_token_usage
    assert read.total_completion_cost == done.total_completion_cost
    assert (read.successful_items, read.failed_items, read.total_items) == (4, 0, 4)
    assert sorted(path.name for path in done.experiment_dir.iterdir()) == [
        "dataset.json",
        "items.jsonl",
        "ledger",
        "manifest.json",
        "spent.json",
    ]


async def test_a_run_that_was_killed_can_be_read(bench: Bench, tmp_path: Path) -> None:
    done = await evaluate(essays(), bench.grader, experiments_dir=tmp_path)
    assert done.experiment_dir is not None
    manifest = json.loads((done.experiment_dir / "manifest.json").read_text())
    manifest |= {"status": "running", "completed_at": None, "completed_indices": []}
    (done.experiment_dir / "manifest.json").write_text(json.dumps(manifest))
    items = done.experiment_dir / "items.jsonl"
    lines = items.read_bytes().splitlines(keepends=True)
    # As a kill leaves it: in the order of finishing, one item twice, the last line torn.
    items.write_bytes(lines[2] + lines[0] + lines[2] + lines[1][:70])
    read = EvalResult.from_experiment(done.experiment_dir)
    assert [item.item_idx for item in read.item_results] == [0, 2]
    assert read.item_results[1].report == done.item_results[2].report


def test_a_directory_without_an_experiment_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="is not a run directory"):
        EvalResult.from_experiment(tmp_path)


async def test_fail_fast_makes_no_call_after_it_has_raised(tmp_path: Path) -> None:
    async def slowly(request: Request) -> Any:
        await asyncio.sleep(0.01 if request.item == "e0" else 0.05)
        return Failure("server", "HTTP 500") if request.item == "e0" else says(request)

    bench = Bench(slowly)
    config = EvalConfig(fail_fast=True, experiments_dir=tmp_path, max_concurrent_items=3)
    with pytest.raises(RuntimeError, match="Evaluation failed at item 0: "):
        await EvalRunner(essays(30), bench.grader, config).run()
    asked = len(bench.asked)
    await asyncio.sleep(0.1)
    assert len(bench.asked) == asked <= 6


async def test_no_more_items_are_open_than_allowed(tmp_path: Path) -> None:
    open_now, most, tasks = set[str](), 0, 0

    async def watch(request: Request) -> Any:
        nonlocal most, tasks
        open_now.add(request.item)
        most, tasks = max(most, len(open_now)), max(tasks, len(asyncio.all_tasks()))
        await asyncio.sleep(0.001)
        if PromptSections(request)["criterion"] != "Names a cause":
            open_now.discard(request.item)
        return says(request)

    await evaluate(
        essays(50),
        Bench(watch).grader,
        experiments_dir=tmp_path,
        max_concurrent_items=4,
    )
    assert most <= 4
    # An item has a task of its own, one for each criterion and one for each call in flight; and one is this test.
    assert tasks <= 4 * 5 + 1


async def test_a_refused_key_ends_the_run_and_names_the_reason(tmp_path: Path) -> None:
    bench = Bench(lambda request: Failure("auth", "HTTP 401: wrong key"))
    result = await evaluate(essays(500), bench.grader, experiments_dir=tmp_path, max_concurrent_items=2)
    assert result.stopped == "HTTP 401: wrong key"
    assert result.failed_items == len(result.item_results) < 10
    assert len(bench.asked) <= 2
    assert result.get_scores() == []


async def test_a_budget_is_never_overrun_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    from autorubric.graders.criterion_judge import CriterionJudge
    from autorubric.testing import ScriptedModel

    def grader(tokens: int) -> tuple[CriterionGrader, ScriptedModel]:
        model = ScriptedModel(says, "scripted", max_tokens=50)
        return CriterionGrader(judge=CriterionJudge(model, "judge"), budget_tokens=tokens), model

    poor, _ = grader(5000)
    first = await evaluate(essays(), poor, experiments_dir=tmp_path)
    assert first.stopped is not None
    assert "budget of 5,000 tokens reached" in first.stopped
    assert first.total_token_usage is not None
    assert first.total_token_usage.total_tokens <= 5000
    left = 4 - len(first.get_scores())
    assert f", {left} not requested, " in repr(first) and "failed" not in repr(first)
    rich, model = grader(100_000)
    second = await evaluate(essays(), rich, experiments_dir=tmp_path)
    assert second.get_scores() == [0.75] * 4
    paid = 8 - len(model.requests)
    assert paid > 0


async def test_a_criterion_with_neither_judge_nor_check_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="criterion 'Causes': no check, and no judge is set"):
        await evaluate(essays(), CriterionGrader.of_checks(), experiments_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_criteria_without_an_example_are_noted(tmp_path: Path) -> None:
    tone, own = Criterion(name="Tone", requirement="Is polite"), Criterion(name="Length", requirement="Is brief")
    check = Criterion(name="Short", requirement="?", check={"name": "word_count", "parameters": {"at_most": 9}})
    training = RubricDataset("Say hello", Rubric([tone]))
    training.add_item("What?", "b", [CriterionVerdict.UNMET])
    told = []
    for criteria in ([tone, own, check], [tone, check]):
        dataset = RubricDataset("Say hello", Rubric(criteria))
        dataset.add_item("Good day to you.", "a")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            grader = CriterionGrader(judge_model_config="builtin/offline", training_data=training)
            await evaluate(dataset, grader, experiments_dir=tmp_path)
        told.append([str(one.message).partition(":")[0] for one in caught if "few-shot" in str(one.message)])
    assert told == [["no few-shot example for 'Length'"], []]


async def test_checks_and_judges_mix_in_one_rubric(bench: Bench, tmp_path: Path) -> None:
    short = Criterion(
        name="Short", weight=1, requirement="Is short", check={"name": "word_count", "parameters": {"at_most": 1}}
    )
    rubric = Rubric([Criterion(name="Causes", weight=1, requirement="Names a cause"), short])
    dataset = RubricDataset("Explain.", rubric)
    dataset.add_item("Far too long.", "long")
    result = await evaluate(dataset, bench.grader, experiments_dir=tmp_path)
    # MET by the judge, UNMET by the check: 1 of 2.
    assert result.get_scores() == [0.5]
    assert len(bench.asked) == 1


async def test_the_synchronous_twin_works_inside_a_running_loop(bench: Bench, tmp_path: Path) -> None:
    result = evaluate_sync(essays(), bench.grader, experiments_dir=tmp_path, show_progress=False)
    assert result.get_scores() == [0.75] * 4


async def test_a_criterion_that_cannot_be_decided_is_named_with_the_items_it_is_in(
    bench: Bench, tmp_path: Path
) -> None:
    def own(name: str, pattern: str) -> Rubric:
        check = {"name": "regex", "parameters": {"pattern": pattern}}
        return Rubric([Criterion(name=name, requirement="Has a digit", check=check)])

    patterns = ("[0-9]", "(", "(", "[")
    dataset = RubricDataset("Explain.", items=[DataItem("Essay.", "", rubric=own("Digit", p)) for p in patterns])
    with pytest.raises(InputError) as refused:
        await evaluate(dataset, bench.grader, experiments_dir=tmp_path, show_progress=False)
    assert [problem.partition("check")[0] for problem in refused.value.problems] == [
        "item 1 and 1 more: criterion 'Digit': ",
        "item 3: criterion 'Digit': ",
    ]
    assert not list(tmp_path.iterdir())


async def test_what_is_read_back_is_what_the_run_returned(bench: Bench, tmp_path: Path) -> None:
    result = await evaluate(
        essays(), bench.grader, experiments_dir=tmp_path, experiment_name="e", show_progress=False
    )
    assert EvalResult.from_experiment(tmp_path / "e").item_results == result.item_results
    for found in result.item_results:
        assert ItemResult.from_dict(found.to_dict(), found.item) == found


async def test_a_line_of_the_results_holds_every_published_field_of_its_report(bench: Bench, tmp_path: Path) -> None:
    await evaluate(essays(1), bench.grader, experiments_dir=tmp_path, experiment_name="e", show_progress=False)
    (line,) = map(json.loads, (tmp_path / "e" / "items.jsonl").read_text().splitlines())
    assert set(line) == {"item_idx", "duration_seconds", "error", "report"}
    assert line["report"].keys() >= {
        *("report_type", "score", "raw_score", "error", "cannot_assess_count", "mean_agreement", "token_usage"),
        *("completion_cost", "criterion_reports", "judge_scores"),
    }
    assert (line["report"]["error"], line["report"]["cannot_assess_count"]) == (None, 0)


def test_timing_figures_follow_the_published_ranks() -> None:
    # Of 10: p50 is sorted[5], p95 is sorted[min(int(9.5), 9)] = sorted[9].
    stats = EvalTimingStats.from_durations([float(n) for n in range(10)], 5.0)
    assert (stats.p50_item_duration_seconds, stats.p95_item_duration_seconds) == (5.0, 9.0)
    assert (stats.mean_item_duration_seconds, stats.items_per_second) == (4.5, 2.0)


async def test_ground_truth_is_filled_from_verdicts_and_kept_where_it_is(bench: Bench) -> None:
    dataset = essays(2)
    dataset.items[0].ground_truth = [CriterionVerdict.UNMET, CriterionVerdict.UNMET]
    filled = await fill_ground_truth(dataset, bench.grader, show_progress=False)
    assert [item.ground_truth for item in filled] == [["UNMET", "UNMET"], ["MET", "UNMET"]]
    forced = await fill_ground_truth(dataset, bench.grader, force=True, show_progress=False)
    assert forced[0].ground_truth == ["MET", "UNMET"]


async def test_filling_says_what_could_not_be_graded() -> None:
    def breaks(request: Request) -> str | Failure:
        return Failure("auth", "HTTP 401: wrong key")

    with pytest.raises(Exception, match=r"2 of 2 items could not be graded; item 0: .*HTTP 401: wrong key"):
        await fill_ground_truth(essays(2), Bench(breaks).grader, show_progress=False)
    with pytest.raises(ValueError, match="Dataset has no items"):
        await fill_ground_truth(RubricDataset("Explain.", essays().rubric), Bench().grader)


async def test_an_item_whose_label_is_no_option_is_left_out_of_the_filled_and_the_others_stay() -> None:
    options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
    rubric = Rubric([Criterion(name="Right", requirement="Is it right?", options=options)])
    dataset = RubricDataset("Explain.", rubric, [DataItem("Essay 0.", ""), DataItem("Essay 1.", "")])

    def chooses(request: Request) -> str:
        label = "Cannot assess / not applicable" if PromptSections(request)["submission"] == "Essay 0." else "Yes"
        return f'{{"explanation": "So.", "selected_option": "{label}"}}'

    with pytest.warns(
        UserWarning, match=r"1 of 2 items could not be graded; item 0: (?s:.*)'No', 'Yes'(?s:.*)na: true"
    ):
        filled = await fill_ground_truth(dataset, Bench(chooses).grader, show_progress=False)
    assert [(item.submission, item.ground_truth) for item in filled] == [("Essay 1.", ["Yes"])]


async def test_every_async_entry_has_a_twin_that_works_inside_a_running_loop(bench: Bench, tmp_path: Path) -> None:
    dataset, grader = essays(2), bench.grader
    config = EvalConfig(experiments_dir=tmp_path, experiment_name="e", show_progress=False)
    assert EvalRunner(dataset, grader, config).run_sync().get_scores() == [0.75, 0.75]
    assert [item.ground_truth for item in fill_ground_truth_sync(dataset, grader)] == [["MET", "UNMET"]] * 2
    rubric = dataset.get_item_rubric(0)
    assert grader.grade_sync("Essay 0.", rubric.rubric, "Explain.").score == 0.75
    assert rubric.grade_sync("Essay 0.", grader, "Explain.").score == 0.75


@pytest.mark.parametrize("most", [0, -1, True])
async def test_filling_refuses_a_limit_that_is_none(bench: Bench, most: int) -> None:
    with pytest.raises(ValueError, match=f"max_concurrent_items={most}; expected a whole number of at least 1"):
        await fill_ground_truth(essays(1), bench.grader, max_concurrent_items=most)
    assert bench.asked == []


class Always(Grader[EvaluationReport]):
    async def judge(self, to_grade: str, *_: Any) -> Any:
        return None

    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> EvaluationReport:
        return EvaluationReport(score=1.0)


class Attentive(Always):
    async def judge(self, *given: Any, **named: Any) -> Any:
        self.told = named
        return await super().judge(*given)


async def test_guidelines_reach_a_judge_that_takes_them_and_another_is_warned_of_once() -> None:
    rubric = Rubric([Criterion(requirement="Is kind")], guidelines="Be mild.")
    grader = Always()
    with pytest.warns(UserWarning, match="Always ignores rubric guidelines"):
        assert (await rubric.grade("Hello.", grader)).score == 1.0
    assert (await rubric.grade("Hello.", grader)).score == 1.0
    attentive = Attentive()
    await rubric.grade("Hello.", attentive)
    assert attentive.told == {"guidelines": "Be mild."}
    with pytest.raises(TypeError, match="must be a str or None, got int"):
        await attentive.grade("Hello.", [], guidelines=3)  # type: ignore[arg-type]
