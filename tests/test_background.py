"""What a run from Python shares with the command line: the collector's settings, the event loop, the concurrency."""

from __future__ import annotations

import asyncio
import gc
import inspect
from pathlib import Path

import pytest

from autorubric import Criterion, LLMConfig, Rubric, RubricDataset, evaluate
from autorubric.background import rare_collections, wait_for
from autorubric.cli.grade import grade
from autorubric.evaluation.result import ItemResult
from autorubric.graders import CriterionGrader


def test_the_collector_is_as_before_when_the_last_run_has_ended() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        with pytest.raises(ZeroDivisionError), rare_collections():
            raise ZeroDivisionError
        assert gc.get_threshold() == (20_000, 20, 20)
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, frozen)


async def test_evaluate_runs_with_the_settings_of_the_command_and_puts_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = RubricDataset("Explain.", Rubric([Criterion(requirement="Contains at most 5 words.")]))
    dataset.add_item("Because of the moon.", "short", id="a")
    seen: list[tuple[int, ...]] = []
    made = ItemResult.to_line

    def watched(result: ItemResult) -> str:
        seen.append(gc.get_threshold())
        return made(result)

    monkeypatch.setattr(ItemResult, "to_line", watched)
    before = gc.get_threshold()
    grader = CriterionGrader(judge_model_config=LLMConfig("builtin/offline"))
    await evaluate(dataset, grader, experiments_dir=tmp_path, show_progress=False)
    assert seen == [(20_000, 20, 20)]
    assert gc.get_threshold() == before


def test_synchronous_calls_run_on_uvloop() -> None:
    async def loop() -> str:
        return type(asyncio.get_running_loop()).__module__

    pytest.importorskip("uvloop")
    assert wait_for(loop()) == "uvloop"


def test_as_many_calls_are_in_flight_from_python_as_from_the_command_line() -> None:
    here = CriterionGrader(judge_model_config=LLMConfig("builtin/offline")).max_in_flight
    assert here == inspect.signature(grade).parameters["concurrency"].default == 256
