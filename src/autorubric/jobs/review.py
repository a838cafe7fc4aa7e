"""`autorubric.review`: a model reviews a rubric against principles from published work."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from autorubric.core.rubric import Rubric
from autorubric.errors import ConfigError, InputError
from autorubric.files import write_atomically
from autorubric.graders.judge import request_again
from autorubric.graders.session import SessionLimits
from autorubric.jobs.job import BatchSettings, ResumableSettings, RubricSource, blocking, job
from autorubric.jobs.judges import ModelSettings, key_variable, reply_limit
from autorubric.jobs.recorded_run import RecordedRun, open_estimate_ledger, run_ledger
from autorubric.jobs.submissions import read_rubric
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.failure_groups import NOT_MADE
from autorubric.llm.http.secrets import VariableName
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.models import check_priced, open_models
from autorubric.llm.records.accounts import UsageTotals
from autorubric.llm.request import Failure
from autorubric.reviewing import requests
from autorubric.reviewing.principles import show_criteria
from autorubric.runs.run import DRAWS_A_GENERATION, CallCounter, begin_generation, find_next_generation
from autorubric.settings import setting

RECORD_FILE, PROPOSALS_FILE, PAGE_FILE = "review.json", "proposals.json", "report.html"
_REPLY_TOKENS = 350


class ReviewSettings(ModelSettings, BatchSettings, ResumableSettings):
    """The settings of `autorubric.review` and `autorubric review`.

    Example:
        >>> ReviewSettings(reviewer="builtin/offline").reviewer
        'builtin/offline'
    """

    rubric: RubricSource | None = setting(
        None, "Rubric to review.", flag="RUBRIC", argument=True, group="Input", reads=True
    )
    query: str = setting("", "Task that submissions respond to (default: review the rubric alone).", group="Input")
    reviewer: str | None = setting(
        None, "Model that reviews: MODEL or MODEL@BASE_URL.", metavar="MODEL", group="Models"
    )
    reviewer_key_env: VariableName | None = key_variable(
        "Environment variable that holds the reviewer's API key.", "Models"
    )
    temperature: float = setting(0.0, "Temperature of the reviewer.", group="Models")
    max_tokens: int = reply_limit(4096, "Maximum tokens per reply.", "Models")
    format: Literal["text", "json", "sarif"] = setting("text", "text, json or sarif.", group="Output")
    fail_on: Literal["error", "warning", "note", "never"] = setting(
        "never", "Severity for status 100: error, warning, note, never.", group="Output"
    )

    @model_validator(mode="after")
    def _check_reviewer(self) -> Self:
        if self.reviewer is None:
            raise ConfigError("no reviewer; pass --reviewer MODEL")
        return self

    def build_config(self) -> dict[str, LLMConfig]:
        """Return the configuration of the reviewer."""
        how = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        [spec] = self.build_specs([str(self.reviewer)], self.reviewer_key_env, "", **how)
        return {"reviewer": spec.llm_config}


@dataclass
class ReviewResult:
    """What `autorubric.review` returns.

    Attributes:
        findings: the findings, those about the whole rubric first.
        failures: the parts that were not reviewed, each with `part`, `kind` and `message`.
        out: the run directory, with `review.json`, `proposals.json` and `report.html`.
        totals: calls, tokens and cost of all sessions.
        estimate: of a dry run.
        stopped: why the run ended early; None if it did not.
        interrupted: whether it was interrupted.

    Example:
        >>> ReviewResult(findings=[]).proposals
        []
    """

    findings: list[requests.ReviewFinding]
    failures: list[dict[str, Any]] = field(default_factory=list)
    out: Path = Path()
    totals: list[UsageTotals] = field(default_factory=list)
    estimate: list[ModelEstimate] | None = None
    stopped: str | None = None
    interrupted: bool = False

    @property
    def proposals(self) -> list[dict[str, Any]]:
        """The findings that propose a wording, as `improve(proposals=)` reads them from a file."""
        return [finding.as_dict() for finding in self.findings if finding.requirement]

    def __str__(self) -> str:
        return requests.summarize(self.findings, len(self.failures))


@job(ReviewSettings)
async def review_async(rubric: RubricSource | None, settings: ReviewSettings) -> ReviewResult:
    """Let a model review a rubric, criterion by criterion and as a whole.

    The reviewer looks for faults known from published work. Each finding quotes the rubric verbatim, has a severity,
    and may propose a wording; `improve` tests proposals on labels. Parts without a usable reply are in `failures`.

    Calling it again with the same run directory resumes the run: saved replies are never paid for twice.

    Args:
        rubric: the rubric, or its file.
        settings: the keyword arguments, as a settings object.

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
    read = rubric if isinstance(rubric, Rubric) else read_rubric(rubric)
    if settings.dry_run:
        return ReviewResult([], estimate=await _estimate_calls(read, settings))
    return await _run_review(read, "" if isinstance(rubric, Rubric) else str(rubric), settings)


review = blocking(review_async)


@dataclass
class ReviewRun(RecordedRun):
    """The review of the parts of a rubric.

    Attributes:
        parts: the parts to review.
        draws: the first draw of this generation of replies.
        found: findings by part.
        lost: the reason for each part that was not reviewed.
        left: usable findings in the last reply on a part that was not reviewed.
    """

    kind = "review"
    stage = "reviewed"
    parts: list[requests.ReviewPart]
    draws: int = 0
    found: dict[int, list[requests.ReviewFinding]] = field(default_factory=dict)
    lost: dict[int, Failure] = field(default_factory=dict)
    left: dict[int, list[requests.ReviewFinding]] = field(default_factory=dict)

    async def execute(self) -> None:
        """Ask about every part."""
        async with asyncio.TaskGroup() as group:
            for part in self.parts:
                group.create_task(self._review(part))

    async def _review(self, part: requests.ReviewPart) -> None:
        request = replace(requests.build_request(part, self.draws), item=str(part.number))
        answer = await self.executor.ask_for(
            self.models["reviewer"], request, partial(requests.read_findings, part), request_again
        )
        if isinstance(answer, Failure):
            self.lost[part.number] = answer
            self.left[part.number] = requests.read_usable_findings(part, answer.reply)
            self.end_with(answer)
        else:
            self.found[part.number] = answer.value

    @property
    def findings(self) -> list[requests.ReviewFinding]:
        """The findings, those about the whole rubric first."""
        parts = self.found | self.left
        found = [part for number in sorted(parts) for part in parts[number]]
        return sorted(dict.fromkeys(found), key=lambda finding: finding.number)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The parts that were not reviewed."""
        return [
            {
                "part": f"criterion {number}" if number else "the rubric as a whole",
                "kind": failure.kind,
                "message": failure.message,
            }
            for number, failure in sorted(self.lost.items())
        ]

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of all, reviewed and lost parts."""
        return len(self.parts), len(self.found), sum(failure.kind not in NOT_MADE for failure in self.lost.values())

    def build_entries(self) -> dict[str, Any]:
        """Return the fingerprint of the prompt."""
        return {"templates": {"review": requests.load_review_prompt().fingerprint}}


async def _run_review(rubric: Rubric, file: str, settings: ReviewSettings) -> ReviewResult:
    made_of = {
        "rubric": show_criteria(rubric),
        "guidelines": rubric.guidelines,
        "query": settings.query,
        "reviewer": settings.reviewer,
        "temperature": settings.temperature,
    }
    files = (RECORD_FILE, PROPOSALS_FILE, PAGE_FILE)
    async with AsyncExitStack() as stack:
        stack.enter_context(settings.attempts_logged())
        models = await stack.enter_async_context(open_models(settings.build_config(), settings.concurrency))
        ledger = await stack.enter_async_context(run_ledger(settings, ReviewRun, files, made_of, models))
        run = ReviewRun(
            requests.list_parts(rubric, settings.query),
            begin_generation(ledger, start_over=settings.start_over) * DRAWS_A_GENERATION,
            executor=Executor(ledger, SessionLimits(settings.budget_usd, settings.budget_tokens).make_budget(ledger)),
            settings=settings,
            ledger=ledger,
            models=models,
            made_of=made_of,
        )
        await run.carry_out()
        _write_results(run, rubric, file)
        run.save("stopped" if run.stopped else "failed" if run.lost else "completed")
        return ReviewResult(run.findings, run.failures, run.out, ledger.add_up(), None, run.stopped, run.interrupted)


def _write_results(run: ReviewRun, rubric: Rubric, file: str) -> None:
    findings = [finding.as_dict() for finding in run.findings]
    record = {
        "headline": requests.summarize(run.findings, len(run.failures)),
        "file": file,
        "query": run.settings.query,
        "reviewer": run.models["reviewer"].name,
        "stand_ins": list(run.stand_ins),
        "autorubric": version("autorubric-hub"),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "criteria": show_criteria(rubric),
        "findings": findings,
        "failures": run.failures,
    }
    proposals = [finding for finding in findings if finding["requirement"]]
    for name, value in ((RECORD_FILE, record), (PROPOSALS_FILE, proposals)):
        write_atomically(run.out / name, [json.dumps(value, ensure_ascii=False, indent=2), "\n"])
    write_atomically(run.out / PAGE_FILE, [requests.render_page(record)])


async def _estimate_calls(rubric: Rubric, settings: ReviewSettings) -> list[ModelEstimate]:
    """Return the calls that the review would make; sends no request and writes nothing."""
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(open_estimate_ledger(Path(settings.out)))
        models = await stack.enter_async_context(open_models(settings.build_config(), 1))
        check_priced(models, settings.budget_usd)
        model = models["reviewer"]
        parts = requests.list_parts(rubric, settings.query)
        generation = find_next_generation(ledger, start_over=settings.start_over)
        settings.show_stand_ins(len(parts), [model.name])
        counter = CallCounter(Executor(ledger), _REPLY_TOKENS, generation)
        for part in parts:
            await counter(model, requests.build_request(part), partial(requests.read_findings, part), request_again)
        return list(counter.found.values())
