"""The text of a file, or an error that says why it cannot be read; several readers share a temporary file."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import threading
from pathlib import Path
from typing import IO, Any

from autorubric.errors import InputError, MissingFileError
from autorubric.files.descriptors import unreadable
from autorubric.files.remote import address_of, remote_copy

LARGEST_FILE = 512 * 2**20
"""Bytes of the largest file that is read as one document; what is larger goes row by row, as JSON Lines."""

# The UTF-32 marks start with the UTF-16 ones, so they come first.
_FOREIGN_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_PACKED = ((b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "zip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"))
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_text(path: str | Path, *, what: str = "File") -> str:
    r"""The text of a UTF-8 file, with line ends as `\n` and without a byte order mark.

    Args:
        path: the file.
        what: the noun for the message about a missing file ("File not found: …").

    Raises:
        MissingFileError: the file does not exist.
        InputError: it cannot be read, or is not UTF-8; the message names the line.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> _ = path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
        >>> read_text(path)
        'one\ntwo'
    """
    text = decode(read_bytes(path, what=what), address_of(path) or str(path))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_bytes(path: str | Path, *, what: str = "File") -> bytes:
    """The bytes of a file.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is not a plain file, is larger than `LARGEST_FILE`, or cannot be read.

    Example:
        >>> read_bytes("no-such-file")
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: File not found: no-such-file
    """
    address = address_of(path)
    file = None if address is None else SharedCopy(remote_copy(address, what=what))
    size = size_of_plain(path, what=what) if file is None else file.seek(0, os.SEEK_END)
    if size > LARGEST_FILE:
        most = f"the most that is read at once is {LARGEST_FILE // 2**20} MiB"
        raise InputError(
            f"{address or path}: has {size / 2**20:,.0f} MiB; {most}, split it or write it as JSON Lines"
        )
    if file is not None:
        file.seek(0)
        return file.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def size_of_plain(path: str | Path, *, what: str = "File") -> int:
    """The size of a plain file, in bytes, before it is opened: a pipe that nobody writes to would never open.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is a folder, a pipe or a device, or its name is invalid.

    Example:
        >>> size_of_plain("/dev/zero")
        Traceback (most recent call last):
        autorubric.errors.InputError: /dev/zero: cannot be read: it is a device; expected a plain file
    """
    try:
        state = Path(path).stat()
    except FileNotFoundError:
        raise MissingFileError(f"{what} not found: {path}") from None
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError:
        raise InputError(f"{str(path)!r}: no file has such a name: it holds a NUL") from None
    for is_kind, noun in _KINDS:
        if is_kind(state.st_mode):
            raise InputError(f"{path}: cannot be read: it is {noun}; expected a plain file")
    return state.st_size


def decode(data: bytes, where: str) -> str:
    r"""UTF-8 bytes as text, without a byte order mark.

    Args:
        data: the bytes of a whole file.
        where: what to call them in a message.

    Raises:
        InputError: they are not UTF-8.

    Example:
        >>> decode(b"caf\xe9", "menu.txt")
        Traceback (most recent call last):
        autorubric.errors.InputError: menu.txt:1: byte 0xe9 at column 4 is not UTF-8; save the file as UTF-8
    """
    for mark, name in _FOREIGN_MARKS:
        if data.startswith(mark):
            raise InputError(f"{where}: the text is {name}; save the file as UTF-8")
    refuse_unmarked(data[:4], where)
    for mark, name in _PACKED:
        if data.startswith(mark):
            raise InputError(f"{where}: the file is packed ({name}); unpack it first")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # After a byte order mark, the codec counts from the end of the mark.
        start = error.start + (3 if data.startswith(codecs.BOM_UTF8) else 0)
        line = data.count(b"\n", 0, start) + 1
        column = start - (data.rfind(b"\n", 0, start) + 1) + 1
        place = f"{where}:{line}: byte 0x{data[start]:02x} at column {column}"
        raise InputError(f"{place} is not UTF-8; save the file as UTF-8") from None


def refuse_unmarked(head: bytes, where: str) -> None:
    """Refuse a text whose first characters are UTF-16 without a byte order mark.

    Args:
        head: its first four bytes.
        where: what to call it in a message.

    Raises:
        InputError: every other byte is NUL.

    Example:
        >>> refuse_unmarked(b"id,q", "rows.csv")
        >>> refuse_unmarked("id".encode("utf-16-le"), "rows.csv")
        Traceback (most recent call last):
        autorubric.errors.InputError: rows.csv: the text looks like UTF-16 without a byte order mark; save ...
    """
    if bytes(map(bool, head)) in (b"\1\0\1\0", b"\0\1\0\1"):
        raise InputError(f"{where}: the text looks like UTF-16 without a byte order mark; save the file as UTF-8")


_SIGNS = str.maketrans({"|": "\\|", "<": "&lt;", "[": "\\[", "]": "\\]"})


def markdown_text(text: str) -> str:
    r"""A text on one line that ends no cell, opens no tag, and makes no link or picture where Markdown is shown.

    Example:
        >>> print(markdown_text("a | b <img src=x>\n![c](http://d)"))
        a \| b &lt;img src=x> !\[c\](http://d)
    """
    return " ".join(text.split()).translate(_SIGNS)


# Full-width signs count as well: some spreadsheets read them as the plain ones.
_FORMULA = re.compile(r"[\s\0]*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9.,]+(?:[eE][+-]?[0-9]+)?%?")


def defused(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula, marked as text; anything else as it is.

    Names and reasons come from models and from strangers. Numbers stay numbers, the negative ones too.

    Example:
        >>> defused("=HYPERLINK(A1)"), defused("-0.5"), defused(-0.5), defused("plain")
        ("'=HYPERLINK(A1)", '-0.5', -0.5, 'plain')
    """
    if not isinstance(value, str):
        return value
    # The writer leaves a bare carriage return unquoted, and readers start a new row after it.
    text = value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


_reading = threading.Lock()


class SharedCopy(io.RawIOBase):
    """One reader of a shared temporary file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile() as file:
        ...     _ = file.write(b"abc")
        ...     SharedCopy(file).read(2), SharedCopy(file).read()
        (b'ab', b'abc')
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from anywhere: yes."""
        return True

    def tell(self) -> int:
        """The position of this reader."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move this reader; its new position."""
        self._at = offset if whence == os.SEEK_SET else self._moved(offset, whence)
        return self._at

    def _moved(self, offset: int, whence: int) -> int:
        return offset + (self._at if whence == os.SEEK_CUR else os.fstat(self._file.fileno()).st_size)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; the number of bytes."""
        with _reading:
            self._file.seek(self._at)
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
