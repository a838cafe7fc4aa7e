"""Lines of files and cells of tables."""

from __future__ import annotations

import codecs
import io

import pytest

from autorubric.errors import InputError
from autorubric.files.printable import defused
from autorubric.files.text import LONGEST_ROW, decode, iter_lines, json_lines
from tests.offenders import each


@each(
    ("data", "place"),
    [
        (b"\xe9t\xe9", "1: byte 0xe9 at column 1"),
        (b"caf\xe9", "1: byte 0xe9 at column 4"),
        (b"ab\ncaf\xe9", "2: byte 0xe9 at column 4"),
        (b"ab\n\n\xff\n", "3: byte 0xff at column 1"),
    ],
)
def test_a_byte_that_is_not_utf_8_has_its_line_and_column(data: bytes, place: str) -> None:
    with pytest.raises(InputError, match=f"menu:{place} is not UTF-8"):
        decode(data, "menu")


def test_bytes_after_a_mark_are_counted_with_it() -> None:
    # The mark takes three bytes of the first line.
    with pytest.raises(InputError, match="menu:1: byte 0xe9 at column 7 is"):
        decode(codecs.BOM_UTF8 + b"caf\xe9", "menu")


def test_the_row_after_one_that_is_too_long_is_read() -> None:
    # The longest row holds 16 MiB. Three times as much and a byte take four reads, and are still one line.
    assert LONGEST_ROW == 16 * 1024 * 1024
    longest, too_long = b"x" * LONGEST_ROW, b"x" * (3 * LONGEST_ROW + 1)
    assert [len(line) for line in iter_lines(io.BytesIO(too_long + b"\nb\n"))] == [LONGEST_ROW + 1, 2]
    assert [len(line) for line in iter_lines(io.BytesIO(longest + b"\nb\n"))] == [LONGEST_ROW + 1, 2]
    assert [len(line) for line in iter_lines(io.BytesIO(longest + b"x\nb\n"))] == [LONGEST_ROW + 1, 2]
    problems: list[str] = []
    file = io.BytesIO(codecs.BOM_UTF8 + b'{"a": 1}\n' + too_long + b'\n{"a": 3}\n')
    assert list(json_lines(file, "rows", problems)) == [(1, {"a": 1}), (3, {"a": 3})]
    assert problems == ["rows:2: the row is longer than 16 MiB; shorten it"]


@each(
    ("text", "cell"),
    [("a\r\nb", "a\nb"), ("a\rb", "a\nb"), ("a\nb", "a\nb"), ("a\r\n\rb", "a\n\nb"), ("=1\r\n2", "'=1\n2")],
)
def test_a_cell_holds_no_carriage_return(text: str, cell: str) -> None:
    assert defused(text) == cell
