from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autorubric import RubricDataset, evaluate
from autorubric.errors import InputError
from autorubric.runs.items_file import ItemsFile, MergedLines, StoredLines, read_items
from autorubric.runs.plan import ExperimentPlan, experiment

from .conftest import Bench, essays

pytestmark = pytest.mark.filterwarnings("ignore:the files of the earlier run")


def line(index: int, session: str) -> str:
    return f'{{"item_idx":{index},"duration_seconds":0.1,"error":null,"report":"{session}"}}'


def killed(path: Path, session: str, indices: range, standing: int) -> None:
    """What a session that is killed leaves: nothing of it runs to its end."""
    file = ItemsFile(path, StoredLines(path) if standing else {})
    assert len(file.list_remaining()) == standing
    for index in indices:
        file.add(index, line(index, session))
    file._file.close()


def reports(path: Path) -> list[str]:
    return [row["report"] for row in read_items(path)]


def test_a_killed_session_leaves_no_fewer_items_than_there_were(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    killed(path, "first", range(5), standing=0)
    killed(path, "second", range(2), standing=5)
    assert reports(path) == ["first"] * 5
    killed(path, "third", range(1, 6), standing=5)
    assert reports(path) == ["first"] * 5
    killed(path, "fourth", range(6), standing=5)
    assert reports(path) == ["fourth"] * 6


def test_results_that_count_no_more_are_gone_at_once(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    killed(path, "first", range(5), standing=0)
    killed(path, "second", range(2), standing=0)
    assert reports(path) == ["second"] * 2


def test_a_session_that_ends_leaves_its_items_and_those_it_did_not_reach_in_order(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    killed(path, "first", range(5), standing=0)
    with ItemsFile(path, StoredLines(path)) as file:
        for index in (3, 0, 1):
            file.add(index, line(index, "second"))
        assert file.list_remaining() == [2, 4]
    assert reports(path) == ["second", "second", "first", "second", "first"]
    assert [found.name for found in tmp_path.iterdir()] == ["items.jsonl"]


async def rows_as_a_session_begins(dataset: RubricDataset, bench: Bench, folder: Path) -> int:
    plan = ExperimentPlan(dataset, bench.grader, folder, replace=True)
    async with experiment(plan, dataset.to_json().encode()):
        return len(reports(folder / "items.jsonl"))


async def test_results_stand_while_nothing_has_changed(bench: Bench, tmp_path: Path) -> None:
    await evaluate(essays(), bench.grader, experiments_dir=tmp_path, experiment_name="e")
    # As a kill would leave it: the session has begun and no item has ended.
    assert await rows_as_a_session_begins(essays(), Bench(), tmp_path / "e") == 4


async def test_results_of_a_changed_dataset_do_not_stand(bench: Bench, tmp_path: Path) -> None:
    await evaluate(essays(), bench.grader, experiments_dir=tmp_path, experiment_name="e")
    dataset = essays()
    dataset.items[2] = replace(dataset.items[2], submission="Another essay.")
    assert await rows_as_a_session_begins(dataset, Bench(), tmp_path / "e") == 0


def test_lines_of_several_files_are_those_of_one_where_the_last_file_counts(tmp_path: Path) -> None:
    files = []
    for name, session, indices in (("here", "whole", range(4)), ("shard", "shard", range(2))):
        (tmp_path / name).write_text("".join(line(index, session) + "\n" for index in indices))
        files.append(StoredLines(tmp_path / name))
    united = MergedLines([(files[0], [0, -1, 2, 3]), (files[1], [1, 7])])
    (tmp_path / "shard").unlink()
    sessions = {0: "whole", 1: "shard", 2: "whole", 3: "whole", 7: "shard"}
    assert list(united.items()) == [(place, (0.1, line(place, name).encode())) for place, name in sessions.items()]
    assert 5 not in united


def test_a_duration_that_no_float_can_hold_makes_a_line_damaged(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(
        line(0, "first").replace("0.1", "1e0") + "\n" + line(1, "x").replace("0.1", "-1" + "0" * 309) + "\n\n"
    )
    with pytest.raises(InputError, match="line 2 is damaged"):
        reports(path)
