"""Human verdicts on one item: read by its criteria, and as cells of a score."""

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_high, median_low, multimode
from typing import Any, TypeAlias

from autorubric.core.criterion import Criterion, CriterionOption, name_criteria
from autorubric.core.described_scores import POINTS
from autorubric.core.judgment import TRUTH_WORDS, VERDICT_WORDS, CriterionVerdict
from autorubric.core.rubric import Rubric
from autorubric.core.scoring import Cell, build_cell
from autorubric.core.wording import fold_text
from autorubric.errors import InputError, pluralize
from autorubric.files.keys import find_nearest_key, suggest_name
from autorubric.rows.columns import ROLES, fold_name

GroundTruth: TypeAlias = list[CriterionVerdict | str]

_VERDICTS: dict[Any, CriterionVerdict | str] = {verdict.value: verdict for verdict in CriterionVerdict}
_WORDS = VERDICT_WORDS | TRUTH_WORDS
_GOOD, _BAD = "pass|passed|đạt|通过|对|✓|✔|√|✅|☑", "fail|failed|không đạt|不通过|未通过|错|✗|✘|✖|×|❌|☒"
_OUTCOMES = {fold_text(word): sign for words, sign in ((_GOOD, "MET"), (_BAD, "UNMET")) for word in words.split("|")}
"""Words for a good or bad result; for a pitfall, they do not say whether it is met."""
_FOLDS = str.strip, str.casefold, fold_text  # labels and names may differ in nothing but an accent
_NUMBERED = re.compile(r"(?:\w+ )?(\d+(?:\.\d+)?)\s*(?:[.:)(–—-]|$)")
"""The number of a level, such as "2", "2 - Fair" or "Level 2: Fair"."""
_USUAL = frozenset(name for role in ROLES.values() for name in role.names)
NEAR = "column {!r} is not read; rename it to {!r} if it has the labels of this criterion"
"""The message on a column that `find_near_columns` finds."""


class GroundTruthReader:
    """Reads ground truth for one rubric.

    Verdicts on binary criteria, in any case, and words such as yes and 1 become `CriterionVerdict`; labels of options
    are unchanged.

    Example:
        >>> reader = GroundTruthReader(Rubric([Criterion(requirement="Is brief")]))
        >>> problems = []
        >>> reader.read([True], problems), reader.read(["maybe"], problems), problems
        ([<CriterionVerdict.MET: 'MET'>], None, ["ground_truth[0]: invalid verdict 'maybe'. Must be ..."])
    """

    def __init__(self, rubric: Rubric) -> None:
        self._criteria = rubric.rubric
        # A table per criterion from accepted spellings to verdicts: the common case is one look-up.
        self._tables: list[dict[Any, CriterionVerdict | str]] = [
            _VERDICTS if criterion.options is None else {option.label: option.label for option in criterion.options}
            for criterion in self._criteria
        ]

    def read(self, values: Sequence[Any] | Mapping[str, Any], problems: list[str]) -> GroundTruth | None:
        """Read the verdicts of one item; return None after adding problems to `problems`.

        Args:
            values: a verdict for each criterion, in order or by the criterion's name.
            problems: collects a sentence for each problem.
        """
        if isinstance(values, Mapping):
            ordered = self._order_values(values, problems)
            if ordered is None:
                return None
            values = ordered
        try:
            return [table[value] for table, value in zip(self._tables, values, strict=True)]
        except (KeyError, ValueError, TypeError):
            return self._read_with_care(values, problems)

    def check(self, label: str) -> None:
        """Check that a label is one of the first criterion's.

        Raises:
            InputError: it is not; the message has the valid labels.
        """
        try:
            _check_verdict(self._criteria[0], label)
        except ValueError:
            options = self._criteria[0].options
            known = list(CriterionVerdict.__members__) if options is None else [option.label for option in options]
            told = f"label {label!r} is not one of {', '.join(known)}{' (or yes, no)' * (options is None)}"
            if options is None and fold_text(label.strip()) in _OUTCOMES:
                told += "; it does not say whether a pitfall is met"
            raise InputError(f"{told}; leave the cell empty if there is no label") from None

    def _order_values(self, values: Mapping[str, Any], problems: list[str]) -> list[Any] | None:
        """Verdicts by name in the order of the criteria."""
        by_place: dict[int, Any] = {}
        found: list[str] = []
        for name, value in values.items():
            try:
                place = find_criterion(str(name), self._criteria)
            except InputError as error:
                found += (f"ground_truth: {problem}" for problem in error.problems)
                continue
            if place in by_place:
                found.append(f"ground_truth has criterion {str(name)!r} twice")
            by_place[place] = value
        names = name_criteria(self._criteria)
        missing = [name for place, name in enumerate(names) if place not in by_place]
        if missing and not found:
            found.append(f"ground_truth has no verdict on {', '.join(map(repr, missing))}")
        problems += found
        return None if found else [by_place[place] for place in range(len(names))]

    def _read_with_care(self, values: Sequence[Any], problems: list[str]) -> GroundTruth | None:
        if isinstance(values, str) or not isinstance(values, Sequence):
            problems.append(f"ground_truth must be a list of verdicts, got {type(values).__name__}")
            return None
        if len(values) != len(self._criteria):
            criteria = pluralize(len(self._criteria), "criterion")
            problems.append(f"Ground truth has {pluralize(len(values), 'value')}, but rubric has {criteria}")
            return None
        verdicts: GroundTruth = []
        found: list[str] = []
        for index, (criterion, value) in enumerate(zip(self._criteria, values, strict=True)):
            is_word = criterion.options is None and isinstance(value, str | int | float)
            meant = match_label(criterion, str(value)) if is_word else None
            try:
                verdicts.append(_check_verdict(criterion, value if meant is None else meant))
            except ValueError as error:
                found.append(f"ground_truth[{index}]: {error}")
        problems += found
        return None if found else verdicts


def find_criterion(name: str, rubric: Sequence[Criterion] | Rubric) -> int:
    """Return the index of the criterion with this name or requirement; case and accents matter only if several match.

    Raises:
        InputError: no criterion or several match.

    Example:
        >>> find_criterion("tone", [Criterion(name="Tone", requirement="Is kind")])
        0
        >>> find_criterion("Tome", [Criterion(name="Tone", requirement="Is kind")])
        Traceback (most recent call last):
        autorubric.errors.InputError: no criterion is named 'Tome'; did you mean 'Tone'?
    """
    criteria = list(rubric)
    names = name_criteria(criteria)
    wanted = name.strip()
    given = [criterion.name or "" for criterion in criteria]
    for called in (names, given, [criterion.requirement for criterion in criteria]):
        for fold in _FOLDS:
            places = [place for place, own in enumerate(called) if fold(own) == fold(wanted)]
            if len(places) == 1:
                return places[0]
            if places and fold is fold_text:
                distinct = ", ".join(map(repr, names))
                raise InputError(f"several criteria are named {wanted!r}; refer to them as {distinct}")
    raise InputError(f"no criterion is named {wanted!r}; {suggest_name(wanted, names)}")


def match_label(criterion: Criterion, word: str, notes: list[str] | None = None) -> str | None:
    """Return the label that a word in a table means, or None.

    Words such as yes, true, 1 and accept mean that a binary criterion is met, and so does pass, unless the criterion
    is a pitfall; a number means the option whose label is that number, or else the option with that many points,
    unless labels such as "2" or "Level 2" have other numbers than points.

    Args:
        criterion: what is labelled.
        word: the word.
        notes: collects a sentence, once, if the word differs from the label.

    Example:
        >>> is_brief = Criterion(requirement="Is brief")
        >>> [match_label(is_brief, word) for word in ("met", "No", "1.0", "not met", "maybe")]
        ['MET', 'UNMET', 'MET', 'UNMET', None]
    """
    number, options = parse_number(word), criterion.options
    if options is None:
        plain = fold_text(word).replace("_", " ").removesuffix("\ufe0f")
        key = " ".join(plain.split()) if number is None else f"{number + 0:.17g}"
        found = _WORDS.get(key) or (_OUTCOMES.get(key) if criterion.weight > 0 else None)
        meant = None if found is None else CriterionVerdict(found).value
    else:
        labels = [option.label for option in options]
        readings = ([own for own in labels if fold(own.strip()) == fold(word.strip())] for fold in _FOLDS)
        alike = next(filter(None, readings), [])
        if not alike and number is not None:
            alike = [own for own in labels if parse_number(own) == number]
            alike = alike or _find_by_points(options, number)
        meant = alike[0] if len(alike) == 1 else None
    if notes is not None and meant is not None and meant.casefold() != word.casefold():
        _add_reading(notes, f"{word!r} is read as {meant}")
    return meant


def _add_reading(notes: list[str], reading: str) -> None:
    """Add how a label is read to the one note on labels."""
    place = next((at for at, note in enumerate(notes) if note.startswith("label ")), None)
    if place is None:
        notes.append(f"label {reading}")
    elif reading not in notes[place].removeprefix("label ").split(", "):
        notes[place] += f", {reading}"


def _find_by_points(options: Sequence[CriterionOption], points: float) -> list[str]:
    """Return the labels of options with these points; empty if a label has another number, which may be meant."""
    numbers = ((option, _NUMBERED.match(option.label.strip())) for option in options)
    if any(found and float(found[1]) != option.metadata.get(POINTS) for option, found in numbers):
        return []
    return [option.label for option in options if option.metadata.get(POINTS) == points]


def choose_majority(criterion: Criterion | None, labels: Sequence[str]) -> str | None:
    """Return the most frequent label; in a tie, the middle label if the options are ordered, else None.

    Without a criterion, the options have no order.

    An abstention or "not applicable" has no rank, so a tie with one has no middle label.

    Example:
        >>> how = Criterion(requirement="How?", options=[{"label": str(n), "value": n / 5} for n in range(1, 6)])
        >>> choose_majority(how, "445"), choose_majority(how, "524"), choose_majority(how, "24")
        ('4', '4', None)
    """
    most = multimode(labels)
    if len(most) == 1:
        return most[0]
    options = () if criterion is None or criterion.scale_type == "nominal" else criterion.options or ()
    order = [option.label for option in sorted(options, key=lambda option: option.value) if not option.na]
    given = [order.index(label) for label in labels if label in order] if {*most} <= {*order} else []
    return order[median_low(given)] if given and median_low(given) == median_high(given) else None


def parse_number(word: str) -> float | None:
    """Return the number in a word, or None."""
    try:
        return float(word)
    except ValueError:
        return None


def find_near_columns(columns: Iterable[str], criteria: Sequence[Criterion]) -> dict[str, str]:
    """Return the columns with nearly the name of a criterion that has no column, each with that name.

    Example:
        >>> find_near_columns(["id", "Tome"], [Criterion(name="Tone", requirement="Is kind")])
        {'Tome': 'Tone'}
    """
    by_key = {fold_name(column): column for column in columns}
    missing: list[str] = []
    for name, criterion in zip(name_criteria(criteria), criteria, strict=True):
        keys = {fold_name(name), fold_name(criterion.requirement)}
        if by_key.keys().isdisjoint(keys):
            missing += (name, criterion.requirement)
        by_key = {key: column for key, column in by_key.items() if key not in keys}
    near = {column: find_nearest_key(column, missing) for key, column in by_key.items() if key not in _USUAL}
    return {column: name for column, name in near.items() if name is not None}


def _check_verdict(criterion: Criterion, value: Any) -> CriterionVerdict | str:
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


def build_cells(rubric: Rubric, verdicts: Sequence[CriterionVerdict | str]) -> list[Cell]:
    """Return the cells of verdicts on the first criteria of a rubric.

    Raises:
        InputError: a verdict is not valid for its criterion, or there are more verdicts than criteria.

    Example:
        >>> from autorubric.core.criterion import Criterion
        >>> build_cells(Rubric([Criterion(weight=3, requirement="Is brief")]), ["MET"])
        [Cell(weight=3.0, value=1.0, worst=0.0, failed=False)]
    """
    if len(verdicts) > len(rubric):
        raise InputError(f"Expected {pluralize(len(rubric), 'verdict')}, got {len(verdicts)}")
    return [
        _build_cell(index, criterion, verdict)
        for index, (criterion, verdict) in enumerate(zip(rubric, verdicts, strict=False))
    ]


def _build_cell(index: int, criterion: Criterion, verdict: CriterionVerdict | str) -> Cell:
    if criterion.is_multi_choice:
        if isinstance(verdict, CriterionVerdict) or not isinstance(verdict, str):
            kind = type(verdict).__name__
            raise InputError(f"Criterion {index} is multi-choice but got {kind}; expected option label string")
        return build_cell(criterion, verdict)
    try:
        return build_cell(criterion, verdict)
    except ValueError:
        raise InputError(
            f"Criterion {index} is binary but got invalid verdict '{verdict}'. "
            "Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'."
        ) from None


MAJORITY = "majority"
