"""What a synthesis run is made of, read and checked before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autorubric.errors import shortened
from autorubric.llm.batches.setting import batching
from autorubric.llm.request import Model
from autorubric.runs.manifest import read_manifest
from autorubric.runs.shard import Division, Part
from autorubric.synthesis.final_files import FINAL_FILES, show_question
from autorubric.synthesis.method import build_plan
from autorubric.synthesis.query_file import InputReport, QueryFile
from autorubric.synthesis.slots import find_shape
from autorubric.synthesis.stages import HIDDEN_STEP_FILES, STEP_FILES, Plan
from autorubric.synthesis.steps import read_rows
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.synthesis.templates import SynthesisPrompts, load_synthesis_prompts


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can start: its input was read completely, and its plan and templates were checked."""

    settings: SynthesisSettings
    source: QueryFile
    report: InputReport
    prompts: SynthesisPrompts
    plan: Plan
    notes: tuple[str, ...] = ()
    part: Part | None = None

    def find_changes(self, models: Mapping[str, Model]) -> list[str]:
        """What differs from the last run in the directory so that calls are repeated, one sentence each."""
        manifest = read_manifest(self.settings.folder) or {}
        before, templates = manifest.get("models", {}), manifest.get("templates", {})
        return [
            f"the model of {slot} changed from {before[slot]} to {model.name}"
            for slot, model in models.items()
            if slot in before and before[slot] != model.name
        ] + [
            f"template {name} has changed"
            for name, mark in self.prompts.fingerprints().items()
            if name in templates and templates[name] != mark
        ]


def prepare(settings: SynthesisSettings, division: Division | None = None) -> Prepared:
    """Check everything that can be checked without a model.

    Raises:
        InputError: the input file, its columns or rows, the templates or the plan are wrong.
    """
    notes: list[str] = []
    source = QueryFile(
        settings.source,
        settings.question_column,
        settings.id_column,
        settings.limit,
        settings.skip_bad_rows,
        settings.responses_column,
        settings.domain_column,
        shard=None if division is None else division.shard,
    ).with_guesses(notes, named="question_column" in settings.model_fields_set)
    full = settings.profile == "full"
    prompts = load_synthesis_prompts(settings.prompts, full=full, domain=settings.domain, protocol=settings.protocol)
    if settings.prompts:
        shape = find_shape(settings, 0)
        prompts.drafts.check(sets=1 if full else len(shape.rubrics), responses=2 if full else len(shape.responses))
    report = source.check()
    if report.answered:
        what = "conversation ends" if report.answered == 1 else "conversations end"
        notes.append(f"{settings.source}: {report.answered:,} {what} with an answer; it is left out of the query")
    plan = build_plan(prompts, find_shape(settings, report.responses), settings.full_profile if full else None)
    plan = plan.until(settings.until) if settings.until else plan
    if (how := batching()) is not None:
        how.stages = plan.waves
    part = None
    if division is not None and (division.shard is not None or division.parts is not None):
        part = division.part(lambda: report.whole, report.all_rows)
    return Prepared(settings, source, report, prompts, plan, tuple(notes), part)


def build_plans(prepared: Prepared) -> dict[str, Plan]:
    """The plan of a run, and for the full profile that with the other way of judging, by what a judge call grades."""
    settings = prepared.settings
    if settings.profile != "full":
        return {"": prepared.plan}
    other = "rubric" if settings.full_profile.judging == "criterion" else "criterion"
    full = settings.full_profile.model_copy(update={"judging": other})
    plan = build_plan(prepared.prompts, find_shape(settings, prepared.report.responses), full)
    plan = plan.until(settings.until) if settings.until else plan
    return {settings.full_profile.judging: prepared.plan, other: plan}


def find_other_queries(prepared: Prepared) -> list[str]:
    """That the input has none of the queries of the rows in the directory, in one sentence; else nothing.

    More, fewer and edited queries are the same run: what has changed is requested again, and nothing else.
    """
    paths = (prepared.settings.folder / name for name in (*STEP_FILES, *HIDDEN_STEP_FILES, FINAL_FILES[0]))
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return []
    held = {hash(_question(row)): None for row in read_rows(path)}
    if not held or any(hash(_question(query.fields)) in held for query in prepared.source):
        return []
    first = next(_question(row) for row in read_rows(path))
    noun = "query" if len(held) == 1 else "queries"
    return [f"the input has none of the {len(held)} {noun} in the directory, such as {shortened(first, 80)!r}"]


def _question(row: Mapping[str, Any]) -> str:
    return show_question(row.get("question"))
