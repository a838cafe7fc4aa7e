"""A run directory means one run: another one is refused, or takes its place without losing anything."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionGrader, EvalResult, InputError, JudgeSpec, LLMConfig, Rubric, RubricDataset
from autorubric import evaluate as evaluate_run
from autorubric.core.criterion import CriterionOption
from autorubric.llm.records import lock
from autorubric.llm.records.lock import run_lock
from autorubric.runs.another_run import RUN_FILES, merge_shards, move_run_away, refuse_another_run
from autorubric.runs.changes import find_item_changes
from autorubric.runs.manifest import LEDGER_FOLDER, write_manifest
from autorubric.runs.shard import WORKERS_FOLDER
from autorubric.synthesis.final_files import FINAL_FILES, FULL_FILES
from autorubric.synthesis.run_summary import UNFINISHED_FILE
from autorubric.synthesis.stages import HIDDEN_STEP_FILES, STEP_FILES
from autorubric.training.evolution.versions import EVOLVED_FILE, VERSIONS_FILE
from autorubric.training.selection_summary import DECISIONS_FILE, SUMMARY_FILE
from autorubric.training.trainer_files import list_training_files
from tests.offenders import offenders

from .conftest import Bench, essays


async def run(dataset: RubricDataset, grader: Any, folder: Path, **settings: Any) -> EvalResult:
    return await evaluate_run(dataset, grader, experiments_dir=folder, experiment_name="e", **settings)


def offline(*judges: str, **settings: Any) -> CriterionGrader:
    return CriterionGrader(judges=[JudgeSpec(LLMConfig("builtin/offline"), name) for name in judges], **settings)


def changed(dataset: RubricDataset, **item: Any) -> RubricDataset:
    return replace(dataset, items=[*dataset.items[:2], replace(dataset.items[2], **item), *dataset.items[3:]])


def other_weight(dataset: RubricDataset) -> RubricDataset:
    assert dataset.rubric is not None
    return replace(dataset, rubric=Rubric([dataset.rubric[0].model_copy(update={"weight": 2.0}), dataset.rubric[1]]))


DATASETS: dict[str, tuple[Callable[[RubricDataset], RubricDataset], str]] = {
    "submission": (
        lambda d: changed(d, submission="New."),
        "dataset: changed in 1 of 4 earlier items; submission of item 2 (e2): 'Essay 2.' before, now 'New.'",
    ),
    "submission of a moved item": (
        lambda d: replace(d, items=[replace(d.items[2], submission="New."), *d.items[:2], *d.items[3:]]),
        "dataset: changed in 1 of 4 earlier items; submission of item 2 (e2): 'Essay 2.' before, now 'New.'",
    ),
    "prompt": (
        lambda d: replace(d, prompt="Say why."),
        "changed in 4 of 4 earlier items; prompt of item 0 (e0): 'Explain.' before, now 'Say why.'",
    ),
    "reference": (
        lambda d: changed(d, reference_submission="So."),
        "reference of item 2 (e2): none before, now 'So.'",
    ),
    "weight": (other_weight, "criterion 'Causes' of item 0 (e0): weight: 3.0 before, now 2.0"),
    "fewer criteria": (
        lambda d: replace(d, rubric=Rubric([d.rubric[0]])),  # type: ignore[index]
        "criteria of item 0 (e0): 2 before, now 1",
    ),
    "fewer items": (
        lambda d: replace(d, items=d.items[:2]),
        "has 2 of the 4 earlier items, item 2 is missing; pass the others too, perhaps with a higher --limit",
    ),
}


async def test_another_dataset_is_refused_with_what_differs_and_nothing_is_asked(tmp_path: Path) -> None:
    await run(essays(), Bench().grader, tmp_path)
    files = {path.name: path.read_bytes() for path in (tmp_path / "e").iterdir() if path.is_file()}
    with offenders() as case:
        for name, (change, told) in DATASETS.items():
            with case(name):
                again = Bench()
                with pytest.raises(InputError) as refused:
                    await run(change(essays()), again.grader, tmp_path)
                assert told in str(refused.value)
                assert "--replace (in Python: replace=True)" in str(refused.value)
                assert again.asked == []
                assert {p.name: p.read_bytes() for p in (tmp_path / "e").iterdir() if p.is_file()} == files


async def test_other_judges_and_settings_that_change_results_are_refused_by_name(tmp_path: Path) -> None:
    await run(essays(), offline("a", "b"), tmp_path)
    graders = {
        "judges: a, b before, now a": offline("a"),
        "judges: a, b before, now a, c": offline("a", "c"),
        "aggregation.binary: majority before, now any": offline("a", "b", aggregation="any"),
        "on_failure: none before, now skip": offline("a", "b", on_failure="skip"),
        "llm_calls: per_criterion before, now per_item": offline("a", "b", llm_calls="per_item"),
        "judge b: model.temperature: none before, now 1.0": CriterionGrader(
            judges=[
                JudgeSpec(LLMConfig("builtin/offline"), "a"),
                JudgeSpec(LLMConfig("builtin/offline", temperature=1.0), "b"),
            ]
        ),
        "judge b: repeats: 1 before, now 2": CriterionGrader(
            judges=[
                JudgeSpec(LLMConfig("builtin/offline"), "a"),
                JudgeSpec(LLMConfig("builtin/offline"), "b", repeats=2),
            ]
        ),
    }
    with offenders() as case:
        for told, grader in graders.items():
            with case(told), pytest.raises(InputError) as refused:
                await run(essays(), grader, tmp_path)
            with case(f"{told}: message"):
                assert f"{tmp_path / 'e'}: {told}" in str(refused.value)


async def test_what_does_not_change_results_is_the_same_run(tmp_path: Path) -> None:
    await run(essays(), Bench().grader, tmp_path)
    more, labelled = essays(6), essays()
    labelled.items[0] = replace(labelled.items[0], ground_truth=["MET", "UNMET"])
    with offenders() as case:
        for name, dataset, calls in (("the same", essays(), 0), ("labels", labelled, 0), ("more items", more, 4)):
            with case(name):
                again = Bench()
                result = await run(dataset, again.grader, tmp_path, max_concurrent_items=2)
                assert len(again.asked) == calls
                assert result.get_scores() == [0.75] * len(dataset)
    await run(essays(6), offline("a"), tmp_path / "other")
    quicker = CriterionGrader(judges=[JudgeSpec(LLMConfig("builtin/offline", timeout=9, max_retries=0), "a")])
    await run(essays(6), quicker, tmp_path / "other")


async def test_items_in_another_order_leave_no_results_of_the_old_order(tmp_path: Path) -> None:
    await run(essays(), Bench().grader, tmp_path)
    again = Bench()
    turned = replace(essays(), items=essays().items[::-1])
    await run(turned, again.grader, tmp_path)
    assert again.asked == []
    rows = [json.loads(line) for line in (tmp_path / "e" / "items.jsonl").read_text().splitlines()]
    assert [row["item_idx"] for row in rows] == [0, 1, 2, 3]


async def test_replacing_keeps_the_old_files_and_pays_only_for_what_changed(tmp_path: Path) -> None:
    await run(essays(), Bench().grader, tmp_path)
    folder = tmp_path / "e"
    old = {name: (folder / name).read_bytes() for name in ("manifest.json", "dataset.json", "items.jsonl")}
    again = Bench()
    with pytest.warns(UserWarning, match=r"are now in .*replaced-1"):
        await run(changed(essays(), submission="New."), again.grader, tmp_path, replace=True)
    assert again.asked == [("e2", "Is kind"), ("e2", "Names a cause")]
    assert {name: (folder / "replaced-1" / name).read_bytes() for name in old} == old
    back = Bench()
    with pytest.warns(UserWarning, match=r"are now in .*replaced-2"):
        await run(essays(), back.grader, tmp_path, replace=True)
    assert back.asked == []
    # The same run resumes, with and without the setting.
    for settings in ({}, {"replace": True}):
        same = Bench()
        await run(essays(), same.grader, tmp_path, **settings)
        assert same.asked == []
    assert not (folder / "replaced-3").exists()


async def test_without_a_name_another_grader_has_a_directory_of_its_own(tmp_path: Path) -> None:
    for judges in (("a", "b"), ("a",), ("a", "b"), ("a",)):
        await evaluate_run(essays(), offline(*judges), experiments_dir=tmp_path)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert len(folders) == 2
    assert folders[1].startswith(f"{folders[0]}-")
    for folder, expected in zip(folders, (["a", "b"], ["a"]), strict=True):
        config = json.loads((tmp_path / folder / "manifest.json").read_text())["grader_config"]
        assert [judge["judge_id"] for judge in config["judges"]] == expected


class Killed(BaseException):
    pass


def test_a_move_that_is_killed_at_any_step_loses_and_mixes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("manifest.json", "dataset.json", "items.jsonl", "results.csv")
    rename = Path.rename
    steps = 0

    def renamed(path: Path, target: Path) -> Path:
        nonlocal steps
        steps -= 1
        if steps == 0:
            raise Killed
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    for last in range(1, 2 + len(names)):
        folder = tmp_path / str(last)
        folder.mkdir()
        write_manifest(folder, {"kind": "evaluation"})
        for name in names[1:]:
            (folder / name).write_text(name)
        (folder / "notes.txt").write_text("mine")
        steps = last
        with pytest.raises(Killed):
            move_run_away(folder)
        steps = 0
        assert not refuse_another_run(folder, "evaluation", lambda manifest: [], replace=False)
        assert sorted(path.name for path in folder.iterdir()) == sorted((*names, "notes.txt"))
        with pytest.warns(UserWarning):
            moved = move_run_away(folder)
        assert sorted(path.name for path in moved.iterdir()) == sorted(names)
        assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "replaced-1"]


def test_a_directory_of_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"kind": "synthesis"})
    with pytest.raises(InputError, match="kind of run: synthesis before, now evaluation"):
        refuse_another_run(tmp_path, "evaluation", lambda manifest: [], replace=False)


def test_the_files_of_each_kind_of_run_are_those_that_it_writes() -> None:
    synthesis = {*STEP_FILES, *HIDDEN_STEP_FILES, *FINAL_FILES, *FULL_FILES, UNFINISHED_FILE}
    assert set(RUN_FILES["synthesis"]) == synthesis
    selection = {name.partition("/")[0] for name in (*list_training_files(), DECISIONS_FILE, SUMMARY_FILE)}
    assert set(RUN_FILES["selection"]) == selection
    assert RUN_FILES["service"] == (VERSIONS_FILE, EVOLVED_FILE)
    assert set(RUN_FILES["evaluation"]) - selection == {
        "dataset.json",
        "items.jsonl",
        *(f"results.{kind}" for kind in ("json", "jsonl", "csv", "parquet")),
    }


def test_criteria_differ_by_what_is_judged_and_not_by_tags_or_metadata_of_options() -> None:
    def build(tags: list[str], metadata: dict[str, Any], best: float) -> RubricDataset:
        options = [
            CriterionOption(label="Full", value=best, metadata=metadata),
            CriterionOption(label="None", value=0),
        ]
        scaled = Criterion(requirement="How?", options=options)
        dataset = RubricDataset("Why?", Rubric([Criterion(requirement="Is brief", tags=tags), scaled]))
        dataset.add_item("Yes.", "")
        return dataset

    first = build([], {}, 1)
    assert find_item_changes(first, build(["style"], {"points": 6}, 1)) == []
    assert len(find_item_changes(first, build([], {}, 0.5))) == 1


async def test_a_start_names_the_worker_of_a_killed_run_that_it_waits_for_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 1)
    worker = tmp_path / LEDGER_FOLDER / WORKERS_FOLDER / "a-1" / LEDGER_FOLDER
    with run_lock(worker), warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        start = asyncio.create_task(merge_shards(tmp_path, None))
        while not notes and not start.done():
            await asyncio.sleep(0.01)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
    [note] = notes
    holder = f"another run of this process {os.getpid()}"
    assert str(note.message).startswith(f"waiting: {worker} is in use by {holder}, which took it at ")
    await merge_shards(tmp_path, None)
    assert not worker.exists()
