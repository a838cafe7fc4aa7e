"""Human scores of whole submissions: numbers in the metadata of the items, or in a table."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autorubric.dataset.collection import RubricDataset
from autorubric.dataset.label_rows import GivenLabel, ItemFinder, find_submission_texts
from autorubric.errors import InputError, collected, format_first
from autorubric.files.json_values import as_weight, find_unclear_number
from autorubric.rows import RowReader, join_names, name_input, read_rows
from autorubric.rows.columns import COLUMN_OPTION
from autorubric.rows.record import is_blank


def read_human_scores(dataset: RubricDataset, key: str) -> list[float]:
    """Return the score of each item in its metadata; NaN where it has none.

    Args:
        dataset: the items.
        key: the key of the scores: numbers, or texts of numbers as `as_weight` reads them.

    Raises:
        InputError: a value is not a number, or no item has the key.

    Example:
        >>> from autorubric import Criterion, Rubric, RubricDataset
        >>> dataset = RubricDataset("Explain.", Rubric([Criterion(requirement="Is brief")]))
        >>> dataset.add_item("So.", "", metadata={"overall": "4,5"})
        >>> dataset.add_item("No.", "", metadata={"overall": None})
        >>> read_human_scores(dataset, "overall")
        [4.5, nan]
    """
    problems = _find_unclear_score([item.metadata.get(key) for item in dataset.items], key)
    scores = [math.nan] * len(dataset)
    for place, item in enumerate(dataset.items):
        with collected(problems, f"item {item.id or place}: "):
            scores[place] = _parse_score(item.metadata.get(key), key)
    if not problems and all(map(math.isnan, scores)):
        names = dict.fromkeys(name for item in dataset.items for name in item.metadata)
        known = f"; its keys are {join_names(names)}" if names else ", and the items have no metadata"
        problems = [f"--score {key!r}: no item has it in its metadata{known}"]
    if problems:
        raise InputError(problems)
    return scores


def join_human_scores(
    dataset: RubricDataset, key: str, paths: Sequence[Path], columns: Mapping[str, str], notes: list[str]
) -> RubricDataset:
    """Add the scores in tables to the metadata of the items; several scores of an item are averaged.

    Args:
        dataset: the items.
        key: the column of the scores, and their key in the metadata.
        paths: the tables, with a column for the ids of the items, or with their submissions.
        columns: the columns named by the user, by role.
        notes: collects a sentence for each column that was guessed.

    Raises:
        InputError: a table lacks the column, an id is unknown, or a value is not a number.
    """
    finder, problems = ItemFinder(dataset, notes), list[str]()
    found: defaultdict[int, list[float]] = defaultdict(list)
    for path in paths:
        reader = RowReader(name_input(path), ("id",), given={**columns}, notes=notes)
        rows = [*reader.read_all(read_rows(path, problems, what="Table of scores"))]
        if rows and not any(key in row.fields for row in rows):
            raise InputError(f"{rows[0].where}: no column {key!r}; the columns are {join_names(rows[0].fields)}")
        if rows and not any("id" in row.columns or find_submission_texts(row.fields) for row in rows):
            advice = f"the columns are {join_names(rows[0].fields)}; name it with {COLUMN_OPTION.format(role='id')}"
            raise InputError(f"{rows[0].where}: no column with ids; {advice}")
        unclear = _find_unclear_score([row.fields.get(key) for row in rows], key)
        problems += (f"{name_input(path)}: {problem}" for problem in unclear)
        for row in rows:
            with collected(problems, f"{row.where}: "):
                score = _parse_score(row.fields.get(key), key)
                if not math.isnan(score):
                    id, texts = row.read_value("id"), find_submission_texts(row.fields)
                    given = GivenLabel(row.where, "" if is_blank(id) else str(id), "", "", texts=texts)
                    found[finder.find_item(given)].append(score)
    if problems:
        raise InputError(problems)
    if several := [str(item.id or n) for n, item in enumerate(dataset.items) if len(found[n]) > 1]:
        notes.append(f"several scores of an item are averaged: items {format_first(several)}")
    rest = [{name: value for name, value in item.metadata.items() if name != key} for item in dataset.items]
    # Rounded: the mean of 0.1, 0.2 and 0.3 is 0.2, a tie.
    means = {n: {key: round(math.fsum(scores) / len(scores), 12)} for n, scores in found.items() if scores}
    items = [replace(item, metadata=rest[n] | means.get(n, {})) for n, item in enumerate(dataset.items)]
    return replace(dataset, items=items)


def _find_unclear_score(values: Sequence[Any], key: str) -> list[str]:
    unclear = find_unclear_number(values)
    problem = f"the score {key!r} is {unclear!r}, but others have a decimal comma; write it without the point"
    return [] if unclear is None else [problem]


def _parse_score(value: Any, key: str) -> float:
    """Return the number that a value is or spells; NaN for a blank one."""
    score = math.nan if is_blank(value) else as_weight(value)
    if score is None:
        raise InputError(f"the score {key!r} is {value!r:.60}; expected a number such as 4.5")
    return score
