"""Detection of the kind of a file by its first bytes, and by its extension if these are ambiguous."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from autorubric.errors import InputError
from autorubric.files.remote import find_address, is_remote_file, is_remote_folder, list_objects
from autorubric.files.strict_json import parse_json
from autorubric.files.text import read_text
from autorubric.rows.bullets import has_items, is_list

Kind = Literal["csv", "xlsx", "jsonl", "json", "yaml", "toml", "list", "parquet", "arrow", "arrow stream"]

HEAD = 64 * 1024
"""Bytes that are read to detect the kind."""

BINARY: dict[bytes, Kind] = {
    b"PAR1": "parquet",
    b"PARE": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow stream",
}
"""Magic bytes of binary tables."""

_FOREIGN = (
    (b"PK\x03\x04", "a zip archive or an Excel workbook inside another archive; unpack it first"),
    (b"\xd0\xcf\x11\xe0", "an old or encrypted Excel or Word file; save it as .xlsx or CSV, without a password"),
    (b"BZh", "compressed with bzip2; decompress it first"),
    (b"\xfd7zXZ", "compressed with xz; decompress it first"),
    (b"FEA1", "a Feather file of version 1; write it again with a current pyarrow or pandas"),
)
_BY_ENDING: dict[str, Kind] = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".yaml": "yaml",
    ".yml": "yaml", ".toml": "toml", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".xlsx": "xlsx",
}  # fmt: skip
ENDINGS = tuple(_BY_ENDING)
"""Extensions of files that contain rows, in lower case."""
ROW_ENDINGS = tuple(ending for ending in _BY_ENDING if ending not in (".json", ".yaml", ".yml"))
"""`ENDINGS` without those of JSON and YAML documents."""
PACKED = (".gz", ".zst", ".zip")
"""Extensions of compressed files."""
_YAML = re.compile(r"(?:#.*\n|\s*\n)*(?:---(?:\s|$)|- |[\w\"'-]+:(?:\s|$))")
_TEXTS = (".txt", ".md")
_GOES_ON = ("{", "[", ",")
DELIMITERS = (",", ";", "\t", "|")


def detect_kind(head: bytes, path: str | Path, name: str) -> Kind:
    r"""Return the kind of a file.

    Args:
        head: its first bytes, decompressed and without a byte order mark.
        path: its path; the extension decides if the bytes are ambiguous.
        name: its name in messages.

    Raises:
        InputError: the file is of an unknown or unsupported kind.

    Example:
        >>> detect_kind(b'{"id": 1}\n{"id": 2}\n', "rows", "rows")
        'jsonl'
        >>> detect_kind(b"id;text\n1;Hi\n", "rows.json", "rows.json")
        'csv'
    """
    binary = next((kind for mark, kind in BINARY.items() if head.startswith(mark)), None)
    if binary is not None:
        return binary
    if foreign := next((words for mark, words in _FOREIGN if head.startswith(mark)), None):
        raise InputError(f"{name}: the file is {foreign}")
    text, ending = head.decode("utf-8", "replace").lstrip(), _BY_ENDING.get(find_ending(path))
    if text.startswith(("{", "[")) and ending not in ("yaml", "toml"):
        return _detect_json_kind(text, ending)
    if ending in ("csv", "yaml", "toml"):
        return ending
    if Path(path).suffix.lower() in _TEXTS and is_list(text):
        return "list"
    if _is_table(text) or text[:4].lower() == "sep=":
        return "csv"
    if ending in ("parquet", "arrow", "xlsx"):
        kind = "an Excel workbook" if ending == "xlsx" else f"a {ending.capitalize()} file"
        raise InputError(f"{name}: is not {kind}: it starts with other bytes")
    return ending or ("yaml" if _YAML.match(text) else _refuse_unknown(text, name))


def find_ending(path: str | Path) -> str:
    """Return the extension of a file name in lower case, without a final `.gz`, `.zst` or `.zip`.

    Example:
        >>> find_ending("rows.CSV"), find_ending("rows.jsonl.gz"), find_ending("-")
        ('.csv', '.jsonl', '')
    """
    plain = Path(path)
    return (plain.with_suffix("") if plain.suffix.lower() in PACKED else plain).suffix.lower()


def _detect_json_kind(text: str, ending: Kind | None) -> Kind:
    """JSON Lines if the first line is an object and more follow; a document if a value spans lines."""
    first, _, rest = text.partition("\n")
    following = rest.lstrip()
    if ending == "csv" and not _is_json(first) and not first.rstrip().endswith(_GOES_ON):
        return "csv"
    if first.startswith("[") or first.rstrip().endswith(_GOES_ON):
        is_row = ending == "jsonl" and first.startswith("[") and first.strip() != "[" and following.startswith("{")
        return "jsonl" if is_row else "json"
    return "jsonl" if ending == "jsonl" or (following and _is_json(first)) else "json"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_table(text: str) -> bool:
    """Return whether a text is certainly a table: short names in the first row, and as many cells in the second."""
    delimiter = detect_delimiter(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or "\0" in text or "<" in lines[0] or delimiter not in lines[0]:
        return False
    try:
        rows = csv.reader(lines, delimiter=delimiter, strict=True)
        header, second = next(rows), next(rows, None)
    except csv.Error:
        return False
    names = [cell.strip() for cell in header]
    names = names[1:-1] if delimiter == "|" and not names[0] and not names[-1] else names
    if not all(0 < len(cell) <= 64 and "{" not in cell for cell in names) or len(set(names)) < len(names):
        return False
    return second is None or len(second) == len(header) or text.count('"') > 1


def detect_delimiter(text: str) -> str:
    r"""Return the delimiter of a table: the most frequent one in its first line, outside quotes.

    Example:
        >>> detect_delimiter("id;text\n"), detect_delimiter('"a,b,c"\tid\n'), detect_delimiter("question\n")
        (';', '\t', ',')
    """
    line = re.sub(r'"(?:[^"]|"")*"', "", text).partition("\n")[0]
    return max(DELIMITERS, key=line.count)


def _refuse_unknown(text: str, name: str) -> Kind:
    what = "cannot tell what kind of file this is" if text else "the file is empty"
    alone = " without other text" if "\n|" in text else ""
    above = "; above a Markdown list of criteria, only headings are allowed" if has_items(text) else ""
    others = "JSON, JSON Lines, YAML, Excel, Parquet or Arrow"
    raise InputError(f"{name}: {what}; expected CSV, TSV, a Markdown table{alone}, {others}{above}")


_STATE, _SPLITS = "state.json", "dataset_dict.json"
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
_ABOUT = ("dataset_info.json", "dataset_infos.json", _STATE, _SPLITS)


def is_dataset_folder(path: str | Path) -> bool:
    """Return whether a path is a folder with data files, or a split of such a folder.

    Example:
        >>> is_dataset_folder("no-such-folder")
        False
    """
    folder = Path(path)
    if find_address(folder) and find_ending(folder):
        return False  # each look costs a request
    try:
        if folder.is_file():
            return False
        if not _is_folder(folder):
            return _find_split_parent(folder) is not None
        return any(_is_file(folder / name) for name in _ABOUT[2:]) or bool(_find_shards(folder))
    except (OSError, ValueError):
        if find_address(folder):
            raise
        return False


_DATA_OF_RUNS = ("final.jsonl", "selected.jsonl", "dataset.json")


def find_files(path: str | Path) -> tuple[Path, ...]:
    """Return the files of a dataset folder with one split, or of the split that follows the folder in the path.

    Raises:
        InputError: the folder has several splits, no such split, no data, a file in two forms, or not every shard
            of the split.

    Example:
        >>> find_files("no-such-folder")
        Traceback (most recent call last):
        autorubric.errors.InputError: no-such-folder: no data files found; expected ...
    """
    folder = Path(path)
    path = find_address(folder) or path
    parent, split = (folder, None) if _is_folder(folder) else _find_split_parent(folder) or (None, None)
    parts = {} if parent is None else _find_splits(parent)
    if not parts:
        raise InputError(f"{path}: no data files found; expected {', '.join(ENDINGS)}")
    if split is None and len(parts) > 1:
        own = [f"{path}/{name}" for name in _DATA_OF_RUNS if (folder / name).exists()]
        if own and (folder / "manifest.json").exists():
            raise InputError(f"{path}: this is the directory of a run; pass one of its files, such as {own[0]}")
        raise InputError(
            f"{path}: the folder has the splits {', '.join(parts)}; name one, such as {path}/{next(iter(parts))}"
        )
    files = next(iter(parts.values())) if split is None else parts[split]
    _check_copies(path, files)
    _check_shards(path, files)
    return files


def _check_copies(path: str | Path, files: tuple[Path, ...]) -> None:
    """Refuse a split with a file in two forms, such as `final.jsonl` and `final.parquet`."""
    forms: dict[str, str] = {}
    for file in files:
        name = file.stem if file.suffix.lower() in PACKED else file.name
        stem = name.lower().removesuffix(find_ending(file))
        if (other := forms.setdefault(stem, file.name)) != file.name:
            raise InputError(f"{path}: it has {other} and {file.name}, which may be the same rows; name one of them")


def _check_shards(path: str | Path, files: tuple[Path, ...]) -> None:
    """Refuse a split that lacks a shard, according to its file names."""
    numbered = [found for file in files if (found := _SHARD.search(file.name.partition(".")[0]))]
    there = {(int(found[1]), int(found[2])) for found in numbered}
    totals = sorted({total for _, total in there})
    if len(totals) > 1:
        counts = " and ".join(map(str, totals))
        raise InputError(f"{path}: the file names belong to sets of {counts} shards; keep the files of one set")
    missing = [number for number in range(totals[0]) if (number, totals[0]) not in there] if totals else []
    if missing:
        name = numbered[0].string.removesuffix(numbered[0][0])
        raise InputError(
            f"{path}: {len(missing)} of {totals[0]} shards are missing, such as "
            f"{name}-{missing[0]:05}-of-{totals[0]:05}; complete the download"
        )


def _find_split_parent(path: Path) -> tuple[Path, str] | None:
    """Return the dataset folder above a path that does not exist, and the split that the path names."""
    if find_ending(path) or path.exists():
        return None
    parents = path.parents if find_address(path) is None else path.parents[:-3]  # within the bucket
    folder = next(filter(_is_folder, parents), None)
    if folder is None or folder == Path() or _is_file(path):
        return None
    split = path.relative_to(folder).as_posix()
    # A mistyped path must not cause a search through the home directory.
    is_searched = not find_address(folder) and not any((folder / name).is_file() for name in (_SPLITS, _STATE))
    if is_searched and not _has_split(folder, path.relative_to(folder).parts):
        return None
    return (folder, split) if split in _find_splits(folder) else None


def _has_split(folder: Path, split: Sequence[str]) -> bool:
    """Return whether a file under the folder, or a folder around it, is named like a split."""
    for inner in folder.iterdir():
        left = split if inner.name == "data" else split[1:]
        if left and inner.name in ("data", split[0]) and inner.is_dir() and not inner.is_symlink():
            if _has_split(inner, left):
                return True
        elif inner.name.startswith(split[0]):
            return True
    return False


def _find_splits(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the shards of each split, by its name."""
    if _is_file(folder / _SPLITS):
        splits = _read_list(folder / _SPLITS, "splits")
        return {split: _list_arrow_files(folder / split) for split in splits}
    if _is_file(folder / _STATE):
        return {folder.name: _list_arrow_files(folder)}
    return _find_shards(folder)


def _list_arrow_files(folder: Path) -> tuple[Path, ...]:
    """Return the Arrow files of a dataset that `save_to_disk` wrote."""
    state = folder / _STATE
    entries = _read_list(state, "_data_files")
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in entries]
    if wrong := [name for name in names if not isinstance(name, str) or Path(name).name != name]:
        raise InputError(f"{state}: '_data_files' contains {wrong[0]!r}; expected the names of files in the folder")
    return tuple(folder / str(name) for name in names)


def _read_list(path: Path, key: str) -> Sequence[Any]:
    value = parse_json(read_text(path), str(path))
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list) or not found or not all(isinstance(entry, str | dict) for entry in found):
        raise InputError(f"{path}: expected a list under {key!r}, as save_to_disk of Hugging Face datasets writes it")
    if key == "splits" and not all(isinstance(name, str) and Path(name).name == name for name in found):
        raise InputError(f"{path}: 'splits' must be names of folders")
    return found


def _find_shards(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the data files under a folder by split; the split of `data/train-00000-of-00002.parquet` is `train`."""
    found: dict[str, list[Path]] = {}
    others = False
    for file in _list_files(folder):
        inner = file.relative_to(folder)
        if any(part.startswith((".", "_")) for part in inner.parts):
            continue
        if find_ending(file) in ENDINGS[:5] + ENDINGS[8:] and file.name not in _ABOUT:
            found.setdefault(_parse_split_name(inner), []).append(file)
        elif file.suffix.lower() in _TEXTS and file.stem.upper() != "README":
            others = True
    return {} if others else {split: tuple(files) for split, files in found.items()}


def _is_folder(path: Path) -> bool:
    address = find_address(path)
    return path.is_dir() if address is None else is_remote_folder(address)


def _is_file(path: Path) -> bool:
    address = find_address(path)
    return path.is_file() if address is None else is_remote_file(address)


def _list_files(folder: Path) -> list[Path]:
    address = find_address(folder)
    if address is None:
        return [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [Path(found) for found in list_objects(address)]


def _parse_split_name(inner: Path) -> str:
    above = [part for part in inner.parts[:-1] if part != "data"]
    stem = inner.name.partition(".")[0]
    shard = _SHARD.sub("", stem)
    # In a folder of a split, files have any name: data/train/part-0.parquet.
    named = above if above and shard == stem and inner.parts[0] == "data" else [*above, shard]
    return "/".join(named)
