"""The verdicts of a report, as values and as codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from autorubric.core.criterion import Criterion
from autorubric.core.report import (
    CriterionReport,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    EvaluationReport,
)
from autorubric.core.verdict import CriterionVerdict
from autorubric.core.votes import AggregatedMultiChoiceVerdict, JudgeVote, MultiChoiceJudgeVote, MultiChoiceVerdict
from autorubric.errors import InputError
from autorubric.metrics.column import ABSTAINED, FAILED, MET_CODE, UNMET_CODE, Column

Report: TypeAlias = EvaluationReport | EnsembleEvaluationReport
Entry: TypeAlias = CriterionReport | EnsembleCriterionReport
Verdict: TypeAlias = CriterionVerdict | str

_MET, _UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET


def criterion_of(entry: Entry) -> Criterion:
    """What a report's entry is about.

    Example:
        >>> criterion_of(CriterionReport(requirement="Is brief", verdict="MET", reason=None)).requirement
        'Is brief'
    """
    return entry.criterion if isinstance(entry, EnsembleCriterionReport) else entry


def final_word(entry: Entry) -> tuple[CriterionVerdict | None, MultiChoiceVerdict | None]:
    """The verdict or the option that counts.

    Example:
        >>> final_word(CriterionReport(requirement="Is brief", verdict="MET", reason=None))
        (<CriterionVerdict.MET: 'MET'>, None)
    """
    if isinstance(entry, EnsembleCriterionReport):
        return entry.final_verdict, entry.final_multi_choice_verdict
    return entry.verdict, entry.multi_choice_verdict


def entry_code(entry: Entry, column: Column) -> int:
    """The code of the word that counts: a category, ABSTAINED or FAILED.

    Raises:
        InputError: the word is not one of the criterion's.

    Example:
        >>> entry = CriterionReport(requirement="Is brief", verdict="UNMET", reason=None)
        >>> entry_code(entry, Column.of(entry, 0))
        1
    """
    if entry.error is not None:
        return FAILED
    verdict, choice = final_word(entry)
    if choice is not None:
        return ABSTAINED if choice.na else _choice_code(choice, column)
    return _binary_code(verdict, column)


def _choice_code(choice: MultiChoiceVerdict | MultiChoiceJudgeVote, column: Column) -> int:
    """An option is known by its label, as those of the labels may stand in another order."""
    label = choice.selected_label
    if column.kind == "binary":
        raise InputError(f"criterion {column.name!r} asks for MET or UNMET, but the run chose {label!r}")
    if label is None:
        return column.code_of_option(choice.selected_index)
    try:
        return column.code_of_label(label)
    except ValueError as error:
        raise InputError(f"criterion {column.name!r} has no option {label!r}, which the run chose") from error


def _binary_code(verdict: CriterionVerdict | None, column: Column) -> int:
    code = verdict_code(verdict)
    if verdict is not None and code >= 0 and column.kind != "binary":
        raise InputError(f"criterion {column.name!r} asks for one of its options, but the run says {verdict.value}")
    return code


def panel_mean(entry: Entry) -> float:
    """What the options that a panel chose come to before one of them stands for all; NaN where nothing is averaged.

    Example:
        >>> panel_mean(CriterionReport(requirement="Is brief", verdict="UNMET", reason=None))
        nan
    """
    choice = final_word(entry)[1]
    return choice.aggregated_value if isinstance(choice, AggregatedMultiChoiceVerdict) else math.nan


def verdict_code(verdict: CriterionVerdict | None) -> int:
    """The code of a binary verdict; None is FAILED.

    Example:
        >>> verdict_code(CriterionVerdict.MET), verdict_code(None)
        (0, -2)
    """
    if verdict is _MET:
        return MET_CODE
    if verdict is _UNMET:
        return UNMET_CODE
    return FAILED if verdict is None else ABSTAINED


def vote_code(vote: JudgeVote | MultiChoiceJudgeVote, column: Column) -> int:
    """The code of one judge's vote.

    Raises:
        InputError: the word is not one of the criterion's.

    Example:
        >>> vote = JudgeVote(judge_id="a", verdict="MET", reason=None)
        >>> vote_code(vote, Column.of(Criterion(requirement="Is brief"), 0))
        0
    """
    if vote.error is not None:
        return FAILED
    if isinstance(vote, MultiChoiceJudgeVote):
        return ABSTAINED if vote.na else _choice_code(vote, column)
    return _binary_code(vote.verdict, column)


def label_code(label: Verdict, column: Column) -> int:
    """The code of one value of ground truth.

    Example:
        >>> label_code("MET", Column.of(Criterion(requirement="Is brief"), 0))
        0
    """
    if column.kind == "binary":
        return verdict_code(label if isinstance(label, CriterionVerdict) else CriterionVerdict(label.strip().upper()))
    return column.code_of_label(label)


def extract_verdicts_from_report(report: Report) -> list[CriterionVerdict]:
    """The verdicts on the binary criteria of a report, those that failed left out.

    Example:
        >>> entry = CriterionReport(requirement="Is brief", verdict="MET", reason=None)
        >>> extract_verdicts_from_report(EvaluationReport(score=1.0, report=[entry]))
        [<CriterionVerdict.MET: 'MET'>]
    """
    found = (final_word(entry)[0] for entry in report.report or [])
    return [verdict for verdict in found if verdict is not None]


def extract_all_verdicts_from_report(report: Report) -> list[Verdict | None]:
    """For each criterion of a report its verdict, the label of its option, or None where there is neither.

    Example:
        >>> failed = CriterionReport(requirement="Is brief", reason=None, error="parse: empty")
        >>> extract_all_verdicts_from_report(EvaluationReport(score=None, report=[failed]))
        [None]
    """
    found: list[Verdict | None] = []
    for entry in report.report or []:
        verdict, choice = final_word(entry)
        label = choice.selected_label if choice is not None else None
        found.append(None if entry.is_error else verdict if choice is None else label)
    return found


def verdict_to_string(verdict: Verdict) -> str:
    """The name of a verdict, or the label itself.

    Example:
        >>> verdict_to_string(CriterionVerdict.MET)
        'MET'
    """
    return verdict.value if isinstance(verdict, CriterionVerdict) else verdict


def verdict_to_binary(verdict: CriterionVerdict) -> int | None:
    """1 for MET, 0 for UNMET, None for CANNOT_ASSESS.

    Example:
        >>> verdict_to_binary(CriterionVerdict.UNMET)
        0
    """
    return {MET_CODE: 1, UNMET_CODE: 0}.get(verdict_code(verdict))


def is_na_option(criterion: Criterion, index: int | None) -> bool:
    """Whether an option means that the criterion does not apply or cannot be assessed.

    Example:
        >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
        >>> is_na_option(Criterion(requirement="Is it right?", options=options), 1)
        False
    """
    return Column.of(criterion, 0).code_of_option(index) == ABSTAINED


def get_option_value(criterion: Criterion, index: int) -> float | None:
    """The value of an option; None where it is not scored.

    Example:
        >>> options = [{"label": "No", "value": 0}, {"label": "Yes", "value": 1}]
        >>> get_option_value(Criterion(requirement="Is it right?", options=options), 1)
        1.0
    """
    return None if is_na_option(criterion, index) else criterion.get_option_value(index)


def resolve_ground_truth(
    ground_truth: Sequence[Verdict], criteria: Sequence[Criterion]
) -> list[CriterionVerdict | int]:
    """Ground truth with each label of an option as the option's index.

    Raises:
        ValueError: a label is none of its criterion's, or there are too few or too many.

    Example:
        >>> resolve_ground_truth(["MET"], [Criterion(requirement="Is brief")])
        [<CriterionVerdict.MET: 'MET'>]
    """
    return [
        CriterionVerdict(value) if criterion.options is None else criterion.find_option_by_label(value)
        for value, criterion in zip(ground_truth, criteria, strict=True)
    ]
