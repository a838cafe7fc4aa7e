"""A review as one HTML page without script, and its findings in the shapes of lint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autorubric.charts.page import page_template
from autorubric.core.display import counted
from autorubric.linting.finding import SEVERITIES, Finding, Rule
from autorubric.linting.raw_rubric import Place
from autorubric.reviewing.principles import principles
from autorubric.reviewing.requests import ReviewFinding


def as_lint_finding(finding: ReviewFinding, file: str) -> Finding:
    """A finding in the shape of lint's, for terminals and SARIF."""
    message = f"{finding.reason.rstrip('.')} ({finding.quote!r})" if finding.quote else finding.reason.rstrip(".")
    proposed = f"Proposed: {finding.requirement}" if finding.requirement else "No wording was proposed"
    severity = next(one for one in SEVERITIES if one == finding.severity)
    place = Place(file)
    return Finding(place, finding.number or None, finding.criterion, finding.principle, severity, message, proposed)


def review_rules() -> list[Rule]:
    """The principles in the shape of lint's rules, for SARIF."""
    return [
        Rule(one.id, one.severity, one.fault.rstrip("."), lambda _: iter(())) for one in principles(in_context=True)
    ]


def headline(findings: Sequence[ReviewFinding], failures: int) -> str:
    """The counts in one sentence.

    Example:
        >>> headline([], 0)
        '0 errors, 0 warnings, 0 notes'
    """
    counts = ", ".join(counted(sum(one.severity == name for one in findings), name) for name in SEVERITIES)
    return f"{counts}; {counted(failures, 'part')} not reviewed" if failures else counts


def page(record: Mapping[str, Any]) -> str:
    """The report of a review.

    Args:
        record: what `review.json` holds.
    """
    return page_template("autorubric.reviewing").render(record=record, severities=SEVERITIES)
