"""Rows of a Parquet file, in and out, a group of rows in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.errors import InputError
from autorubric.files.atomic import atomic_writer
from autorubric.files.text import size_of_plain

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_A_GROUP = 500


def iter_parquet(path: str | Path, *, what: str = "File") -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file with their numbers, counted from 1.

    Args:
        path: the file.
        what: the noun for the message about a missing file.

    Raises:
        MissingFileError: there is no such file.
        InputError: it is no Parquet file that can be read.

    Example:
        >>> import pyarrow as pa, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> with parquet_writer(path, pa.schema([("id", pa.string())])) as add:
        ...     add({"id": "q1"})
        >>> list(iter_parquet(path))
        [(1, {'id': 'q1'})]
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size_of_plain(path, what=what)
    try:
        with pq.ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=_ROWS_A_GROUP)
            yield from enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), 1)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: is no Parquet file that can be read: {error}") from error


@contextmanager
def parquet_writer(path: str | Path, schema: pa.Schema) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that adds a row to a Parquet file, which appears whole when the block ends well, or not at all.

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
