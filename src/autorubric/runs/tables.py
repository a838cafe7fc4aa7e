"""Results as a table: one row for each criterion of each item, in JSON, JSON Lines, CSV or Parquet."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError
from autorubric.files import atomic_writer, parquet_writer
from autorubric.files.printable import escape_formula
from autorubric.runs.cells import NO_VERDICT, list_votes, read_cells, read_verdict
from autorubric.runs.items_file import read_items

Row: TypeAlias = dict[str, Any]

COLUMNS: Mapping[str, type] = {
    "item_idx": int,
    "id": str,
    "description": str,
    "score": float,
    "criterion": str,
    "weight": float,
    "verdict": str,
    "value": float,
    "agreement": float,
    "reason": str,
    "error": str,
    "flags": str,
}
"""Name and type of each column, before the judges' columns; any but `item_idx` may be empty (null).

`flags` has remarks on the judgment, such as `unsupported`, then on the submission, such as `addresses the judge`,
separated by semicolons.
"""

FORMATS = ("json", "jsonl", "csv", "parquet")


_UNSAFE = re.compile(r"[^\w.:/@-]+")
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class VoteColumns:
    """The names of the columns with each judge's verdict and repeats.

    Attributes:
        verdicts: the name of the column, by judge id.
        repeats: likewise, for judges that are asked several times.
    """

    verdicts: Mapping[str, str]
    repeats: Mapping[str, str]

    @classmethod
    def from_judges(cls, judges: Mapping[str, int]) -> VoteColumns:
        """Return the columns of judges.

        Characters that column names should not contain become `_`. Names that are then equal, ignoring case, are
        numbered in the order of the judges.

        Args:
            judges: how often each judge is asked, by id.

        Example:
            >>> columns = VoteColumns.from_judges({"openai/gpt-5.1": 1, "a b": 1, "A,B": 3})
            >>> columns.list_names()
            ['verdict_openai/gpt-5.1', 'verdict_a_b', 'verdict_A_B_2', 'repeats_A_B_2']
        """
        names: dict[str, str] = {}
        taken: set[str] = set()
        for judge in judges:
            plain = _UNSAFE.sub("_", judge)[:_LONGEST]
            name, number = plain, 2
            while name.casefold() in taken:
                name, number = f"{plain}_{number}", number + 1
            taken.add(name.casefold())
            names[judge] = name
        return cls(
            {judge: f"verdict_{name}" for judge, name in names.items()},
            {judge: f"repeats_{names[judge]}" for judge, count in judges.items() if count > 1},
        )

    def list_names(self) -> list[str]:
        """Return all column names, in order."""
        return [*self.verdicts.values(), *self.repeats.values()]

    def build_row(self, criterion: Mapping[str, Any]) -> dict[str, str | None]:
        """Return each judge's cells for a criterion, from its report as JSON values.

        The cell of a judge that failed or was not asked is empty. Repeats are in the order of asking; a failed one
        is `-`.
        """
        row: dict[str, str | None] = dict.fromkeys(self.list_names())
        for vote in list_votes(criterion):
            judge = vote["judge_id"]
            if judge in self.verdicts:
                row[self.verdicts[judge]] = read_verdict(vote)
            if judge in self.repeats:
                repeats = [read_verdict(repeat) or "-" for repeat in vote.get("repeats") or ()]
                row[self.repeats[judge]] = "; ".join(repeats) or None
        return row


NO_VOTES = VoteColumns({}, {})


def list_columns(votes: VoteColumns) -> dict[str, type]:
    """Name and type of each column of a table, including those of its judges.

    Example:
        >>> list(list_columns(VoteColumns.from_judges({"a": 1})))[-2:]
        ['flags', 'verdict_a']
    """
    return {**COLUMNS, **dict.fromkeys(votes.list_names(), str)}


def read_result_rows(items: Path, dataset: RubricDataset, votes: VoteColumns = NO_VOTES) -> Iterator[Row]:
    """Yield the rows of an items file, in the order of items and criteria.

    A report without criteria (an item that could not be opened) has one row, with its error.

    Args:
        items: the file.
        dataset: the graded dataset.
        votes: columns for the verdict of each judge.
    """
    for record in read_items(items):
        yield from build_rows(record, dataset[record["item_idx"]], votes)


def build_rows(record: Mapping[str, Any], item: DataItem, votes: VoteColumns = NO_VOTES) -> Iterator[Row]:
    """Yield the rows of one item, from its result as JSON values.

    Args:
        record: the result, as from `ItemResult.to_dict`.
        item: the item.
        votes: columns for the verdict of each judge.
    """
    report = record["report"]
    head = {
        "item_idx": record["item_idx"],
        "id": item.id,
        "description": item.description,
        "score": report.get("score"),
    }
    suspicious = report.get("flags") or []
    criteria = report.get("criterion_reports")
    if not criteria:
        empty = dict.fromkeys(list_columns(votes))
        yield empty | head | {"error": record["error"], "flags": _join_flags(suspicious)}
        return
    for cell, found in zip(read_cells(report), criteria, strict=True):
        own = {
            "criterion": cell.name,
            "weight": cell.weight,
            "verdict": None if cell.word in NO_VERDICT else cell.word,
            "value": cell.value,
            "agreement": found.get("agreement"),
            "reason": found.get("final_reason", found.get("reason")),
            "error": found.get("error"),
            "flags": _join_flags([*(found.get("flags") or []), *suspicious]),
        }
        yield head | own | votes.build_row(found)


def _join_flags(flags: Sequence[str]) -> str | None:
    return "; ".join(flags) or None


def write_table(path: Path, rows: Iterator[Row], columns: Mapping[str, type] = COLUMNS) -> None:
    """Write rows to a file atomically, in the format of its extension.

    Args:
        path: the file.
        rows: the rows, each with all `columns`.
        columns: the name and type of each column.

    Raises:
        InputError: the extension is unknown, or the file cannot be written.

    Example:
        >>> write_table(Path("results.xlsx"), iter([]))
        Traceback (most recent call last):
        autorubric.errors.InputError: results.xlsx: unknown format 'xlsx'; expected json, jsonl, csv or parquet
    """
    kind = path.suffix.removeprefix(".")
    if kind not in _WRITERS:
        raise InputError(f"{path}: unknown format {kind!r}; expected json, jsonl, csv or parquet")
    _WRITERS[kind](path, rows, columns)


def _write_json(path: Path, rows: Iterator[Row], columns: Mapping[str, type]) -> None:
    with atomic_writer(path) as file:
        file.write("[")
        for number, row in enumerate(rows):
            file.write(",\n" if number else "\n")
            file.write(json.dumps(row, ensure_ascii=False))
        file.write("\n]\n")


def _write_jsonl(path: Path, rows: Iterator[Row], columns: Mapping[str, type]) -> None:
    with atomic_writer(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_csv(path: Path, rows: Iterator[Row], columns: Mapping[str, type]) -> None:
    with atomic_writer(path) as file:
        table = csv.DictWriter(file, list(columns), lineterminator="\n")
        table.writeheader()
        for row in rows:
            table.writerow({name: escape_formula(value) for name, value in row.items()})


def _write_parquet(path: Path, rows: Iterator[Row], columns: Mapping[str, type]) -> None:
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    with parquet_writer(path, schema) as add:
        for row in rows:
            add(row)


_WRITERS: Mapping[str, Callable[[Path, Iterator[Row], Mapping[str, type]], None]] = {
    "json": _write_json,
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "parquet": _write_parquet,
}
