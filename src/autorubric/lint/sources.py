"""The rubrics of a file, one at a time, whatever kind of file it is.

A `.jsonl` or `.parquet` file holds rows, and only one row (one batch) is in memory. A `.json`, `.yaml` or `.toml`
file holds a rubric, a dataset, or a list of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autorubric.dataset.record import REF
from autorubric.errors import InputError
from autorubric.files import iter_jsonl, iter_parquet, read_document
from autorubric.lint.finding import Place
from autorubric.lint.records import drafts, entries_of, is_row, sheets_of_row
from autorubric.lint.sheet import Sheet

EXTENSIONS = (".json", ".jsonl", ".parquet", ".toml", ".yaml", ".yml")


def iter_sheets(path: str | Path, problems: list[str]) -> Iterator[Sheet]:
    """The rubrics of a file, in order.

    Args:
        path: the file.
        problems: takes what could not be read, with file and row; reading goes on behind it.

    Raises:
        MissingFileError: there is no such file.
        InputError: the file cannot be read at all, or is of another kind.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rubric.yaml"
        >>> _ = path.write_text("- {requirement: Names two causes, weight: 3}")
        >>> [sheet.criteria[0].text for sheet in iter_sheets(path, [])]
        ['Names two causes']
    """
    extension, known = Path(path).suffix.lower(), len(problems)
    sheets = _sheets(path, extension, problems)
    first = next(sheets, None)
    if first is not None:
        yield first
        yield from sheets
    elif len(problems) == known:
        problems.append(f"{path}: there is no rubric in it")


def _sheets(path: str | Path, extension: str, problems: list[str]) -> Iterator[Sheet]:
    if extension == ".parquet":
        yield from _of_rows(iter_parquet(path), str(path), problems)
    elif extension == ".jsonl":
        yield from _of_lines(path, problems)
    elif extension in EXTENSIONS:
        yield from _of_document(read_document(path), str(path), problems)
    else:
        raise InputError(f"{path}: Unsupported file format {extension!r}; expected {', '.join(EXTENSIONS)}")


def _of_lines(path: str | Path, problems: list[str]) -> Iterator[Sheet]:
    lines = iter_jsonl(path, problems=problems)
    first = next(lines, None)
    if first is None:
        return
    head = first[1].get("dataset")
    if first[1].keys() == {"dataset"} and isinstance(head, Mapping):
        yield from _of_dataset(head, lines, str(path), problems)
    else:
        yield from _of_rows(itertools.chain([first], lines), str(path), problems)


def _of_rows(rows: Iterator[tuple[int, Mapping[str, Any]]], file: str, problems: list[str]) -> Iterator[Sheet]:
    for row, record in rows:
        try:
            yield from sheets_of_row(record, Place(file, row))
        except InputError as error:
            problems += (f"{file}:{row}: {problem}" for problem in error.problems)


def _of_document(document: Any, file: str, problems: list[str]) -> Iterator[Sheet]:
    if isinstance(document, Mapping) and isinstance(document.get("items"), list):
        yield from _of_dataset(document, enumerate(document["items"]), file, problems)
        return
    if isinstance(document, Mapping) and is_row(document):
        document = [document]
    if isinstance(document, list) and document and all(isinstance(row, Mapping) and is_row(row) for row in document):
        yield from _of_rows(iter(enumerate(document)), file, problems)
        return
    try:
        yield Sheet(drafts(entries_of(document)), place=Place(file))
    except InputError as error:
        problems += (f"{file}: {problem}" for problem in error.problems)


def _of_dataset(
    head: Mapping[str, Any], items: Iterator[tuple[int, Any]], file: str, problems: list[str]
) -> Iterator[Sheet]:
    """The dataset's own rubric, then those of items; one that items share comes once, as its first item uses it."""
    given = head.get("prompt")
    prompt = given if isinstance(given, str) else ""
    reference = bool(head.get("reference_submission"))
    shared = dict(head["rubrics"]) if isinstance(head.get("rubrics"), Mapping) else {}
    if head.get("rubric") is not None and _name_in(head["rubric"]) is None:
        yield from _sheet(head["rubric"], prompt, reference, Place(file), problems)
    for row, item in items:
        rubric = item.get("rubric") if isinstance(item, Mapping) else None
        name = _name_in(rubric)
        rubric, part = (rubric, "") if name is None else (shared.pop(name, None), f"rubrics.{name}")
        if rubric is not None:
            seen = reference or bool(item.get("reference_submission"))
            place = Place(file, row, str(item.get("id") or ""), part)
            yield from _sheet(rubric, str(item.get("prompt") or prompt), seen, place, problems)
    for name, rubric in shared.items():
        yield from _sheet(rubric, prompt, reference, Place(file, part=f"rubrics.{name}"), problems)


def _name_in(rubric: Any) -> str | None:
    """The name of the shared rubric that a reference points at; None for a rubric that is written out."""
    ref = rubric.get("$ref") if isinstance(rubric, Mapping) else None
    return None if ref is None else str(ref).removeprefix(REF)


def _sheet(rubric: Any, query: str, reference: bool, place: Place, problems: list[str]) -> Iterator[Sheet]:
    where = ":".join(filter(None, (place.file, "" if place.row is None else str(place.row), place.part)))
    try:
        yield Sheet(drafts(entries_of(rubric)), query, reference, place)
    except InputError as error:
        problems += (f"{where}: {problem}" for problem in error.problems)
