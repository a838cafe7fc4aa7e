"""Items of a dataset in rows whose columns have the usual names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from autorubric.core.rubric import Rubric
from autorubric.errors import InputError
from autorubric.files.strict_json import parse_json
from autorubric.rows.columns import ID, QUERY, REFERENCE, RUBRIC, SUBMISSION, Guess, listed
from autorubric.rows.prompt import read_question, text_of
from autorubric.rows.reading import Record, without_nulls

RubricReader: TypeAlias = Callable[[Any, str], Rubric]
"""Reads the rubric in a cell; the second argument is its place, for messages."""

COLUMN_FLAG = "--column {role}=NAME, in Python columns={{'{role}': NAME}}"
_ROLES = {
    "submission": SUBMISSION,
    "prompt": QUERY,
    "id": ID,
    "reference_submission": REFERENCE,
    "rubric": RUBRIC,
}
ROLES = tuple(_ROLES)
"""What a column can be named for with `--column ROLE=NAME`."""
_OWN = (*_ROLES, "description", "ground_truth", "ground_truth_reasons", "metadata")
_ROWS_SEEN = 100


def plain_rubric(value: Any, where: str) -> Rubric:
    """A rubric with this package's own criteria, also as JSON.

    Raises:
        InputError: it is none.

    Example:
        >>> plain_rubric('[{"requirement": "Is brief"}]', "row 1")
        Rubric([Criterion(requirement='Is brief')])
    """
    try:
        return Rubric.from_dict(parse_json(value) if isinstance(value, str) else value)
    except InputError as error:
        raise InputError(f"{where}: rubric: {problem}" for problem in error.problems) from None


def item_records(
    records: Iterable[Record],
    guess: Guess,
    problems: list[str],
    *,
    is_table: bool,
    read_rubric: RubricReader = plain_rubric,
) -> Iterator[Record]:
    """Rows as the records of items; columns that play no part become metadata.

    Rows that have `submission` and come from no table are items already, and stay as they are.

    Args:
        records: the rows.
        guess: which column is what.
        problems: takes a sentence for each row that cannot be read.
        is_table: whether every row has all columns, blank or null where there is nothing.
        read_rubric: reads the rubrics of rows.

    Raises:
        InputError: no column can be the submission, or several can.

    Example:
        >>> rows = [Record("a.csv:2", 2, {"Question": "Why?", "Answer": "So.", "model": "m"})]
        >>> [record.fields for record in item_records(rows, Guess("a.csv", COLUMN_FLAG), [], is_table=True)]
        [{'submission': 'So.', 'prompt': 'Why?', 'description': '', 'metadata': {'model': 'm'}}]
    """
    rows = iter(records)
    seen = list(itertools.islice(rows, _ROWS_SEEN))
    columns = dict.fromkeys(key for record in seen for key in record.fields)
    rows = itertools.chain(seen, rows)
    if not is_table and "submission" in columns and not guess.given:
        yield from (record._replace(fields={"description": "", **record.fields}) for record in rows)
        return
    if not columns:
        return
    named = {
        role: guess.column(role, names, columns, only=role in ("rubric", "prompt")) for role, names in _ROLES.items()
    }
    if named["submission"] is None:
        flag = guess.flag.format(role="submission")
        raise InputError(
            f"{guess.where}: no column is called like a submission; the columns are {listed(columns)}; "
            f"name it with {flag}"
        )
    for record in rows:
        try:
            yield record._replace(fields=_item(record, named, read_rubric))
        except InputError as error:
            problems += error.problems


def _item(record: Record, named: dict[str, str | None], read_rubric: RubricReader) -> dict[str, Any]:
    row = without_nulls({key: value for key, value in record.fields.items() if not _is_missing(value)})
    item = {role: row[column] for role, column in named.items() if column is not None and column in row}
    held = record.fields.get(named["submission"] or "")
    if isinstance(held, str):
        item["submission"] = held  # a blank answer is an answer
    if "prompt" in item and not isinstance(item["prompt"], str):
        item["prompt"] = _text(item["prompt"], record.where)
    if "rubric" in item:
        item["rubric"] = read_rubric(item["rubric"], record.where)
    used = {column for column in named.values() if column is not None}
    own = {key: row[key] for key in _OWN if key in row and key not in used and key not in _ROLES}
    rest = {key: value for key, value in row.items() if key not in used and key not in own}
    metadata = own.pop("metadata", {})
    if not isinstance(metadata, dict):
        raise InputError(f"{record.where}: 'metadata' holds {type(metadata).__name__}; expected a mapping")
    return {**item, "description": "", **own, "metadata": {**metadata, **rest}}


def _text(value: Any, where: str) -> str:
    try:
        return text_of(read_question(value, "prompt"))
    except InputError as error:
        raise InputError(f"{where}: {problem}" for problem in error.problems) from None


def _is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: null, NaN as pandas writes it, or a blank text."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))
