"""The datasets of this package: items with submissions, in JSON, YAML or JSON Lines."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from autorubric.core.criterion import with_distinct_names
from autorubric.core.rubric import Rubric
from autorubric.dataset.dataset_reading import REF, read_parts
from autorubric.dataset.item import DataItem
from autorubric.errors import InputError
from autorubric.formats.format import Format, Record, Row
from autorubric.rows.record import as_text

_BESIDE = ("description", "ground_truth", "ground_truth_reasons")
_FROM_HEAD = ("prompt", "rubric", "reference_submission")
DATASET = "autorubric_dataset"
"""The key in the metadata of records of the name and metadata of their dataset."""


def _read(row: Row) -> Record:
    """Return the record of an item; ground truth, reasons and description are metadata."""
    if row.get("rubric") is None:
        raise InputError("the item has no rubric, and the dataset has none for all items")
    row = {**row, "prompt": row.get("prompt") or ""}
    try:
        item = read_parts({"prompt": None, "rubric": None}, [(0, row)], [], lambda _: "").items[0]
    except InputError as error:
        raise InputError(problem.removeprefix("Item 0").lstrip(", ") for problem in error.problems) from None
    rubric = item.rubric or Rubric([])
    truth = item.ground_truth
    beside = {
        "description": item.description,
        "ground_truth": None if truth is None else [str.__str__(verdict) for verdict in truth],
        "ground_truth_reasons": item.ground_truth_reasons,
    }
    metadata = {**item.metadata, **{key: value for key, value in beside.items() if value}}
    if rubric.metadata:
        metadata["rubric"] = rubric.metadata
    return Record(
        tuple(rubric),
        item.prompt or "",
        item.id or "",
        item.reference_submission,
        item.submission or None,
        guidelines=rubric.guidelines,
        metadata=metadata,
    )


def _write(record: Record) -> Row:
    """Return the item of a record, with its own prompt and rubric; without an answer, its submission is empty."""
    metadata = {key: value for key, value in record.metadata.items() if key not in (*_BESIDE, "rubric")}
    row: Row = {"id": record.id} if record.id else {}
    description = record.metadata.get("description")
    row |= {"submission": record.answer or "", "description": description if isinstance(description, str) else ""}
    row.update(_check_truth(record))
    kept = record.metadata.get("rubric")
    rubric = Rubric(
        with_distinct_names(record.criteria),
        guidelines=record.guidelines,
        metadata=kept if isinstance(kept, dict) else None,
    )
    row["rubric"] = rubric.to_dict()
    if record.reference is not None:
        row["reference_submission"] = record.reference
    row["prompt"] = as_text(record.prompt)
    if metadata:
        row["metadata"] = metadata
    return row


def _check_truth(record: Record) -> dict[str, Any]:
    """Return the ground truth of a record if it is valid; other formats may use that name for other data."""
    truth, reasons = record.metadata.get("ground_truth"), record.metadata.get("ground_truth_reasons")
    if not isinstance(truth, list):
        return {"ground_truth": None}
    found = {"ground_truth": truth} if reasons is None else {"ground_truth": truth, "ground_truth_reasons": reasons}
    try:
        DataItem("", "", **found, rubric=Rubric(with_distinct_names(record.criteria)))
    except InputError:
        return {"ground_truth": None}
    return found


def merge_head(head: dict[str, Any], items: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the items of a dataset with the fields of its head and the shared rubrics filled in.

    Raises:
        InputError: the head is wrong.

    Example:
        >>> list(merge_head({"prompt": "Why?", "rubric": None}, [("d.json: item 0", {"submission": "So."})]))
        [('d.json: item 0', {'prompt': 'Why?', 'submission': 'So.'})]
    """
    read_parts({**head, "items": []}, [], [], lambda _: "")
    shared = head.get("rubrics") or {}
    common = {key: head[key] for key in _FROM_HEAD if head.get(key) is not None}
    for place, item in items:
        if not isinstance(item, dict):
            yield place, item
            continue
        row = {**common, **{key: value for key, value in item.items() if value is not None}}
        rubric = row.get("rubric")
        if isinstance(rubric, dict) and "$ref" in rubric:
            row["rubric"] = shared.get(str(rubric["$ref"]).removeprefix(REF), rubric)
        yield place, row


def name_dataset(head: Row) -> Row:
    """Return the metadata that tells a record the name and metadata of its dataset; empty if there are none.

    Example:
        >>> name_dataset({"name": "essays", "prompt": "Why?", "rubric": None})
        {'autorubric_dataset': {'name': 'essays'}}
    """
    own = {key: head[key] for key in ("name", "metadata") if head.get(key)}
    return {DATASET: own} if own else {}


def build_head(head: Row, first: Record | None, convert: Callable[[Record], Record]) -> Row:
    """Return the fields that the items of a dataset share, as they are written, without nulls.

    Args:
        head: the fields as they were read; empty if the records are from no dataset.
        first: the first record, which may have the name and metadata of its dataset.
        convert: the conversion of records, and so of the shared rubric.

    Example:
        >>> build_head({"prompt": "Why?", "rubric": None}, None, lambda record: record)
        {'prompt': 'Why?'}
    """
    own = name_dataset(head).get(DATASET) if first is None else first.metadata.get(DATASET)
    shared = {**own} if isinstance(own, dict) else {}
    shared |= {key: head[key] for key in _FROM_HEAD if head.get(key) is not None}
    if "rubric" in shared:
        shared["rubric"] = _write(convert(_read({"submission": "", "description": "", "rubric": shared["rubric"]})))[
            "rubric"
        ]
    return shared


def leave_shared(row: Row, head: Row) -> Row:
    """Return an item without the fields that it shares with its dataset.

    Example:
        >>> leave_shared({"id": "q1", "prompt": "Why?"}, {"prompt": "Why?"})
        {'id': 'q1'}
    """
    own = name_dataset(head)
    metadata = {key: value for key, value in row.get("metadata", {}).items() if own.get(key) != value}
    left = ["metadata", *(key for key in _FROM_HEAD if head.get(key) == row.get(key))]
    kept = {key: value for key, value in row.items() if key not in left}
    return {**kept, "metadata": metadata} if metadata else kept


AUTORUBRIC = Format(
    "autorubric",
    "AutoRubric datasets",
    (".jsonl", ".json", ".yaml", ".yml"),
    lambda row: "submission" in row,
    _read,
    _write,
    carrier=("metadata",),
    document=lambda rows: {"prompt": None, "rubric": None, "items": rows},
)
