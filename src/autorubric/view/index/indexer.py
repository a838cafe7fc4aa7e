"""Reads `items.jsonl` into an index as it grows."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

from autorubric.errors import InputError
from autorubric.files.printable import to_utf8
from autorubric.files.strict_json import decode_json
from autorubric.jobs.label_source import LabelChoice
from autorubric.labels.label_store import STORE, read_history
from autorubric.llm.failure_groups import NOT_ASKED
from autorubric.llm.records.lock import find_lock_holder
from autorubric.runs.cells import NO_VERDICT, hash_query, read_cells
from autorubric.runs.manifest import DATASET_FILE, ITEMS_FILE, find_ledger_folder
from autorubric.runs.summary import fold_query
from autorubric.view.index.dataset_lines import DatasetLines
from autorubric.view.index.schema import FAILED, FILE_NAME, FLAGGED, SKIPPED, SORTED, note, open_index, read_notes
from autorubric.view.index.shown_labels import Words, compute_label_mark, read_shown_labels
from autorubric.view.index.tally import Tally
from autorubric.view.label_figures import measure_labels
from autorubric.view.sources import stat_file

_HEAD = re.compile(rb'\{"item_idx": ?(\d{1,12})[,}]')
BATCH_BYTES = 4 << 20  # by size: sums that are rounded where the clock says would differ in the last digit
_LAST = 1e308  # sorts items without a score behind all others


class Indexer:
    """The only writer of an index. Memory grows with the criteria, and by eight bytes per item.

    Args:
        run: the run directory.
        place: the folder of the index.
        choice: which labels count; by default those that `autorubric agree` uses.
        is_stopped: whether to stop.
    """

    def __init__(
        self,
        run: Path,
        place: Path,
        choice: LabelChoice | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._run, self._place, self._choice = run, place, choice or LabelChoice()
        self._is_stopped = is_stopped
        self.path = place / FILE_NAME
        self._connection = open_index(self.path)
        self._file_at = self.path.stat().st_ino
        self._tally = Tally.load(self._connection)
        self._dataset: DatasetLines | None = None
        self._dataset_mark = self._label_mark = ""
        self._replaced: Collection[int] = ()  # starts of lines that later ones replace
        self._labels = read_index_labels(self._connection)

    def close(self) -> None:
        """Close the index."""
        self._connection.close()

    @property
    def is_deleted(self) -> bool:
        """Whether the index was deleted while the view runs."""
        try:
            return self.path.stat().st_ino != self._file_at
        except OSError:
            return True

    def step(self) -> bool:
        """Read some more megabytes, for at most a quarter of a second; return whether there is more to read now.

        Raises:
            OSError: the run is gone, or the disk is full.
            sqlite3.Error: likewise.
        """
        try:
            file = (self._run / ITEMS_FILE).open("rb")
        except FileNotFoundError:
            return False
        with file:
            notes = read_notes(self._connection)
            mark = self._read_mark(str(notes.get("label_mark") or ""))
            size = file.seek(0, 2)
            if notes.get("mark") != mark or size < (notes.get("offset") or 0):
                self._begin(mark)
                notes = {}
            offset, line = notes.get("offset") or 0, notes.get("line") or 0
            if offset >= size:
                if notes.get("size") != size:
                    note(self._connection, {"size": size})
                self._measure_labels(notes)
                return False
            file.seek(offset)
            return self._read(file, offset, line, size)

    def _measure_labels(self, notes: Mapping[str, Any]) -> None:
        """Store the agreement with labels of single pairs, once the run has ended and is read."""
        if not notes.get("single_labels") or notes.get("labels_at") == notes.get("offset"):
            return
        folder = find_ledger_folder(self._run)
        if folder is not None and find_lock_holder(folder) is not None:
            return
        found = measure_labels(self._run, self._choice, self._is_stopped)
        if found is not None:
            note(self._connection, {"labels_at": notes["offset"], "label_figures": json.dumps(found)})

    def _read_mark(self, labels: str) -> str:
        """Return a fingerprint of the files and the labels, which shows when the index is outdated."""
        own, dataset = stat_file(self._run / ITEMS_FILE), self._run / DATASET_FILE
        mark = str(stat_file(dataset) or "")
        if mark != self._dataset_mark:
            self._dataset, self._dataset_mark = None, mark
            if mark:
                try:
                    self._dataset = DatasetLines(dataset, self._place / "dataset.json")
                except InputError:
                    self._dataset = None  # pages say what is wrong with it
        self._label_mark = compute_label_mark(self._run, self._choice, labels)
        return f"{own and own[0]} {mark} {self._label_mark}"  # the file grows

    def _begin(self, mark: str, replaced: Collection[int] = ()) -> None:
        found, problem = None, ""
        try:
            found = None if self._dataset is None else read_shown_labels(self._run, self._dataset, self._choice)
        except InputError as error:
            if not self._choice.is_default:
                raise
            problem = str(error)  # of the label store; all else can be shown
        with self._begin_transaction():
            for table in ("meta", "items", "criteria", "words", "cells", "pairs", "confidence", "labels", "damaged"):
                self._connection.execute(f"DELETE FROM {table}")
            notes: dict[str, Any] = {"mark": mark, "offset": 0, "line": 0, "label_mark": self._label_mark}
            notes["size"] = (self._run / ITEMS_FILE).stat().st_size
            notes |= {"label_problem": problem, "other_labels": 0 if found or problem else self._count_others()}
            if found is not None:
                notes |= {"labels": found.origin, "single_labels": found.are_single}
                rows = [(item, json.dumps(words)) for item, words in found.by_item.items()]
                self._connection.executemany("INSERT INTO labels VALUES (?, ?)", rows)
            note(self._connection, notes)
        self._tally, self._replaced, self._labels = Tally(), replaced, read_index_labels(self._connection)

    def _count_others(self) -> int:
        """How many labels of the label store do not count, because the dataset has its own."""
        has_store = self._choice.is_default and (self._run / STORE).exists()
        return sum(read_history(self._run).annotators().values()) if has_store else 0

    def _read(self, file: BinaryIO, offset: int, number: int, size: int) -> bool:
        last = offset + BATCH_BYTES
        batch = _Batch(self._tally, self._dataset, self._labels)
        with batch:
            for line in file:
                if not line.endswith(b"\n"):
                    size = offset  # torn: the run is writing it, or was killed
                    break
                number += 1
                if offset not in self._replaced:
                    batch.add(line, number, offset)
                offset += len(line)
                if offset >= last:
                    break
        with self._begin_transaction():
            is_repeated = batch.save(self._connection)
            self._tally.save(self._connection)
            note(self._connection, {"offset": offset, "line": number, "size": size})
        if is_repeated:
            self._begin_without_repeated(file)
            return True
        if offset >= size:
            self._connection.executescript(SORTED)
            self._measure_labels(read_notes(self._connection))
        return offset < size

    def _begin_without_repeated(self, file: BinaryIO) -> None:
        """Begin again without the lines that later ones replace. Runs write no such lines today."""
        starts: dict[int, list[int]] = {}
        start = file.seek(0)
        for line in file:
            head = _HEAD.match(line)
            if head is not None and line.endswith(b"}\n"):
                starts.setdefault(int(head[1]), []).append(start)
            start += len(line)
        self._begin(self._read_mark(self._label_mark), {start for places in starts.values() for start in places[:-1]})

    def _begin_transaction(self) -> sqlite3.Connection:
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection  # commits, or rolls back on an error


class _Batch:
    """Rows to write into the index."""

    def __init__(self, tally: Tally, dataset: DatasetLines | None, labels: Mapping[int, Words] | None) -> None:
        self._tally, self._dataset, self._labels = tally, dataset, labels
        self._file: BinaryIO | None = None
        self._first = 0
        self.items: list[tuple[Any, ...]] = []
        self._cells: dict[tuple[int, int], list[int]] = {}
        self._damaged: list[tuple[int, int, int, int | None]] = []

    def __enter__(self) -> _Batch:
        self._file = None if self._dataset is None else self._dataset.path.open("rb")
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, line: bytes, number: int, start: int) -> None:
        self._first = self._first or number
        head = _HEAD.match(line)
        try:
            if head is None or not line.endswith(b"}\n"):
                raise ValueError("no item")
            record = decode_json(line, share_texts=False)
            self._add(record, number, start, len(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._damaged.append((number, start, len(line), int(head[1]) if head else None))

    def save(self, connection: sqlite3.Connection) -> bool:
        """Write the rows; the caller commits. Return whether an item is there already: its last line counts."""
        marks = ", ".join("?" * 15)
        written = connection.executemany(f"INSERT OR IGNORE INTO items VALUES ({marks})", self.items)
        cells = [(*place, self._first, len(items), str(items)) for place, items in self._cells.items()]
        connection.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", cells)
        connection.executemany("INSERT OR REPLACE INTO damaged VALUES (?, ?, ?, ?)", self._damaged)
        return written.rowcount < len(self.items)

    def _add(self, record: Mapping[str, Any], number: int, start: int, size: int) -> None:
        index, report, tally = record["item_idx"], record["report"], self._tally
        item = self._read_item(index)
        score = report.get("score") if record["error"] is None else None
        if score is not None and not isfinite(score):
            raise ValueError("no score")
        labels = (item.get("ground_truth") if self._labels is None else self._labels.get(index)) or ()
        reports = report.get("criterion_reports") or ()
        flags = report.get("flags") or ()
        marks = (FLAGGED if flags else 0) | _mark_error(record["error"])
        labelled, agreed, doubt, found = 0, 0, 0.0, []
        cells = list(read_cells(report))
        if all(cell.word in NO_VERDICT for cell in cells):
            labels = ()  # `autorubric agree` leaves such an item out, with the votes on it
        for place, (cell, entry) in enumerate(zip(cells, reports, strict=True)):
            outcome = tally.find_outcome(cell, place, labels[place] if place < len(labels) else None)
            confidence = entry.get("confidence")
            found.append((outcome, confidence))
            doubt += outcome.doubt if confidence is None or outcome.is_open else 1.0 - confidence
            marks |= outcome.marks
            if outcome.agrees is not None:
                labelled, agreed = labelled + 1, agreed + outcome.agrees
        row = (
            index, number, start, size, to_utf8(str(item.get("id") or "")), to_utf8(item.get("description") or ""),
            score, _LAST if score is None else score, _LAST if score is None else -score,
            -doubt / len(found) if found else -1.0, -len(item.get("submission") or ""), marks, labelled, agreed,
            hash_query(fold_query(item.get("prompt"))),
        )  # fmt: skip
        # All fields are read first, so that nothing of a damaged item is counted.
        self.items.append(row)
        for outcome, confidence in found:
            tally.count(outcome, confidence)
            self._cells.setdefault((outcome.sums.number, outcome.word), []).append(index)
        tally.flags.update(flags)
        errors = [report["error"] for report in reports if report.get("error") is not None]
        for error in errors or ([] if record["error"] is None else [record["error"]]):
            tally.failures.add_text(error, str(item.get("id") or index))

    def _read_item(self, index: int) -> Mapping[str, Any]:
        if self._dataset is None or self._file is None:
            return {}
        try:
            return self._dataset.read_item_from(self._file, index)
        except InputError:
            return {}


def _mark_error(error: str | None) -> int:
    """Return the bit of an item with an error: some judgments failed, or not all were requested."""
    if error is None:
        return 0
    return SKIPPED if any(words in error for words in NOT_ASKED) else FAILED


def read_index_labels(connection: sqlite3.Connection) -> Mapping[int, Words] | None:
    """Return the labels in an index; None if those of the dataset count."""
    if "labels" not in read_notes(connection):
        return None
    return {item: json.loads(words) for item, words in connection.execute("SELECT item, words FROM labels")}
