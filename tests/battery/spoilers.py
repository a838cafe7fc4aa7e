"""Ways in which a file can be wrong, whatever it is meant to hold."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

_LATE = datetime(2026, 1, 1, tzinfo=UTC)
NAN = float("nan")
Spoil: TypeAlias = Callable[[Path], None]


def content(data: bytes) -> Spoil:
    """A file that holds these bytes."""
    return lambda path: void(path.write_bytes(data))


def changed(change: Callable[[bytes], bytes]) -> Spoil:
    """A file whose bytes went through `change`."""
    return lambda path: void(path.write_bytes(change(path.read_bytes())))


def instead(make: Callable[[Path], object]) -> Spoil:
    """Something else that stands where the file was."""

    def spoil(path: Path) -> None:
        path.unlink()
        make(path)

    return spoil


def void(_: object) -> None:
    """Nothing, whatever was made."""


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def columns(values: Mapping[str, list[object]], *, text: bool = False) -> Spoil:
    """A Parquet file with these columns; `text` says of bytes that they are text."""

    def spoil(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table(values)
        if text:
            arrays = [pa.Array.from_buffers(pa.string(), len(c), c.chunk(0).buffers()) for c in table.columns]
            table = pa.table(arrays, names=table.column_names)
        pq.write_table(table, path, compression="zstd")

    return spoil


def _unpacks_without_measure(path: Path) -> None:
    path.write_bytes(_column_bomb())


@cache
def _column_bomb() -> bytes:
    """A small Parquet file with a column of 600 MiB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_batches([pa.record_batch({"question": ["x" * 2**20] * 20})] * 30)
    with BytesIO() as sink:
        # Without a dictionary each text is stored separately; statistics would compare the texts.
        pq.write_table(table, sink, len(table), compression="zstd", use_dictionary=False, write_statistics=False)
        column = pq.read_metadata(sink).row_group(0).column(0)
        assert column.total_uncompressed_size > 600 * 2**20
        return sink.getvalue()


def _alias_bomb() -> bytes:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join(['*' + before] * 10)}]")
    return "\n".join(lines).encode()


NO_PLAIN_FILE: Mapping[str, Spoil] = {
    "missing": lambda path: path.unlink(),
    "a folder": instead(lambda path: path.mkdir()),
    "a pipe": instead(os.mkfifo),
    "a socket": instead(_socket),
    "an endless device": instead(lambda path: path.symlink_to("/dev/zero")),
    "a broken link": instead(lambda path: path.symlink_to("nowhere")),
    "a link to itself": instead(lambda path: path.symlink_to(path.name)),
}
"""What may stand under the name of any file."""

NO_TEXT: Mapping[str, Spoil] = {
    "latin-1": changed(lambda data: data[:-6] + b"caf\xe9" + data[-6:]),
    "UTF-16": changed(lambda data: data.decode().encode("utf-16")),
    "UTF-32": changed(lambda data: data.decode().encode("utf-32")),
    "gzip": changed(gzip.compress),
    "a gzip bomb": content(gzip.compress(b" " * 20_000_000)),
    "zip": content(b"PK\x03\x04" + bytes(range(256))),
    "a picture": content(b"\x89PNG\r\n\x1a\n" + bytes(range(256))),
    "empty": content(b""),
    "blank": content(b" \n\n"),
}
"""What no file of text may be."""

NO_COLUMNS: Mapping[str, Spoil] = {
    "empty": content(b""),
    "text": content(b'{"question": "Why?"}\n'),
    "gzip": changed(gzip.compress),
    "its end alone": changed(lambda data: data[-200:]),
    "its end cut off": changed(lambda data: data[:-8]),
    "cut in two": changed(lambda data: data[: len(data) // 2]),
    "its pages lost": changed(lambda data: data[:4] + b"\0" * (len(data) // 2) + data[4 + len(data) // 2 :]),
    "its footer lost": changed(lambda data: data[:-400] + b"\xff" * 390 + data[-10:]),
    "its footer without end": changed(lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "encrypted": changed(lambda data: data[:-4] + b"PARE"),
    "a list of numbers": columns({"a": [1, 2, 3]}),
    "no columns": columns({}),
    "texts that are not UTF-8": columns({"id": [b"q\xff"], "question": [b"\xff"]}, text=True),
    "numbers for texts": columns({"id": ["q0"], "question": [7], "rubrics": [[1, 2]]}),
    "bytes for texts": columns({"id": ["q0"], "question": [b"Why?"], "rubrics": [b"[]"]}),
    "a rubric that is null": columns({"id": ["q0"], "question": ["Why?"], "rubrics": [None]}),
    "moments for texts": columns({"id": ["q0"], "question": [_LATE], "rubrics": [[{"criterion": _LATE}]]}),
    "NaN for points": columns({"id": ["q0"], "question": ["Why?"], "rubrics": [[{"criterion": "x", "points": NAN}]]}),
    "a column that unpacks without measure": _unpacks_without_measure,
}
"""What no Parquet file may be."""

NO_ARROW: Mapping[str, Spoil] = {
    "empty": content(b""),
    "text": content(b'{"no question": "Why?"}\n'),
    "gzip": changed(gzip.compress),
    "its end alone": changed(lambda data: data[-40:]),
    "its rows cut off": changed(lambda data: data[:-80]),
    "cut in two": changed(lambda data: data[: len(data) // 2]),
    "its head lost": changed(lambda data: data[:8] + b"\0" * 100 + data[108:]),
    "offsets that lead nowhere": changed(lambda data: data.replace(b"\x08\0\0\0\x10\0\0\0", b"\xff\xff\xff\x7f" * 2)),
}
"""What no Arrow file may be."""

NO_TABLE: Mapping[str, Spoil] = {
    "a row with a cell too many": changed(lambda data: data + b"a,b,c,d,e,f,g,h,i\n"),
    "a row with a cell too few": changed(lambda data: data + b"a\n"),
    "a quote that stays open": changed(lambda data: data + b'"a,b,c\nd'),
    "a quote inside quotes": changed(lambda data: data + b'"say "hi" now",b,c\n'),
    "a header alone": changed(lambda data: data.partition(b"\n")[0]),
    "a column twice": changed(lambda data: b"id," + data),
    "other columns": changed(lambda data: b"a1,b1,c1,d1\n" + data.partition(b"\n")[2]),
    "bare carriage returns": changed(lambda data: data.replace(b"\n", b"\r")),
}
"""What no CSV file may be."""

NO_DATA: Mapping[str, Spoil] = {
    "NUL in it": changed(lambda data: data.replace(b"e", b"\0", 3)),
    "a web page": content(b"<!DOCTYPE html><html><body>404</body></html>"),
    "a number": content(b"42"),
    "a text": content(b'"text"'),
    "a truth value": content(b"true"),
    "a list of nothing": content(b"[]"),
    "an object of nothing": content(b"{}"),
    "a list of numbers": content(b"[1, 2, 3]"),
    "a million open brackets": content(b"[" * 1_000_000),
    "brackets opened and closed": content(b"[" * 100_000 + b"]" * 100_000),
    "900 levels": content(b'{"a":' * 900 + b"1" + b"}" * 900),
    "900 levels around NaN": content(b'{"a":' * 900 + b"NaN" + b"}" * 900),
    "NaN": content(b'{"question": NaN}'),
    "half a character": content(b'{"question": "\\ud83d"}'),
    "a key twice": content(b'{"question": "a", "question": "b"}'),
    "a whole number of 5000 digits": content(b'{"question": ' + b"9" * 5000 + b"}"),
}
"""What no file of data may hold."""

NO_YAML: Mapping[str, Spoil] = {
    "a tag that runs code": content(b"!!python/object/apply:os.system ['touch pwned']"),
    "aliases that multiply": content(_alias_bomb()),
    "an alias that holds itself": content(b"&a [*a]"),
    "a key that holds itself": content(b"&a {*a : 1}"),
    "an unknown alias": content(b"*a"),
    "two documents": content(b"--- {}\n--- {}\n"),
    "a list for a key": content(b"? [a, b]\n: 1\n"),
    "a tab": content(b"a:\n\t- b"),
    "a number in base 16 without end": content(b"a: 0x" + b"f" * 5000),
    "dashes without end": content(b"- " * 100_000),
}
"""What no YAML may hold."""
