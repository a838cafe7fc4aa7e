"""One synthesis run, from the input file to the final files."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autorubric import __version__
from autorubric.llm.executor import Executor
from autorubric.llm.model import Model
from autorubric.llm.models import negotiated, stand_ins
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure
from autorubric.prompts import PromptSet, load_prompts, package_prompts
from autorubric.runs.manifest import read_manifest, write_manifest
from autorubric.synthesis.answering import StageAnswerer
from autorubric.synthesis.domains import domain_prompts
from autorubric.synthesis.export import Exported, export_final
from autorubric.synthesis.full.tally import GateTally
from autorubric.synthesis.generations import next_generations
from autorubric.synthesis.plan import STEPS, Plan
from autorubric.synthesis.queries import InputReport, QueryFile
from autorubric.synthesis.runner import NO_CALL_MADE, Row, run_plan
from autorubric.synthesis.settings import SynthesisSettings, refreshed_slots, slots_of
from autorubric.synthesis.spool import Spool
from autorubric.synthesis.stages import basic_plan
from autorubric.synthesis.stages.asking import follow_up_with
from autorubric.synthesis.steps import Replaced, write_steps
from autorubric.synthesis.summary import Summary, write_unfinished
from autorubric.synthesis.takeover import take_over

if TYPE_CHECKING:
    from autorubric.synthesis.full.prompts import FullPrompts

_WRONG_INPUT = frozenset({"auth", "no_model", "unreachable"})
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can start: its input was read whole, its plan holds, its templates are in order."""

    settings: SynthesisSettings
    source: QueryFile
    report: InputReport
    prompts: PromptSet | FullPrompts
    drafts: PromptSet
    plan: Plan
    notes: tuple[str, ...] = ()


def prepare(settings: SynthesisSettings) -> Prepared:
    """Check everything that can be checked without a model.

    Raises:
        InputError: the input file, its columns or rows, the templates or the plan are wrong.
    """
    notes: list[str] = []
    source = QueryFile(
        settings.input,
        settings.question_column,
        settings.id_column,
        settings.limit,
        settings.skip_bad_rows,
        settings.responses_column,
        settings.domain_column,
    ).with_guesses(notes, named="question_column" in settings.model_fields_set)
    if settings.profile == "full":
        from autorubric.synthesis.full.preparing import full_plan_of, full_prompts_of

        all_prompts, report = full_prompts_of(settings), source.check()
        plan = full_plan_of(settings, all_prompts, report.responses)
        plan = plan.until(settings.until) if settings.until else plan
        return Prepared(settings, source, report, all_prompts, all_prompts.drafts, plan, tuple(notes))
    prompts = load_prompts(settings.prompts) if settings.prompts else package_prompts()
    prompts = domain_prompts(prompts, settings.domain) if settings.domain else prompts
    responses, rubrics = len(_letters(settings, "response_")), len(_letters(settings, "rubric_"))
    prompts.check(sets=rubrics, responses=responses)
    plan = basic_plan(prompts, responses=responses, rubrics=rubrics)
    plan = plan.until(settings.until) if settings.until else plan
    return Prepared(settings, source, source.check(), prompts, prompts, plan, tuple(notes))


def _letters(settings: SynthesisSettings, part: str) -> tuple[str, ...]:
    """The letters of the slots of one part."""
    names = (slot.name for slot in slots_of(settings))
    return tuple(name.removeprefix(part) for name in names if name.startswith(part))


@dataclass(slots=True)
class SynthesisRun:
    """A run under way in its directory.

    Attributes:
        prepared: what is run.
        models: the model of every slot.
        ledger: where replies are kept; the caller opened it and closes it.
        executor: asks the models.
        on_row: told of every row that ended.
        again: the command line that goes on with it, for the manifest.
        stopped: why the run was stopped early; empty when it was not.
        interrupted: whether a person stopped it.
        refused: whether a wrong key, model name or address stopped it.
    """

    prepared: Prepared
    models: Mapping[str, Model]
    ledger: Ledger
    executor: Executor
    on_row: Callable[[Row], None] = lambda row: None
    again: str = ""
    stopped: str = ""
    interrupted: bool = False
    refused: bool = False
    summary: Summary = field(init=False)
    answer: StageAnswerer = field(init=False)
    _negotiated_before: list[str] = field(init=False)
    _next_checkpoint: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        settings = self.prepared.settings
        self._negotiated_before = negotiated((), (read_manifest(settings.out) or {}).get("negotiated"))
        gates = GateTally(settings.full.gates.order) if settings.profile == "full" else None
        self.summary = Summary(self.prepared.report.rows, skipped=self.prepared.report.skipped, gates=gates)
        self.answer = self._answerer()

    @property
    def negotiated(self) -> list[str]:
        """What endpoints turned out not to take, earlier sessions included."""
        return negotiated(self.models.values(), self._negotiated_before)

    def stop(self, reason: str) -> None:
        """Open no further record and make no further call; what is in flight ends by itself."""
        self.stopped = self.stopped or reason
        self.executor.stop(reason)

    def interrupt(self) -> None:
        """Stop because a person said so."""
        self.interrupted = True
        self.stop("interrupted")

    async def execute(self) -> Summary:
        """Run the plan over the input, write the files, and return the figures."""
        started = time.monotonic()
        settings, plan = self.prepared.settings, self.prepared.plan
        self._save("running")
        with Spool(settings.out, plan) as spool:
            await run_plan(
                plan,
                self.prepared.source.queries(),
                self.answer,
                window=2 * settings.concurrency,
                finished=lambda row: self._keep(spool, row),
                stopping=lambda: bool(self.stopped),
            )
            self._write_files(spool)
        summary = self.summary
        summary.reused, summary.stale = self.answer.reused, self.answer.stale
        summary.overwritten = self.answer.overwritten
        summary.totals = self.ledger.totals()
        summary.stopped = self.stopped
        summary.seconds = time.monotonic() - started
        self._save("completed" if summary.complete else "stopped" if self.stopped else "incomplete")
        if settings.profile == "full" and summary.exported is not None:
            from autorubric.synthesis.full.publishing import publish_card, publish_release

            released = publish_release(settings.out)
            publish_card(settings.out, read_manifest(settings.out) or {}, settings.license, bool(released))
        return summary

    def _answerer(self) -> StageAnswerer:
        settings, plan = self.prepared.settings, self.prepared.plan
        imported = self.ledger.find_note("taken_over")
        if imported is None:
            imported = dict(take_over(settings.out, plan, self.ledger))
            self.ledger.keep_note("taken_over", imported)
        slots = [slot.name for slot in slots_of(settings)]
        generations = next_generations(self.ledger, slots, refreshed_slots(settings))
        return StageAnswerer(
            self.executor,
            self.models,
            self.ledger if imported else None,
            generations,
            follow_up=follow_up_with(self.prepared.drafts.reask),
            on_end=self._end,
        )

    def _end(self, failure: Failure) -> None:
        if failure.kind != "stopped":
            self.refused |= failure.kind in _WRONG_INPUT
            self.stop(failure.message)

    def _keep(self, spool: Spool, row: Row) -> None:
        spool.add(row)
        summary, failures = self.summary, row.failures()
        for name, failure in failures.items():
            if failure.kind not in NO_CALL_MADE | {"missing_input"}:
                summary.failures.add(failure.kind, failure.message, row.query.record_id, name)
        for outcome in row.outcomes.values():
            summary.notes.update(_DIGITS.sub("#", note) for note in outcome.notes)
        if summary.gates is not None and row.fields.get("gated"):
            summary.gates.add(row.fields["gated"])
        summary.finished += not failures
        summary.failed += row.query.index in spool.failed
        self.on_row(row)
        if (summary.finished + summary.failed) % self.prepared.settings.save_every == 0:
            self._save("running")
            self._checkpoint(spool)

    def _checkpoint(self, spool: Spool) -> None:
        """Bring the step files up to date, unless that would take more than a tenth of the run's time."""
        started = time.monotonic()
        if started >= self._next_checkpoint:
            self._write_steps(spool)
            ended = time.monotonic()
            self._next_checkpoint = ended + 9 * (ended - started)

    def _write_steps(self, spool: Spool) -> None:
        prepared, before = self.prepared, self.summary.replaced
        now = write_steps(prepared.settings.out, prepared.plan.last_step, prepared.source.queries(), spool)
        self.summary.replaced = Replaced(before.changed + now.changed, before.moved + now.moved)

    def _write_files(self, spool: Spool) -> None:
        settings, plan, source = self.prepared.settings, self.prepared.plan, self.prepared.source
        self._write_steps(spool)
        write_unfinished(settings.out, plan, source.queries(), spool)
        self.summary.exported = _export(settings, plan)

    def _save(self, status: str) -> None:
        prepared = self.prepared
        totals = [asdict(total) for total in self.ledger.totals()] if status != "running" else []
        content: dict[str, Any] = {
            "kind": "synthesis",
            "status": status,
            "versions": {"autorubric": __version__, "python": platform.python_version()},
            "again": self.again,
            "settings": prepared.settings.model_dump(mode="json", exclude_defaults=False),
            "stand_ins": list(stand_ins(model.name for model in self.models.values())),
            "models": {slot: model.name for slot, model in self.models.items()},
            "negotiated": self.negotiated,
            "templates": prepared.prompts.fingerprints(),
            "steps": list(STEPS[: prepared.plan.last_step + 1]),
            "counts": self.summary.as_dict(),
            "usage": totals,
            "calls": self.ledger.count,
        }
        write_manifest(prepared.settings.out, content)


def _export(settings: SynthesisSettings, plan: Plan) -> Exported | None:
    """The final files, once the plan comes to their step."""
    if settings.profile == "full":
        from autorubric.synthesis.full.export import export_full

        return export_full(settings.out, settings) if plan.last_step == len(STEPS) - 1 else None
    return export_final(settings.out, settings.max_criteria) if plan.last_step == len(STEPS) - 2 else None


def changed_since(directory: Path, models: Mapping[str, Model], prompts: PromptSet | FullPrompts) -> list[str]:
    """What differs from the last run in `directory` so that calls are asked anew, one sentence each."""
    manifest = read_manifest(directory) or {}
    before, now = manifest.get("models", {}), {slot: model.name for slot, model in models.items()}
    changes = [
        f"{slot} was played by {before[slot]}, now by {name}"
        for slot, name in now.items()
        if slot in before and before[slot] != name
    ]
    held = manifest.get("templates", {})
    changes += [
        f"template {name} has changed"
        for name, mark in prompts.fingerprints().items()
        if name in held and held[name] != mark
    ]
    return changes
