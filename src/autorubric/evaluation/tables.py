"""Results as a table: one row for each criterion of each item, in JSON, JSON Lines, CSV or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError
from autorubric.evaluation.items_file import read_items
from autorubric.evaluation.vote_columns import NO_VOTES, VoteColumns
from autorubric.files import atomic_writer, parquet_writer
from autorubric.files.spreadsheet import defused

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
"""Name and type of each column, before those of the judges; any but `item_idx` may be empty (null).

`flags` are what a reader should know of the judgment, such as `unsupported`, and then of the submission, such as
`addresses the judge`; semicolons part them.
"""

FORMATS = ("json", "jsonl", "csv", "parquet")


def columns_with(votes: VoteColumns) -> dict[str, type]:
    """Name and type of each column of a table, those of its judges included.

    Example:
        >>> list(columns_with(VoteColumns.of({"a": 1})))[-2:]
        ['flags', 'verdict_a']
    """
    return {**COLUMNS, **dict.fromkeys(votes.names(), str)}


def result_rows(items: Path, dataset: RubricDataset, votes: VoteColumns = NO_VOTES) -> Iterator[Row]:
    """The rows of an items file, in the order of items and criteria.

    A report without criteria (an item that could not be opened) has one row, with its error.

    Args:
        items: the file.
        dataset: what was graded.
        votes: columns for the verdict of each judge.
    """
    for record in read_items(items):
        yield from record_rows(record, dataset[record["item_idx"]], votes)


def record_rows(record: Mapping[str, Any], item: DataItem, votes: VoteColumns = NO_VOTES) -> Iterator[Row]:
    """The rows of one item, from its result as JSON values.

    Args:
        record: as `ItemResult.to_dict` has it.
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
        empty = dict.fromkeys(columns_with(votes))
        yield empty | head | {"error": record["error"], "flags": _flags(suspicious)}
        return
    for number, found in enumerate(criteria, start=1):
        flags = _flags([*(found.get("flags") or []), *suspicious])
        yield head | _criterion_row(found, number) | {"flags": flags} | votes.row(found)


def _flags(flags: Sequence[str]) -> str | None:
    return "; ".join(flags) or None


def _criterion_row(found: Mapping[str, Any], number: int) -> Row:
    criterion = found.get("criterion", found)
    choice = found.get("final_multi_choice_verdict") or found.get("multi_choice_verdict")
    verdict = found.get("final_verdict", found.get("verdict"))
    value: float | None = None
    if choice is not None:
        verdict = choice.get("selected_label")
        value = None if choice.get("na") else choice.get("aggregated_value", choice.get("value"))
    elif verdict in ("MET", "UNMET"):
        value = 1.0 if verdict == "MET" else 0.0
    failed = found.get("error") is not None
    return {
        "criterion": criterion.get("name") or f"C{number}",
        "weight": criterion.get("weight", 10.0),
        "verdict": None if failed else verdict,
        "value": None if failed else value,
        "agreement": found.get("agreement"),
        "reason": found.get("final_reason", found.get("reason")),
        "error": found.get("error"),
    }


def write_table(path: Path, rows: Iterator[Row], columns: Mapping[str, type] = COLUMNS) -> None:
    """Write rows to a file, wholly or not at all; its extension says in which format.

    Args:
        path: the file.
        rows: with all `columns` each.
        columns: name and type.

    Raises:
        InputError: another extension, or the file cannot be written.

    Example:
        >>> write_table(Path("results.xlsx"), iter([]))
        Traceback (most recent call last):
        autorubric.errors.InputError: results.xlsx: unknown format 'xlsx'; expected json, jsonl, csv or parquet
    """
    writer = _WRITERS.get(path.suffix.removeprefix("."))
    if writer is None:
        kind = path.suffix.removeprefix(".")
        raise InputError(f"{path}: unknown format {kind!r}; expected json, jsonl, csv or parquet")
    writer(path, rows, columns)


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
            table.writerow({name: defused(value) for name, value in row.items()})


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
