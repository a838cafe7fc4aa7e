"""What `autorubric grade` grades and who judges, from its arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autorubric.cli.submissions import Submissions, dataset_in, is_rows
from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import ConfigError, InputError
from autorubric.files.numbers import as_number
from autorubric.graders.judge_spec import JudgeSpec
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.prices import prices_by_model
from autorubric.llm.http.providers import addressed
from autorubric.rows import is_stream, row_file, without_nulls


def dataset_of(
    dataset: Path | None,
    rubric: Path | None,
    submissions: Path | None,
    prompt: str | None,
    columns: Mapping[str, str] | None = None,
) -> RubricDataset:
    """The dataset that is named, or one made of submissions and a rubric for all or for each of them.

    Columns that were guessed are named on standard error.

    Raises:
        InputError: neither or both are given, or a file is wrong.

    Example:
        >>> dataset_of(None, Path("rubric.yaml"), None, None)
        Traceback (most recent call last):
        autorubric.errors.InputError: nothing to grade; pass DATASET, or both --rubric FILE and --submissions FILE
    """
    if dataset is not None and submissions is None and is_rows(dataset):
        dataset, submissions = None, dataset
    if dataset is not None:
        if rubric is not None or submissions is not None:
            raise InputError(
                f"{dataset}: DATASET brings its own rubric and submissions; leave --rubric and --submissions out"
            )
        if columns:
            raise InputError(f"--column names columns of rows, and {dataset} is a dataset; leave it out")
        made = dataset_in(dataset)
        if not made.items:
            raise InputError(f"{dataset}: no items in it")
        _refuse_repeated_ids(dataset, made.items)
        return made if made.name else replace(made, name=dataset.stem)
    if submissions is None:
        raise InputError("nothing to grade; pass DATASET, or both --rubric FILE and --submissions FILE")
    return _dataset_of_rows(submissions, rubric, prompt, columns or {})


def _dataset_of_rows(
    submissions: Path, rubric: Path | None, prompt: str | None, columns: Mapping[str, str]
) -> RubricDataset:
    criteria = None if rubric is None else rubric_in(rubric)
    source = Submissions(submissions, columns, criteria)
    items = source.items()
    for note in source.notes:
        print(f"note: {note}", file=sys.stderr)
    _refuse_repeated_ids(submissions, items)
    needs_prompt = any(item.prompt is None for item in items)
    try:
        return RubricDataset(prompt or ("" if needs_prompt else None), criteria, items, name=_name(submissions))
    except InputError as error:
        raise InputError(f"{submissions}: {problem}" for problem in error.problems) from None


def rubric_in(path: Path) -> Rubric:
    r"""The rubric in an input of any kind; in a table and in JSON Lines each row is a criterion.

    Raises:
        InputError: it cannot be read, or a criterion is wrong.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rubric.csv"
        >>> _ = path.write_text("name,weight,requirement\nTone,5,Is kind.\n")
        >>> rubric_in(path)[0]
        Criterion(weight=5.0, requirement='Is kind.', name='Tone')
    """
    found = row_file(path, what="Rubric file")
    if found.is_document:
        value = found.document()
    else:
        problems: list[str] = []
        rows = [without_nulls(record.fields) for record in found.rows(problems)]
        if problems:
            raise InputError(problems)
        value = rows[0] if len(rows) == 1 and not found.is_table and "criteria" in rows[0] else rows
        if found.is_table:
            value = [{name: _cell(name, cell) for name, cell in row.items() if cell != ""} for row in rows]
    try:
        return Rubric.from_dict(value)
    except InputError as error:
        raise InputError(f"{found.name}: {problem}" for problem in error.problems) from None


def _cell(name: str, cell: Any) -> Any:
    """A cell of a table of criteria: weights are numbers there, although CSV holds texts only."""
    number = as_number(cell) if name == "weight" and isinstance(cell, str) else None
    return cell if number is None else number


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


def _name(path: Path) -> str:
    """What a run on a file is called: its name without the ending."""
    return "stdin" if is_stream(path) else path.with_suffix("").stem if path.suffix in (".gz", ".zst") else path.stem


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
        common: fields of `LLMConfig` that hold for all of them; `api_base` for those without an address.
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
        model, url = addressed(name, common.get("api_base"))
        try:
            config = LLMConfig(model, **{**common, "api_base": url, "prices": table.get(model)})
            specs.append(JudgeSpec(config, model))
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
