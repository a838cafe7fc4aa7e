"""Experiments that AutoRubric 1.6.1 wrote, and ours after another program has written them again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from autorubric import (
    CriterionVerdict,
    EnsembleEvaluationReport,
    EvalResult,
    EvaluationReport,
    Grader,
    RubricDataset,
    TokenUsage,
    evaluate,
)
from autorubric.cli.app import run
from autorubric.errors import InputError

from .conftest import Bench, essays

DATA = Path(__file__).parents[1] / "data" / "autorubric16"
"""Made with AutoRubric 1.6.1 from PyPI: three answers graded by one judge and by a panel of three, on a loopback
model that says MET (or the first option) where the prompt holds `Paris`."""


def test_an_experiment_of_1_6_opens_with_its_scores_and_totals() -> None:
    found = EvalResult.from_experiment(DATA / "single")
    # What 1.6.1's own `from_experiment` reads from the same directory.
    assert found.get_scores() == pytest.approx([0.5, 1 / 6, 7 / 12])
    assert found.total_token_usage == TokenUsage(90, 45, 135)
    assert (found.total_items, found.successful_items, found.failed_items) == (3, 3, 0)
    assert found.grader_config is not None and found.grader_config["master_seed"] == 1
    assert [result.item.submission for result in found.item_results] == ["", "", ""]


def test_an_experiment_of_1_6_is_measured_as_1_6_measured_it() -> None:
    found = EvalResult.from_experiment(DATA / "panel")
    metrics = found.compute_metrics(RubricDataset.from_file(DATA / "dataset.json"), per_judge=True)
    # From the summary that 1.6.1 printed of this run.
    assert [criterion.accuracy for criterion in metrics.per_criterion] == pytest.approx([1.0, 0.0, 2 / 3])
    assert [criterion.kappa for criterion in metrics.per_criterion] == pytest.approx([1.0, -0.8, 0.4])
    assert (metrics.micro_kappa, metrics.criterion_phi, metrics.mean_kappa) == pytest.approx((0.0, 0.0, 0.2))
    assert metrics.per_judge is not None and metrics.per_judge["j2"].mean_kappa == pytest.approx(0.4)
    [first, *_] = found.get_reports()
    assert isinstance(first, EnsembleEvaluationReport) and first.report is not None
    assert first.report[0].final_verdict is CriterionVerdict.MET


@pytest.mark.parametrize("command", [["status"], ["show"], ["agree", "--dataset", str(DATA / "dataset.json")]])
def test_commands_take_an_experiment_of_1_6(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DATA / "panel", tmp_path / "panel")
    name, *rest = command
    assert run([name, str(tmp_path / "panel"), *(["0"] if name == "show" else []), *rest]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.filterwarnings("ignore:.*items.jsonl has changed since")
async def test_lines_that_another_program_wrote_again_are_read(bench: Bench, tmp_path: Path) -> None:
    done = await evaluate(essays(), bench.grader, experiments_dir=tmp_path, experiment_name="e")
    path = tmp_path / "e" / "items.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for style in (
        {"indent": None},
        {"separators": (",", ":"), "sort_keys": True},
        {"sort_keys": True, "ensure_ascii": False},
    ):
        path.write_text("\n".join(json.dumps(record, **style) for record in records))
        assert EvalResult.from_experiment(tmp_path / "e").item_results == done.item_results
    torn = path.read_text()[:-10]
    path.write_text(torn)
    assert len(EvalResult.from_experiment(tmp_path / "e").item_results) == len(records) - 1
    path.write_text(torn + "\n" + json.dumps(records[0]) + "\n")
    with pytest.raises(InputError, match=f"line {len(records)} is damaged"):
        EvalResult.from_experiment(tmp_path / "e")


class Metered(Grader[EvaluationReport]):
    """A grader of the user's own that counts what it spends."""

    async def judge(self, to_grade, rubric, query=None, reference_submission=None):  # type: ignore[no-untyped-def]
        return to_grade

    async def aggregate(self, judge_results: str, *, normalize: bool = True) -> EvaluationReport:
        return EvaluationReport(score=1.0, token_usage=TokenUsage(7, 3, 10), completion_cost=0.25)


async def test_tokens_and_cost_of_a_users_own_grader_are_added_up(tmp_path: Path) -> None:
    done = await evaluate(essays(), Metered(), experiments_dir=tmp_path, experiment_name="e", show_progress=False)
    expected = (TokenUsage(28, 12, 40), 1.0)  # four essays
    assert (done.total_token_usage, done.total_completion_cost) == expected
    read = EvalResult.from_experiment(tmp_path / "e")
    assert (read.total_token_usage, read.total_completion_cost) == expected
