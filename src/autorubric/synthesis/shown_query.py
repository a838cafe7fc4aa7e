"""One query of a synthesis run in full: its rubric, the lineage of its criteria, every prompt and raw reply."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from autorubric.errors import InputError, pluralize
from autorubric.llm.models import open_models
from autorubric.llm.recorded_exchanges import ReplayedCalls
from autorubric.llm.records.ledger_view import LedgerView
from autorubric.runs.blocks import Room
from autorubric.runs.shown_item import ShownItem, open_replies
from autorubric.synthesis.final_files import FULL_FILES
from autorubric.synthesis.lineage import list_dropped, trace_criteria
from autorubric.synthesis.method import build_plan
from autorubric.synthesis.query_file import Query
from autorubric.synthesis.run_summary import UNFINISHED_FILE
from autorubric.synthesis.slots import build_configs, find_shape
from autorubric.synthesis.stage_runner import Row, StageRunner, run_plan
from autorubric.synthesis.stages import STEP_FILES, Plan, list_letters
from autorubric.synthesis.steps import find_record_id, format_question, read_rows
from autorubric.synthesis.synthesis_settings import SynthesisSettings, resolve_protocol
from autorubric.synthesis.templates import load_synthesis_prompts

_HIDDEN = ("__source_index__", "__record_id__")


async def show_query(directory: Path, manifest: Mapping[str, Any], name: str | None) -> ShownItem:
    """Return a query of a synthesis run, by its id or line; the first one by default.

    Raises:
        InputError: the files of the run do not contain the query.
    """
    row = _find_row(directory, name)
    key, notes = find_record_id(row), list[str]()
    exchanges: list[Any] = []
    others: list[Any] = []
    with ExitStack() as stack:
        view = open_replies(stack, directory, notes)
        if view is not None:
            replay = ReplayedCalls(view)
            try:
                await _replay(manifest, view, row, replay)
            except (InputError, KeyError, TypeError, ValueError) as error:
                notes.append(f"the prompts cannot be rebuilt: {error}")
            exchanges, others = replay.exchanges, replay.find_others(key)
    index = row.get("__source_index__")
    return ShownItem(
        directory,
        "synthesis",
        index if isinstance(index, int) else 0,
        key,
        {"query": format_question(row.get("question"))},
        {
            **_select_results(row),
            **_read_lineage(directory, row, manifest),
            "failures": _read_failures(directory, key),
        },
        tuple(exchanges),
        tuple(others),
        tuple(notes),
    )


def _find_row(directory: Path, name: str | None) -> dict[str, Any]:
    """Return the row of a query in the last step file that has it."""
    found: dict[str, Any] | None = None
    known = 0
    for file in STEP_FILES:
        path = directory / file
        rows = read_rows(path) if path.exists() else iter(())
        for known, row in enumerate(rows, start=1):  # noqa: B007 (counts the rows)
            is_first = found is None and name is None
            names = (find_record_id(row), str(row.get("id") or ""), str(row.get("__source_index__")))
            if is_first or (found is not None and find_record_id(row) == find_record_id(found)) or name in names[:2]:
                found = row
                break
            if name == names[2] and found is None:
                found = row
    if found is None:
        raise InputError(
            f"{directory}: no query {name!r} in its step files, which have {pluralize(known, 'row')}; give an id"
        )
    return found


def _select_results(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of the basic steps."""
    kept = ("reference", "merged_rubrics", "augmented_rubrics")
    return {
        key: value
        for key, value in row.items()
        if key not in _HIDDEN and (key in kept or key.startswith(("response_", "rubrics_", "pitfalls_")))
    }


def _read_lineage(directory: Path, row: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read the lineage of the criteria, kept or not, if the query is in `final_full`."""
    path = directory / FULL_FILES[0]
    question, own = format_question(row.get("question")), str(row.get("id") or "")
    for final in read_rows(path) if path.exists() else ():
        if final.get("id") == own and final.get("question") == question:
            return {"criteria": trace_criteria(final, row, manifest), "dropped": list_dropped(final, row)}
    return {}


def _read_failures(directory: Path, key: str) -> Mapping[str, Any]:
    path = directory / UNFINISHED_FILE
    rows: Iterator[dict[str, Any]] = read_rows(path) if path.exists() else iter(())
    found = next((row for row in rows if row.get("record_id") == key), {})
    failures = found.get("failures")
    return failures if isinstance(failures, Mapping) else {}


async def _replay(
    manifest: Mapping[str, Any], view: LedgerView, row: Mapping[str, Any], replay: ReplayedCalls
) -> None:
    """Run the plan on the query with recorded replies only."""
    settings = resolve_protocol(SynthesisSettings.from_manifest(manifest.get("settings") or {}))
    full = settings.profile == "full"
    prompts = load_synthesis_prompts(settings.prompts, full=full, domain=settings.domain, protocol=settings.protocol)
    given = sum(f"response_{letter}" in row for letter in list_letters(26)) if settings.responses_column else 0
    plan = build_plan(prompts, find_shape(settings, given), settings.full_profile if full else None)
    query = _rebuild_query(plan, row, given)
    # No request is sent, so no key is needed.
    unkeyed = settings.model_copy(update={"api_key_env": None, "allow_plain_http": True})
    made = {slot: replace(config, api_key="unused") for slot, config in build_configs(unkeyed, _AnyKey()).items()}
    refreshes = view.find_note("generations") or {}
    async with open_models(made, 1) as models:
        replay.names = {id(model): slot for slot, model in models.items()}
        runner = StageRunner(replay, models, None, refreshes, follow_up=prompts.follow_up)  # type: ignore[arg-type]

        async def answer(stage: Any, record_id: str, fields: Mapping[str, Any]) -> Any:
            replay.set_subject(stage.name)
            return await runner(stage, record_id, fields)

        rows: list[Row] = []
        await run_plan(plan, [query], answer, room=Room(1), finished=rows.append)


class _AnyKey(dict[str, str]):
    """An environment in which every key seems to be set."""

    def get(self, key: str, default: Any = None) -> Any:
        return "unused"


def _rebuild_query(plan: Plan, row: Mapping[str, Any], given: int) -> Query:
    """Rebuild the query as in the input, without the fields of the run's stages."""
    made = {key for stage in plan.stages for key in stage.keys}
    own = {f"response_{letter}{part}" for letter in list_letters(given) for part in ("", "_model")}
    fields = {key: value for key, value in row.items() if key not in made or key in own}
    index = row.get("__source_index__")
    return Query(index if isinstance(index, int) else 0, find_record_id(row), fields)
