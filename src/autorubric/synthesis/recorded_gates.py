"""What models said of the criteria of a synthesis run, in a file that the gates can be replayed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from autorubric.errors import InputError
from autorubric.llm.recorded_exchanges import Exchange
from autorubric.runs.manifest import read_manifest
from autorubric.synthesis.candidate import Candidate, read_criteria
from autorubric.synthesis.shown_query import show_query
from autorubric.synthesis.slots import find_shape
from autorubric.synthesis.stages import STEP_FILES, query_in
from autorubric.synthesis.steps import find_record_id, read_rows
from autorubric.synthesis.synthesis_settings import SynthesisSettings

PEOPLE = ("first", "second")
"""Whose labels the file has places for."""


async def record_replies(run: Path, sample: int | None, seed: int) -> list[dict[str, Any]]:
    """The rows of a file for the replay: a sample of the queries of a finished run, with empty labels.

    Raises:
        InputError: the run is not of the full profile, has no row with criteria, or no replies are in its ledger.
    """
    manifest = read_manifest(run) or {}
    path = run / STEP_FILES[-1]
    if manifest.get("kind") != "synthesis" or not path.exists():
        raise InputError(f"{run} is not a run of `synthesize --profile full` that reached the gates")
    rows = [row for row in read_rows(path) if (row.get("merge") or {}).get("criteria")]
    if not rows:
        raise InputError(f"{path}: no row has criteria")
    settings = SynthesisSettings.of_manifest(manifest["settings"])
    judges = list(find_shape(settings, 0).judges.values())
    models = manifest.get("models", {})
    chosen = rows if sample is None or sample >= len(rows) else Random(seed).sample(rows, sample)
    recorded = []
    for row in chosen:
        shown = await show_query(run, manifest, find_record_id(row))
        recorded.append(
            _record(row, [str(models.get(one, one)) for one in judges], list(_last_draws(shown.exchanges)))
        )
    if not any(one["relevance"] for one in recorded):
        raise InputError(f"{run}: its ledger has no relevance replies")
    return recorded


def _record(row: Mapping[str, Any], judges: list[str], draws: list[Exchange]) -> dict[str, Any]:
    number, fields = 1, ["merge"]
    while f"round_{number}" in row:
        fields.append(f"round_{number}")
        number += 1
    criteria = read_criteria(row, fields)
    verdicts = ["merged_verdicts", *(f"verdicts_{one}" for one in range(1, number))]
    votes = {name: rows for field in verdicts for name, rows in ((row.get(field) or {}).get("votes") or {}).items()}
    return {
        "query": query_in(row),
        "criteria": [_show(one) for one in criteria],
        "judges": judges,
        "votes": votes,
        "relevance": [{"model": one.model, "reply": one.reply} for one in draws],
        "labels": {person: {one.id: "" for one in criteria} for person in PEOPLE},
    }


def _show(one: Candidate) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("id", "title", "description", "weight", "origin")}


def _last_draws(exchanges: tuple[Exchange, ...]) -> Iterator[Exchange]:
    """The usable relevance replies of the last assessment before the rewrite, which has all criteria."""
    draws = [
        one for one in exchanges if one.about.startswith("licences_") and one.reply is not None and not one.problem
    ]
    last = max((one.about for one in draws), default="")
    yield from (one for one in draws if one.about == last)
