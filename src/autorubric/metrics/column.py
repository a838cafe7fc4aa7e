"""A criterion as a column of codes: what each code means and is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from autorubric.core.criterion import Criterion
from autorubric.core.report_scoring import worst_value
from autorubric.metrics.arrays import Floats, Ints

CriterionType: TypeAlias = Literal["binary", "ordinal", "nominal"]

MET_CODE, UNMET_CODE = 0, 1
ABSTAINED, FAILED, ABSENT = -1, -2, -3
"""Codes below 0 are no category: the judge (or the person) could not say, there is no verdict, nobody was asked."""


def classify_criterion(criterion: Criterion) -> CriterionType:
    """Whether a criterion is binary, or multi-choice with or without an order.

    Example:
        >>> classify_criterion(Criterion(requirement="Is brief"))
        'binary'
    """
    return "binary" if criterion.options is None else criterion.scale_type


@dataclass(frozen=True)
class Column:
    """A criterion in a table of codes. A code is the place of a category in `labels`.

    Attributes:
        criterion: the criterion.
        index: its place among the columns.
        name: its name, or `C1`, `C2`, … where it has none.
        kind: binary, ordinal or nominal.
        labels: the categories that are scored: MET and UNMET, or the options without those that mean
            "not applicable".
        values: of the categories.
        option_codes: the code of each option; ABSTAINED for "not applicable".
        worst: the category that an abstention becomes where it counts as unmet.
        has_na: whether an abstention can be chosen.
    """

    criterion: Criterion
    index: int
    name: str
    kind: CriterionType
    labels: tuple[str, ...]
    values: Floats
    option_codes: tuple[int, ...] = ()
    worst: int = UNMET_CODE
    label_codes: dict[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, criterion: Criterion, index: int, name: str | None = None) -> Column:
        """The column of a criterion.

        Example:
            >>> Column.of(Criterion(requirement="Is brief"), 0).labels
            ('MET', 'UNMET')
        """
        name = name or criterion.name or f"C{index + 1}"
        kind = classify_criterion(criterion)
        if criterion.options is None:
            return cls(criterion, index, name, kind, ("MET", "UNMET"), np.array([1.0, 0.0]))
        scored = [place for place, option in enumerate(criterion.options) if not option.na]
        codes = {place: code for code, place in enumerate(scored)}
        option_codes = tuple(codes.get(place, ABSTAINED) for place in range(len(criterion.options)))
        return cls(
            criterion,
            index,
            name,
            kind,
            tuple(criterion.options[place].label for place in scored),
            np.array([criterion.options[place].value for place in scored]),
            option_codes,
            codes[criterion.worst_scored_option()[0]],
            {option.label: option_codes[place] for place, option in enumerate(criterion.options)},
        )

    @property
    def ranks(self) -> Ints:
        """The place of each category in the order of their values, from 0; equal values share a place."""
        return np.asarray(np.unique(self.values, return_inverse=True)[1], np.int64)

    @property
    def worst_value(self) -> float:
        """The value that costs most, for abstentions under the FAIL strategy."""
        return worst_value(self.criterion)

    def code_of_label(self, label: str) -> int:
        """The code of an option's label, whatever its case and outer spaces."""
        code = self.label_codes.get(label)
        return self.option_codes[self.criterion.find_option_by_label(label)] if code is None else code

    def code_of_option(self, index: int | None) -> int:
        """The code of an option's index; one past the end is the option that judges add for "not applicable"."""
        if index is None or index >= len(self.option_codes):
            return ABSTAINED
        return self.option_codes[index]


def classify_criteria(criteria: Sequence[Criterion]) -> list[CriterionType]:
    """The kind of each criterion.

    Example:
        >>> classify_criteria([Criterion(requirement="Is brief")])
        ['binary']
    """
    return [classify_criterion(criterion) for criterion in criteria]
