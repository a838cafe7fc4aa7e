"""Whatever goes wrong with an endpoint: items are graded or failures with a reason, and a resume mends those."""

from __future__ import annotations

from pathlib import Path

import pytest

from autorubric import CriterionGrader, EvalResult, LLMConfig, evaluate
from autorubric.testing import LoopbackEndpoint

from .conftest import essays

ENDS_RUN = {"401", "403", "404", "402", "429-quota"}
READ_ANYWAY = {"prose-around", "fenced", "think"}
ALWAYS_BAD = (
    *("500", "502", "503", "529", "reset", "truncated-body", "html", "no-choices", "error-in-200"),
    *("prose", "wrong-schema", "broken-json", "refusal", "content-filter", "empty", "null", "length"),
    *("413", "422", "400-content-filter", "redirect", "hang"),
)


def grader(endpoint: LoopbackEndpoint, timeout: float = 60.0) -> CriterionGrader:
    config = LLMConfig(
        "judge",
        api_base=endpoint.base_url,
        temperature=0.0,
        timeout=timeout,
        max_retries=1,
        retry_min_wait=0.001,
        retry_max_wait=0.01,
    )
    return CriterionGrader(judge_model_config=config)


async def graded(endpoint: LoopbackEndpoint, folder: Path, count: int, timeout: float = 60.0) -> EvalResult:
    return await evaluate(essays(count), grader(endpoint, timeout), experiments_dir=folder, experiment_name="e")


@pytest.mark.parametrize("fault", ALWAYS_BAD)
async def test_a_fault_is_never_a_verdict_and_a_healthy_endpoint_finishes_the_run(fault: str, tmp_path: Path) -> None:
    async with LoopbackEndpoint(faults={fault: 1.0}) as sick:
        first = await graded(sick, tmp_path, 3, timeout=0.3 if fault == "hang" else 60.0)
    assert first.successful_items == 0
    assert all(item.report.score is None and item.error for item in first.item_results)
    # The same address, so that it is the same model.
    async with LoopbackEndpoint(port=sick.port) as healthy:
        second = await graded(healthy, tmp_path, 3)
    assert (second.get_scores(), second.failed_items) == ([1.0] * 3, 0)


@pytest.mark.parametrize("fault", sorted(ENDS_RUN))
async def test_what_no_later_call_can_get_past_ends_the_run_at_once(fault: str, tmp_path: Path) -> None:
    async with LoopbackEndpoint(faults={fault: 1.0}) as sick:
        first = await graded(sick, tmp_path, 300)
        assert sick.counts.requests <= 3
    assert first.stopped
    assert first.get_scores() == []


@pytest.mark.parametrize("fault", sorted(READ_ANYWAY))
async def test_untidy_replies_are_read(fault: str, tmp_path: Path) -> None:
    async with LoopbackEndpoint(faults={fault: 1.0}) as untidy:
        assert (await graded(untidy, tmp_path, 3)).get_scores() == [1.0] * 3


async def test_after_mixed_faults_a_resume_asks_exactly_what_has_no_verdict(tmp_path: Path) -> None:
    mixed = ("500", "reset", "prose", "broken-json", "length", "empty", "refusal", "422", "503", "html")
    async with LoopbackEndpoint(faults=dict.fromkeys(mixed, 0.02), seed=7) as sick:
        first = await graded(sick, tmp_path, 40)
    assert first.successful_items + first.failed_items == 40
    assert first.failed_items > 0
    assert len(first.get_reports()) == first.successful_items
    assert all(item.error for item in first.filter_failed())
    missing = sum(item.report.failed_count for item in first.item_results)
    async with LoopbackEndpoint(port=sick.port) as healthy:
        second = await graded(healthy, tmp_path, 40)
        assert healthy.counts.requests == missing
    assert second.failed_items == 0
    kept = [item for item in first.item_results if item.error is None]
    assert [second.item_results[item.item_idx].report for item in kept] == [item.report for item in kept]
