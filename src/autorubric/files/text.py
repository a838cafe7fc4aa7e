"""Text of a file, or a sentence that says why there is none."""

from __future__ import annotations

import codecs
from pathlib import Path

from autorubric.errors import InputError, MissingFileError

# The UTF-32 marks start with the UTF-16 ones, so they come first.
_FOREIGN_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def read_text(path: str | Path, *, what: str = "File") -> str:
    r"""The text of a UTF-8 file, with line ends as `\n` and without a byte order mark.

    Args:
        path: the file.
        what: the noun for the message about a missing file ("File not found: …").

    Raises:
        MissingFileError: there is no such file.
        InputError: it cannot be read, or is not UTF-8; the message names the line.

    Example:
        >>> from pathlib import Path
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> _ = path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
        >>> read_text(path)
        'one\ntwo'
    """
    text = decode(read_bytes(path, what=what), str(path))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_bytes(path: str | Path, *, what: str = "File") -> bytes:
    """The bytes of a file.

    Raises:
        MissingFileError: there is no such file.
        InputError: it is a folder or cannot be read.

    Example:
        >>> read_bytes("no-such-file")
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: File not found: no-such-file
    """
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise MissingFileError(f"{what} not found: {path}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


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
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # For a byte order mark the codec counts from behind it.
        start = error.start + (3 if data.startswith(codecs.BOM_UTF8) else 0)
        line = data.count(b"\n", 0, start) + 1
        column = start - (data.rfind(b"\n", 0, start) + 1) + 1
        place = f"{where}:{line}: byte 0x{data[start]:02x} at column {column}"
        raise InputError(f"{place} is not UTF-8; save the file as UTF-8") from None
