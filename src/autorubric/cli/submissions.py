"""The submissions that `autorubric grade` takes beside a rubric: rows of a file, a text, a folder of texts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autorubric.dataset import DataItem
from autorubric.errors import InputError, MissingFileError
from autorubric.files import iter_jsonl, nearest, read_document, read_text

_LABELS = ("ground_truth", "ground_truth_reasons")
_KEYS = ("submission", "id", "description", "prompt", "query", "reference_submission", "metadata", *_LABELS)
_DOCUMENTS = (".json", ".yaml", ".yml")
_TEXTS = (".txt", ".md")
_MOST_NAMED = 10


def submissions_of(path: Path) -> list[DataItem]:
    """The submissions of a file or folder; what a folder holds beside texts is named on standard error.

    Raises:
        InputError: with one problem for each row that is none, or because there is nothing.

    Example:
        >>> submissions_of(Path("essays.csv"))
        Traceback (most recent call last):
        autorubric.errors.MissingFileError: Submissions not found: essays.csv
    """
    problems: list[str] = []
    items = list(_items(path, problems))
    if problems or not items:
        raise InputError(problems or f"{path}: no submissions in it")
    return items


def _items(path: Path, problems: list[str]) -> Iterator[DataItem]:
    kind = path.suffix.lower()
    if os.path.isdir(path):  # noqa: PTH112 (a name that is too long is no error here)
        yield from map(_text, _texts(path))
    elif kind in _TEXTS:
        yield _text(path)
    elif kind == ".jsonl":
        for row, record in iter_jsonl(path, problems=problems, what="Submissions"):
            yield from _item(record, f"{path}:{row}", problems)
    else:
        for index, record in enumerate(_listed(path, kind)):
            named = {"submission": record} if isinstance(record, str) else record
            yield from _item(named, f"{path}: item {index}", problems)


def _listed(path: Path, kind: str) -> list[Any]:
    if kind not in _DOCUMENTS:
        if not os.path.exists(path):  # noqa: PTH110 (a name that is too long is no error here)
            raise MissingFileError(f"Submissions not found: {path}")
        expected = ", ".join((".jsonl", *_DOCUMENTS, *_TEXTS))
        given = f"as {kind}" if kind else "without an ending"
        raise InputError(f"{path}: submissions do not come {given}; expected {expected}")
    found = read_document(path, what="Submissions")
    if not isinstance(found, list):
        raise InputError(f"{path}: expected a list of submissions, got {type(found).__name__}")
    return found


def _text(path: Path) -> DataItem:
    return DataItem(read_text(path), path.name, id=path.name)


def _texts(folder: Path) -> list[Path]:
    """The texts of a folder; says what else is there, so that nobody misses it among the results."""
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    texts = [path for path in found if path.is_file() and path.suffix.lower() in _TEXTS]
    others = [path.name for path in found if path not in texts]
    if others:
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        named = ", ".join(others[:_MOST_NAMED]) + more
        print(f"autorubric: {folder}: not graded, because no .txt or .md file: {named}", file=sys.stderr)
    return texts


def _item(record: Any, where: str, problems: list[str]) -> Iterator[DataItem]:
    """The item of a row; none after adding to `problems` what is wrong with it."""
    found = [f"{where}: {problem}" for problem in _problems(record)]
    if not found:
        try:
            yield _made(record)
        except InputError as error:
            found = [f"{where}: {problem}" for problem in error.problems]
    problems += found


def _problems(record: Any) -> list[str]:
    if not isinstance(record, dict):
        return [f"expected a mapping with 'submission', got {type(record).__name__}"]
    unknown = {key: nearest(str(key), _KEYS) for key in record if key not in _KEYS}
    found = [f"unknown key {key!r}; did you mean {right!r}?" for key, right in unknown.items() if right]
    if "submission" not in record and "submission" not in unknown.values():
        found.append(f"expected a mapping with 'submission'; its keys are {', '.join(map(str, record)) or 'none'}")
    if "rubric" in record:
        found.append("'rubric' has no place beside --rubric; put rows with rubrics of their own into a DATASET")
    if isinstance(record.get("id"), bool | list | dict):
        found.append(f"'id' holds {type(record['id']).__name__}; expected text or a number")
    if not isinstance(record.get("metadata") or {}, dict):
        found.append(f"'metadata' holds {type(record['metadata']).__name__}; expected a mapping")
    return found


def _made(record: dict[str, Any]) -> DataItem:
    return DataItem(
        record["submission"],
        record.get("description") or "",
        record.get("ground_truth"),
        reference_submission=record.get("reference_submission"),
        prompt=record.get("prompt", record.get("query")),
        ground_truth_reasons=record.get("ground_truth_reasons"),
        id=None if record.get("id") is None else str(record["id"]),
        metadata={**(record.get("metadata") or {}), **{key: record[key] for key in record if key not in _KEYS}},
    )
