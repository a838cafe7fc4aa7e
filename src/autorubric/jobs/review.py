"""`autorubric.review`: a model reviews a rubric against what published work asks of rubrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from autorubric.core.rubric import Rubric
from autorubric.errors import ConfigError, InputError
from autorubric.jobs.batching import BatchSettings
from autorubric.jobs.job import ReplaceableSettings, RubricSource, blocking, job
from autorubric.jobs.judges import EndpointSettings
from autorubric.jobs.review_run import carried_out, estimated
from autorubric.jobs.submissions import rubric_in
from autorubric.llm.http.secrets import VariableName
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.records.accounts import Totals
from autorubric.reviewing.requests import ReviewFinding, headline
from autorubric.settings import setting


class ReviewSettings(EndpointSettings, BatchSettings, ReplaceableSettings):
    """The settings of `autorubric.review` and `autorubric review`."""

    rubric: RubricSource | None = setting(
        None, "Rubric to review.", flag="RUBRIC", argument=True, group="Input", reads=True
    )
    query: str = setting("", "Task that submissions respond to; without it, the rubric alone.", group="Input")
    reviewer: str | None = setting(
        None, "Model that reviews: MODEL or MODEL@BASE_URL.", metavar="MODEL", group="Models"
    )
    reviewer_key_env: VariableName | None = setting(
        None, "Environment variable that holds the reviewer's API key.", group="Models", hidden=True, secret=True
    )
    temperature: float = setting(0.0, "Temperature of the reviewer.", group="Models")
    max_tokens: int = setting(4096, "Maximum tokens per reply.", group="Models", ge=1, le=10_000_000)
    start_over: bool = setting(
        False, "Ignore saved replies and start over; what was spent still counts in a budget.", group="Run"
    )
    dry_run: bool = setting(False, "Print requests, tokens and cost; spend nothing.", group="Budget")
    format: Literal["text", "json", "sarif"] = setting("text", "text, json or sarif.", group="Output")
    fail_on: Literal["error", "warning", "note", "never"] = setting(
        "never", "Exit with status 100 on a finding this severe: error, warning, note or never.", group="Output"
    )

    @model_validator(mode="after")
    def _check_reviewer(self) -> Self:
        if self.reviewer is None:
            raise ConfigError("no reviewer; pass --reviewer MODEL (Python: reviewer=)")
        return self


@dataclass
class ReviewResult:
    """What `autorubric.review` returns.

    Attributes:
        findings: the faults, those of the rubric as a whole first.
        failures: the parts that were not reviewed, each with `part`, `kind` and `message`.
        out: the run directory, with `review.json`, `proposals.json` and `report.html`.
        totals: calls, tokens and cost of all sessions.
        estimate: of a dry run.
        stopped: why the run ended early; None where it did not.
        interrupted: whether a person stopped it.
    """

    findings: list[ReviewFinding]
    failures: list[dict[str, Any]] = field(default_factory=list)
    out: Path = Path()
    totals: list[Totals] = field(default_factory=list)
    estimate: list[ModelEstimate] | None = None
    stopped: str | None = None
    interrupted: bool = False

    @property
    def proposals(self) -> list[dict[str, Any]]:
        """The findings that propose a wording, as `improve(proposals=)` reads them from a file."""
        return [one.as_dict() for one in self.findings if one.requirement]

    def __str__(self) -> str:
        return headline(self.findings, len(self.failures))


@job(ReviewSettings)
async def review_async(rubric: RubricSource | None, settings: ReviewSettings) -> ReviewResult:
    """Let a model review a rubric, criterion by criterion and as a whole.

    The reviewer looks for faults that published work names. Each finding quotes the rubric verbatim, has a severity,
    and may propose a wording; `improve` tests proposals on labels. Parts without a usable reply are in `failures`.

    Calling it again with the same run directory resumes the run: saved replies are never paid for twice.

    Args:
        rubric: the rubric, or its file.
        settings: the keyword arguments, as one model.

    Raises:
        InputError: a setting or the rubric is wrong, or a key or model was refused; nothing was spent.

    Example:
        >>> import tempfile
        >>> from autorubric import Criterion
        >>> rubric = Rubric([Criterion(name="Tone", requirement="Uses an appropriate tone.")])
        >>> found = review(rubric, reviewer="builtin/offline", out=tempfile.mkdtemp()).findings
        >>> [(one.criterion, one.principle, one.quote) for one in found]
        [('Tone', 'clear', 'appropriate')]
    """
    if rubric is None:
        raise InputError("no rubric; pass RUBRIC (Python: the first argument)")
    read = rubric if isinstance(rubric, Rubric) else rubric_in(Path(rubric))
    if settings.dry_run:
        return ReviewResult([], estimate=await estimated(read, settings))
    done = await carried_out(read, "" if isinstance(rubric, Rubric) else str(rubric), settings)
    return ReviewResult(
        done.findings, done.failures, Path(settings.out), done.totals, None, done.run.stopped, done.run.interrupted
    )


review = blocking(review_async)
