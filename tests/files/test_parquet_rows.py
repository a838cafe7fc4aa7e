"""Rows out of Parquet files: strict about what they unpack to, and never in memory all at once."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autorubric.errors import InputError
from autorubric.files import parquet
from autorubric.files.parquet import read_arrow, read_parquet
from tests.offenders import offenders


def write(path: Path, values: Any, **how: Any) -> Path:
    pq.write_table(pa.table(values), path, **how)
    return path


def test_rows_of_several_batches_are_numbered_through(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.parquet", {"n": list(range(1234))})
    rows = read_parquet(path, str(path))
    assert [(number, row["n"] + 1) for number, row in rows] == [(n, n) for n in range(1, 1235)]


def test_a_table_without_rows_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "none.parquet", {"n": pa.array([], pa.int64())})
    assert list(read_parquet(path, str(path))) == []


def test_a_column_that_would_fill_the_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "rows.parquet", {"text": ["x" * 2**20] * 4}, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 2**20
    monkeypatch.setattr(parquet, "LARGEST_FILE", 2**20)
    with pytest.raises(InputError, match="column 'text' unpacks to 4 MiB; the maximum is 1 MiB"):
        next(read_parquet(path, str(path)))


def test_a_list_without_end_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "rows.parquet", {"list": [[0] * 5000]})
    assert path.stat().st_size < 5000
    monkeypatch.setattr(parquet, "_MOST_VALUES", 4999)
    with pytest.raises(InputError, match="has 5,000 values; the maximum is 4,999"):
        next(read_parquet(path, str(path)))


def test_a_text_that_is_stored_once_is_not_unfolded_for_all_rows_at_once(tmp_path: Path) -> None:
    # 500 rows of this text at once would take 4 GB; they come 200 and some at a time.
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 600, pa.int8()), ["x" * 2**23])
    path = write(tmp_path / "rows.parquet", {"text": text})
    at_once = parquet._compute_batch_size(pq.ParquetFile(path).metadata, str(path))
    assert 200 < at_once <= 256


def test_texts_that_are_not_utf_8_are_refused_behind_the_last_good_row(tmp_path: Path) -> None:
    good, bad = (pa.array([data] * 500, pa.binary()) for data in (b"good", b"\xff"))
    whole = pa.concat_arrays([good, bad])
    text = pa.Array.from_buffers(pa.string(), len(whole), whole.buffers())
    path = write(tmp_path / "rows.parquet", {"text": text})
    rows = read_parquet(path, str(path))
    assert sum(1 for _ in zip(range(500), rows, strict=False)) == 500
    with pytest.raises(InputError, match="after row 500"):
        next(rows)


def test_what_the_reader_of_the_rows_raises_goes_through(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.parquet", {"n": [1]})
    with pytest.raises(ValueError, match="mine"):
        for _ in read_parquet(path, str(path)):
            raise ValueError("mine")


def test_values_that_json_does_not_know_are_read_as_text_or_refused_by_column() -> None:
    took, own = timedelta(days=1, seconds=2, microseconds=3), UUID(int=7)
    refused = "x.arrow: row 1: column 'x' contains bytes that are not UTF-8; leave it out, or write it as text"
    values: dict[str, tuple[pa.Array, Any]] = {
        "duration": (pa.array([took]), "PT86402.000003S"),
        "negative duration": (pa.array([-timedelta(seconds=100)], pa.duration("s")), "-PT100S"),
        "list of durations": (pa.array([[timedelta(0), None]]), ["PT0S", None]),
        "map to durations": (
            pa.array([[("a", took)]], pa.map_(pa.string(), pa.duration("us"))),
            [["a", "PT86402.000003S"]],
        ),
        "binary": (pa.array(["ü".encode()]), "ü"),
        "large binary": (pa.array([b"a"], pa.large_binary()), "a"),
        "binary of one size": (pa.array([b"ab"], pa.binary(2)), "ab"),
        "view of binary": (pa.array([b"a"], pa.binary_view()), "a"),
        "dictionary of binary": (pa.array([b"a"]).dictionary_encode(), "a"),
        "struct with binary": (pa.array([{"a": b"a", "b": None}]), {"a": "a", "b": None}),
        "UUID": (pa.array([own.bytes], pa.uuid()), str(own)),
        "bytes of an image": (pa.array([b"\x89PNG"]), refused),
        "struct with an image": (pa.array([{"path": "a.png", "bytes": b"\x89PNG"}]), refused),
        "text": (pa.array(["a"]), "a"),
        "large text": (pa.array(["a"], pa.large_string()), "a"),
        "view of text": (pa.array(["a"], pa.string_view()), "a"),
        "half": (pa.array(np.array([1.5], np.float16)), 1.5),
        "category": (pa.array(["a"]).dictionary_encode(), "a"),
        "nothing": (pa.nulls(1), None),
    }
    with offenders() as case:
        for name, (column, expected) in values.items():
            with case(name):
                # pyarrow 20 cannot write all of these types to Parquet.
                file, table = BytesIO(), pa.table({"x": column})
                with pa.ipc.new_stream(file, table.schema) as writer:
                    writer.write_table(table)
                file.seek(0)
                rows = read_arrow(file, "x.arrow", stream=True)
                if expected == refused:
                    with pytest.raises(InputError) as caught:
                        list(rows)
                    assert str(caught.value) == refused
                else:
                    assert list(rows) == [(1, {"x": expected})]
