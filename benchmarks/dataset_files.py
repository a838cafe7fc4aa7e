"""Datasets in files: loading and saving, against `json.loads` and `json.dumps` on the same bytes."""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autorubric import Criterion, DataItem, Rubric, RubricDataset

ITEMS = 100_000
CRITERIA = 10
_ANSWER = "The answer names a cause, gives its date, and says what followed from it. " * 4


def run() -> None:
    """Print seconds and ratios for 100,000 items of 10 criteria; the target is 5× `json.loads`."""
    print(f"\nDatasets of {ITEMS:,} items × {CRITERIA} criteria (seconds; × json.loads on the same bytes)")
    print(f"{'rubric':<9}{'file':<7}{'MB':>6}{'json.loads':>12}{'load':>8}{'':>8}{'save':>8}{'':>8}")
    for name, make in (("shared", _shared), ("per item", _per_item)):
        dataset = make()
        for extension in (".json", ".jsonl"):
            _row(name, dataset, extension)


def _row(name: str, dataset: RubricDataset, extension: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"dataset{extension}"
        saved = _fastest(lambda: dataset.to_file(path))
        text = path.read_text(encoding="utf-8")
        floor = _fastest(_floor(text, extension))
        loaded = _fastest(lambda: RubricDataset.from_file(path))
        size = path.stat().st_size / 1e6
    print(
        f"{name:<9}{extension:<7}{size:>6.0f}{floor:>12.2f}{loaded:>8.2f}{loaded / floor:>7.1f}×"
        f"{saved:>8.2f}{saved / floor:>7.1f}×"
    )


def _floor(text: str, extension: str) -> Callable[[], Any]:
    if extension == ".json":
        return lambda: json.loads(text)
    return lambda: [json.loads(line) for line in text.splitlines()]


def _fastest(work: Callable[[], Any], rounds: int = 2) -> float:
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _criteria(tag: str) -> list[Criterion]:
    return [
        Criterion(name=f"c{n}", weight=1.0 + n, requirement=f"The answer meets condition {n} of {tag}")
        for n in range(CRITERIA)
    ]


def _item(number: int, rubric: Rubric | None = None) -> DataItem:
    truth: list[Any] = ["MET" if number >> n & 1 else "UNMET" for n in range(CRITERIA)]
    return DataItem(_ANSWER, f"item {number}", truth, rubric, id=f"i{number}")


def _shared() -> RubricDataset:
    items = [_item(number) for number in range(ITEMS)]
    return RubricDataset(prompt="Explain the causes.", rubric=Rubric(_criteria("all")), items=items)


def _per_item() -> RubricDataset:
    items = [_item(number, Rubric(_criteria(f"item {number}"))) for number in range(ITEMS)]
    return RubricDataset(prompt="Explain the causes.", items=items)
