"""What `autorubric grade` grades and who judges, from its arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError
from autorubric.files import iter_jsonl, nearest, read_document, read_text
from autorubric.graders.judge_spec import JudgeSpec
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.prices import prices_by_model

_KEYS = ("submission", "id", "description", "prompt", "query", "reference_submission", "metadata")
_TEXTS = (".txt", ".md")


def dataset_of(
    dataset: Path | None, rubric: Path | None, submissions: Path | None, prompt: str | None
) -> RubricDataset:
    """The dataset that is named, or one made of a rubric and submissions.

    Raises:
        InputError: neither or both are given, or a file is wrong.

    Example:
        >>> dataset_of(None, Path("rubric.yaml"), None, None)
        Traceback (most recent call last):
        autorubric.errors.InputError: nothing to grade; pass DATASET, or both --rubric FILE and --submissions FILE
    """
    if dataset is not None:
        if rubric is not None or submissions is not None:
            raise InputError("DATASET brings its own rubric and submissions; leave --rubric and --submissions out")
        made = RubricDataset.from_file(dataset)
        if not made.items:
            raise InputError(f"{dataset}: no items in it")
        _refuse_repeated_ids(dataset, made.items)
        return made if made.name else replace(made, name=dataset.stem)
    if rubric is None or submissions is None:
        raise InputError("nothing to grade; pass DATASET, or both --rubric FILE and --submissions FILE")
    criteria = Rubric.from_file(rubric)
    items = list(_items(submissions))
    if not items:
        raise InputError(f"{submissions}: no submissions in it")
    _refuse_repeated_ids(submissions, items)
    needs_prompt = any(item.prompt is None for item in items)
    return RubricDataset(prompt or ("" if needs_prompt else None), criteria, items, name=submissions.stem)


def _refuse_repeated_ids(path: Path, items: Sequence[DataItem]) -> None:
    first: dict[str, int] = {}
    problems = [
        f"{path}: item {index} has the id {item.id!r} of item {first[item.id]}; ids must be unique"
        for index, item in enumerate(items)
        if item.id is not None and first.setdefault(item.id, index) != index
    ]
    if problems:
        raise InputError(problems)


def _items(path: Path) -> Iterator[DataItem]:
    if os.path.isdir(path):  # noqa: PTH112 (a name that is too long is no error here)
        for file in sorted(path.iterdir()):
            if file.suffix in _TEXTS:
                yield DataItem(read_text(file), file.name, id=file.name)
    elif path.suffix in _TEXTS:
        yield DataItem(read_text(path), path.name, id=path.name)
    elif path.suffix == ".jsonl":
        for row, record in iter_jsonl(path, what="Submissions"):
            yield _item(record, f"{path}:{row}")
    else:
        yield from _listed(path)


def _listed(path: Path) -> Iterator[DataItem]:
    found = read_document(path, what="Submissions")
    if not isinstance(found, list):
        raise InputError(f"{path}: expected a list of submissions, got {type(found).__name__}")
    for index, record in enumerate(found):
        yield _item({"submission": record} if isinstance(record, str) else record, f"{path}: item {index}")


def _item(record: Any, where: str) -> DataItem:
    if not isinstance(record, dict) or "submission" not in record:
        raise InputError(f"{where}: expected a mapping with 'submission'")
    unknown = {key: nearest(str(key), _KEYS) for key in record if key not in _KEYS}
    for key, right in unknown.items():
        if right:
            raise InputError(f"{where}: unknown key {key!r}; did you mean {right!r}?")
    if isinstance(record.get("id"), bool | list | dict):
        raise InputError(f"{where}: 'id' holds {type(record['id']).__name__}; expected text or a number")
    if not isinstance(record.get("metadata") or {}, dict):
        raise InputError(f"{where}: 'metadata' holds {type(record['metadata']).__name__}; expected a mapping")
    try:
        return DataItem(
            record["submission"],
            record.get("description") or "",
            reference_submission=record.get("reference_submission"),
            prompt=record.get("prompt", record.get("query")),
            id=None if record.get("id") is None else str(record["id"]),
            metadata={**(record.get("metadata") or {}), **{key: record[key] for key in unknown}},
        )
    except InputError as error:
        raise InputError(f"{where}: {problem}" for problem in error.problems) from None


def judges_of(names: Sequence[str], common: Mapping[str, Any], prices: Path | None) -> list[JudgeSpec]:
    """A judge for each `MODEL` or `MODEL@BASE_URL`; its id is the model's name.

    Args:
        names: as they were given.
        common: fields of `LLMConfig` that hold for all of them.
        prices: a file of prices by model.

    Raises:
        ConfigError: one model twice, or a setting is wrong.

    Example:
        >>> [spec] = judges_of(["qwen@http://localhost:8000/v1"], {"temperature": 0.0}, None)
        >>> spec.judge_id, spec.llm_config
        ('qwen', LLMConfig(model='qwen', temperature=0.0, api_base='http://localhost:8000/v1'))
    """
    table = prices_by_model(prices)
    specs = []
    for name in names:
        model, url = split_judge(name)
        specs.append(JudgeSpec(LLMConfig(model, api_base=url, prices=table.get(model), **common), model))
    return specs


def split_judge(name: str) -> tuple[str, str | None]:
    """The model and the address of a `MODEL@BASE_URL`; None where there is no address.

    Example:
        >>> split_judge("Qwen/Qwen3-8B@http://localhost:8000/v1")
        ('Qwen/Qwen3-8B', 'http://localhost:8000/v1')
        >>> split_judge("vertex/claude@20250929")
        ('vertex/claude@20250929', None)
    """
    for scheme in ("@http://", "@https://"):
        model, found, rest = name.partition(scheme)
        if found:
            return model, scheme[1:] + rest
    return name, None
