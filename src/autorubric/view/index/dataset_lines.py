"""A stored dataset, read item by item; memory is one offset per item."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from autorubric.core.rubric import Rubric
from autorubric.core.rubric_shapes import unfold
from autorubric.dataset import DataItem, RubricDataset
from autorubric.dataset.dataset_reading import REF
from autorubric.dataset.storage import save
from autorubric.errors import InputError, pluralize
from autorubric.files.strict_json import decode_json

_CHUNK = 1 << 22
_MOST_KEPT = 64
# The layout that `save` writes. JSON strings contain no line ends, so these never match a text.
_ITEMS = b'\n  "items": ['
_START, _END = re.compile(rb"^    \{", re.MULTILINE), re.compile(rb"^  \]", re.MULTILINE)


class DatasetLines:
    """The dataset of a run.

    Args:
        path: `dataset.json` of a run directory.
        scratch: where a copy is written if the file is not laid out as `autorubric` writes it.

    Attributes:
        path: the file that the offsets refer to.
        head: the dataset without its items.
        starts: where each item starts.

    Raises:
        InputError: it cannot be read.
    """

    def __init__(self, path: Path, scratch: Path) -> None:
        try:
            self.path, self.head, self.starts, self._end = path, *_scan(path)
        except (ValueError, RecursionError):
            save(RubricDataset.from_file(path), scratch)
            try:
                self.path, self.head, self.starts, self._end = scratch, *_scan(scratch)
            except ValueError as error:
                raise InputError(f"{path}: {error}") from None

    def __len__(self) -> int:
        return len(self.starts)

    def read_item(self, index: int) -> dict[str, Any]:
        """Return the record of an item.

        Raises:
            InputError: the item does not exist or is damaged.
        """
        with self.path.open("rb") as file:
            return self.read_item_from(file, index)

    def read_item_from(self, file: BinaryIO, index: int) -> dict[str, Any]:
        """`read_item` from `path`, opened as `file`."""
        if not 0 <= index < len(self):
            raise InputError(f"item {index} is not in the dataset, which has {pluralize(len(self), 'item')}")
        start = self.starts[index]
        stop = self.starts[index + 1] if index + 1 < len(self) else self._end
        file.seek(start)
        try:
            record = decode_json(file.read(stop - start).strip().rstrip(b","), share_texts=False)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"{self.path}: item {index} is damaged")
        return record

    def list_criteria(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the criteria that apply to an item, as JSON values."""
        rubric = record.get("rubric") or self.head.get("rubric") or []
        if isinstance(rubric, Mapping) and "$ref" in rubric:
            name = str(rubric["$ref"]).removeprefix(REF)
            rubric = (self.head.get("rubrics") or {}).get(name) or []
        return [entry for entry in unfold(rubric).entries if isinstance(entry, dict)]

    def find_field(self, record: Mapping[str, Any], name: str) -> Any:
        """Return a field of an item, or of the dataset if the item has none."""
        found = record.get(name)
        return self.head.get(name) if found is None else found

    def extract_item(self, index: int) -> RubricDataset:
        """Return a dataset of this item alone."""
        whole = {**self.head, "items": [self.read_item(index)]}
        return RubricDataset.from_json(json.dumps(whole))


def _scan(path: Path) -> tuple[dict[str, Any], array[int], int]:
    """Return the head, the start of each item, and the end of the last one.

    Raises:
        ValueError: the file has another layout.
    """
    with path.open("rb") as file:
        buffer = b""
        while _ITEMS not in buffer:
            more = file.read(_CHUNK)
            if not more:
                raise ValueError("no items")
            buffer += more
        cut = buffer.index(_ITEMS) + len(_ITEMS)
        head = json.loads(buffer[:cut] + b"]}")
        starts, end = _find_starts(file, buffer[cut:], cut)
    return head, starts, end


def _find_starts(file: BinaryIO, buffer: bytes, at: int) -> tuple[array[int], int]:
    """Return the starts and the end of items, from the bytes `held` at offset `at` on."""
    starts: array[int] = array("Q")
    if buffer.lstrip().startswith(b"]"):
        return starts, at
    while True:
        whole = buffer.rfind(b"\n") + 1  # the last line may be incomplete
        end = _END.search(buffer, 0, whole)
        starts.extend(
            at + found.start() for found in _START.finditer(buffer, 0, whole if end is None else end.start())
        )
        if end is not None:
            return starts, at + end.start()
        more = file.read(_CHUNK)
        if not more:
            raise ValueError("the items do not end")
        at, buffer = at + whole, buffer[whole:] + more


class LazyItems:
    """The items of a run, each read on demand; the last ones are cached."""

    def __init__(self, lines: DatasetLines) -> None:
        self._lines = lines
        self._rubrics: dict[str, Rubric] = {}  # shared ones are one object, as in a whole dataset
        self._cached = lru_cache(_MOST_KEPT)(self._read)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, idx: int, /) -> DataItem:
        return self._cached(idx)[0].items[0]

    def get_item_rubric(self, idx: int, /) -> Rubric:
        """Return the rubric that applies to an item."""
        return self._cached(idx)[1]

    def get_item_prompt(self, idx: int, /) -> str:
        """Return the query that an item answers."""
        return self._cached(idx)[0].get_item_prompt(0)

    def get_item_reference_submission(self, idx: int, /) -> str | None:
        """Return the reference answer of an item."""
        return self._cached(idx)[0].get_item_reference_submission(0)

    def _read(self, index: int) -> tuple[RubricDataset, Rubric]:
        own = self._lines.read_item(index).get("rubric")
        alone = self._lines.extract_item(index)
        rubric = alone.get_item_rubric(0)
        if own is None or "$ref" in own:
            rubric = self._rubrics.setdefault(json.dumps(own), rubric)
        return alone, rubric
