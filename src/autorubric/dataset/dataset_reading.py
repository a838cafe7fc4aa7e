"""Reads the parts of a dataset from JSON values, and reports all problems together."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

from autorubric.core.rubric import Rubric
from autorubric.core.rubric_shapes import parse_rubric
from autorubric.dataset.ground_truth import GroundTruthReader
from autorubric.dataset.item import DataItem
from autorubric.errors import InputError, format_first
from autorubric.files.keys import describe_unknown_key, find_nearest_key
from autorubric.rows import join_names, list_document_rows

REF = "#/rubrics/"


def find_misfits(
    items: Iterable[tuple[int, Any]], prompt: str | None, rubric: Rubric | None
) -> Iterator[tuple[int, str]]:
    """Yield the problems that prevent items from being graded, as pairs of the item's index and a sentence.

    Also normalizes ground truth that fits (to `CriterionVerdict` for binary criteria).

    Args:
        items: the items of the dataset with their indices.
        prompt: the dataset's prompt.
        rubric: the dataset's rubric.

    Example:
        >>> list(find_misfits(enumerate([DataItem("It rained.", "short")]), "Describe the day", None))
        [(0, 'Item 0 has no rubric and dataset has no global rubric')]
    """
    reader = None if rubric is None else GroundTruthReader(rubric)
    first_of_id: dict[str, int] = {}
    for index, item in items:
        if not isinstance(item, DataItem):
            yield index, f"Item {index} must be a DataItem, got {type(item).__name__}"
            continue
        if prompt is None and item.prompt is None:
            yield index, f"Item {index} has no prompt and dataset has no global prompt"
        if item.rubric is None and reader is None:
            yield index, f"Item {index} has no rubric and dataset has no global rubric"
        elif item.rubric is None and reader is not None and item.ground_truth is not None:
            problems: list[str] = []
            verdicts = reader.read(item.ground_truth, problems)
            item.ground_truth = item.ground_truth if verdicts is None else verdicts
            yield from ((index, f"Item {index}{place_problem(problem)}") for problem in problems)
        if item.id is not None:
            first = first_of_id.setdefault(item.id, index)
            if first != index:
                advice = "make ids unique (--labels reads several annotators)"
                yield index, f"Item {index} has the same id as item {first}, {item.id!r}; {advice}"


def place_problem(problem: str) -> str:
    """Return a problem of an item as a continuation of "Item 3".

    Example:
        >>> "Item 3" + place_problem("ground_truth[0]: invalid verdict 'M'"), "Item 3" + place_problem("no such ref")
        ("Item 3, ground_truth[0]: invalid verdict 'M'", 'Item 3: no such ref')
    """
    return f", {problem}" if problem.startswith("ground_truth[") else f": {problem}"


_HEAD_KEYS = ("name", "prompt", "rubric", "rubrics", "reference_submission", "metadata", "items")
_ITEM_KEYS = tuple(field.name for field in fields(DataItem))
_KNOWN_IN_HEAD, _KNOWN_IN_ITEM = frozenset(_HEAD_KEYS), frozenset(_ITEM_KEYS)


class _Rubrics(NamedTuple):
    """The reader of labels on the dataset's rubric, and the rubrics that items share."""

    reader: GroundTruthReader | None
    shared: dict[str, Rubric | None]


class DatasetParts(NamedTuple):
    """The arguments of a `RubricDataset`."""

    prompt: str | None
    rubric: Rubric | None
    items: list[DataItem]
    name: str | None
    reference_submission: str | None
    metadata: dict[str, Any]


def read_record(data: Any) -> DatasetParts:
    """Read the parts of a dataset from one mapping, and remove its items to save memory.

    Raises:
        InputError: with one problem for each offending place.

    Example:
        >>> read_record({"prompt": "Explain photosynthesis", "rubric": None, "itmes": []})
        Traceback (most recent call last):
        autorubric.errors.InputError: unknown key 'itmes' in the dataset; did you mean 'items'?
    """
    if not isinstance(data, dict):
        raise InputError(f"Expected JSON object, got {type(data).__name__}")
    if data and data.keys().isdisjoint(("prompt", "rubric", "items")):
        list_document_rows(data, "the document")  # has its own words for an object of objects or of columns
        wanted = "expected a dataset with 'prompt', 'rubric' and 'items', or a list of rows"
        raise InputError(f"{wanted}; its keys are {join_names(data)}")
    records = data.get("items", [])
    problems: list[str] = []
    if not isinstance(records, list):
        problems.append(f"'items' must be a list, got {type(records).__name__}")
        records = []
    own_prompts = bool(records) and all(isinstance(r, dict) and r.get("prompt") is not None for r in records)
    if "prompt" not in data and not own_prompts:
        problems.append("Missing required field: 'prompt'")
    if "rubric" not in data:
        problems.append("Missing required field: 'rubric'; it is null if each item has its own")
    head = {key: value for key, value in data.items() if key != "items"}
    return read_parts(head, _pop_records(records), problems, lambda index: "")


def _pop_records(records: list[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the items with their indices; removes each from the list, to save memory."""
    for index, record in enumerate(records):
        records[index] = None
        yield index, record


def read_parts(
    head: dict[str, Any],
    records: Iterable[tuple[int, Any]],
    problems: list[str],
    place: Callable[[int], str],
) -> DatasetParts:
    """Return the parts of a dataset from the fields shared by all items and the items, one at a time.

    Args:
        head: the mapping without its items.
        records: each item with the number of its row.
        problems: earlier problems; raised with the rest.
        place: the prefix of messages about the row of a number.

    Raises:
        InputError: with one problem for each offending place.

    Example:
        >>> head = {"prompt": "Explain", "rubric": [{"requirement": "Is brief"}]}
        >>> rows = [(2, {"submission": "…", "description": "d", "ground_truth": ["MET"]})]
        >>> read_parts(head, rows, [], "rows.jsonl:{}: ".format).items[0].ground_truth
        [<CriterionVerdict.MET: 'MET'>]
    """
    in_head: list[str] = []
    parts = _read_head(head, in_head)
    shared = head.get("rubrics")
    reader = None if parts.rubric is None else GroundTruthReader(parts.rubric)
    rubrics = _Rubrics(reader, {} if shared is None else _read_shared_rubrics(shared, in_head))
    problems += (f"{place(1)}{problem}" for problem in in_head)
    sound_head = not problems
    indexed: list[tuple[int, DataItem]] = []
    rows: list[int] = []
    faults: dict[str, list[str]] = {}
    for index, (row, record) in enumerate(records):
        rows.append(row)
        found: list[str] = []
        item = _read_item(record, rubrics, found)
        if item is not None:
            indexed.append((index, item))
        for problem in found:
            faults.setdefault(problem, []).append(f"{place(row)}Item {index}")
    for problem, items in faults.items():
        # The problem of more than three items comes once, with the first of them.
        problems += [format_first(items, 3) + problem] if len(items) > 3 else [item + problem for item in items]
    # If the head is wrong, every item would seem wrong too.
    if sound_head:
        found_misfits = find_misfits(indexed, parts.prompt, parts.rubric)
        problems += (f"{place(rows[index])}{sentence}" for index, sentence in found_misfits)
    if problems:
        raise InputError(problems)
    parts.items.extend(item for _, item in indexed)
    return parts


def _read_head(head: dict[str, Any], problems: list[str]) -> DatasetParts:
    metadata = {} if head.get("metadata") is None else head["metadata"]
    if not head.keys() <= _KNOWN_IN_HEAD or type(metadata) is not dict:
        metadata = _read_extras(head, _HEAD_KEYS, "the dataset", problems)
    texts: dict[str, str | None] = {}
    for key in ("prompt", "name", "reference_submission"):
        value = head.get(key)
        texts[key] = value if isinstance(value, str) else None
        if value is not None and not isinstance(value, str):
            problems.append(f"'{key}' must be a string or null, got {type(value).__name__}")
    rubric = _read_rubric(head.get("rubric"), {}, "rubric: ", problems)
    return DatasetParts(texts["prompt"], rubric, [], texts["name"], texts["reference_submission"], metadata)


def _read_shared_rubrics(records: Any, problems: list[str]) -> dict[str, Rubric | None]:
    if not isinstance(records, dict):
        problems.append(f"'rubrics' must be a mapping from names to rubrics, got {type(records).__name__}")
        return {}
    return {name: _read_rubric(record, {}, f"rubrics.{name}: ", problems) for name, record in records.items()}


def _read_rubric(record: Any, shared: dict[str, Rubric | None], where: str, problems: list[str]) -> Rubric | None:
    if record is None or isinstance(record, Rubric):
        return record
    if isinstance(record, dict) and "$ref" in record:
        ref = record["$ref"]
        name = ref.removeprefix(REF) if isinstance(ref, str) else ref
        if isinstance(name, str) and name in shared:
            return shared[name]
        known = ", ".join(REF + key for key in shared) or "none"
        problems.append(f"{where}unknown shared rubric {ref!r}; the dataset has {known}")
        return None
    try:
        return Rubric.from_dict(parse_rubric(record) if isinstance(record, str) else record)
    except InputError as error:
        problems += (where + problem for problem in error.problems)
    return None


def _read_item(record: Any, rubrics: _Rubrics, problems: list[str]) -> DataItem | None:
    """Return the item, or None after adding to `problems` continuations of "Item 3"."""
    if not isinstance(record, dict):
        problems.append(f" must be a dict, got {type(record).__name__}")
        return None
    found: list[str] = []
    metadata = record.get("metadata")
    if metadata is None:
        metadata = {}
    if not record.keys() <= _KNOWN_IN_ITEM or type(metadata) is not dict:
        metadata = _read_extras(record, _ITEM_KEYS, "the item", found)
    missing = [key for key in ("submission", "description") if record.get(key) is None]
    rubric = record.get("rubric")
    if rubric is not None:
        rubric = _read_rubric(rubric, rubrics.shared, "rubric: ", found)
    truth = record.get("ground_truth")
    if truth is not None and rubric is None and rubrics.reader is not None:
        truth = rubrics.reader.read(truth, found)
    number = record.get("id")
    try:
        if not (missing or found):
            return DataItem(
                record["submission"],
                record["description"],
                truth,
                rubric,
                record.get("reference_submission"),
                record.get("prompt"),
                record.get("ground_truth_reasons"),
                str(number) if type(number) is int else number,
                metadata,
            )
    except InputError as error:
        found += error.problems
    problems += (f" missing required field: '{key}'" for key in missing)
    problems += map(place_problem, found)
    return None


def _read_extras(record: dict[str, Any], known: tuple[str, ...], where: str, problems: list[str]) -> dict[str, Any]:
    """Return the metadata of a mapping: its own, and unknown keys, unless these look like misspellings."""
    own = record.get("metadata")
    if own is not None and not isinstance(own, dict):
        problems.append(f"'metadata' must be a mapping, got {type(own).__name__}")
        own = None
    metadata = dict(own or {})
    for key, value in record.items():
        if key in known:
            continue
        if find_nearest_key(str(key), known):
            problems.append(describe_unknown_key(str(key), known, where))
        elif key in metadata:
            problems.append(f"{key!r} is given twice, in {where} and in its 'metadata'")
        else:
            metadata[key] = value
    return metadata
