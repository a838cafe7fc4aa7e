"""A rubric and labelled items as arrays, refused before anything is spent if no improvement can be measured."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from autorubric.core.criterion import Criterion, name_criteria
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset
from autorubric.dataset.ground_truth import GroundTruthReader
from autorubric.dataset.human_scores import read_human_scores
from autorubric.errors import InputError
from autorubric.improvement.measures import NO_LABEL, compute_scores, list_categories, list_values
from autorubric.improvement.samples import hash_item, normalize_spaces
from autorubric.llm.thinking import Reasoning, split_reasoning
from autorubric.metrics.arrays import Floats, Ints


@dataclass(frozen=True)
class LabelledRubric:
    """A rubric with labelled items.

    Attributes:
        rubric: the rubric to improve.
        dataset: the items, with this rubric.
        truth: items × criteria: the code of each label (see `measures.list_categories`), or `NO_LABEL`.
        groups: the group of each item.
        target: the human score of each item, in [0, 1]; NaN where unknown.
    """

    rubric: Rubric
    dataset: RubricDataset
    truth: Ints
    groups: Ints
    target: Floats

    def __len__(self) -> int:
        return len(self.dataset)

    @cached_property
    def names(self) -> list[str]:
        """A name for each criterion."""
        return name_criteria(list(self.rubric))

    @cached_property
    def weights(self) -> Floats:
        """The weight of each criterion."""
        return np.array([criterion.weight for criterion in self.rubric])

    @property
    def has_labels(self) -> bool:
        """Whether any item has a label."""
        return bool((self.truth >= 0).any())

    @property
    def digests(self) -> list[str]:
        """The digest of each item."""
        return [hash_item(self.dataset.get_item_prompt(n), item.submission) for n, item in enumerate(self.dataset)]

    def digest_texts(self, reasoning: Reasoning = "drop") -> list[str]:
        """Return the digests of the texts of each item, ignoring white space and, by default, reasoning."""
        return [
            hash_item(*map(normalize_spaces, (self.dataset.get_item_prompt(n), split_reasoning(text, reasoning)[1])))
            for n, text in enumerate(item.submission for item in self.dataset)
        ]

    def list_strata(self) -> list[list[Hashable] | None]:
        """Return the labels of each item, for balancing sets; None if only other items have labels or a score."""
        known = (self.truth >= 0).any(axis=1) | ~np.isnan(self.target) | (not self.has_labels)
        labels = (list[Hashable]((at, int(code)) for at, code in enumerate(row) if code >= 0) for row in self.truth)
        return [own if is_known else None for own, is_known in zip(labels, known.tolist(), strict=True)]

    def select_known(self, place: int, items: Sequence[int]) -> list[int]:
        """Return the items that have a label on a criterion; all of them if there are no labels at all."""
        return [item for item in items if not self.has_labels or self.truth[item, place] >= 0]

    def is_constant(self, place: int) -> bool:
        """Return whether a criterion has the same label everywhere, or none."""
        known = self.truth[:, place]
        return len(set(known[known >= 0].tolist())) < 2


def read_labelled(
    rubric: Rubric, dataset: RubricDataset, groups: Sequence[int], score: str | None = None
) -> LabelledRubric:
    """Read the rubric together with the labels.

    Args:
        rubric: the rubric to improve.
        dataset: the labelled items; their own rubric must have the same criteria, by name or by place.
        groups: see `group_items`.
        score: the key of a human score in [0, 1] in the items' metadata; by default the labels are scored with the
            rubric's weights.

    Raises:
        InputError: the labels belong to another rubric, no label varies, or a score is missing.
    """
    _check_same_criteria(rubric, dataset)
    own = replace(dataset, rubric=rubric, items=[replace(item, rubric=None) for item in dataset])
    codes = np.full((len(own), len(rubric)), NO_LABEL, dtype=np.int64)
    for row, item in enumerate(own):
        if item.ground_truth is not None:
            codes[row] = [
                _encode_label(criterion, label) for criterion, label in zip(rubric, item.ground_truth, strict=True)
            ]
    labelled = LabelledRubric(rubric, own, codes, np.array(groups, np.int64), np.full(len(own), np.nan))
    if labelled.has_labels and all(labelled.is_constant(place) for place in range(len(rubric))):
        raise InputError(
            f"the labels are constant: every criterion has one label on all {len(own)} items; agreement with them "
            "cannot distinguish wordings; label items of which some meet a criterion and some do not"
        )
    return replace(labelled, target=_compute_target(labelled, score))


def _check_same_criteria(rubric: Rubric, dataset: RubricDataset) -> None:
    """Raise an error for labels of another rubric; criteria are identified by name, or by text if they have none."""
    wanted = _list_identities(rubric)
    for place, item in enumerate(dataset):
        held = item.rubric or dataset.rubric
        found = wanted if held is None else _list_identities(held)
        if found != wanted:
            where = "the labels" if item.rubric is None else f"the labels of item {item.id or place}"
            odd = [name for name in found if name not in wanted] or [f"the order {', '.join(map(repr, found))}"]
            raise InputError(
                f"{where} belong to another rubric: it has {', '.join(map(repr, odd[:3]))}; "
                f"expected the criteria {', '.join(map(repr, wanted))}, in this order"
            )
        if held is not None:
            _check_same_labels(rubric, held)
        if item.rubric is None:
            break
    problems: list[str] = []
    reader = GroundTruthReader(rubric)
    for place, item in enumerate(dataset):
        if item.ground_truth is not None:
            wrong: list[str] = []
            reader.read(item.ground_truth, wrong)
            problems += [f"item {item.id or place}: {problem}" for problem in wrong]
    if problems:
        raise InputError(problems)


def _list_identities(rubric: Rubric) -> list[str]:
    return [criterion.name or criterion.requirement for criterion in rubric]


def _check_same_labels(rubric: Rubric, other: Rubric) -> None:
    for name, mine, theirs in zip(name_criteria(list(rubric)), rubric, other, strict=True):
        own, given = list_categories(mine), list_categories(theirs)
        if own != given:
            raise InputError(
                f"criterion {name!r} has the options {', '.join(own)}, and the labels were given on "
                f"{', '.join(given)}; improve keeps the scale of a criterion, so both must be the same"
            )


def _encode_label(criterion: Criterion, label: Any) -> int:
    word = str.__str__(getattr(label, "value", label)).strip()
    if criterion.options is not None:
        place = criterion.find_option_by_label(word)
        return NO_LABEL if criterion.options[place].na else place
    return {"MET": 0, "UNMET": 1}.get(word.upper(), NO_LABEL)


def _compute_target(labelled: LabelledRubric, score: str | None) -> Floats:
    if score is None:
        worth = np.full(labelled.truth.shape, np.nan)
        for column, criterion in enumerate(labelled.rubric):
            known = labelled.truth[:, column] >= 0
            worth[known, column] = list_values(criterion)[labelled.truth[known, column]]
        return compute_scores(worth, labelled.weights)
    scores = read_human_scores(labelled.dataset, score)
    wrong = [
        f"item {item.id or row}: the score {score!r} is {value:g}; expected a score from 0 to 1"
        for row, (item, value) in enumerate(zip(labelled.dataset, scores, strict=True))
        if value < 0 or value > 1
    ]
    if wrong:
        raise InputError(wrong)
    return np.array(scores)
