"""The pages that a run has, for the navigation."""

from __future__ import annotations

from typing import NamedTuple

from autorubric.view.sources import Source


class Tab(NamedTuple):
    """A link of the navigation: its words, and where it leads under the run."""

    name: str
    path: str


def tabs_of(source: Source, runs: int) -> list[Tab]:
    """The pages of a run that have something to show."""
    graded, rubrics = source.has_items, source.rubrics is not None
    shown = [
        (True, Tab("Summary", "/")),
        (graded, Tab("Items", "/items")),
        (rubrics, Tab("Rubrics", "/rubrics")),
        ((source.directory / "rubric_versions.jsonl").is_file(), Tab("Versions", "/versions")),
        (graded, Tab("Criteria", "/criteria")),
        (graded, Tab("Agreement", "/agreement")),
        (graded and runs > 1, Tab("Compare", "/compare")),
        (source.kind == "service", Tab("Drift", "/drift")),
        ((source.directory / "selection.json").is_file(), Tab("Best of k", "/best-of-k")),
        (graded, Tab("Label", "/label")),
        (source.kind in ("evaluation", "synthesis"), Tab("Live", "/live")),
    ]
    return [tab for wanted, tab in shown if wanted]
