"""The score of judged criteria: what abstained is settled as configured, what failed is never scored."""

from __future__ import annotations

from collections.abc import Iterable

from autorubric.core.criterion import Criterion
from autorubric.core.report import CriterionReport, EnsembleCriterionReport
from autorubric.core.scoring import Cell, score
from autorubric.core.verdict import CannotAssessConfig


def worst_value(criterion: Criterion) -> float:
    """The value that costs most, for abstentions under the FAIL strategy.

    Example:
        >>> worst_value(Criterion(weight=-4, requirement="Invents a source"))
        1.0
    """
    if criterion.options is not None:
        return criterion.worst_scored_option()[1].value
    return 1.0 if criterion.weight < 0 else 0.0


def score_reports(
    reports: Iterable[CriterionReport | EnsembleCriterionReport],
    config: CannotAssessConfig,
    normalize: bool = True,
) -> float | None:
    """The score of judged criteria, or None where one failed or nothing is left to score.

    To score what was judged beside failures, leave those out: `[r for r in reports if not r.is_error]`.

    Example:
        >>> met = CriterionReport(requirement="Is brief", verdict="MET", reason=None)
        >>> failed = CriterionReport(requirement="Is polite", reason=None, error="parse: the reply is empty")
        >>> score_reports([met], CannotAssessConfig()), score_reports([met, failed], CannotAssessConfig())
        (1.0, None)
    """
    cells = []
    for report in reports:
        if report.is_error:
            return None
        criterion = report.criterion if isinstance(report, EnsembleCriterionReport) else report
        cells.append(Cell(criterion.weight, report.score_value, worst_value(criterion)))
    return score(cells, config, normalize=normalize)
