"""A person's verdicts on one item, read against the criteria they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.rubric import Rubric
from autorubric.core.verdict import CriterionVerdict

GroundTruth: TypeAlias = list[CriterionVerdict | str]

_VERDICTS: dict[Any, CriterionVerdict | str] = {verdict.value: verdict for verdict in CriterionVerdict}


class GroundTruthReader:
    """Reads ground truth for one rubric.

    Verdicts on binary criteria become `CriterionVerdict`, whatever their case; option labels stay as they are
    written, as long as they name an option.

    Example:
        >>> reader = GroundTruthReader(Rubric([Criterion(requirement="Is brief")]))
        >>> problems = []
        >>> reader.read(["met"], problems), reader.read(["maybe"], problems), problems
        ([<CriterionVerdict.MET: 'MET'>], None, ["ground_truth[0]: invalid verdict 'maybe'. Must be ..."])
    """

    def __init__(self, rubric: Rubric) -> None:
        self._criteria = rubric.rubric
        # One table per criterion from what may be written to what it means: the common case is one look-up.
        self._tables: list[dict[Any, CriterionVerdict | str]] = [
            _VERDICTS if criterion.options is None else {option.label: option.label for option in criterion.options}
            for criterion in self._criteria
        ]

    def read(self, values: Sequence[Any], problems: list[str]) -> GroundTruth | None:
        """The verdicts of one item, or None after adding to `problems` what is wrong with them."""
        try:
            return [table[value] for table, value in zip(self._tables, values, strict=True)]
        except (KeyError, ValueError, TypeError):
            return self._read_with_care(values, problems)

    def _read_with_care(self, values: Sequence[Any], problems: list[str]) -> GroundTruth | None:
        if isinstance(values, str) or not isinstance(values, Sequence):
            problems.append(f"ground_truth must be a list of verdicts, got {type(values).__name__}")
            return None
        if len(values) != len(self._criteria):
            problems.append(f"Ground truth has {len(values)} values, but rubric has {len(self._criteria)} criteria")
            return None
        verdicts: GroundTruth = []
        found: list[str] = []
        for index, (criterion, value) in enumerate(zip(self._criteria, values, strict=True)):
            try:
                verdicts.append(_verdict(criterion, value))
            except ValueError as error:
                found.append(f"ground_truth[{index}]: {error}")
        problems += found
        return None if found else verdicts


def _verdict(criterion: Criterion, value: Any) -> CriterionVerdict | str:
    if criterion.options is None:
        folded = value.strip().upper() if isinstance(value, str) else value
        if isinstance(folded, str) and folded in _VERDICTS:
            return _VERDICTS[folded]
        raise ValueError(f"invalid verdict '{value}'. Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'.")
    if isinstance(value, CriterionVerdict) or not isinstance(value, str):
        kind = type(value).__name__
        raise ValueError(f"multi-choice criterion expects option label string, got {kind}")
    criterion.find_option_by_label(value)
    return value
