"""Published functions on the verdicts of reports and of ground truth."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.report import Report
from autorubric.errors import InputError
from autorubric.metrics.table import CannotAssessMode, NAMode, check_modes

Verdict: TypeAlias = CriterionVerdict | str
T = TypeVar("T")


def extract_verdicts_from_report(report: Report, num_criteria: int) -> list[CriterionVerdict]:
    """Return the verdict on each criterion of a report; UNMET for criteria with options, which have no verdict.

    A failed judgment is CANNOT_ASSESS, so that `filter_cannot_assess` leaves it out.

    Args:
        report: the report of one submission.
        num_criteria: the length of the list where the report has no criteria because grading failed.

    Example:
        >>> from autorubric.core.report import CriterionReport, EvaluationReport
        >>> entry = CriterionReport(requirement="Is brief", verdict="MET", reason=None)
        >>> extract_verdicts_from_report(EvaluationReport(score=1.0, report=[entry]), 1)
        [<CriterionVerdict.MET: 'MET'>]
    """
    if report.report is None:
        return [CriterionVerdict.CANNOT_ASSESS] * num_criteria
    return [
        CriterionVerdict.CANNOT_ASSESS if entry.is_error else entry.final()[0] or CriterionVerdict.UNMET
        for entry in report.report
    ]


def extract_all_verdicts_from_report(
    report: Report, criteria: Sequence[Criterion]
) -> list[CriterionVerdict | int | None]:
    """Return the verdict or option index for each criterion of a report; None if the judgment failed.

    Example:
        >>> from autorubric.core.report import CriterionReport, EvaluationReport
        >>> failed = CriterionReport(requirement="Is brief", reason=None, error="parse: empty")
        >>> extract_all_verdicts_from_report(EvaluationReport(score=None, report=[failed]), [failed])
        [None]
    """
    if report.report is None:
        return [None] * len(criteria)
    found: list[CriterionVerdict | int | None] = []
    for entry in report.report:
        verdict, choice = entry.final()
        index = choice.selected_index if choice is not None else None
        found.append(None if entry.is_error else verdict if choice is None else index)
    return found


def verdict_to_string(verdicts: Sequence[CriterionVerdict]) -> list[str]:
    """Return the names of verdicts.

    Example:
        >>> verdict_to_string([CriterionVerdict.MET])
        ['MET']
    """
    return [verdict.value for verdict in _read_verdicts(verdicts)]


def verdict_to_binary(verdicts: Sequence[CriterionVerdict]) -> list[int]:
    """Return 1 for MET, 0 for UNMET and CANNOT_ASSESS; apply `filter_cannot_assess` first to leave out the latter.

    Example:
        >>> verdict_to_binary([CriterionVerdict.MET, CriterionVerdict.UNMET])
        [1, 0]
    """
    return [int(verdict is CriterionVerdict.MET) for verdict in _read_verdicts(verdicts)]


def _read_verdicts(values: Sequence[CriterionVerdict]) -> list[CriterionVerdict]:
    """Return the values as verdicts; refuse a single verdict, which is a string and so iterable."""
    if isinstance(values, str):
        raise InputError(
            [f"expected a list of verdicts, found the single verdict {getattr(values, 'value', values)!r}"]
        )
    return [CriterionVerdict(value) for value in values]


def is_na_option(criterion: Criterion, index: int) -> bool:
    """Return whether an option means that the criterion does not apply or cannot be assessed.

    Raises:
        InputError: the criterion has no options, or fewer.

    Example:
        >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
        >>> is_na_option(Criterion(requirement="Is it right?", options=options), 1)
        False
    """
    return _find_option(criterion, index).na


def get_option_value(criterion: Criterion, index: int) -> float:
    """Return the value of an option, even if it is not scored.

    Raises:
        InputError: the criterion has no options, or fewer.

    Example:
        >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
        >>> get_option_value(Criterion(requirement="Is it right?", options=options), 1)
        1.0
    """
    return _find_option(criterion, index).value


def _find_option(criterion: Criterion, index: int) -> CriterionOption:
    """Return the option at an index; refuse binary criteria and indices out of range."""
    name, count = criterion.name or criterion.requirement, len(criterion.options or ())
    if criterion.options is None:
        raise InputError([f"Cannot get option value for binary criterion {name!r}: it has no options"])
    if not 0 <= index < count:
        raise InputError([f"Option index {index} out of range [0, {count}) for criterion {name!r}"])
    return criterion.options[index]


def resolve_ground_truth(
    ground_truth: Sequence[Verdict | int], criteria: Sequence[Criterion]
) -> list[CriterionVerdict | int]:
    """Return ground truth with option labels replaced by option indices; indices are kept.

    Raises:
        InputError: a value is not valid for its criterion, or there are too few or too many values.

    Example:
        >>> resolve_ground_truth(["MET"], [Criterion(requirement="Is brief")])
        [<CriterionVerdict.MET: 'MET'>]
    """
    if len(ground_truth) != len(criteria):
        raise InputError(
            [f"Ground truth length ({len(ground_truth)}) doesn't match criteria count ({len(criteria)})"]
        )
    return [_resolve_label(value, criterion) for value, criterion in zip(ground_truth, criteria, strict=True)]


def _resolve_label(value: Verdict | int, criterion: Criterion) -> CriterionVerdict | int:
    """Convert a label to a verdict, or to the index of its option."""
    name = criterion.name or criterion.requirement
    if criterion.options is None:
        try:
            return CriterionVerdict(value)
        except ValueError:
            known = "expected MET, UNMET or CANNOT_ASSESS"
            raise InputError([f"Invalid binary verdict {value!r} for criterion {name!r}; {known}"]) from None
    if isinstance(value, int):
        _find_option(criterion, value)
        return value
    if isinstance(value, CriterionVerdict):
        raise InputError([f"criterion {name!r} has options; expected one of them, got {value.value}"])
    return criterion.find_option_by_label(value)


def filter_cannot_assess(
    pred_verdicts: Sequence[CriterionVerdict],
    true_verdicts: Sequence[CriterionVerdict],
    mode: CannotAssessMode = "exclude",
) -> tuple[list[CriterionVerdict], list[CriterionVerdict]]:
    """Filter two lists of verdicts: leave out CANNOT_ASSESS, count it as UNMET, or keep it.

    Example:
        >>> met, unsure = CriterionVerdict.MET, CriterionVerdict.CANNOT_ASSESS
        >>> filter_cannot_assess([met, unsure], [met, met])
        ([<CriterionVerdict.MET: 'MET'>], [<CriterionVerdict.MET: 'MET'>])
    """
    check_modes(cannot_assess=mode)
    unsure, unmet = CriterionVerdict.CANNOT_ASSESS, CriterionVerdict.UNMET
    return _filter_pairs(pred_verdicts, true_verdicts, lambda verdict: verdict is unsure, unmet, mode)


def filter_na_multi_choice(
    pred_indices: Sequence[int | None],
    true_indices: Sequence[int | None],
    criterion: Criterion,
    mode: NAMode = "exclude",
) -> tuple[list[int | None], list[int | None], int, int, int]:
    """Filter two lists of option indices: leave out "not applicable" (and None), or count or keep it as `mode` says.

    Returns:
        Both lists, then counts of pairs before filtering: "not applicable" on both sides, in the prediction only,
        in the truth only.

    Raises:
        InputError: `as_category` is used for ordered options, among which "not applicable" has no rank.

    Example:
        >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
        >>> filter_na_multi_choice([0, None], [0, 1], Criterion(requirement="Is it right?", options=options))
        ([0], [0], 0, 1, 0)
    """
    check_modes(na=mode)
    if mode == "as_category" and criterion.scale_type == "ordinal" and criterion.na_option_index is not None:
        raise InputError(
            [
                f"criterion {criterion.name!r}: na_mode='as_category' needs nominal options; "
                "use 'exclude' or 'as_unmet'"
            ]
        )
    worst, _ = criterion.worst_scored_option()

    def is_abstention(index: int | None) -> bool:
        return index is None or is_na_option(criterion, index)

    sides = [(is_abstention(a), is_abstention(b)) for a, b in zip(pred_indices, true_indices, strict=True)]
    kept = _filter_pairs(pred_indices, true_indices, is_abstention, worst, mode)
    return *kept, sides.count((True, True)), sides.count((True, False)), sides.count((False, True))


def _filter_pairs(
    predicted: Sequence[T], truth: Sequence[T], abstains: Callable[[T], bool], worst: T, mode: CannotAssessMode
) -> tuple[list[T], list[T]]:
    """Filter pairs of predicted and true values: leave out abstentions, or replace by `worst`, or keep them."""
    pairs = list(zip(predicted, truth, strict=True))
    if mode == "exclude":
        pairs = [pair for pair in pairs if not any(abstains(value) for value in pair)]
    if mode == "as_unmet":
        pairs = [(worst if abstains(a) else a, worst if abstains(b) else b) for a, b in pairs]
    return [a for a, _ in pairs], [b for _, b in pairs]
