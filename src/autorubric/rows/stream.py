"""Opens inputs (files, objects, pipes) decompressed, in UTF-8, and repeatedly."""

import codecs
import io
import os
import select
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from autorubric.errors import InputError
from autorubric.files.descriptors import WITHOUT_WAITING, build_read_error, make_blocking
from autorubric.files.descriptors import open_descriptor as opened_file
from autorubric.files.remote import cache_copy, download, find_address
from autorubric.files.text import SharedCopy, check_file, refuse_unmarked

STDIN = "-"
"""The path that means standard input."""

_CHUNK = 64 * 1024
_MOST_PIPED = 8 * 2**30
_WRITER_SECONDS = 0.5
ZIP, _EMPTY_ZIP, _GZIP, _ZSTD = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


def name_input(path: str | Path) -> str:
    """Return the name of an input in messages.

    Example:
        >>> name_input("-"), name_input("rows.csv"), name_input(Path("s3://bucket/rows.csv"))
        ('<stdin>', 'rows.csv', 's3://bucket/rows.csv')
    """
    return "<stdin>" if str(path) == STDIN else find_address(path) or str(path)


def is_stream(path: str | Path) -> bool:
    """Return whether a path is standard input or a pipe rather than a file.

    Example:
        >>> is_stream("-"), is_stream("rows.csv")
        (True, False)
    """
    if str(path) == STDIN:
        return True
    try:
        return stat.S_ISFIFO(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


@contextmanager
def open_input(path: str | Path, *, what: str = "File") -> Iterator[io.BufferedReader]:
    """Yield the stored bytes of an input, seekable; pipes and objects are copied to a temporary file once.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is neither a file nor a pipe, or cannot be read.
    """
    address = find_address(path)
    try:
        if address is not None or is_stream(path):
            with SharedCopy(download(address, what=what) if address is not None else _copy_once(path)) as copy:
                yield io.BufferedReader(copy)
        else:
            check_file(path, what=what)
            with Path(path).open("rb") as file:
                yield file
    except InputError:
        raise
    except OSError as error:
        raise build_read_error(name_input(path), error) from error


@contextmanager
def open_text(path: str | Path, *, what: str = "File") -> Iterator[BinaryIO]:
    r"""Yield the bytes of a text file: decompressed, UTF-16 as UTF-8, without a byte order mark.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it cannot be read; damage in gzip, zstd or zip is found when reading reaches it.

    Example:
        >>> import gzip
        >>> file = Path(tempfile.mkdtemp()) / "rows.csv.gz"
        >>> _ = file.write_bytes(gzip.compress("id;ü\n".encode("utf-16")))
        >>> with open_text(file) as lines:
        ...     lines.readline().decode()
        'id;ü\n'
    """
    name = name_input(path)
    with open_input(path, what=what) as raw:
        try:
            yield _decode_stream(raw, name)
        except (EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise InputError(f"{name}: the compressed data is damaged or cut off: {error}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: the text is not valid UTF-16 ({error.reason}); save it as UTF-8") from error


def _decode_stream(raw: io.BufferedReader, name: str) -> BinaryIO:
    """Return the text of a file: decompressed, in UTF-8, without a byte order mark."""
    head, buffered = raw.read(4), raw
    raw.seek(0)
    if head.startswith(_GZIP):
        import gzip

        buffered = io.BufferedReader(gzip.GzipFile(fileobj=raw))
    elif head == _ZSTD:
        buffered = io.BufferedReader(_ChunkReader(_read_zstd_chunks(raw)))
    elif head in (ZIP, _EMPTY_ZIP):
        buffered = _open_member(raw, name)
    head = buffered.peek(4)[:4]
    if head.startswith(_UTF32):
        raise InputError(f"{name}: the text is UTF-32; save the file as UTF-8")
    refuse_unmarked(head, name)
    if head.startswith(codecs.BOM_UTF8):
        buffered.read(3)
    if head[:2] not in _UTF16:
        return buffered
    buffered.read(2)
    return io.BufferedReader(_ChunkReader(_read_utf8_chunks(buffered, _UTF16[head[:2]])))


def is_workbook(file: BinaryIO) -> bool:
    """Return whether an open zip archive is an Excel workbook.

    Example:
        >>> is_workbook(io.BytesIO(b"PK"))
        False
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _open_member(raw: BinaryIO, name: str) -> io.BufferedReader:
    """Return the only file in a zip archive, apart from hidden files and the folder that macOS adds."""
    try:
        archive = zipfile.ZipFile(raw)
        files = [part for part in archive.namelist() if not part.endswith("/") and not part.startswith("__MACOSX/")]
        members = [part for part in files if not part.rpartition("/")[2].startswith(".")]
        if len(members) == 1:
            member: Any = archive.open(members[0])
            return io.BufferedReader(member)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{name}: the zip archive cannot be read: {error}") from error
    if "[Content_Types].xml" in members or "mimetype" in members:
        raise InputError(f"{name}: the file is a document of an office program; save it as CSV, .xlsx or text")
    if not members:
        raise InputError(f"{name}: the zip archive is empty")
    raise InputError(f"{name}: the zip archive has {len(members)} files; unpack it, and pass the one with the rows")


def _read_utf8_chunks(file: BinaryIO, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    while chunk := file.read(_CHUNK):
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()


def _read_zstd_chunks(raw: BinaryIO) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd") as stream:
        while True:
            try:
                chunk = stream.read(_CHUNK)
            except OSError as error:
                if error.errno is not None:
                    raise
                raise EOFError(str(error)) from error
            if not chunk:
                return
            yield chunk


class _ChunkReader(io.RawIOBase):
    """A file that reads from an iterator of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._chunks, None)
            if piece is None:
                return 0
            self._left = piece
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _copy_once(path: str | Path) -> IO[bytes]:
    """Return a temporary file with the content of a pipe, which can be read only once."""
    state = os.fstat(0) if str(path) == STDIN else Path(path).stat()
    return cache_copy((str(path), state.st_ino), lambda: _copy_pipe(path))


def _copy_pipe(path: str | Path) -> IO[bytes]:
    if str(path) == STDIN:
        if os.isatty(0):
            raise InputError("- reads standard input, which is a terminal; pipe the rows in, or pass a file")
        source: BinaryIO = open(0, "rb", closefd=False)  # noqa: SIM115 (the caller closes it)
        first = b""
    else:
        source, first = _open_pipe(path)
    with source, ExitStack() as stack:
        copy = stack.enter_context(tempfile.TemporaryFile())
        copy.write(first)
        while chunk := source.read(_CHUNK):
            if copy.tell() + len(chunk) > _MOST_PIPED:
                raise InputError(
                    f"{name_input(path)}: more than {_MOST_PIPED // 2**30} GiB came through the pipe; use a file"
                )
            copy.write(chunk)
        copy.flush()
        stack.pop_all()  # it stays open until the process ends
        return copy


def _open_pipe(path: str | Path) -> tuple[BinaryIO, bytes]:
    """Open a pipe without blocking (otherwise, one without a writer never returns); also return its first bytes."""
    descriptor = opened_file(Path(path), os.O_RDONLY | WITHOUT_WAITING)
    patience = time.monotonic() + _WRITER_SECONDS
    first = b""
    while not first:
        try:
            first = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            select.select([descriptor], [], [])
            continue
        if not first:
            if time.monotonic() > patience:
                os.close(descriptor)
                raise InputError(f"{path}: cannot be read: it is a pipe that is empty or that nobody writes to")
            time.sleep(0.01)
    make_blocking(descriptor)
    return os.fdopen(descriptor, "rb"), first
