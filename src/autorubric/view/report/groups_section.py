"""The section of a report that compares groups of items, such as the answers of several models."""

from collections.abc import Iterator
from typing import Any

from autorubric.errors import InputError
from autorubric.metrics.statistic_results import ConfidenceInterval
from autorubric.runs.group_scores import GroupedItem, compare_groups
from autorubric.runs.manifest import DATASET_FILE
from autorubric.view.index.schema import ABSTAINS
from autorubric.view.page import Page
from autorubric.view.sources import Source


def build_groups_page(source: Source, by: str) -> Page:
    """Return the groups of a run by a metadata column, and their differences on shared queries.

    Raises:
        InputError: the run has no stored dataset; or see `compare_groups`.
    """
    found = compare_groups(_read_items(source), by)
    data = {
        "by": by,
        "groups": [_flatten(group.model_dump(exclude={"ci"}), group.ci) for group in found.groups],
        "differences": [_flatten(pair.model_dump(exclude={"ci"}), pair.ci) for pair in found.differences],
        "notes": found.warnings,
    }
    return Page("report_groups", f"Scores by {by}", data)


def _flatten(row: dict[str, Any], ends: ConfidenceInterval | None) -> dict[str, Any]:
    return row | {"interval": ends and (ends.lower, ends.upper)}


def _read_items(source: Source) -> Iterator[GroupedItem]:
    dataset = source.open_dataset()
    if dataset is None:
        raise InputError(f"{source.directory}: {DATASET_FILE} is missing, which has the metadata of the items")
    with source.reading() as connection, dataset.path.open("rb") as file:
        rows = {row["item"]: row for row in connection.execute("SELECT item, score, marks, query FROM items")}
        for index in range(len(dataset)):
            record, row = dataset.read_item_from(file, index), rows.get(index)
            query, score, marks = (row["query"], row["score"], row["marks"]) if row else (None, None, 0)
            metadata = record.get("metadata") or {}
            yield GroupedItem(record.get("id") or str(index), metadata, query, score, bool(marks & ABSTAINS))
