"""`items.jsonl`: one line per finished item, written as items end and read one at a time."""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO
from weakref import finalize
from zlib import crc32

from autorubric.core.report import (
    CriterionReport,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    EvaluationReport,
    Report,
)
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError
from autorubric.files import write_atomically
from autorubric.files.text import check_file
from autorubric.runs.manifest import (
    DATASET_FILE,
    ITEMS_FILE,
    ExperimentManifest,
    load_manifest,
    read_manifest,
    warn_of_change,
)

_HEAD = re.compile(rb'\{"item_idx": ?(\d{1,12}), ?"duration_seconds": ?(\d+\.?\d*(?:e-?\d+)?)')
_INDEX = re.compile(rb'(?<="item_idx":)\d+')
_KEYS = {"item_idx", "duration_seconds", "report", "error"}


class ItemsFile:
    """The item results of a run in progress. Memory is one offset per item.

    A killed process leaves complete lines and at most one partial line at the end, which readers skip.

    Args:
        path: the file.
        held: the lines of earlier sessions that still count. The file is replaced only when this session has added
            all of these items, so that a kill loses none; lines of items that it does not add are kept.
    """

    def __init__(self, path: Path, stored: Mapping[int, tuple[float, bytes]]) -> None:
        self.path = path
        self._held = stored
        self._missing = len(stored)
        draft = path.with_name(f".{path.name}.next")
        draft.unlink(missing_ok=True)  # left by a killed session
        self._draft = draft if stored else None
        self._slots: dict[int, int] = {}
        self._starts = array("Q")
        self._end = 0
        self._file: FileIO = (self._draft or path).open("w+b", buffering=0)

    def add(self, index: int, line: str | bytes) -> None:
        """Append the line of an item; a line cut off by a full disk is overwritten by the next one."""
        data = (line.encode() if isinstance(line, str) else line) + b"\n"
        self._file.seek(self._end)
        written = 0
        while written < len(data):
            written += self._file.write(data[written:])
        self._missing -= index in self._held and index not in self._slots
        self._slots[index] = len(self._starts)
        self._starts.append(self._end)
        self._end += len(data)
        if self._draft is not None and not self._missing:
            self._draft.replace(self.path)
            self._draft = None

    def list_remaining(self) -> list[int]:
        """Return the items of earlier sessions that this one has not added."""
        return [index for index in self._held if index not in self._slots]

    def read_lines(self) -> Iterator[bytes]:
        """Yield the lines of this session and the remaining earlier ones, in the order of items."""
        for index in sorted((*self._slots, *self.list_remaining())):
            slot = self._slots.get(index)
            if slot is None:
                yield self._held[index][1] + b"\n"
                continue
            start = self._starts[slot]
            end = self._starts[slot + 1] if slot + 1 < len(self._starts) else self._end
            self._file.seek(start)
            yield self._file.read(end - start)

    def __enter__(self) -> ItemsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        write_atomically(self.path, self.read_lines())
        self._file.close()
        if self._draft is not None:
            self._draft.unlink()


def read_items(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of an items file in the order of items; if an item has several, only the last one.

    A partial last line, left by a killed process, is skipped.

    Raises:
        InputError: another line is damaged, or it is not a regular file.
    """
    lines = StoredLines(path)
    for index, (_, line) in lines.items():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not record.keys() >= _KEYS:
            raise InputError(_describe_damage(path, f"the line of item {index}"))
        yield record
    if lines.damaged:
        raise InputError(_describe_damage(path, f"line {lines.damaged[0]}"))
    if lines.is_changed and lines:
        warn_of_change(path, lines.missing)


class StoredLines(Mapping[int, tuple[float, bytes]]):
    """The duration and the line of each item in an items file, in the order of items; read from disk on each use.

    Empty if there is no file. If the file is replaced meanwhile, the old one is still read.

    Attributes:
        damaged: the numbers (from 1) of damaged lines, which are skipped; a partial last line does not count.
        is_changed: whether the file differs from what the run wrote, by the CRC-32 in the manifest.
        missing: how many items that the manifest lists as completed are missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[int, int] = {}
        self._places, self._durations = array("Q"), array("d")
        self._file: BinaryIO | None = None
        self.damaged, self.is_changed, self.missing = list[int](), False, 0
        if not path.exists():
            return
        check_file(path)
        self._file = path.open("rb")
        finalize(self, self._file.close)
        wrong = start = digest = 0
        for number, line in enumerate(self._file, start=1):
            if wrong:
                self.damaged.append(wrong)
            head = _HEAD.match(line) if line.endswith(b"}\n") else None
            found = (int(head[1]), float(head[2])) if head is not None else _parse_head(line)
            wrong = 0 if found is not None else number
            if found is not None:
                self._found[found[0]] = len(self._durations)
                self._durations.append(found[1])
                self._places.extend((start, len(line.rstrip())))
            start += len(line)
            digest = crc32(line, digest)
        if (manifest := read_manifest(path.parent) or {}).get("status") != "running":
            done = manifest.get("completed_indices")
            listed = (index for index in done if isinstance(index, int)) if isinstance(done, list) else ()
            self.missing = sum(index not in self._found for index in listed)
            self.is_changed = self.missing > 0 or manifest.get("items_digest") not in (None, f"{digest:08x}")

    def refuse_damaged(self) -> None:
        """Raise an InputError if a line is damaged."""
        if self.damaged:
            raise InputError(_describe_damage(self._path, f"line {self.damaged[0]}"))
        for index, (_, line) in self.items():
            if _parse_head(line) is None:
                raise InputError(_describe_damage(self._path, f"the line of item {index}"))

    def __getitem__(self, index: int) -> tuple[float, bytes]:
        slot = self._found[index]
        assert self._file is not None
        self._file.seek(self._places[2 * slot])
        return self._durations[slot], self._file.read(self._places[2 * slot + 1])

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._found))

    def __len__(self) -> int:
        return len(self._found)


class MergedLines(Mapping[int, tuple[float, bytes]]):
    """The lines of several files as one file, in the order of its items, read from disk on each use.

    Args:
        files: each with the indices of its items in the merged file, -1 for items that are left out. If several files
            have a line for one item, the last file counts.
    """

    def __init__(self, files: Sequence[tuple[StoredLines, Sequence[int]]]) -> None:
        self._files = files
        found = {
            places[index]: (index, number)
            for number, (file, places) in enumerate(files)
            for index in file
            if index < len(places)
        }
        found.pop(-1, None)
        self.is_changed = any(files[number][0].is_changed for number in {number for _, number in found.values()})
        self._order = array("Q", sorted(found))
        self._found = array("Q", (part for place in self._order for part in found[place]))

    def __getitem__(self, place: int) -> tuple[float, bytes]:
        at = bisect_left(self._order, place)
        if at == len(self._order) or self._order[at] != place:
            raise KeyError(place)
        index, number = self._found[2 * at : 2 * at + 2]
        seconds, line = self._files[number][0][index]
        return seconds, renumber_line(line, place)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)


def renumber_line(line: bytes, index: int) -> bytes:
    """Return an item's line with its index replaced.

    Example:
        >>> renumber_line(b'{"item_idx":0,"duration_seconds":1.5,"error":null,"report":{}}', 12)
        b'{"item_idx":12,"duration_seconds":1.5,"error":null,"report":{}}'
    """
    return _INDEX.sub(b"%d" % index, line, count=1)


def _describe_damage(path: Path, place: str) -> str:
    return f"{path}: {place} is damaged; grade into the run directory again: saved replies are not paid for twice"


def _parse_head(line: bytes) -> tuple[int, float] | None:
    """Read index and duration from a line that another program wrote; None if it is damaged or incomplete."""
    try:
        record = json.loads(line)
        index, duration = record["item_idx"], float(record["duration_seconds"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return (index, duration) if isinstance(index, int) and index >= 0 else None


def dump_report(report: Report) -> str:
    """Return the report as one line of JSON: every field, with the criteria under `criterion_reports`.

    Criteria, which are many, omit fields that have their default.

    Example:
        >>> dump_report(EvaluationReport(score=0.5))
        '{"report_type":"single","score":0.5,"raw_score":null,"llm_raw_score":null,"cannot_assess_count":0,...}'
    """
    kind = "ensemble" if isinstance(report, EnsembleEvaluationReport) else "single"
    head = report.model_dump_json(exclude={"report"})
    parts = [f'{{"report_type":"{kind}"', head[1:-1]]
    if report.report is not None:
        criteria = ",".join(criterion.model_dump_json(exclude_defaults=True) for criterion in report.report)
        parts.append(f'"criterion_reports":[{criteria}]')
    return ",".join(filter(None, parts)) + "}"


def parse_report(record: Mapping[str, Any]) -> Report:
    """Return the report from its JSON values.

    Raises:
        InputError: they are not a report.

    Example:
        >>> parse_report({"report_type": "single", "score": 0.5}).score
        0.5
    """
    try:
        values = {key: value for key, value in record.items() if key not in ("report_type", "criterion_reports")}
        criteria = record.get("criterion_reports")
        # AutoRubric before 1.6 stored scores without criteria, and no type.
        kind = record["report_type"] if criteria is not None else record.get("report_type", "single")
        if kind == "ensemble":
            values["report"] = _validate_each(EnsembleCriterionReport, criteria)
            return EnsembleEvaluationReport.model_validate(values)
        values["report"] = _validate_each(CriterionReport, criteria)
        return EvaluationReport.model_validate(values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a report: {error}") from None


def read_report(path: Path, record: Mapping[str, Any]) -> Report:
    """Return the report in a record of an items file.

    Raises:
        InputError: it is damaged.
    """
    try:
        return parse_report(record["report"])
    except InputError as error:
        raise InputError(f"{path}: the line of item {record['item_idx']} is damaged: {error}") from None


def _validate_each(kind: Any, records: Any) -> list[Any] | None:
    return None if records is None else [kind.model_validate(record) for record in records]


@dataclass(frozen=True)
class StoredRun:
    """The run of a directory; it may be in progress or killed.

    Attributes:
        directory: the run directory.
        dataset: the copy of the graded dataset.
        manifest: what was run, and its progress.
        grader_config: the configuration of its grader, as the manifest records it.
    """

    directory: Path
    dataset: RubricDataset
    manifest: ExperimentManifest
    grader_config: Mapping[str, Any] | None

    @property
    def source(self) -> Path:
        """The file of the items."""
        return self.directory / ITEMS_FILE

    @property
    def item_results(self) -> Iterator[dict[str, Any]]:
        """The records of the items that ended, with their `item`, read from disk on each use.

        Raises:
            InputError: a line is damaged, or no item has ended.
        """
        path, items, found = self.directory / ITEMS_FILE, self.dataset.items, False
        for record in read_items(path):
            index = record["item_idx"]
            if index >= len(items):
                raise InputError(f"{path}: item {index} is not in {DATASET_FILE}, which has {len(items)} items")
            report = record["report"]
            if not isinstance(report, dict) or report.get("report_type") not in ("single", "ensemble"):
                raise InputError(f"{path}: the line of item {index} is damaged: it has no report")
            found, record["item"] = True, items[index]
            yield record
        if not found:
            raise InputError(f"{self.directory}: no item has been graded yet")


def _read_rubric(record: Mapping[str, Any]) -> Rubric | None:
    """Return the criteria of the report in a record; None if it has none."""
    try:
        criteria = [entry.criterion for entry in parse_report(record["report"]).report or ()]
        return Rubric(criteria) if criteria else None
    except (InputError, TypeError, AttributeError, KeyError):
        return None


def read_run(folder: Path) -> StoredRun:
    """Return the run of a directory.

    AutoRubric 1.6 stored no submissions; its items have the criteria of their reports and nothing else.

    Raises:
        MissingFileError: the directory contains no experiment, or lacks the dataset that its manifest names.
        InputError: a file of the run is not valid.
    """
    manifest, path = load_manifest(folder), folder / DATASET_FILE
    if manifest.dataset_path is not None or path.exists():
        dataset = RubricDataset.from_stored(path)
        manifest.warn_of_change(path)
        return StoredRun(folder, dataset, manifest, manifest.grader_config)
    rubrics = {record["item_idx"]: _read_rubric(record) for record in read_items(folder / ITEMS_FILE)}
    known = next((rubric for rubric in rubrics.values() if rubric is not None), None)
    count = max(manifest.total_items, *rubrics, 0) if known else 0
    items = [DataItem("", "", rubric=rubrics.get(index) or known) for index in range(count)]
    dataset = RubricDataset("", None, items, name=manifest.dataset_name)
    return StoredRun(folder, dataset, manifest, manifest.grader_config)
