"""A review in its run directory: lock, ledger, budget, and the files at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric.core.rubric import Rubric
from autorubric.errors import InputError
from autorubric.files import write_atomically
from autorubric.graders.judge import request_again
from autorubric.graders.session import Limits
from autorubric.jobs.judges import judge_specs
from autorubric.llm.attempts import attempt_log
from autorubric.llm.budget import check_priced
from autorubric.llm.config import LLMConfig
from autorubric.llm.executor import Executor
from autorubric.llm.limits import ModelEstimate
from autorubric.llm.models import open_models, stand_ins
from autorubric.llm.records.accounts import Totals
from autorubric.llm.records.ledger import FILE_NAME, Ledger
from autorubric.llm.request import Failure, Model
from autorubric.reviewing.principles import shown_criteria
from autorubric.reviewing.requests import (
    Part,
    ReviewFinding,
    build_request,
    headline,
    page,
    parts_of,
    read_findings,
    review_prompt,
    usable_findings,
)
from autorubric.runs.another_run import Opening, locked_ledger
from autorubric.runs.changes import changed_since_paid
from autorubric.runs.manifest import MANIFEST_FILE, write_manifest
from autorubric.runs.plan import coming_generation
from autorubric.runs.progress import RunState, StageState, reported
from autorubric.runs.run import DRAWS_A_GENERATION
from autorubric.runs.run_folder import LEDGER_FOLDER, run_folder
from autorubric.runs.stopping import Stop, StoppableRun

if TYPE_CHECKING:
    from autorubric.jobs.review import ReviewSettings

KIND = "review"
RECORD_FILE, PROPOSALS_FILE, PAGE_FILE = "review.json", "proposals.json", "report.html"
_REPLY_TOKENS = 350


def _config(settings: ReviewSettings) -> dict[str, LLMConfig]:
    common = {
        **settings.reached(settings.reviewer_key_env),
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }
    assert settings.reviewer is not None
    [spec] = judge_specs([settings.reviewer], common, settings.prices)
    return {"reviewer": spec.llm_config}


@dataclass
class ReviewRun(StoppableRun):
    """The parts of a rubric on their way to the reviewer.

    Attributes:
        parts: what is reviewed.
        model: who reviews.
        draws: where the draws of this generation of replies begin.
        found: findings by part.
        lost: why a part was not reviewed.
        left: the usable findings in the last reply on a part that was lost.
    """

    parts: list[Part]
    model: Model
    draws: int = 0
    found: dict[int, list[ReviewFinding]] = field(default_factory=dict)
    lost: dict[int, Failure] = field(default_factory=dict)
    left: dict[int, list[ReviewFinding]] = field(default_factory=dict)

    async def execute(self) -> None:
        """Ask about every part."""
        async with asyncio.TaskGroup() as group:
            for part in self.parts:
                group.create_task(self._review(part))

    async def _review(self, part: Part) -> None:
        assert self.executor is not None
        request = replace(build_request(part, self.draws), item=str(part.number))
        answer = await self.executor.ask_for(self.model, request, partial(read_findings, part), request_again)
        if isinstance(answer, Failure):
            self.lost[part.number] = answer
            self.left[part.number] = usable_findings(part, answer.reply)
            self.end_with(answer)
        else:
            self.found[part.number] = answer.value

    def state(self) -> RunState:
        """How far it is."""
        activity = [] if self.executor is None else list(self.executor.snapshot().values())
        done, failed = len(self.found), len(self.lost)
        stage = StageState("reviewed", done, sum(one.in_flight for one in activity), failed)
        return RunState.of(len(self.parts), done + failed, [stage], activity, stand_ins([self.model.name]))


@dataclass
class Done:
    """A review that ended: what was found, what failed, and what it cost."""

    run: ReviewRun
    totals: list[Totals]

    @property
    def findings(self) -> list[ReviewFinding]:
        """Those of the rubric as a whole first."""
        parts = self.run.found | self.run.left
        found = [one for number in sorted(parts) for one in parts[number]]
        return sorted(dict.fromkeys(found), key=lambda one: one.number)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The parts that were not reviewed."""
        return [
            {
                "part": f"criterion {number}" if number else "the rubric as a whole",
                "kind": f.kind,
                "message": f.message,
            }
            for number, f in sorted(self.run.lost.items())
        ]


async def carried_out(rubric: Rubric, file: str, settings: ReviewSettings) -> Done:
    """Review a rubric in its directory, or resume a review."""
    out = Path(settings.out)
    log = None if settings.log_json is None else Path(settings.log_json)
    described = {
        "rubric": shown_criteria(rubric),
        "guidelines": rubric.guidelines,
        "query": settings.query,
        "reviewer": settings.reviewer,
        "temperature": settings.temperature,
    }
    async with AsyncExitStack() as stack:
        stack.enter_context(attempt_log(log, str(out), prompts=settings.log_prompts))
        models = await stack.enter_async_context(open_models(_config(settings), settings.concurrency))
        if settings.budget_usd is not None:
            check_priced(models)
        files = (RECORD_FILE, PROPOSALS_FILE, PAGE_FILE, MANIFEST_FILE)
        stack.enter_context(run_folder(out, files, settings.sources(), start_over=settings.start_over))
        ledger = await stack.enter_async_context(
            locked_ledger(
                out,
                KIND,
                lambda manifest: changed_since_paid(manifest, described),
                Opening(settings.wait, settings.start_over, settings.replace),
            )
        )
        ledger.price(models.values())
        generation = coming_generation(ledger, start_over=settings.start_over)
        ledger.keep_note("generation", generation)
        run = ReviewRun(
            parts_of(rubric, settings.query),
            models["reviewer"],
            generation * DRAWS_A_GENERATION,
            executor=Executor(ledger, Limits(settings.budget_usd, settings.budget_tokens).budget(ledger)),
        )
        return await _run(run, rubric, file, settings, ledger, described)


async def _run(
    run: ReviewRun, rubric: Rubric, file: str, settings: ReviewSettings, ledger: Ledger, described: Mapping[str, Any]
) -> Done:
    out = Path(settings.out)
    save = partial(_save, out, settings, described, ledger)
    save("running", run)
    try:
        with (settings.stop or Stop()).bound(run):
            async with reported(settings.progress, run.state):
                await run.to_the_end()
    except BaseException:
        save("stopped", run)
        raise
    assert run.executor is not None
    if run.refused and not any(one.paid for one in run.executor.snapshot().values()):
        raise InputError(run.stopped or "the endpoint refused the run")
    done = Done(run, ledger.totals())
    _write(out, _record(done, rubric, file, settings))
    save("stopped" if run.stopped else "failed" if run.lost else "completed", run)
    return done


def _record(done: Done, rubric: Rubric, file: str, settings: ReviewSettings) -> dict[str, Any]:
    return {
        "headline": headline(done.findings, len(done.failures)),
        "file": file,
        "query": settings.query,
        "reviewer": done.run.model.name,
        "stand_ins": list(stand_ins([done.run.model.name])),
        "autorubric": version("autorubric-hub"),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "criteria": shown_criteria(rubric),
        "findings": [one.as_dict() for one in done.findings],
        "failures": done.failures,
    }


def _write(out: Path, record: Mapping[str, Any]) -> None:
    proposals = [one for one in record["findings"] if one["requirement"]]
    for name, value in ((RECORD_FILE, record), (PROPOSALS_FILE, proposals)):
        write_atomically(out / name, [json.dumps(value, ensure_ascii=False, indent=2), "\n"])
    write_atomically(out / PAGE_FILE, [page(record)])


def _save(
    out: Path, settings: ReviewSettings, described: Mapping[str, Any], ledger: Ledger, status: str, run: ReviewRun
) -> None:
    write_manifest(
        out,
        {
            "kind": KIND,
            "status": status,
            "made_of": described,
            "settings": {**settings.recorded(), "again": settings.again},
            "stand_ins": list(stand_ins([run.model.name])),
            "counts": {"rows": len(run.parts), "finished": len(run.found), "failed": len(run.lost)},
            "error": run.stopped,
            "calls": ledger.count,
            "templates": {"review": review_prompt().fingerprint},
        },
    )


async def estimated(rubric: Rubric, settings: ReviewSettings) -> list[ModelEstimate]:
    """The calls that the review would make; nothing is asked and nothing is written."""
    folder = Path(settings.out) / LEDGER_FOLDER
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(Ledger.open(folder) if (folder / FILE_NAME).exists() else Ledger.in_memory())
        model = (await stack.enter_async_context(open_models(_config(settings), 1)))["reviewer"]
        parts, executor = parts_of(rubric, settings.query), Executor(ledger)
        draws = coming_generation(ledger, start_over=settings.start_over) * DRAWS_A_GENERATION
        if settings.progress is not None:
            settings.progress(RunState(len(parts), 0, [], 0, 0, 0, 0.0, stand_ins=stand_ins([model.name])))
        row = ModelEstimate(model)
        for part in parts:
            request = build_request(part, draws)
            if executor.find(model, request) is None:
                row.add(request, _REPLY_TOKENS)
            else:
                row.recorded += 1
        return [row]
