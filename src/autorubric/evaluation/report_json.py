"""Reports as JSON and back, nothing lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from autorubric.core.report import (
    CriterionReport,
    EnsembleCriterionReport,
    EnsembleEvaluationReport,
    EvaluationReport,
)
from autorubric.errors import InputError

Report: TypeAlias = EvaluationReport | EnsembleEvaluationReport


def report_json(report: Report) -> str:
    """The report as one line of JSON: every field of it, the criteria under `criterion_reports`.

    Of the criteria, which are many, fields that hold their default are left out.

    Example:
        >>> report_json(EvaluationReport(score=0.5))
        '{"report_type":"single","score":0.5,"raw_score":null,"llm_raw_score":null,"cannot_assess_count":0,...}'
    """
    kind = "ensemble" if isinstance(report, EnsembleEvaluationReport) else "single"
    head = report.model_dump_json(exclude={"report"})
    parts = [f'{{"report_type":"{kind}"', head[1:-1]]
    if report.report is not None:
        criteria = ",".join(criterion.model_dump_json(exclude_defaults=True) for criterion in report.report)
        parts.append(f'"criterion_reports":[{criteria}]')
    return ",".join(filter(None, parts)) + "}"


def report_from(record: Mapping[str, Any]) -> Report:
    """The report of JSON values, as `report_json` writes them.

    Raises:
        InputError: they are no report.

    Example:
        >>> report_from({"report_type": "single", "score": 0.5}).score
        0.5
    """
    values = {key: value for key, value in record.items() if key not in ("report_type", "criterion_reports")}
    criteria = record.get("criterion_reports")
    try:
        if record["report_type"] == "ensemble":
            values["report"] = _each(EnsembleCriterionReport, criteria)
            return EnsembleEvaluationReport.model_validate(values)
        values["report"] = _each(CriterionReport, criteria)
        return EvaluationReport.model_validate(values)
    except (KeyError, ValueError) as error:
        raise InputError(f"not a report: {error}") from None


def _each(kind: Any, records: Any) -> list[Any] | None:
    return None if records is None else [kind.model_validate(record) for record in records]
