"""Criteria, by which submissions are graded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, FiniteFloat

from autorubric.core.display import join_first
from autorubric.core.known_keys import KeepingModel
from autorubric.core.misread_keys import find_misread
from autorubric.errors import clip
from autorubric.files.json_values import as_weight
from autorubric.files.keys import find_nearest_key, suggest_name

AggregationStrategy: TypeAlias = Literal["majority", "weighted", "unanimous", "any"]
OrdinalAggregation: TypeAlias = Literal["mean", "median", "weighted_mean", "mode", "min", "max"]
NominalAggregation: TypeAlias = Literal["mode", "weighted_mode", "unanimous"]
ScaleType: TypeAlias = Literal["ordinal", "nominal"]

MOST_WEIGHT = 1e12
"""Maximum absolute weight. In sums of larger weights, small ones would be lost to rounding."""


def _parse_number(value: Any) -> Any:
    number = as_weight(value) if isinstance(value, str) else value
    if isinstance(value, bool) or (number is None and value is not None):
        advice = "; write a fraction as a decimal, such as 0.5" if isinstance(value, str) and "/" in value else ""
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        raise ValueError(f"expected a number, got {shown}{advice}")
    return number


# Keys that the published package ignores, whatever their value: null counts as absent.
_Tags: TypeAlias = Annotated[list[str], BeforeValidator(lambda tags: [] if tags is None else tags)]
_Metadata: TypeAlias = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]

_AGGREGATIONS: dict[str, tuple[str, ...]] = {
    "binary": ("majority", "weighted", "unanimous", "any"),
    "ordinal": ("mean", "median", "weighted_mean", "mode", "min", "max"),
    "nominal": ("mode", "weighted_mode", "unanimous"),
}


class CriterionOption(KeepingModel):
    """One answer to a multi-choice criterion.

    Attributes:
        label: the text of the answer; labels must differ in more than case and surrounding spaces.
        value: its value in [0, 1]; any finite number if `na` is set, because it is never scored.
        na: choosing it means that the criterion does not apply or cannot be assessed.
        metadata: user-defined keys.

    Example:
        >>> CriterionOption(label="Partly", value=0.5)
        CriterionOption(label='Partly', value=0.5)
    """

    label: str
    value: Annotated[FiniteFloat, BeforeValidator(_parse_number)]
    na: bool = False
    metadata: _Metadata = Field(default_factory=dict)

    _expected: ClassVar[Mapping[str, str]] = {"": 'an option, such as {"label": "Partly", "value": 0.5}'}

    def problems(self) -> list[str]:
        """Return the problems of the label and the value.

        Example:
            >>> CriterionOption(label="Partly", value=0.5).problems()
            []
        """
        found = [] if self.label.strip() else ["an option needs a label that is not blank"]
        if not self.na and not 0.0 <= self.value <= 1.0:
            found.append(f"Option value must be in [0, 1], got {self.value}")
        return found


CANONICAL_NA_OPTION = CriterionOption(label="Cannot assess / not applicable", value=0.0, na=True)


class Criterion(KeepingModel):
    """A requirement on a submission: binary, or multi-choice if it has options.

    Attributes:
        weight: its points; a negative weight marks a pitfall, for which MET costs points.
        requirement: what the submission has to satisfy, or the question that the options answer.
        name: a short name; unique within its section.
        options: the possible answers of a multi-choice criterion.
        scale_type: whether the options have an order.
        aggregation: how to combine the verdicts of a panel; overrides the panel's rule.
        id: a stable identifier.
        tags: labels to group criteria by.
        section: its section of the rubric.
        check: a programmatic check, `{"name": …, "parameters": {…}}`, that decides instead of a judge.
        metadata: user-defined keys.

    Example:
        >>> Criterion(name="Causes", weight=30, requirement="Names two causes").is_binary
        True
        >>> Criterion(wieght=-3, requirement="Invents a source")
        Traceback (most recent call last):
        pydantic_core._pydantic_core.ValidationError: 1 validation error for Criterion
        wieght
          unknown key 'wieght'; did you mean 'weight'? ...
    """

    weight: Annotated[FiniteFloat, Field(ge=-MOST_WEIGHT, le=MOST_WEIGHT), BeforeValidator(_parse_number)] = 10.0
    requirement: str
    name: str | None = None
    options: list[CriterionOption] | None = None
    scale_type: ScaleType = "ordinal"
    aggregation: str | None = None
    id: str | None = Field(default=None, coerce_numbers_to_str=True)
    tags: _Tags = Field(default_factory=list)
    section: str | None = None
    check: dict[str, Any] | None = None
    metadata: _Metadata = Field(default_factory=dict)

    _expected: ClassVar[Mapping[str, str]] = {
        "": 'a criterion, such as {"requirement": "Names the year.", "weight": 2}',
        "options": 'a list of options, such as [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]',
        "check": 'a check with its parameters, such as {"name": "word_count", "parameters": {"at_most": 80}}',
        "tags": "a list of strings",
    }
    _depends: ClassVar[dict[str, frozenset[str]]] = {"aggregation": frozenset({"options", "scale_type"})}

    def __hash__(self) -> int:
        return hash((self.weight, self.requirement, self.name))

    @classmethod
    def _find_misread(cls, unknown: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
        return find_misread(unknown, known)

    def problems(self) -> Sequence[str]:
        """Problems of the fields in combination.

        Example:
            >>> list(Criterion(requirement="Is polite").problems())
            []
        """
        fields = self.__dict__
        found: Sequence[str] = ()
        if not fields["requirement"] or fields["requirement"].isspace():
            found = ["requirement is empty; state what the submission must satisfy"]
        if fields["options"] is not None:
            found = [*found, *_find_option_problems(fields["options"])]
        if fields["aggregation"] is not None:
            found = [*found, *self._find_aggregation_problems(fields["aggregation"])]
        if fields["check"] is not None:
            found = [*found, *find_check_problems(fields["check"])]
        return found

    def _find_aggregation_problems(self, aggregation: str) -> list[str]:
        kind = "binary" if self.options is None else self.scale_type
        known = _AGGREGATIONS[kind]
        if aggregation in known:
            return []
        return [
            f"aggregation {aggregation!r} is unknown for a criterion that is {kind}; "
            f"{suggest_name(aggregation, known)}"
        ]

    @property
    def is_binary(self) -> bool:
        """Whether it is judged MET or UNMET."""
        return self.options is None

    @property
    def is_multi_choice(self) -> bool:
        """Whether it is judged by choosing one of its options."""
        return self.options is not None

    @property
    def na_option_index(self) -> int | None:
        """The index of the first option that means "not applicable", or None."""
        return next((i for i, option in enumerate(self.options or ()) if option.na), None)

    def get_option_value(self, index: int) -> float:
        """Return the value of the option at `index`, counted from 0.

        Raises:
            ValueError: the criterion is binary, or has no such option.

        Example:
            >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
            >>> Criterion(requirement="Is it right?", options=options).get_option_value(1)
            1.0
        """
        options = self._require_options()
        if not 0 <= index < len(options):
            raise ValueError(f"Option index {index} is out of range; there are {len(options)} options")
        return options[index].value

    def find_option_by_label(self, label: str) -> int:
        """Return the index of the option with this label, ignoring case and surrounding spaces.

        Raises:
            ValueError: the criterion is binary, or has no such option.

        Example:
            >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
            >>> Criterion(requirement="Is it right?", options=options).find_option_by_label(" yes")
            1
        """
        options = self._require_options()
        wanted = label.strip().casefold()
        for index, option in enumerate(options):
            if option.label.strip().casefold() == wanted:
                return index
        raise ValueError(f"Label {label!r} not found. Available: {[option.label for option in options]}")

    def worst_option_among(self, candidate_indices: Iterable[int]) -> int:
        """Return the index of the option that scores least: lowest value, or highest for a negative weight.

        Of equal options, the first one.

        Raises:
            ValueError: the criterion is binary, or there are no candidates.

        Example:
            >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
            >>> Criterion(weight=-5, requirement="Does it lie?", options=options).worst_option_among([0, 1])
            1
        """
        options = self._require_options()
        sign = 1.0 if self.weight >= 0 else -1.0
        candidates = sorted(candidate_indices)
        if not candidates:
            raise ValueError("a criterion without options has no worst option")
        return min(candidates, key=lambda index: sign * options[index].value)

    def worst_scored_option(self) -> tuple[int, CriterionOption]:
        """Return the index and the option that scores least of those that are scored at all.

        Raises:
            ValueError: the criterion is binary.

        Example:
            >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
            >>> Criterion(requirement="Is it right?", options=options).worst_scored_option()[0]
            0
        """
        options = self._require_options()
        index = self.worst_option_among(i for i, option in enumerate(options) if not option.na)
        return index, options[index]

    def with_guaranteed_na_option(self) -> Criterion:
        """Return this criterion, with `CANONICAL_NA_OPTION` added if no option means "not applicable".

        A binary criterion is returned unchanged.

        Example:
            >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
            >>> criterion = Criterion(requirement="Is it right?", options=options)
            >>> len(criterion.with_guaranteed_na_option().options)
            3
        """
        if self.options is None or self.na_option_index is not None:
            return self
        return self.model_copy(update={"options": [*self.options, CANONICAL_NA_OPTION]})

    def _require_options(self) -> list[CriterionOption]:
        if self.options is None:
            raise ValueError(f"criterion {self.name or self.requirement!r} is binary: it has no options")
        return self.options


def _find_option_problems(options: list[CriterionOption]) -> list[str]:
    found = []
    if len(options) < 2:
        found.append("Multi-choice criterion must have at least 2 options")
    elif sum(not option.na for option in options) < 2:
        found.append("Must have at least 2 non-NA options")
    seen: set[str] = set()
    for option in options:
        folded = option.label.strip().casefold()
        if folded in seen:
            found.append(f"option label {option.label!r} is given twice, ignoring case and surrounding spaces")
        seen.add(folded)
    return found


_PARAMETERS = "what a check takes is under 'parameters'"


def find_check_problems(check: Mapping[str, Any]) -> list[str]:
    """Return the problems with the name and the keys of a check."""
    found = []
    if "name" not in check:
        found.append('check has no name; expected {"name": "…", "parameters": {…}}')
    elif not isinstance(check["name"], str) or not check["name"].strip():
        found.append(f"check has the name {check['name']!r}; expected the name of a check")
    if not isinstance(check.get("parameters", {}), dict):
        found.append(f"check has parameters of type {type(check['parameters']).__name__}; expected a mapping")
    for key in check:
        if key in ("name", "parameters"):
            continue
        right = find_nearest_key(key, ("name", "parameters"))
        found.append(f"unknown key {key!r} in check; {f'did you mean {right!r}?' if right else _PARAMETERS}")
    return found


def name_criteria(criteria: Sequence[Criterion]) -> list[str]:
    """Return a name for each criterion, unique in the rubric.

    It is the criterion's own, with its section if two share it, or `C1`, `C2`, … by position if it has none.

    Example:
        >>> name_criteria([Criterion(requirement="Is brief"), Criterion(name="Tone", requirement="Is kind")])
        ['C1', 'Tone']
        >>> name_criteria([Criterion(name="C2", requirement="Is brief"), Criterion(requirement="Is kind")])
        ['C2', 'C2 (C2)']
    """
    plain = [criterion.name or f"C{number}" for number, criterion in enumerate(criteria, start=1)]
    own = {criterion.name for criterion in criteria if criterion.name}
    times = Counter(plain)
    found: dict[str, None] = {}
    for number, (criterion, name) in enumerate(zip(criteria, plain, strict=True), start=1):
        if criterion.section and times[name] > 1:
            name = f"{criterion.section}/{name}"  # noqa: PLW2901
        while name in found or (not criterion.name and name in own):
            name = f"{name} (C{number})"  # noqa: PLW2901
        found[name] = None
    return [*found]


def with_distinct_names(criteria: Sequence[Criterion]) -> list[Criterion]:
    """Return the criteria with distinct names and ids: repeated names get a number, repeated ids are removed.

    Example:
        >>> twice = [Criterion(name="Tone", requirement="Is kind"), Criterion(name="Tone", requirement="Is calm")]
        >>> [one.name for one in with_distinct_names(twice)]
        ['Tone', 'Tone (2)']
    """
    names: set[tuple[str | None, str | None]] = set()
    ids: set[str | None] = set()
    found = []
    for criterion in criteria:
        name, id = criterion.name, None if criterion.id in ids else criterion.id
        numbers = count(2)
        while name is not None and (criterion.section, name) in names:
            name = f"{criterion.name} ({next(numbers)})"
        names.add((criterion.section, name))
        ids.add(id)
        is_same = (name, id) == (criterion.name, criterion.id)
        found.append(criterion if is_same else criterion.model_copy(update={"name": name, "id": id}))
    return found


_MOST = 1000


def format_rubric(kind: str, criteria: Sequence[Criterion], guidelines: str | None) -> str:
    """Return the `repr` of the criteria if it is short, else their number, points and names.

    Example:
        >>> long = [Criterion(name=f"C{n}", weight=2, requirement="Names a cause. " * 30) for n in range(30)]
        >>> format_rubric("Rubric", long, None)
        '<Rubric: 30 criteria, 60 points; C0 (2), C1 (2), C2 (2), ...>'
    """
    if len(criteria) * 30 < _MOST and sum(len(criterion.requirement) for criterion in criteria) < _MOST:
        more = f", guidelines={guidelines!r}" if guidelines else ""
        text = f"{kind}({list(criteria)!r}{more})"
        if len(text) <= _MOST:
            return text
    points = sum(criterion.weight for criterion in criteria if criterion.weight > 0)
    names = [f"{clip(c.name or c.requirement, 40)} ({c.weight:g})" for c in criteria]
    more = f"; guidelines {clip(guidelines, 60)!r}" if guidelines else ""
    noun = "criterion" if len(criteria) == 1 else "criteria"
    return f"<{kind}: {len(criteria)} {noun}, {points:g} points; {join_first(names)}{more}>"


def build_criterion_rows(criteria: Sequence[Criterion]) -> Iterator[dict[str, Any]]:
    """Yield a row for each criterion.

    Example:
        >>> next(build_criterion_rows([Criterion(requirement="Is brief")]))["name"]
        'C1'
    """
    for number, criterion in enumerate(criteria, start=1):
        yield {
            "name": criterion.name or f"C{number}",
            "weight": criterion.weight,
            "requirement": criterion.requirement,
            "options": None if criterion.options is None else ", ".join(option.label for option in criterion.options),
            "scale_type": None if criterion.options is None else criterion.scale_type,
            "check": None if criterion.check is None else str(criterion.check.get("name")),
            "section": criterion.section,
            "tags": ", ".join(criterion.tags) or None,
        }
