"""Parquet rows, in and out."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autorubric.errors import InputError
from autorubric.files import parquet_writer
from autorubric.files.parquet import read_arrow, read_parquet

SCHEMA = pa.schema([("id", pa.string()), ("points", pa.int32())])


def test_rows_of_several_groups_come_back_in_order_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with parquet_writer(path, SCHEMA) as add:
        for number in range(1203):
            add({"id": f"q{number}", "points": number})
    assert pq.ParquetFile(path).num_row_groups == 3  # 500, 500 and 203
    rows = list(read_parquet(path, str(path)))
    assert [number for number, _ in rows] == list(range(1, 1204))
    assert rows[1202] == (1203, {"id": "q1202", "points": 1202})


def test_no_row_at_all_leaves_a_file_with_the_schema(tmp_path: Path) -> None:
    with parquet_writer(tmp_path / "none.parquet", SCHEMA):
        pass
    assert pq.read_schema(tmp_path / "none.parquet").equals(SCHEMA)
    assert list(read_parquet(tmp_path / "none.parquet", str(tmp_path / "none.parquet"))) == []


def test_a_row_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"before")
    with pytest.raises(InputError, match="does not fit the columns"), parquet_writer(path, SCHEMA) as add:
        add({"id": "q1", "points": 2**40})
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"bad\.parquet: cannot be read as a Parquet file: Parquet "):
        list(read_parquet(tmp_path / "bad.parquet", str(tmp_path / "bad.parquet")))


def test_texts_of_an_arrow_file_that_overlap_are_damage() -> None:
    # Each text ends where the next begins; the second one here ends before it begins.
    offsets, letters = pa.array([0, 3, 1, 4], pa.int32()).buffers()[1], pa.py_buffer(b"abcd")
    texts = pa.StringArray.from_buffers(3, offsets, letters)
    sink = BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("id", pa.string())])) as writer:
        writer.write(pa.record_batch({"id": texts}))
    with pytest.raises(InputError, match=r"x\.arrow: cannot be read as an Arrow file: "):
        list(read_arrow(BytesIO(sink.getvalue()), "x.arrow", stream=True))
