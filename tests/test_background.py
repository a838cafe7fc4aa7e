"""What a run from Python shares with the command line: the collector's settings, the event loop, the concurrency."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from autorubric import Criterion, LLMConfig, Rubric, RubricDataset, evaluate
from autorubric.background import no_collections, rare_collections, wait_for
from autorubric.cli.grade import grade
from autorubric.graders import CriterionGrader
from autorubric.runs.result import ItemResult
from autorubric.testing import LoopbackEndpoint
from tests.warm_commands import warm_folder


def test_the_collector_is_as_before_when_the_last_run_has_ended() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        with pytest.raises(ZeroDivisionError), rare_collections():
            raise ZeroDivisionError
        assert gc.get_threshold() == (200_000, 20, 20)
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, frozen)


def test_what_a_run_froze_stays_frozen_over_a_block_without_collections() -> None:
    with rare_collections():
        frozen = gc.get_freeze_count()
        with no_collections():
            assert not gc.isenabled()
        assert gc.isenabled()
        # Fewer where something that was frozen is no longer referenced; none if the block had unfrozen it.
        assert 0 < gc.get_freeze_count() <= frozen


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
    assert seen == [(200_000, 20, 20)]
    assert gc.get_threshold() == before


def test_synchronous_calls_run_on_uvloop() -> None:
    async def loop() -> str:
        return type(asyncio.get_running_loop()).__module__

    pytest.importorskip("uvloop")
    assert wait_for(loop()) == "uvloop"


def test_as_many_calls_are_in_flight_from_python_as_from_the_command_line() -> None:
    here = CriterionGrader(judge_model_config=LLMConfig("builtin/offline")).max_in_flight
    assert here == inspect.signature(grade).parameters["concurrency"].default == 256


NOTEBOOK = """
import asyncio, sys
from autorubric import Criterion, CriterionGrader, LLMConfig, Rubric, RubricDataset, evaluate_sync
dataset = RubricDataset("Why?", Rubric([Criterion(requirement="Is kind.")]))
for number in range(20):
    dataset.add_item(f"So {number}.", "", id=str(number))
grader = CriterionGrader(judge_model_config=LLMConfig("judge", api_base=sys.argv[1]), max_in_flight=2)

async def cell():  # as in a notebook: a loop is running
    try:
        evaluate_sync(dataset, grader, experiments_dir=sys.argv[2], experiment_name="e", show_progress=False)
    except KeyboardInterrupt as interrupt:
        print("interrupted", *getattr(interrupt, "__notes__", []))

loop = asyncio.new_event_loop()  # asyncio.run would take Ctrl-C for itself; a kernel does not
loop.run_until_complete(cell())
loop.close()
"""


def test_ctrl_c_in_a_notebook_lets_calls_in_flight_end_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:0.4").in_thread() as endpoint:
        command = [str(warm_folder() / "forked-python"), "-c", NOTEBOOK, endpoint.base_url, str(tmp_path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            while endpoint.counts.requests < 4:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said, warned = process.communicate(timeout=600)
        told = "replies are saved; to resume, make the same call again"
        assert (said, process.returncode) == (f"interrupted {told}\n", 0)
        assert "stopping: waiting for 2 calls in flight; press Ctrl-C again to abandon them" in warned
        before = endpoint.counts.requests
        assert 4 <= before < 20
        assert endpoint.counts.by_status == {200: before}  # nobody hung up
        manifest = json.loads((tmp_path / "e" / "manifest.json").read_text())
        assert (manifest["calls"], len(manifest["completed_indices"]), manifest["error"]) == (
            before,
            before,
            "interrupted",
        )
        assert subprocess.run(command, check=False, capture_output=True).returncode == 0
        assert endpoint.counts.requests == 20


def test_a_second_ctrl_c_in_a_notebook_leaves_at_once(tmp_path: Path) -> None:
    with LoopbackEndpoint(latency="fixed:600").in_thread() as endpoint:  # no call ends by itself
        command = [str(warm_folder() / "forked-python"), "-c", NOTEBOOK, endpoint.base_url, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while endpoint.counts.requests < 2:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert any("press Ctrl-C again" in line for line in process.stderr)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=600)[0] == "interrupted\n"
        assert endpoint.counts.by_status == {}


ENDED_TWICE = """
import asyncio, os, signal
from contextlib import asynccontextmanager
from autorubric.background import on_interrupt, wait_for

@asynccontextmanager
async def slow_to_close():
    try:
        yield
    finally:
        await asyncio.sleep(0.5)
        print("closed", flush=True)

async def main():
    async with slow_to_close():
        with on_interrupt(lambda: os.kill(os.getpid(), signal.SIGINT)):
            asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
            await asyncio.sleep(600)

wait_for(main())
"""


def test_a_second_ctrl_c_in_a_program_lets_what_it_cancels_close_before_the_loop() -> None:
    command = [str(warm_folder() / "forked-python"), "-c", ENDED_TWICE]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert ended.stdout == "closed\n"
    assert ended.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert "already running" not in ended.stderr
