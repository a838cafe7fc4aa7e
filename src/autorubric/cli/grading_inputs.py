"""What `autorubric grade` grades and who judges, from its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autorubric.cli.submissions import submissions_of
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import ConfigError, InputError
from autorubric.graders.judge_spec import JudgeSpec
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.prices import prices_by_model


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
    items = submissions_of(submissions)
    _refuse_repeated_ids(submissions, items)
    needs_prompt = any(item.prompt is None for item in items)
    try:
        return RubricDataset(prompt or ("" if needs_prompt else None), criteria, items, name=submissions.stem)
    except InputError as error:
        raise InputError(f"{submissions}: {problem}" for problem in error.problems) from None


def check_weighed(rubrics: Iterable[tuple[str, Rubric]]) -> None:
    """Refuse rubrics whose weights are all 0: they give every submission the same score.

    Args:
        rubrics: each with its place, for messages.

    Raises:
        InputError: with one problem for each of them.

    Example:
        >>> check_weighed([("r.yaml", Rubric.from_dict([{"requirement": "Is brief", "weight": 0}]))])
        Traceback (most recent call last):
        autorubric.errors.InputError: r.yaml: every criterion has weight 0, so there is no score to compute; ...
    """
    advice = "every criterion has weight 0, so there is no score to compute; give at least one of them a weight"
    flat = [f"{where}: {advice}" for where, rubric in rubrics if not any(criterion.weight for criterion in rubric)]
    if flat:
        raise InputError(flat)


def rubrics_in(dataset: RubricDataset, where: Path | None) -> Iterator[tuple[str, Rubric]]:
    """Each rubric of a dataset once, with its place: the file, or the first item that brings it along."""
    seen: set[int] = set()
    for index in range(len(dataset)):
        rubric = dataset.get_item_rubric(index)
        if id(rubric) in seen:
            continue
        seen.add(id(rubric))
        yield (str(where) if dataset[index].rubric is None else f"{where}: item {index}"), rubric


def _refuse_repeated_ids(path: Path, items: Sequence[DataItem]) -> None:
    first: dict[str, int] = {}
    problems = [
        f"{path}: item {index} has the id {item.id!r} of item {first[item.id]}; ids must be unique"
        for index, item in enumerate(items)
        if item.id is not None and first.setdefault(item.id, index) != index
    ]
    if problems:
        raise InputError(problems)


def judges_of(names: Sequence[str], common: Mapping[str, Any], prices: Path | None, of: str = "") -> list[JudgeSpec]:
    """A judge for each `MODEL` or `MODEL@BASE_URL`; its id is the model's name.

    Args:
        names: as they were given.
        common: fields of `LLMConfig` that hold for all of them.
        prices: a file of prices by model.
        of: what the flag of their temperature begins with, such as `sample-`.

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
        try:
            specs.append(JudgeSpec(LLMConfig(model, api_base=url, prices=table.get(model), **common), model))
        except ConfigError as error:
            raise ConfigError(_under_its_flag(problem, model, of) for problem in error.problems) from None
    return specs


def _under_its_flag(problem: str, model: str, of: str) -> str:
    """What is wrong with a field, named as the flag that has set it."""
    for field, flag in (("temperature", f"{of}temperature"), ("timeout", "timeout")):
        head = f"model {model!r} has {field}="
        if problem.startswith(head):
            return f"--{flag} is {problem.removeprefix(head)}"
    return problem


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
