"""The base class of graders."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar, cast

from autorubric.background import wait_for
from autorubric.core.criterion import Criterion
from autorubric.core.report import Report
from autorubric.core.rubric import can_take_guidelines
from autorubric.core.scoring import LengthPenalty
from autorubric.core.submission import ToGradeInput, normalize_to_grade_input
from autorubric.errors import ConfigError, warn
from autorubric.graders.reporting import with_length_penalty

ReportT = TypeVar("ReportT")


class Grader(ABC, Generic[ReportT]):
    """Grades submissions; subclasses define how to judge, and how judgments become a report.

    Args:
        length_penalty: the penalty for long submissions, or None.
        normalize: True for scores in [0, 1], False for bare sums of value · weight.

    Example:
        >>> import asyncio
        >>> from autorubric.core.report import EvaluationReport
        >>> class Brevity(Grader[EvaluationReport]):
        ...     async def judge(self, to_grade, rubric, query=None, reference_submission=None):
        ...         return len(to_grade.split()) <= 3
        ...     async def aggregate(self, judge_results, *, normalize=True):
        ...         return EvaluationReport(score=1.0 if judge_results else 0.0)
        >>> asyncio.run(Brevity().grade("Far too many words", [])).score
        0.0
    """

    _warned = False  # that `judge` takes no guidelines

    def __init__(self, *, length_penalty: LengthPenalty | None = None, normalize: bool = True) -> None:
        if length_penalty is not None and not isinstance(length_penalty, LengthPenalty):
            raise ConfigError(f"length_penalty is of type {type(length_penalty).__name__}; expected LengthPenalty")
        self.length_penalty = length_penalty
        self.normalize = normalize

    @abstractmethod
    async def judge(
        self,
        to_grade: str,
        rubric: list[Criterion],
        query: str | None = None,
        reference_submission: str | None = None,
    ) -> Any:
        """Return the results of the judges, in a type of the grader's choice.

        A grader that uses the rubric's guidelines takes a keyword `guidelines` as well.
        """

    @abstractmethod
    async def aggregate(self, judge_results: Any, *, normalize: bool = True) -> ReportT:
        """Build the report from the result of `judge`."""

    async def grade(
        self,
        to_grade: ToGradeInput,
        rubric: list[Criterion],
        query: str | None = None,
        reference_submission: str | None = None,
        *,
        guidelines: str | None = None,
    ) -> ReportT:
        """Grade one submission, and return the report.

        Args:
            to_grade: the submission, or a mapping with its `thinking` and `output`.
            rubric: the criteria.
            query: the query that the submission answers.
            reference_submission: an exemplary submission.
            guidelines: advice that applies to every criterion.
        """
        given = self._pass_guidelines(guidelines)
        found = await self.judge(_as_text(to_grade), rubric, query, reference_submission, **given)
        report = await self.aggregate(found, normalize=self.normalize)
        if isinstance(report, Report):
            penalty = self.length_penalty
            return cast("ReportT", with_length_penalty(report, to_grade, penalty, normalize=self.normalize))
        return report

    def grade_sync(
        self,
        to_grade: ToGradeInput,
        rubric: list[Criterion],
        query: str | None = None,
        reference_submission: str | None = None,
        *,
        guidelines: str | None = None,
    ) -> ReportT:
        """Return the synchronous version of `grade`; also works inside a running event loop (a notebook)."""
        return wait_for(self.grade(to_grade, rubric, query, reference_submission, guidelines=guidelines))

    def fingerprint(self) -> str | None:
        """Return a string that differs for graders whose reports may differ; None if unknown.

        An evaluation keeps a finished item of an earlier run if item and fingerprint are the same. With None, every
        item is graded again, so that no other grader's report is used.
        """
        return None

    def _pass_guidelines(self, guidelines: str | None) -> dict[str, str]:
        """Return the guidelines as a keyword argument for `judge`, if there are any and it accepts them."""
        if guidelines is not None and not isinstance(guidelines, str):
            raise TypeError(f"Rubric guidelines must be a str or None, got {type(guidelines).__name__}")
        if guidelines is None or not guidelines.strip():
            return {}
        if can_take_guidelines(self.judge):
            return {"guidelines": guidelines}
        if not self._warned:
            self._warned = True
            warn(f"{type(self).__name__} ignores rubric guidelines")
        return {}


def _as_text(to_grade: ToGradeInput) -> str:
    if isinstance(to_grade, str):
        return to_grade
    parts = normalize_to_grade_input(to_grade)
    thinking, output = parts.get("thinking"), parts.get("output", "")
    return f"<thinking>{thinking}</thinking>\n<output>{output}</output>" if thinking else output
