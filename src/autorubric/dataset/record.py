"""A dataset as JSON values, the way it is written, as a line of text, and as rows of a table.

A rubric that two or more items carry is written once, under `rubrics`, and named by its items:
`{"$ref": "#/rubrics/r0"}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from autorubric.core.display import clipped, counted
from autorubric.core.rubric import Rubric
from autorubric.dataset.item import DataItem

if TYPE_CHECKING:
    from autorubric.dataset.collection import RubricDataset


REF = "#/rubrics/"


def dataset_record(dataset: RubricDataset) -> dict[str, Any]:
    """The whole dataset as one mapping.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> dataset_record(RubricDataset(prompt="Explain photosynthesis"))
        {'prompt': 'Explain photosynthesis', 'rubric': None, 'items': []}
    """
    head, items = head_and_items(dataset)
    head["items"] = list(items)
    return head


def head_and_items(dataset: RubricDataset) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """What holds for all items as one mapping, and the items as one mapping each.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> head, items = head_and_items(RubricDataset(prompt="Explain photosynthesis", name="biology"))
        >>> head, list(items)
        ({'name': 'biology', 'prompt': 'Explain photosynthesis', 'rubric': None}, [])
    """
    names = _shared_rubrics(dataset.items)
    head: dict[str, Any] = {} if dataset.name is None else {"name": dataset.name}
    head["prompt"] = dataset.prompt
    head["rubric"] = None if dataset.rubric is None else dataset.rubric.to_dict()
    if names.written:
        head["rubrics"] = names.written
    if dataset.reference_submission is not None:
        head["reference_submission"] = dataset.reference_submission
    if dataset.metadata:
        head["metadata"] = dataset.metadata
    return head, (_item_record(item, names) for item in dataset.items)


class _Names:
    """The names of rubrics that several items share."""

    def __init__(self) -> None:
        self.of_object: dict[int, str] = {}
        self.written: dict[str, Any] = {}


def _shared_rubrics(items: list[DataItem]) -> _Names:
    by_object: dict[int, tuple[Rubric, int]] = {}
    for item in items:
        if item.rubric is not None:
            uses = by_object.get(id(item.rubric), (item.rubric, 0))[1]
            by_object[id(item.rubric)] = (item.rubric, uses + 1)
    by_value: dict[Rubric, tuple[int, list[int]]] = {}
    for key, (rubric, uses) in by_object.items():
        before, keys = by_value.get(rubric, (0, []))
        by_value[rubric] = (before + uses, [*keys, key])
    names = _Names()
    for rubric, (uses, keys) in by_value.items():
        if uses >= 2:
            name = f"r{len(names.written)}"
            names.written[name] = rubric.to_dict()
            names.of_object.update(dict.fromkeys(keys, name))
    return names


def _item_record(item: DataItem, names: _Names) -> dict[str, Any]:
    record: dict[str, Any] = {} if item.id is None else {"id": item.id}
    record["submission"] = item.submission
    record["description"] = item.description
    # A verdict is a str of its own class; JSON and YAML are given plain text.
    truth = item.ground_truth
    record["ground_truth"] = None if truth is None else [str.__str__(verdict) for verdict in truth]
    if item.ground_truth_reasons is not None:
        record["ground_truth_reasons"] = item.ground_truth_reasons
    if item.rubric is not None:
        name = names.of_object.get(id(item.rubric))
        record["rubric"] = item.rubric.to_dict() if name is None else {"$ref": REF + name}
    if item.reference_submission is not None:
        record["reference_submission"] = item.reference_submission
    if item.prompt is not None:
        record["prompt"] = item.prompt
    if item.metadata:
        record["metadata"] = item.metadata
    return record


def dataset_text(dataset: RubricDataset) -> str:
    """Name, items, labels, prompt and criteria in one line.

    Example:
        >>> from autorubric.dataset import RubricDataset
        >>> dataset_text(RubricDataset("Why?", name="essays"))
        "<RubricDataset 'essays': 0 items, 0 labelled; prompt 'Why?'>"
    """
    labelled = sum(item.ground_truth is not None for item in dataset.items)
    name = "" if dataset.name is None else f" {clipped(dataset.name, 60)!r}"
    prompt = "" if dataset.prompt is None else f"; prompt {clipped(dataset.prompt, 80)!r}"
    count = 0 if dataset.rubric is None else len(dataset.rubric)
    rubric = f"; {count} {'criterion' if count == 1 else 'criteria'}" if count else ""
    return f"<RubricDataset{name}: {counted(len(dataset.items), 'item')}, {labelled} labelled{prompt}{rubric}>"


def item_rows(dataset: RubricDataset) -> Iterator[dict[str, Any]]:
    """A row for each item, with the prompt and the reference that apply to it.

    Example:
        >>> from autorubric import Criterion, Rubric
        >>> from autorubric.dataset import RubricDataset
        >>> dataset = RubricDataset("Why?", Rubric([Criterion(requirement="Is brief")]))
        >>> dataset.add_item("So.", "short", ["MET"])
        >>> row = next(item_rows(dataset))
        >>> row["prompt"], row["ground_truth"]
        ('Why?', ['MET'])
    """
    for index, item in enumerate(dataset.items):
        truth = item.ground_truth
        yield {
            "item_idx": index,
            "id": item.id,
            "description": item.description,
            "submission": item.submission,
            "ground_truth": None if truth is None else [str.__str__(verdict) for verdict in truth],
            "prompt": dataset.get_item_prompt(index),
            "reference_submission": dataset.get_item_reference_submission(index),
        }
