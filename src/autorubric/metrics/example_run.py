"""A small graded run, for examples and first steps."""

from autorubric.core.criterion import Criterion
from autorubric.core.report import CriterionReport, EvaluationReport, Report
from autorubric.core.rubric import Rubric
from autorubric.dataset import RubricDataset

_VERDICTS = {"0": "UNMET", "1": "MET"}


def example_run() -> tuple[RubricDataset, list[Report | None]]:
    """Return six graded submissions with three criteria, four of them labelled, for examples and first steps."""
    rubric = Rubric(
        [
            Criterion(name="Causes", weight=30, requirement="Names two causes"),
            Criterion(name="Style", weight=10, requirement="Reads well"),
            Criterion(name="Errors", weight=-10, requirement="Has a wrong date"),
        ]
    )
    dataset = RubricDataset("Explain the Industrial Revolution", rubric)
    reports: list[Report | None] = []
    rows = (("100", "110"), ("110", "110"), ("010", "000"), ("001", "001"), ("110", None), ("000", None))
    for number, (judged, labels) in enumerate(rows):
        dataset.add_item(
            f"Essay {number}", f"essay {number}", None if labels is None else [_VERDICTS[x] for x in labels]
        )
        verdicts = [_VERDICTS[x] for x in judged]
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=verdict, reason=None)
            for criterion, verdict in zip(rubric, verdicts, strict=True)
        ]
        reports.append(EvaluationReport(score=rubric.compute_score(verdicts), report=entries))
    return dataset, reports
