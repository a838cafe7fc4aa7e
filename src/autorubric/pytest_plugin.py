"""A pytest plugin: `assert_rubric(submission, rubric, judge=…, at_least=0.8)`, and a marker for tests that use it.

It is installed with the package. Large modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.errors import InputError
from autorubric.files.printable import align_columns

if TYPE_CHECKING:
    import pytest

    from autorubric.core.report import EnsembleEvaluationReport
    from autorubric.core.rubric import Rubric
    from autorubric.graders.criterion_grader import CriterionGrader
    from autorubric.llm.config import LLMConfig

_WIDEST = 60

_graders: list[tuple[str | LLMConfig | None, CriterionGrader]] = []


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that `-m "not rubric"` deselects the tests that call a model."""
    config.addinivalue_line("markers", "rubric: grades text by a rubric, and may ask a model")


def assert_rubric(
    submission: str,
    rubric: Rubric | str | Path | list[Any] | Mapping[str, Any],
    *,
    judge: str | LLMConfig | CriterionGrader | None = None,
    at_least: float = 0.8,
    query: str | None = None,
    reference: str | None = None,
) -> EnsembleEvaluationReport:
    """Grade a submission, and fail with a table of verdicts if its score is too low or missing.

    Args:
        submission: the text.
        rubric: a rubric, its file, or its criteria as plain values.
        judge: `provider/model`, `MODEL@BASE_URL`, a configuration, or a grader; None if every criterion has a check.
        at_least: the minimum score, 0 to 1.
        query: the query that the submission answers.
        reference: an exemplar.

    Returns:
        The report, for further assertions.

    Raises:
        AssertionError: the score is lower, or a judgment failed.
        InputError: `at_least` is not a score, or the rubric cannot be used; before a call is paid for.

    Example:
        >>> rubric = [{"name": "short", "requirement": "Contains at most 3 words."}]
        >>> assert_rubric("Far too many words here.", rubric, judge="builtin/offline")
        Traceback (most recent call last):
        AssertionError: score 0.00, expected at least 0.80
          short  weight 10  UNMET  Checked 'at most 3 words' by counting or matching: not kept.
        >>> assert_rubric("Brief.", rubric, judge="builtin/offline", at_least=80)
        Traceback (most recent call last):
        autorubric.errors.InputError: at_least is 80; expected a score from 0 to 1
    """
    __tracebackhide__ = True
    if not 0 <= at_least <= 1:
        raise InputError(f"at_least is {at_least!r}; expected a score from 0 to 1")
    found = _load_rubric(rubric)
    report: EnsembleEvaluationReport = found.grade_sync(submission, _find_grader(judge), query, reference)
    if report.score is None or report.score < at_least:
        score = "no score" if report.score is None else f"score {report.score:.2f}"
        why = f" ({report.error})" if report.error else ""
        raise AssertionError(f"{score}{why}, expected at least {at_least:.2f}\n{format_verdicts(report)}")
    return report


def format_verdicts(report: EnsembleEvaluationReport) -> str:
    """Return one line per criterion: its name, weight, verdict and reason.

    Example:
        >>> from autorubric.core.report import EnsembleEvaluationReport
        >>> format_verdicts(EnsembleEvaluationReport(score=None, report=[]))
        ''
    """
    rows = []
    for number, found in enumerate(report.report or [], start=1):
        name, weight = found.criterion.name or f"C{number}", f"weight {found.criterion.weight:g}"
        rows.append((name[:_WIDEST], weight, found.word or "FAILED", found.error or found.final_reason or ""))
    return "\n".join(align_columns(rows))


def _load_rubric(given: Any) -> Rubric:
    from autorubric.core.rubric import Rubric

    if isinstance(given, Rubric):
        return given
    return Rubric.from_file(given) if isinstance(given, str | Path) else Rubric.from_dict(given)


def _find_grader(judge: Any) -> CriterionGrader:
    """Return the grader of a judge, built once for each model."""
    from autorubric.graders.criterion_grader import CriterionGrader
    from autorubric.llm.config import LLMConfig

    if isinstance(judge, CriterionGrader):
        return judge
    for known, grader in _graders:
        if known == judge:
            return grader
    if judge is None:
        made = CriterionGrader.of_checks()
    else:
        config = LLMConfig(judge, temperature=0.0) if isinstance(judge, str) else judge
        made = CriterionGrader(judge_model_config=config)
    _graders.append((judge, made))
    return made
