"""Reads and writes rows of files, one at a time if the kind of file allows it."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from autorubric.errors import InputError, problems_at
from autorubric.extras import require
from autorubric.files import atomic_writer, dump_json, parquet_writer
from autorubric.formats.autorubric_dataset import merge_head
from autorubric.formats.format import Format, Record, Row
from autorubric.formats.rubrichub import RURL
from autorubric.rows import RowFile, inspect_file, name_input


def iter_rows(path: str | Path, problems: list[str], head: Row | None = None) -> Iterator[tuple[str, Row]]:
    r"""Return the rows of a file with their places.

    Lines of JSON Lines and CSV and batches of Parquet and Arrow are read one at a time; a document is read whole.

    Args:
        path: the file.
        problems: collects a sentence for each row that cannot be read.
        head: collects the fields that all items of a dataset share.

    Raises:
        MissingFileError: the file does not exist.
        InputError: it is of an unknown kind, or a document that cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
        >>> _ = path.write_text('{"id": "q1"}\n')
        >>> [row for _, row in iter_rows(path, [])]
        [{'id': 'q1'}]
    """
    found = inspect_file(path)
    shared = {} if head is None else head
    if found.is_document:
        return _iter_document_rows(found, problems, shared)
    return _iter_listed_rows(found, problems, shared)


@contextmanager
def row_writer(
    path: Path, form: Format, *, carry: bool, head: Row | None = None
) -> Iterator[Callable[[Row], object]]:
    """Yield a function that writes rows to a file, which appears complete when the `with` block succeeds.

    Args:
        path: the file.
        form: the format of the rows.
        carry: whether rows have the key `autorubric`.
        head: the fields that all items of a dataset share.

    Raises:
        InputError: the format is not stored in files with this extension.
    """
    check_container(path, form)
    extension = path.suffix.lower()
    if extension == ".parquet":
        with parquet_writer(path, form.build_arrow_schema(carry)) as add:
            yield add
    elif extension == ".jsonl":
        with atomic_writer(path) as file:
            if head:
                file.write(dump_json({"dataset": {"prompt": None, "rubric": None, **head}}) + "\n")
            yield lambda row: file.write(dump_json(row) + "\n")
    else:
        rows: list[Row] = []
        yield rows.append
        whole = rows if form.document is None else form.document(rows)
        if head:
            whole = {"prompt": None, "rubric": None, **head, "items": rows}
        text = _format_document(whole, extension)
        with atomic_writer(path) as file:
            file.write(text)


def check_container(path: str | Path, form: Format) -> None:
    """Check that a format is stored in files with this extension.

    Raises:
        InputError: it is not; the message names the right extensions.

    Example:
        >>> from autorubric.formats import find_format
        >>> check_container("rows.csv", find_format("rurl"))
        Traceback (most recent call last):
        autorubric.errors.InputError: rows.csv: rurl is stored in .parquet or .jsonl files
    """
    if Path(path).suffix.lower() not in form.containers:
        raise InputError(f"{path}: {form.name} is stored in {' or '.join(form.containers)} files")


def _iter_listed_rows(found: RowFile, problems: list[str], shared: Row) -> Iterator[tuple[str, Row]]:
    rows = ((record.where, record.fields) for record in found.iter_rows(problems))
    first = next(rows, None)
    if first is None:
        if not problems and found.kind in ("jsonl", "csv"):
            problems.append(f"{found.name}: it has no rows")
        return iter(())
    head = first[1].get("dataset")
    if first[1].keys() == {"dataset"} and isinstance(head, dict):
        shared.update(head)
        return _at(first[0], merge_head(head, rows))
    return itertools.chain([first], rows)


def _iter_document_rows(found: RowFile, problems: list[str], shared: Row) -> Iterator[tuple[str, Row]]:
    path, value = found.name, found.read_document()
    if not value:
        raise InputError(f"{name_input(path)}: it has no rows")
    if isinstance(value, list):
        if any(isinstance(entry, dict) and {"requirement", "criteria"} & entry.keys() for entry in value[:1]):
            return iter([(name_input(path), {"rubric": value})])
        return _iter_objects(
            ((f"{name_input(path)}: entry {number}", row) for number, row in enumerate(value, 1)), problems
        )
    if not isinstance(value, dict):
        raise InputError(f"{name_input(path)}: expected a list of rows or an object, got {type(value).__name__}")
    if isinstance(value.get("items"), list):
        head = {key: inner for key, inner in value.items() if key != "items"}
        shared.update(head)
        items = ((f"{name_input(path)}: item {number}", item) for number, item in enumerate(value["items"]))
        return _iter_objects(_at(name_input(path), merge_head(head, items)), problems)
    return iter([(name_input(path), value)])


def _iter_objects(rows: Iterable[tuple[str, Any]], problems: list[str]) -> Iterator[tuple[str, Row]]:
    for place, row in rows:
        if isinstance(row, dict):
            yield place, row
        else:
            problems.append(f"{place}: expected an object, got {type(row).__name__}")


def _at(place: str, rows: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the rows; errors in the head of their dataset are prefixed with its place."""
    with problems_at(f"{place}: "):
        yield from rows


def _format_document(value: Any, extension: str) -> str:
    if extension == ".json":
        return dump_json(value, 2) + "\n"
    if extension == ".toml":
        require(["tomli_w"], "toml", "writing TOML")
        import tomli_w

        return tomli_w.dumps(value)
    from autorubric.files.strict_yaml import dump_yaml

    return dump_yaml(value)


_MOST_DOMAINS = 64
_LONGEST_NAME = 200
_STEM = "rurbichub_v1"  # spelt as published


def name_release_file(domain: str) -> str:
    """Return the name of a domain's file in the folder, spelt as published.

    A name that is too long is truncated and gets a digest, to distinguish names with the same beginning.

    Example:
        >>> name_release_file("chat"), name_release_file("Instruction Following"), name_release_file("")
        ('RuRL/rurbichub_v1_Chat.parquet', 'RuRL/rurbichub_v1_Instruction_Following.parquet', ...)
    """
    words = re.findall(r"\w+", domain) or ["General"]
    name = "_".join(word[0].upper() + word[1:] for word in words)
    if len(name.encode()) > _LONGEST_NAME:
        digest = blake2b(name.encode(), digest_size=4).hexdigest()
        name = f"{name.encode()[:_LONGEST_NAME].decode(errors='ignore')}_{digest}"
    return f"RuRL/{_STEM}_{name}.parquet"


def write_release(folder: str | Path, records: Iterable[Record]) -> Counter[str]:
    """Write records in the layout of the release, and return the number of records by file.

    All files have one schema, so that `datasets.load_dataset` reads them together. They appear complete, once all
    records are written.

    Args:
        folder: created if it is missing.
        records: taken one at a time.

    Raises:
        InputError: there are more domains than files that can be open, or a record does not fit.

    Example:
        >>> import tempfile
        >>> from autorubric.core.criterion import Criterion
        >>> record = Record((Criterion(weight=5, requirement="Says why."),), "Why?", domain="Medical")
        >>> dict(write_release(tempfile.mkdtemp(), [record]))
        {'RuRL/rurbichub_v1_Medical.parquet': 1}
    """
    folder = Path(folder)
    (folder / "RuRL").mkdir(parents=True, exist_ok=True)
    written: Counter[str] = Counter()
    with ExitStack() as stack:
        writers: dict[str, Callable[[Row], object]] = {}
        for record in records:
            name = name_release_file(record.domain)
            if name not in writers:
                if len(writers) == _MOST_DOMAINS:
                    raise InputError(f"there are more than {_MOST_DOMAINS} domains; the release has a file for each")
                writers[name] = stack.enter_context(row_writer(folder / name, RURL, carry=False))
            writers[name](RURL.write(record, columnar=True).row)
            written[name] += 1
    return written
