"""Reads files as bytes, text, documents or rows of JSON Lines; errors say why a file cannot be read."""

import codecs
import io
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from autorubric.errors import InputError, MissingFileError
from autorubric.files.descriptors import build_read_error
from autorubric.files.remote import download, find_address, make_path
from autorubric.files.strict_json import DEEPEST, describe_parse_error, find_json_problems, is_too_deep, parse_json

LARGEST_FILE = 512 * 2**20
"""Maximum bytes of a file that is read as one document; larger data is read row by row, as JSON Lines."""

# UTF-32 marks come first, because they start with UTF-16 marks.
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
    r"""Return the text of a UTF-8 file, with line ends as `\n` and without a byte order mark.

    Args:
        path: the file.
        what: the noun for the message about a missing file ("File not found: …").

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is not a plain file, is larger than `LARGEST_FILE`, cannot be read, or is not UTF-8; the
            message names the line.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> _ = path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
        >>> read_text(path)
        'one\ntwo'
    """
    path, address = make_path(path), find_address(path)
    file = None if address is None else SharedCopy(download(address, what=what))
    size = check_file(path, what=what) if file is None else file.seek(0, os.SEEK_END)
    if size > LARGEST_FILE:
        most = f"the maximum is {LARGEST_FILE // 2**20} MiB"
        raise InputError(
            f"{address or path}: has {size / 2**20:,.0f} MiB; {most}, split it or write it as JSON Lines"
        )
    try:
        if file is not None:
            file.seek(0)
        data = path.read_bytes() if file is None else file.read()
    except OSError as error:
        raise build_read_error(path, error) from error
    text = decode(data, address or str(path))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def check_file(path: str | Path, *, what: str = "File") -> int:
    """Return the size of a plain file in bytes. Call it before opening: opening a pipe may never return.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is a folder, a pipe or a device, or its name is invalid.

    Example:
        >>> check_file("/dev/zero")
        Traceback (most recent call last):
        autorubric.errors.InputError: /dev/zero: cannot be read: it is a device; expected a plain file
    """
    try:
        state = Path(path).stat()
    except FileNotFoundError:
        is_prose = len(str(path).split()) > 2 and not Path(path).suffix
        hint = "; this is read as the path of a file, not as the text itself"
        raise MissingFileError(f"{what} not found: {path}{hint if is_prose else ''}") from None
    except OSError as error:
        raise build_read_error(path, error) from error
    except ValueError:
        raise InputError(f"{str(path)!r}: not a valid file name: it contains a NUL character") from None
    for is_kind, noun in _KINDS:
        if is_kind(state.st_mode):
            raise InputError(f"{path}: cannot be read: it is {noun}; expected a plain file")
    return state.st_size


def decode(data: bytes, where: str) -> str:
    r"""UTF-8 bytes as text, without a byte order mark.

    Args:
        data: the bytes of a whole file.
        where: their name in messages.

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
            raise InputError(f"{where}: the file is compressed ({name}); decompress it first")
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
        where: its name in messages.

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
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Return the position of this reader."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move this reader; returns its new position."""
        self._at = offset if whence == os.SEEK_SET else self._resolve_offset(offset, whence)
        return self._at

    def _resolve_offset(self, offset: int, whence: int) -> int:
        return offset + (self._at if whence == os.SEEK_CUR else os.fstat(self._file.fileno()).st_size)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; returns the number of bytes."""
        with _reading:
            self._file.seek(self._at)
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


_EXTENSIONS = (".json", ".yaml", ".yml", ".toml")


def read_document(path: str | Path, *, what: str = "File") -> Any:
    r"""Return the value in a `.json`, `.yaml`, `.yml` or `.toml` file.

    Args:
        path: the file; its extension (of any case) says how to read it.
        what: the noun for the message about a missing file.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it cannot be read, or another extension.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "synth.toml"
        >>> _ = path.write_text('[roles.merge]\nmodel = "openai/gpt-5.1"')
        >>> read_document(path)
        {'roles': {'merge': {'model': 'openai/gpt-5.1'}}}
    """
    extension = Path(path).suffix.lower()
    if extension not in _EXTENSIONS:
        raise InputError(f"{path}: Unsupported file format {extension!r}; expected {', '.join(_EXTENSIONS)}")
    text = read_text(path, what=what)
    if extension == ".json":
        return parse_json(text, str(path))
    if extension == ".toml":
        return parse_toml(text, str(path))
    from autorubric.files.strict_yaml import parse_yaml

    return parse_yaml(text, str(path))


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the table of a TOML text.

    Raises:
        InputError: it is not TOML, or holds a value that JSON does not have.

    Example:
        >>> parse_toml("a = 1", "synth.toml")
        {'a': 1}
    """
    import tomllib

    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its own error, and the one about numbers of thousands of digits
        raise InputError(f"{where}: not valid TOML: {describe_parse_error(error)}") from None
    if is_too_deep(value):
        raise InputError(f"{where}: nested too deeply; the maximum is {DEEPEST} levels")
    problems = [f"{where}: {problem}" for problem in find_json_problems(value)]
    if problems:
        raise InputError(problems)
    return value


LONGEST_ROW = 16 * 2**20
"""Maximum bytes of a row: several times the context of any model."""


def iter_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Yield the objects of a JSON Lines file with their row numbers, counted from 1 with blank lines included.

    All bad rows are reported together after the last row. Only one line is in memory.

    Raises:
        MissingFileError: the file does not exist.
        InputError: with one problem for each bad row.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
        >>> _ = path.write_text('{"a": 1}\n\n{"a": 2}\n')
        >>> list(iter_jsonl(path))
        [(1, {'a': 1}), (3, {'a': 2})]
    """
    problems: list[str] = []
    check_file(path)
    try:
        with Path(path).open("rb") as file:
            yield from read_jsonl(file, str(path), problems)
    except OSError as error:
        raise build_read_error(path, error) from error
    if problems:
        raise InputError(problems)


def read_jsonl(file: BinaryIO, name: str, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Yield the objects of an open JSON Lines file with their line numbers, as `iter_jsonl` gives them.

    Args:
        file: the file, read from its current position.
        name: its name in messages.
        problems: collects a sentence for each bad row.

    Example:
        >>> import io
        >>> list(read_jsonl(io.BytesIO(b'{"a": 1}\n\n{"a": 2}\n'), "rows", []))
        [(1, {'a': 1}), (3, {'a': 2})]
    """
    for row, line in enumerate(iter_lines(file, name), start=1):
        data = line.removeprefix(codecs.BOM_UTF8) if row == 1 else line
        data, where = data.rstrip(b"\r\n"), f"{name}:{row}"
        if not data.strip():
            continue
        if len(data) > LONGEST_ROW:
            problems.append(f"{where}: the row is longer than {LONGEST_ROW // 2**20} MiB; shorten it")
            continue
        try:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = decode(data, where)
            value = parse_json(text, where)
        except InputError as error:
            problems.extend(error.problems)
            continue
        if isinstance(value, dict):
            yield row, value
        else:
            problems.append(f"{where}: expected a JSON object, got {type(value).__name__}")


def iter_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a file; one that is too long is cut off one byte after `LONGEST_ROW`.

    Raises:
        InputError: more than `LARGEST_FILE` is cut off: a small compressed file may contain an endless line.
    """
    room = LARGEST_FILE
    while line := file.readline(LONGEST_ROW + 1):
        yield line
        while len(line) > LONGEST_ROW and not line.endswith(b"\n"):
            line = file.readline(LONGEST_ROW + 1)
            room -= len(line)
            if room < 0:
                sizes = f"{LONGEST_ROW // 2**20} MiB contain more than {LARGEST_FILE // 2**20} MiB"
                raise InputError(f"{name}: rows longer than {sizes} in total; shorten or remove them")
