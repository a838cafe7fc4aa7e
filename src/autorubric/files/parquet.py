"""Reads and writes Parquet files and reads Arrow files, one group of rows in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from autorubric.errors import InputError, problems_at
from autorubric.files.atomic import atomic_writer
from autorubric.files.json_values import to_json_value
from autorubric.files.text import LARGEST_FILE

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS_A_GROUP = 500
_MOST_VALUES = 2**26
_MOST_UNFOLDED = 4 * LARGEST_FILE
_FOREIGN = re.compile("binary|duration|uuid|decimal")
"""Column types that have no JSON form; dates and times are left to the readers of rows."""


def read_parquet(source: str | Path | BinaryIO, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return the rows of a Parquet file, or of an open file that can seek, with their numbers.

    Args:
        source: the path or the open file.
        path: its name in messages.

    Raises:
        InputError: it is not a Parquet file, is damaged, or unpacks to more than the limit.

    Example:
        >>> import pyarrow as pa, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> with parquet_writer(path, pa.schema([("id", pa.string())])) as add:
        ...     add({"id": "q1"})
        >>> list(read_parquet(path, str(path)))
        [(1, {'id': 'q1'})]
    """
    import pyarrow.parquet as pq

    def read_batches() -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(source) as file:
            if not file.metadata.num_columns:
                raise InputError(f"{path}: the table has no columns")
            yield from file.iter_batches(_compute_batch_size(file.metadata, path))

    return _number_rows(read_batches(), path, "a Parquet file")


@contextmanager
def parquet_writer(path: str | Path, schema: pa.Schema) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that adds a row to a Parquet file, written atomically when the `with` block succeeds.

    Raises:
        InputError: a row does not fit the schema, or the file cannot be written.

    Example:
        >>> import pyarrow as pa, tempfile
        >>> with parquet_writer(Path(tempfile.mkdtemp()) / "no.parquet", pa.schema([("n", pa.int32())])) as add:
        ...     add({"n": "seven"})
        Traceback (most recent call last):
        autorubric.errors.InputError: a row does not fit the columns: Could not convert 'seven' with type str: ...
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    waiting: list[dict[str, Any]] = []
    with atomic_writer(path, "wb") as file, pq.ParquetWriter(file, schema) as writer:

        def write() -> None:
            try:
                writer.write_table(pa.Table.from_pylist(waiting, schema=schema))
            except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
                raise InputError(f"a row does not fit the columns: {error}") from error
            waiting.clear()

        def add(row: dict[str, Any]) -> None:
            waiting.append(row)
            if len(waiting) >= _ROWS_A_GROUP:
                write()

        yield add
        if waiting:
            write()


def build_final_schema() -> pa.Schema:
    """Return the schema of synthesized rubrics: question, id, and a list of {criterion, points} structs."""
    import pyarrow as pa

    entry = pa.struct([("criterion", pa.string()), ("points", pa.int32())])
    return pa.schema([("question", pa.string()), ("id", pa.string()), ("rubrics", pa.list_(entry))])


def _compute_batch_size(metadata: pq.FileMetaData, path: str) -> int:
    """Return the number of rows to unpack at a time, from the metadata of the file.

    Dictionary-encoded text is stored once but expanded for every row that uses it, so a small file could fill memory.

    Raises:
        InputError: a column of a row group is larger than what is read at once.
    """
    largest = 1
    for group in range(metadata.num_row_groups):
        for column in map(metadata.row_group(group).column, range(metadata.num_columns)):
            size, place = column.total_uncompressed_size, f"{path}: column {column.path_in_schema!r}"
            if size > LARGEST_FILE:
                most = f"the maximum is {LARGEST_FILE // 2**20} MiB"
                raise InputError(f"{place} unpacks to {size / 2**20:,.0f} MiB; {most}, write smaller row groups")
            if column.num_values > _MOST_VALUES:
                most = f"the maximum is {_MOST_VALUES:,}"
                raise InputError(f"{place} has {column.num_values:,} values; {most}, write smaller row groups")
            if column.has_dictionary_page:
                largest = max(largest, size)
    return max(1, min(_ROWS_A_GROUP, _MOST_UNFOLDED // largest))


def read_arrow(file: BinaryIO, name: str, *, stream: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return the rows of an Arrow file with their numbers, counted from 1; one batch is in memory.

    Args:
        file: the open file.
        name: its name in messages.
        stream: whether it is in the stream format.

    Raises:
        InputError: it is damaged, or cut off.

    Example:
        >>> import io, pyarrow as pa
        >>> sink = io.BytesIO()
        >>> with pa.ipc.new_stream(sink, pa.schema([("id", pa.string())])) as writer:
        ...     writer.write(pa.record_batch({"id": ["q1"]}))
        >>> list(read_arrow(io.BytesIO(sink.getvalue()), "data.arrow", stream=True))
        [(1, {'id': 'q1'})]
    """
    return _number_rows(_read_batches(file, name, stream), name, "an Arrow file")


def _read_batches(file: BinaryIO, name: str, stream: bool) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.ipc.open_stream(file) if stream else pa.ipc.open_file(file) as table:
        for batch in table if stream else map(table.get_batch, range(table.num_record_batches)):
            if not batch.num_columns:
                raise InputError(f"{name}: the table has no columns")
            batch.validate(full=True)  # offsets in a damaged file may point anywhere in memory
            for start in range(0, batch.num_rows, _ROWS_A_GROUP):
                yield batch.slice(start, _ROWS_A_GROUP)


def _number_rows(batches: Iterator[pa.RecordBatch], name: str, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of batches with their numbers, counted from 1; an `InputError` if they cannot be read."""
    import pyarrow as pa

    number = 0
    try:
        for batch in batches:
            if len(set(batch.schema.names)) < len(batch.schema.names):
                repeated = sorted({n for n in batch.schema.names if batch.schema.names.count(n) > 1})
                raise InputError(f"{name}: two columns are named {', '.join(map(repr, repeated))}; rename one")
            foreign = [field.name for field in batch.schema if _FOREIGN.search(str(field.type))]
            for row in batch.to_pylist():
                number += 1
                for column in foreign:
                    with problems_at(f"{name}: row {number}: column {column!r} "):
                        row[column] = to_json_value(row[column])
                yield number, row
    except InputError:
        raise
    except UnicodeDecodeError as error:
        words = f"a string after row {number} is not UTF-8 ({error.reason}); write the file again as UTF-8"
        raise InputError(f"{name}: {words}") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        # The first line says what is wrong; the rest describes the library's internals.
        words = (str(error) or type(error).__name__).splitlines()[0][:300]
        place = f" after row {number}" if number else ""
        raise InputError(f"{name}: cannot be read as {kind}{place}: {words}") from error
