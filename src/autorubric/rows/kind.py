"""What kind of file it is: seen in its first bytes; its ending decides only where these leave it open."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Literal

from autorubric.errors import InputError

Kind = Literal["csv", "jsonl", "json", "yaml", "toml", "parquet", "arrow", "arrow stream"]

HEAD = 64 * 1024
"""Bytes that are looked at."""

_BINARY: tuple[tuple[bytes, Kind], ...] = (
    (b"PAR1", "parquet"),
    (b"PARE", "parquet"),
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow stream"),
)
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive or an Excel workbook; unpack it, or save the sheet as CSV"),
    (b"BZh", "packed with bzip2; unpack it first"),
    (b"\xfd7zXZ", "packed with xz; unpack it first"),
    (b"FEA1", "a Feather file of version 1; write it again with a current pyarrow or pandas"),
)
_BY_ENDING: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
ENDINGS = tuple(_BY_ENDING)
"""Endings of the files that hold rows, in lower case."""
_PACKED = (".gz", ".zst")
_YAML = re.compile(r"(?:#.*\n|\s*\n)*(?:---(?:\s|$)|- |[\w\"'-]+:(?:\s|$))")
_GOES_ON = ("{", "[", ",")
DELIMITERS = (",", ";", "\t", "|")


def kind_of(head: bytes, path: str | Path, name: str) -> Kind:
    r"""The kind of a file.

    Args:
        head: its first bytes, unpacked and without a byte order mark.
        path: where it is; its ending counts where the bytes leave it open.
        name: what messages call it.

    Raises:
        InputError: it is of no kind that is read.

    Example:
        >>> kind_of(b'{"id": 1}\n{"id": 2}\n', "rows", "rows"), kind_of(b"id;text\n1;Hi\n", "rows.json", "rows.json")
        ('jsonl', 'csv')
    """
    binary = next((kind for mark, kind in _BINARY if head.startswith(mark)), None)
    if binary is not None:
        return binary
    foreign = next((words for mark, words in _FOREIGN if head.startswith(mark)), None)
    if foreign is not None:
        raise InputError(f"{name}: the file is {foreign}")
    return _kind_of_text(head.decode("utf-8", "replace").lstrip(), _BY_ENDING.get(ending_of(path)), name)


def _kind_of_text(text: str, ending: Kind | None, name: str) -> Kind:
    if text.startswith(("{", "[")) and ending not in ("yaml", "toml"):
        return _kind_of_json(text, ending)
    if ending in ("csv", "yaml", "toml"):
        return ending
    if _is_table(text) or text[:4].lower() == "sep=":
        return "csv"
    if ending in ("parquet", "arrow"):
        raise InputError(f"{name}: is not a {ending.capitalize()} file: it starts with other bytes")
    return ending or ("yaml" if _YAML.match(text) else _unknown(text, name))


def ending_of(path: str | Path) -> str:
    """The ending of a file name in lower case, that of a packed file without `.gz` or `.zst`.

    Example:
        >>> ending_of("rows.CSV"), ending_of("rows.jsonl.gz"), ending_of("-")
        ('.csv', '.jsonl', '')
    """
    plain = Path(path)
    return (plain.with_suffix("") if plain.suffix.lower() in _PACKED else plain).suffix.lower()


def _kind_of_json(text: str, ending: Kind | None) -> Kind:
    """JSON Lines where a line is an object and another one follows; a document where values span lines."""
    first, _, rest = text.partition("\n")
    following = rest.lstrip()
    if ending == "csv" and not _is_json(first) and not first.rstrip().endswith(_GOES_ON):
        return "csv"
    if first.startswith("[") or first.rstrip().endswith(_GOES_ON):
        is_bad_row = (
            ending == "jsonl" and first.startswith("[") and first.strip() != "[" and following.startswith("{")
        )
        return "jsonl" if is_bad_row else "json"
    if following.startswith("{") and _is_json(first):
        return "jsonl"
    return "jsonl" if ending == "jsonl" or (following and _is_json(first)) else "json"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_table(text: str) -> bool:
    """Whether a text is beyond doubt a table: short names in the first row, as many cells in the second."""
    delimiter = delimiter_of(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or "\0" in text or "<" in lines[0] or delimiter not in lines[0]:
        return False
    try:
        rows = csv.reader(lines, delimiter=delimiter, strict=True)
        header, second = next(rows), next(rows, None)
    except csv.Error:
        return False
    names = [cell.strip() for cell in header]
    if not all(0 < len(cell) <= 64 and "{" not in cell for cell in names) or len(set(names)) < len(names):
        return False
    return second is None or len(second) == len(header) or text.count('"') > 1


def delimiter_of(text: str) -> str:
    r"""The delimiter of a table: the one that its first line has most of, outside quotes.

    Example:
        >>> delimiter_of("id;text\n"), delimiter_of('"a,b,c"\tid\n'), delimiter_of("question\n")
        (';', '\t', ',')
    """
    line = re.sub(r'"(?:[^"]|"")*"', "", text).partition("\n")[0]
    return max(DELIMITERS, key=line.count)


def _unknown(text: str, name: str) -> Kind:
    what = "cannot tell what kind of file this is" if text else "the file is empty"
    raise InputError(f"{name}: {what}; expected CSV, TSV, JSON, JSON Lines, YAML, Parquet or Arrow")
