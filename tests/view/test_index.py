"""The index of a run: its figures by hand, and what it makes of files that grow, break or change."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from autorubric.dataset import RubricDataset
from autorubric.view import figures, view_server
from autorubric.view.index.dataset_lines import DatasetLines
from autorubric.view.index.indexer import BATCH_BYTES, Indexer
from autorubric.view.index.schema import FILE_NAME, note, open_index, reading
from autorubric.view.sources import open_sources
from autorubric.view.view_server import IndexWorker
from tests.offenders import offenders
from tests.oracles import proportion_confint
from tests.processes import wait_until
from tests.view.viewing import RUBRIC, STORED, item, judged, line, viewing, vote, write_run

CAUSE, BRIEF = RUBRIC


def ballots(a: str, b: str) -> list[dict[str, Any]]:
    return [vote("a", a), vote("b", b)]


LINES = [
    line(
        0,
        1.0,
        [judged(CAUSE, "MET", ballots("MET", "MET"), confidence=0.9), judged(BRIEF, "MET", ballots("MET", "UNMET"))],
    ),
    line(1, 0.25, [judged(CAUSE, "UNMET", ballots("UNMET", "UNMET")), judged(BRIEF, "MET", ballots("MET", "MET"))]),
    line(2, None, [judged(CAUSE, None, error="parse: no verdict"), judged(BRIEF, "CANNOT_ASSESS")], "1 of 2 failed"),
]
ITEMS = [item(0, "MET", "UNMET"), item(1, "UNMET", "MET"), item(2)]


def indexed(run: Path) -> Path:
    place = run / ".view"
    place.mkdir(exist_ok=True)
    indexer = Indexer(run, place)
    while indexer.step():
        pass
    indexer.close()
    return place / "index.sqlite"


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with reading(path) as connection:
        assert connection is not None
        return [tuple(row) for row in connection.execute(query)]


def test_the_figures_of_three_items_are_those_counted_by_hand(tmp_path: Path) -> None:
    path = indexed(write_run(tmp_path / "run", ITEMS, LINES))
    with reading(path) as connection:
        assert connection is not None
        found = figures.read_scores(connection)
        # Two scores, 1 and 1/4: mean 5/8. With a quarter of a score at each end, the mean is 1.5/2.5 = 0.6 and its
        # variance (1 + 1/16 + 1/4 - 2.5 · 0.36) / 2.5 / 1.5 = 0.11, that of 0.24/0.11 trials.
        assert (found["items"], found["scored"], found["mean"]) == (3, 2, 0.625)
        trials = 0.24 / 0.11
        assert found["interval"] == pytest.approx(proportion_confint(0.6 * trials, trials, method="wilson"))
        # Item 0: judges differ on Brief, and the verdict MET is not the label UNMET. Item 2 failed.
        assert (found["failed"], found["disputed"], found["differs"], found["labelled"]) == (1, 1, 1, 2)
        cause, brief = figures.read_criteria(connection)
        assert (cause["mean"], cause["judged"], cause["failed"], cause["abstained"]) == (0.5, 2, 1, 0)
        assert (brief["mean"], brief["judged"], brief["failed"], brief["abstained"]) == (1.0, 2, 0, 1)
        # 5 of 6 judgments did not fail. Of 4 labelled verdicts, 3 are the label.
        assert figures.count_judgments(connection).coverage == pytest.approx(5 / 6)
        assert figures.measure_against_labels(connection).value == pytest.approx(3 / 4)
        # Cause decides: variance 1/4, weight 3. Brief is MET wherever it is judged.
        assert [(one["name"], one["influence"]) for one in figures.find_drivers(connection)] == [("Cause", 0.75)]
    # Doubts: (1 − 0.9 + 1/2) / 2, 0, and 1 where the verdict is missing.
    doubts = [-doubt for (doubt,) in rows(path, "SELECT doubt FROM items ORDER BY item")]
    assert doubts == pytest.approx([0.3, 0.0, 1.0])


def test_an_index_grows_with_the_file_and_leaves_a_torn_last_line(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ITEMS, LINES[:1])
    place = run / ".view"
    place.mkdir()
    indexer = Indexer(run, place)
    indexer.step()
    with (run / "items.jsonl").open("a") as file:
        file.write(LINES[1] + "\n" + LINES[2][:40])
    indexer.step()
    assert rows(indexer.path, "SELECT item FROM items") == [(0,), (1,)]
    with (run / "items.jsonl").open("a") as file:
        file.write(LINES[2][40:] + "\n")
    indexer.step()
    assert rows(indexer.path, "SELECT item, score FROM items") == [(0, 1.0), (1, 0.25), (2, None)]
    assert rows(indexer.path, "SELECT sum(judged + abstained + failed) FROM criteria") == [(6,)]
    indexer.close()


def test_where_the_sums_of_a_file_are_rounded_depends_on_its_bytes_and_not_on_the_clock(tmp_path: Path) -> None:
    # Two lines of 3/5 of a batch each fill a batch, so five lines take three.
    lines = [line(n, 1.0, [judged(CAUSE, "MET", reason="x" * (BATCH_BYTES * 3 // 5))]) for n in range(5)]
    indexer = Indexer(write_run(tmp_path / "run", [item(n) for n in range(5)], lines), tmp_path)
    assert [indexer.step() for _ in range(4)] == [True, True, False, False]
    assert rows(indexer.path, "SELECT judged, total FROM criteria") == [(5, 5.0)]
    indexer.close()


def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = indexed(write_run(tmp_path / "run", ITEMS, [LINES[0], LINES[1][:60] + "\x00", "no item at all", LINES[2]]))
    assert rows(path, "SELECT line, item FROM damaged ORDER BY line") == [(2, 1), (3, None)]
    assert rows(path, "SELECT item FROM items") == [(0,), (2,)]


def test_of_two_lines_on_one_item_the_last_one_counts_once(tmp_path: Path) -> None:
    again = line(0, 0.0, [judged(CAUSE, "UNMET"), judged(BRIEF, "UNMET")])
    path = indexed(write_run(tmp_path / "run", ITEMS, [LINES[0], LINES[1], again]))
    assert rows(path, "SELECT item, score FROM items") == [(0, 0.0), (1, 0.25)]
    assert rows(path, "SELECT name, judged, total FROM criteria") == [("Cause", 2, 0.0), ("Brief", 2, 1.0)]


def test_csv_is_refused_until_the_index_is_read(tmp_path: Path) -> None:
    """As nothing in a table says that it is only a part."""
    runs = [write_run(tmp_path / name, ITEMS, LINES) for name in ("begun", "partial")]
    paths = ("/", *(f"/r/{n}/{page}" for n in (0, 1) for page in ("", "items", "criteria", "agreement", "compare")))
    with ExitStack() as stack:
        writers = []
        for run in runs:
            (run / ".view").mkdir()
            writers.append(stack.enter_context(closing(open_index(run / ".view" / FILE_NAME))))
        note(writers[1], {"mark": "of another time", "offset": 25, "size": 100})
        for writer in writers:
            writer.execute("BEGIN IMMEDIATE")  # the view has to wait
        view = stack.enter_context(viewing(*runs))
        with offenders() as case:
            for path in paths:
                with case(path):
                    found = view.page(f"{path}?format=csv")
                    assert (found.status, found.headers.get("retry-after")) == (503, "1")
        assert "the index is being started" in view.page("/r/0/items").text
        assert "results have been read" in view.page("/").text
        assert "25% of the results have been read" in view.page("/r/1/items").text
        for writer in writers:
            writer.execute("ROLLBACK")
        view.indexed(0, 1)
        assert all(view.page(f"{path}?format=csv").status == 200 for path in paths)
        assert view.page("/r/0/items?format=csv").text.count("\n") == 1 + len(ITEMS)


def test_a_file_that_is_replaced_is_read_again_from_its_start(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ITEMS, LINES)
    indexed(run)
    other = tmp_path / "next.jsonl"
    other.write_text(LINES[1] + "\n")
    other.replace(run / "items.jsonl")
    path = indexed(run)
    assert rows(path, "SELECT item FROM items") == [(1,)]
    assert rows(path, "SELECT judged FROM criteria") == [(1,), (1,)]


def test_an_index_of_another_version_or_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ITEMS, LINES)
    path = indexed(run)
    path.write_bytes(b"not a database" * 1000)
    with reading(path) as connection:
        assert connection is None
    assert rows(indexed(run), "SELECT count(*) FROM items") == [(3,)]


@pytest.mark.parametrize("name", ["grade", "grade_panel", "select"])
def test_each_item_of_a_stored_dataset_is_found_by_its_offset(name: str, tmp_path: Path) -> None:
    path = STORED / name / "run" / "dataset.json"
    lines, whole = DatasetLines(path, tmp_path / "scratch.json"), RubricDataset.from_file(path)
    assert len(lines) == len(whole)
    assert [lines.extract_item(number)[0] for number in range(len(whole))] == whole.items
    assert [len(lines.list_criteria(lines.read_item(n))) for n in range(len(whole))] == [
        len(whole.get_item_rubric(n).rubric) for n in range(len(whole))
    ]
    assert not (tmp_path / "scratch.json").exists()


def test_a_dataset_of_another_layout_is_copied_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ITEMS, LINES)
    path = run / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text())))  # on one line
    lines = DatasetLines(path, tmp_path / "scratch.json")
    assert [lines.read_item(number)["id"] for number in range(3)] == ["e0", "e1", "e2"]


def test_an_item_that_spans_two_chunks_of_the_file_is_found(tmp_path: Path) -> None:
    # The reader takes 4 MiB at a time: items of 1.5 MB cross its borders.
    items = [item(number, text="x" * 1_500_000) for number in range(9)]
    run = write_run(tmp_path / "run", items, [])
    lines = DatasetLines(run / "dataset.json", tmp_path / "scratch.json")
    assert [lines.read_item(number)["id"] for number in range(9)] == [f"e{number}" for number in range(9)]


def test_an_index_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    monkeypatch.setattr(view_server, "_HEAD_START", 0)
    monkeypatch.setattr(view_server, "_SECONDS", 0.01)
    monkeypatch.setattr(IndexWorker, "_release", lambda worker, number: tries.append(number))
    run = write_run(tmp_path / "run", ITEMS, LINES)
    (run / ".view").write_text("in the way")
    worker = IndexWorker(open_sources([run]))
    worker.start()
    wait_until(lambda: len(tries) >= 3, "the index is not tried again")
    worker.stop()
    assert [record.getMessage() for record in caplog.records] == [
        f"{run}/.view: the index cannot be written: [Errno 17] File exists: '{run}/.view'"
    ]
