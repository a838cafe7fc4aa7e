"""A set of items for one task, with its rubric."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autorubric.core.display import Displayed
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.core.scoring import sum_cells
from autorubric.dataset.dataset_reading import DatasetParts, find_misfits
from autorubric.dataset.ground_truth import build_cells
from autorubric.dataset.item import DataItem
from autorubric.dataset.splitting import split_indices
from autorubric.dataset.storage import build_dataset_record, load, load_text, parse_dataset, save
from autorubric.errors import InputError, clip, pluralize, warn
from autorubric.files.descriptors import build_read_error
from autorubric.files.strict_json import dump_json
from autorubric.files.text import check_file


@dataclass
class RubricDataset(Displayed):
    """Items to grade, the prompt that they answer, and the rubric to grade them by.

    The prompt, rubric and reference submission of an item override those of the dataset.

    Attributes:
        prompt: what the items answer; None if every item has its own.
        rubric: the rubric of all items that have none of their own.
        items: the items, in order.
        name: a name for human readers.
        reference_submission: an exemplar for all items that have none of their own.
        metadata: user-defined keys with JSON values.

    Raises:
        ValueError: an item lacks a prompt or a rubric, ground truth does not fit, or an id is taken.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> rubric = Rubric([Criterion(name="Accuracy", weight=10, requirement="Is factually correct")])
        >>> dataset = RubricDataset(prompt="Explain photosynthesis", rubric=rubric)
        >>> dataset.add_item("Plants turn light into sugar.", "good", [CriterionVerdict.MET])
        >>> RubricDataset.from_json(dataset.to_json()) == dataset
        True
    """

    prompt: str | None = None
    rubric: Rubric | None = None
    items: list[DataItem] = field(default_factory=list)
    name: str | None = None
    reference_submission: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = [
            f"'{key}' must be a string or None, got {type(value).__name__}"
            for key in ("prompt", "name", "reference_submission")
            if not isinstance(value := getattr(self, key), (str, type(None)))
        ]
        if self.rubric is not None and not isinstance(self.rubric, Rubric):
            raise InputError([*problems, f"'rubric' must be a Rubric or None, got {type(self.rubric).__name__}"])
        problems += (sentence for _, sentence in find_misfits(enumerate(self.items), self.prompt, self.rubric))
        if problems:
            raise InputError(problems)
        self._ids: set[str] = set()
        self._ids_of = 0

    def __repr__(self) -> str:
        labelled = sum(item.ground_truth is not None for item in self.items)
        name = "" if self.name is None else f" {clip(self.name, 60)!r}"
        prompt = "" if self.prompt is None else f"; prompt {clip(self.prompt, 80)!r}"
        count = 0 if self.rubric is None else len(self.rubric)
        rubric = f"; {pluralize(count, 'criterion')}" if count else ""
        return f"<RubricDataset{name}: {pluralize(len(self.items), 'item')}, {labelled} labelled{prompt}{rubric}>"

    def _build_rows(self) -> Iterator[dict[str, Any]]:
        for index, item in enumerate(self.items):
            truth = item.ground_truth
            yield {
                "item_idx": index,
                "id": item.id,
                "description": item.description,
                "submission": item.submission,
                "ground_truth": None if truth is None else [str.__str__(verdict) for verdict in truth],
                "prompt": self.get_item_prompt(index),
                "reference_submission": self.get_item_reference_submission(index),
            }

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[DataItem]:
        return iter(self.items)

    def __getitem__(self, idx: int) -> DataItem:
        return self.items[idx]

    @property
    def criterion_names(self) -> list[str]:
        """The names of the dataset's criteria, `C1`, `C2`, … where they have none.

        Raises:
            ValueError: the dataset has no rubric.
        """
        return [c.name or f"C{n}" for n, c in enumerate(self._require_rubric("list criterion names"), start=1)]

    @property
    def num_criteria(self) -> int:
        """The number of criteria in the dataset's rubric.

        Raises:
            ValueError: the dataset has no rubric.
        """
        return len(self._require_rubric("count criteria"))

    @property
    def total_positive_weight(self) -> float:
        """The sum of the positive weights of the dataset's rubric.

        Raises:
            ValueError: the dataset has no rubric.
        """
        return sum((c.weight for c in self._require_rubric("sum weights") if c.weight > 0), 0.0)

    def _require_rubric(self, purpose: str) -> Rubric:
        if self.rubric is None:
            raise InputError(f"Cannot {purpose}: no global rubric set")
        return self.rubric

    def get_item_rubric(self, idx: int) -> Rubric:
        """Return the rubric that applies to an item: its own, or the dataset's.

        Raises:
            ValueError: there is neither.

        Example:
            >>> from autorubric.core.criterion import Criterion
            >>> dataset = RubricDataset("Explain", Rubric([Criterion(requirement="Is brief")]))
            >>> dataset.add_item("Yes.", "short")
            >>> dataset.get_item_rubric(0)
            Rubric([Criterion(requirement='Is brief')])
        """
        rubric = self.items[idx].rubric or self.rubric
        if rubric is None:
            raise InputError(f"Item {idx} has no rubric and dataset has no global rubric")
        return rubric

    def get_item_reference_submission(self, idx: int) -> str | None:
        """Return the exemplar that applies to an item: its own, or the dataset's, or None.

        Example:
            >>> from autorubric.core.criterion import Criterion
            >>> dataset = RubricDataset("Explain", Rubric([Criterion(requirement="Is brief")]))
            >>> dataset.add_item("Yes.", "short", reference_submission="No.")
            >>> dataset.get_item_reference_submission(0)
            'No.'
        """
        own = self.items[idx].reference_submission
        return own if own is not None else self.reference_submission

    def get_item_prompt(self, idx: int) -> str:
        """Return the prompt that an item answers: its own, or the dataset's.

        Raises:
            ValueError: there is neither.

        Example:
            >>> from autorubric.core.criterion import Criterion
            >>> dataset = RubricDataset("Explain", Rubric([Criterion(requirement="Is brief")]))
            >>> dataset.add_item("Yes.", "short", prompt="Agree?")
            >>> dataset.get_item_prompt(0)
            'Agree?'
        """
        own = self.items[idx].prompt
        prompt = own if own is not None else self.prompt
        if prompt is None:
            raise InputError(f"Item {idx} has no prompt and dataset has no global prompt")
        return prompt

    def compute_weighted_score(
        self,
        verdicts: Sequence[CriterionVerdict | str],
        normalize: bool = True,
        rubric: Rubric | None = None,
    ) -> float:
        """Return the weighted score of verdicts, 0.0 if nothing is left to score.

        Abstentions (CANNOT_ASSESS, options that are not applicable) are left out. `Rubric.compute_score` has more
        options, and distinguishes "nothing to score" (None) from "nothing met" (0.0).

        Args:
            verdicts: one per criterion, in order; criteria beyond the end of the list are not scored.
            normalize: True to divide by the positive weights and clamp to [0, 1], False for the bare sum.
            rubric: replaces the dataset's rubric.

        Raises:
            ValueError: a verdict does not belong to its criterion, there are too many, or there is no rubric.

        Example:
            >>> from autorubric.core.criterion import Criterion
            >>> rubric = Rubric([
            ...     Criterion(name="Accuracy", weight=10, requirement="Is correct"),
            ...     Criterion(name="Clarity", weight=5, requirement="Is clear"),
            ... ])
            >>> RubricDataset("Explain", rubric).compute_weighted_score(["MET", "CANNOT_ASSESS"])
            1.0
        """
        effective = rubric if rubric is not None else self.rubric
        if effective is None:
            raise InputError("Cannot compute score: no rubric provided and no global rubric set")
        sums = sum_cells(build_cells(effective, verdicts))
        if not normalize:
            return sums.points
        return max(0.0, min(1.0, sums.points / sums.positive)) if sums.positive > 0 else 0.0

    def add_item(  # noqa: PLR0913 (published signature)
        self,
        submission: str,
        description: str,
        ground_truth: list[CriterionVerdict | str] | None = None,
        rubric: Rubric | None = None,
        reference_submission: str | None = None,
        prompt: str | None = None,
        *,
        ground_truth_reasons: list[str | None] | None = None,
        id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Append an item; the arguments are the fields of `DataItem`.

        Raises:
            ValueError: no rubric or prompt applies to it, its ground truth does not fit, or its id is taken.

        Example:
            >>> RubricDataset("Explain").add_item("Yes.", "short")
            Traceback (most recent call last):
            autorubric.errors.InputError: Cannot add item: no per-item rubric provided and ...
        """
        if rubric is None and self.rubric is None:
            raise InputError("Cannot add item: no per-item rubric provided and no global rubric set")
        if prompt is None and self.prompt is None:
            raise InputError("Cannot add item: no per-item prompt provided and no global prompt set")
        item = DataItem(
            submission,
            description,
            ground_truth,
            rubric,
            reference_submission,
            prompt,
            ground_truth_reasons,
            id,
            {} if metadata is None else metadata,
        )
        self._admit(item)
        self.items.append(item)

    def _admit(self, item: DataItem) -> None:
        problems = [
            sentence.removeprefix("Item 0").lstrip(":, ")
            for _, sentence in find_misfits([(0, item)], self.prompt, self.rubric)
        ]
        if self._ids_of != len(self.items):
            self._ids = {known.id for known in self.items if known.id is not None}
        if item.id in self._ids:
            problems.append(f"the id {item.id!r} is taken by another item")
        if problems:
            raise InputError(problems)
        if item.id is not None:
            self._ids.add(item.id)
        self._ids_of = len(self.items) + 1

    def to_json(self, indent: int | None = 2) -> str:
        """Return the dataset as JSON text.

        Args:
            indent: spaces for each level; None for one line.

        Raises:
            ValueError: a text or metadata holds what JSON cannot.

        Example:
            >>> RubricDataset(prompt="Explain photosynthesis").to_json(indent=None)
            '{"prompt": "Explain photosynthesis", "rubric": null, "items": []}'
        """
        return dump_json(build_dataset_record(self), indent)

    def to_file(self, path: str | Path) -> None:
        """Write the dataset to a file atomically: `.yaml`, `.yml` or `.jsonl`, else as JSON.

        Raises:
            ValueError: a value that cannot be written, or a folder that cannot.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "dataset.jsonl"
            >>> RubricDataset(prompt="Explain photosynthesis").to_file(path)
            >>> RubricDataset.from_file(path).prompt
            'Explain photosynthesis'
        """
        save(self, path)

    @classmethod
    def from_json(cls, json_string: str) -> RubricDataset:
        """Return the dataset of a JSON text.

        Raises:
            ValueError: it is not strict JSON, or something in it is wrong; all problems are reported.

        Example:
            >>> len(RubricDataset.from_json('{"prompt": "Explain photosynthesis", "rubric": null}'))
            0
        """
        return cls._from_parts(load_text(json_string))

    @classmethod
    def from_file(cls, path: str | Path, *, columns: Mapping[str, str] | None = None) -> RubricDataset:
        """Return the dataset in a file: JSON, YAML, or rows (JSON Lines, CSV, TSV, Parquet, Arrow, a dataset folder).

        The kind of a file is detected from its content. Columns of rows are guessed from the usual names, such as
        `response` for the submission, with a warning for each guess.

        Args:
            path: the file.
            columns: the columns of rows by role: `submission`, `query`, `id`, `rubric`, `reference`, `labels`.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: it cannot be read, or something in it is wrong; every message starts with the path.

        Example:
            >>> RubricDataset.from_file("no-such-dataset.json")
            Traceback (most recent call last):
            autorubric.errors.MissingFileError: Dataset file not found: no-such-dataset.json
        """
        notes: list[str] = []
        option = "columns={{'{role}': NAME}} (in commands: --column {role}=NAME)"
        made = cls._from_parts(load(path, columns, notes, option))
        for note in notes:
            warn(note)
        return made

    @classmethod
    def from_stored(cls, path: Path) -> RubricDataset:
        """Return the dataset in a file of any size that a run has written; `from_file` reads those of users.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: it is damaged.
        """
        check_file(path, what="Dataset file")
        try:
            found = parse_dataset(path.read_text("utf-8", "surrogateescape"), "json", f"{path}: ")
        except OSError as error:
            raise build_read_error(path, error) from error
        if isinstance(found, list):
            raise InputError(f"{path}: expected the dataset of a run, got a list")
        return cls._from_parts(found)

    @classmethod
    def _from_parts(cls, parts: DatasetParts) -> RubricDataset:
        # The items were checked against the rest while they were read.
        made = cls(**{**parts._asdict(), "items": []})
        made.items = parts.items
        return made

    def split_train_test(
        self, n_train: int, *, stratify: bool = True, seed: int | None = None
    ) -> tuple[RubricDataset, RubricDataset]:
        """Return the items split into two datasets: one with exactly `n_train` items, one with the rest.

        Args:
            n_train: the size of the first.
            stratify: keep the proportions of each criterion's verdicts in both parts as closely as the counts
                allow; every item needs ground truth. A verdict of two or more items is in both parts if they have
                room.
            seed: makes the split repeatable; None for a new one each time.

        Raises:
            ValueError: `n_train` is negative or too large, or ground truth is missing.

        Example:
            >>> from autorubric.core.criterion import Criterion
            >>> dataset = RubricDataset("Explain", Rubric([Criterion(requirement="Is brief")]))
            >>> for number in range(10):
            ...     dataset.add_item(str(number), "", ["MET" if number < 5 else "UNMET"])
            >>> train, test = dataset.split_train_test(4, seed=1)
            >>> len(train), len(test), sum(item.ground_truth == ["MET"] for item in train)
            (4, 6, 2)
        """
        train, test = split_indices(self, n_train, stratify=stratify, rng=random.Random(seed))
        return self._select_items(train), self._select_items(test)

    def _select_items(self, indices: list[int]) -> RubricDataset:
        return replace(self, items=[self.items[index] for index in indices], metadata=dict(self.metadata))
