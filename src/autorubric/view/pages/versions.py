"""The page of rubrics that evolved: each version of each rubric, and what was decided on the way to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autorubric.core.criterion import criterion_names
from autorubric.errors import InputError
from autorubric.view.page import PAGE_ROWS, Page, Query, Refusal
from autorubric.view.sources import Source


def versions_page(source: Source, query: Query) -> Page:
    """The versions of `evolve` or `serve --evolve`, 50 queries a page."""
    from autorubric.training.evolution.versions import VERSIONS_FILE, read_versions

    path = source.directory / VERSIONS_FILE
    if not path.is_file():
        raise Refusal(404, f"{source.name} has no {VERSIONS_FILE}", "Pass a run of evolve or of serve --evolve.")
    try:
        lineages = list(read_versions(path).values())
    except InputError as error:
        raise Refusal(500, str(error)) from None
    after = query.whole("after", 0) or 0
    shown = [_shown(number, one) for number, one in enumerate(lineages)][after : after + PAGE_ROWS]
    more = after + PAGE_ROWS < len(lineages)
    rows = [
        {"rubric": one["rubric"], "query": one["query"], **_row(version)}
        for one in shown
        for version in one["versions"]
    ]
    changed = sum(len(one.versions) > 1 for one in lineages)
    data = {"rubrics": shown, "count": len(lineages), "changed": changed, "next": after + PAGE_ROWS if more else None}
    return Page("versions", f"Versions in {source.name}", data, rows)


def _row(version: dict[str, Any]) -> dict[str, Any]:
    return {name: "; ".join(value) if isinstance(value, list) else value for name, value in version.items()}


def _shown(number: int, lineage: Any) -> dict[str, Any]:
    asked = lineage.newest.query
    return {
        "rubric": number,
        "query": asked if isinstance(asked, str) else "" if asked is None else str(asked),
        "versions": list(_versions(lineage)),
        "rejected": [dict(one) for change in lineage.changes for one in change["rejected"]],
        "notes": [change["note"] for change in lineage.changes if change["note"]],
    }


def _versions(lineage: Any) -> Iterator[dict[str, Any]]:
    made_by = {change["version"]: change for change in lineage.changes if _changes(change)}
    for version in lineage.versions:
        change = made_by.get(version.number, {})
        yield {
            "version": version.number,
            "from_step": version.from_step,
            "criteria": criterion_names(list(version.rubric)),
            **{name: list(change.get(name, ())) for name in ("added", "returned", "retired")},
        }


def _changes(change: dict[str, Any]) -> bool:
    return bool(change["added"] or change["returned"] or change["retired"])
