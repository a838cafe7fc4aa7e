"""Rows of Arrow files: the file format (Feather), and the stream format that `datasets` saves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from autorubric.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 500


def arrow_rows(file: BinaryIO, name: str, *, stream: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of an Arrow file with their numbers, counted from 1; one batch is in memory.

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
        >>> list(arrow_rows(io.BytesIO(sink.getvalue()), "data.arrow", stream=True))
        [(1, {'id': 'q1'})]
    """
    import pyarrow as pa

    number = 0
    try:
        for batch in _batches(file, stream):
            if not batch.num_columns:
                raise InputError(f"{name}: the table has no columns")
            batch.validate(full=True)  # offsets of a damaged file would lead anywhere in memory
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                for row in batch.slice(start, _ROWS_AT_ONCE).to_pylist():
                    number += 1
                    yield number, row
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        words = (str(error) or type(error).__name__).splitlines()[0][:300]
        place = f" after row {number}" if number else ""
        raise InputError(f"{name}: cannot be read as an Arrow file{place}: {words}") from error


def _batches(file: BinaryIO, stream: bool) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    if stream:
        with pa.ipc.open_stream(file) as reader:
            yield from reader
        return
    with pa.ipc.open_file(file) as table:
        for number in range(table.num_record_batches):
            yield table.get_batch(number)
