"""Ids shared by several rows, and columns that may contain the ids of items without one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from autorubric.dataset.item import DataItem
from autorubric.rows import join_names
from autorubric.rows.columns import COLUMN_OPTION, RowReader, fold_column
from autorubric.rows.record import Record, is_blank, is_sentence

_LEAST_ROWS = 10
"""Minimum number of rows; fewer values may differ by chance."""

_OF_QUERIES = frozenset(("query_id", "prompt_id", "question_id"))


def release_query_ids(records: Iterable[Record], reader: RowReader) -> list[Record]:
    """Return the records of items; ids that several share become metadata if their column names the query.

    Args:
        records: the records.
        reader: found their columns; takes a note on each such column. A column that the user named stays the id.

    Example:
        >>> rows = [Record("a.csv:2", 2, {"submission": "So.", "id": 7}, {"id": "question_id"})] * 2
        >>> [record.fields for record in release_query_ids(rows, RowReader("a.csv", ()))][0]
        {'submission': 'So.', 'metadata': {'question_id': 7}}
    """
    found = list(records)
    columns = {record.columns.get("id", "") for record in found} - {reader.given.get("id", "")}
    for column in sorted(one for one in columns if fold_column(one) in _OF_QUERIES):
        own = [record for record in found if record.columns.get("id") == column and "id" in record.fields]
        if max(Counter(str(record.fields["id"]) for record in own).values(), default=0) > 1:
            reader.notes.append(
                f"{reader.where}: {column!r} is not read as the id, because several rows have the same value"
            )
            found = [_move_id(record, column) if record.columns.get("id") == column else record for record in found]
    return found


def _move_id(record: Record, column: str) -> Record:
    fields = {name: value for name, value in record.fields.items() if name != "id"}
    metadata = fields.get("metadata") or {}
    if "id" in record.fields and isinstance(metadata, dict):
        fields["metadata"] = {column: record.fields["id"], **metadata}
    return record._replace(fields=fields)


def find_repeated_ids(placed: Iterable[tuple[str, DataItem]]) -> Iterator[str]:
    """Yield a sentence on each item, given with its place, that has the id of an earlier one.

    Example:
        >>> rows = [("a.csv:2", DataItem("So.", "", id="ann")), ("a.csv:5", DataItem("No.", "", id="ann"))]
        >>> list(find_repeated_ids(rows))
        ["a.csv:5: the id 'ann' is also that of a.csv:2; make ids unique (--labels reads several annotators)"]
    """
    first: dict[str, str] = {}
    for where, item in placed:
        if item.id is not None and first.setdefault(item.id, where) != where:
            advice = "make ids unique (--labels reads several annotators)"
            yield f"{where}: the id {item.id!r} is also that of {first[item.id]}; {advice}"


def note_id_columns(where: str, items: Sequence[DataItem]) -> Iterator[str]:
    """Yield a note on the columns with distinct short values if no item has an id: those called ids, else all.

    Example:
        >>> rows = [DataItem("So.", "", metadata={"Student-ID": name, "lang": "en"}) for name in ("ann", "bob")]
        >>> list(note_id_columns("a.csv", rows))
        ["a.csv: no column is read as the id, perhaps 'Student-ID'; choose one with --column id=NAME ...
    """
    if any(item.id is not None for item in items):
        return
    columns = [name for name in items[0].metadata if _has_distinct_values(name, items)]
    called = [name for name in columns if "id" in fold_column(name).split("_")]
    if found := called or (columns if len(items) >= _LEAST_ROWS else []):
        option = COLUMN_OPTION.format(role="id")
        yield f"{where}: no column is read as the id, perhaps {join_names(found, 3)}; choose one with {option}"


def _has_distinct_values(name: str, items: Sequence[DataItem]) -> bool:
    seen = set[Any]()
    for item in items:
        value = item.metadata.get(name)
        if is_blank(value) or not isinstance(value, str | int) or is_sentence(value) or value in seen:
            return False
        seen.add(value)
    return True
