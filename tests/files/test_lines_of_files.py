"""Lines of files and cells of tables."""

from __future__ import annotations

import codecs
import io
import os
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from autorubric.errors import InputError
from autorubric.files.printable import escape_formula
from autorubric.files.text import LARGEST_FILE, LONGEST_ROW, SharedCopy, decode, iter_lines, read_jsonl, read_text
from tests.offenders import each


@each(
    ("data", "place"),
    [
        (b"\xe9t\xe9", "1: byte 0xe9 at column 1"),
        (b"caf\xe9", "1: byte 0xe9 at column 4"),
        (b"ab\ncaf\xe9", "2: byte 0xe9 at column 4"),
        (b"ab\n\n\xff\n", "3: byte 0xff at column 1"),
        (b"\n\xff", "2: byte 0xff at column 1"),
    ],
)
def test_a_byte_that_is_not_utf_8_has_its_line_and_column(data: bytes, place: str) -> None:
    with pytest.raises(InputError, match=f"menu:{place} is not UTF-8"):
        decode(data, "menu")


def test_bytes_after_a_mark_are_counted_with_it() -> None:
    # The mark takes three bytes of the first line.
    with pytest.raises(InputError, match="menu:1: byte 0xe9 at column 7 is"):
        decode(codecs.BOM_UTF8 + b"caf\xe9", "menu")


def test_readers_of_one_copy_each_stand_where_they_have_moved_to(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(b"abcdef")
    with path.open("rb") as file:
        one, other = SharedCopy(file), SharedCopy(file)
        assert one.readable() and one.seekable() and (one.tell(), one.read(2), one.tell()) == (0, b"ab", 2)
        assert (one.seek(1, os.SEEK_CUR), one.read(2)) == (3, b"de")
        assert (one.seek(-1, os.SEEK_END), one.read()) == (5, b"f")
        assert (one.seek(1), other.tell(), other.read(1), one.read(1)) == (1, 0, b"a", b"b")


def test_a_document_beyond_512_mib_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(512 * 1024 * 1024 + 1)  # which takes no room on the disk
    with pytest.raises(InputError, match="has 512 MiB; the maximum is 512 MiB, split it"):
        read_text(path)


def test_the_row_after_one_that_is_too_long_is_read() -> None:
    # The longest row holds 16 MiB. Three times as much and a byte take four reads, and are still one line.
    assert LONGEST_ROW == 16 * 1024 * 1024
    longest, too_long = b"x" * LONGEST_ROW, b"x" * (3 * LONGEST_ROW + 1)
    assert [len(line) for line in iter_lines(io.BytesIO(too_long + b"\nb\n"), "rows")] == [LONGEST_ROW + 1, 2]
    assert [len(line) for line in iter_lines(io.BytesIO(longest + b"\nb\n"), "rows")] == [LONGEST_ROW + 1, 2]
    assert [len(line) for line in iter_lines(io.BytesIO(longest + b"x\nb\n"), "rows")] == [LONGEST_ROW + 1, 2]
    problems: list[str] = []
    file = io.BytesIO(codecs.BOM_UTF8 + b'{"a": 1}\n' + too_long + b'\n{"a": 3}\n')
    assert list(read_jsonl(file, "rows", problems)) == [(1, {"a": 1}), (3, {"a": 3})]
    assert problems == ["rows:2: the row is longer than 16 MiB; shorten it"]


def test_a_line_without_end_is_not_read_to_its_end() -> None:
    class Endless(io.RawIOBase):
        taken = 0
        chunk = b"x" * (LONGEST_ROW + 1)

        def readline(self, size: int | None = -1, /) -> bytes:
            self.taken += len(self.chunk)
            assert self.taken < 2 * LARGEST_FILE
            return self.chunk

    problems: list[str] = []
    with pytest.raises(
        InputError, match="gz: rows longer than 16 MiB contain more than 512 MiB in total; shorten or"
    ):
        list(read_jsonl(cast("BinaryIO", Endless()), "bomb.jsonl.gz", problems))
    assert problems == ["bomb.jsonl.gz:1: the row is longer than 16 MiB; shorten it"]


@each(
    ("text", "cell"),
    [("a\r\nb", "a\nb"), ("a\rb", "a\nb"), ("a\nb", "a\nb"), ("a\r\n\rb", "a\n\nb"), ("=1\r\n2", "'=1\n2")],
)
def test_a_cell_holds_no_carriage_return(text: str, cell: str) -> None:
    assert escape_formula(text) == cell
