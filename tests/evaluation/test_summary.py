"""The figures of a run, gathered from its items."""

from __future__ import annotations

import pytest

from autorubric import CriterionReport, DataItem, EvaluationReport, ItemResult
from autorubric.evaluation.summary import EvaluationSummary


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("infrastructure: timeout: openai/m: no reply after 60 s", "infrastructure: timeout"),
        ("parse: refusal: the model refused: I cannot", "parse: refusal"),
        ("parse: 2 of 3 judges failed where all are needed: a: b", "parse"),
        ("check: check 'language' cannot decide: too little text", "check"),
        ("unknown: ValueError: no such thing", "unknown: ValueError"),
        ("odd", "odd"),
    ],
)
def test_failures_are_counted_by_category_and_kind(error: str, reason: str) -> None:
    summary = EvaluationSummary(1)
    failed = CriterionReport(requirement="Is brief", reason=None, error=error)
    summary.add(ItemResult(0, DataItem("Essay.", ""), EvaluationReport(score=None, report=[failed]), 1.0, error))
    assert summary.reasons == {reason: 1}
