"""Pages of runs that make training data: drift of rewards, and the best of k candidates."""

import json
from dataclasses import asdict
from typing import Any

from autorubric.charts.svg import Axes, Point, Series, plot_bars, plot_lines
from autorubric.errors import InputError
from autorubric.view.page import Page, PageQuery, PageRefusal
from autorubric.view.sources import Source

SUMMARY_FILE = "selection.json"


def build_drift_page(source: Source, query: PageQuery) -> Page:
    """Build the page of the changes of a service's rewards."""
    from autorubric.jobs.status import drift
    from autorubric.training.reward_drift import find_recommendations, find_warnings

    windows = max(1, min(query.read_whole("windows", 8) or 8, 200))
    found = drift(source.directory, windows=windows)
    windowed = enumerate(found.windows, 1)
    rows = [{"window": number, **_flatten(asdict(window)), "failed": window.failed} for number, window in windowed]
    numbers = _read_version_numbers(source)
    criteria = [{**asdict(drift), "version": numbers.get(drift.rubric)} for drift in list(found.criteria)[:50]]
    data: dict[str, Any] = {
        "windows": rows,
        "criteria": criteria,
        "saturated_weight": found.saturated_weight,
        "evaluations": found.evaluations,
        "count": windows,
        "audit": None if found.audit is None else asdict(found.audit),
        "warnings": list(find_warnings(found)),
        "advice": list(find_recommendations(found)),
    }
    charts = {}
    rewards = [Point(row["window"], row["reward"]) for row in rows if row["reward"] is not None]
    if rewards:
        axes = Axes("window", "mean reward")
        charts["reward"] = plot_lines("Reward", [Series("reward", rewards, reach=1)], axes)
        lengths = [Point(row["window"], row["characters"]) for row in rows]
        charts["length"] = plot_lines(
            "Length of submissions", [Series("characters", lengths)], Axes("window", "characters")
        )
    gaps = [_build_gap_point(row) for row in rows if row["gap"] is not None]
    if gaps:
        axes = Axes("window", "gap in reward")
        charts["gap"] = plot_lines(
            "Gap to the audit’s judge, with its 95% interval", [Series("gap", gaps, reach=1)], axes
        )
    return Page("drift", f"Drift in {source.name}", data, rows, charts)


def build_best_page(source: Source, query: PageQuery) -> Page:
    """Build the page of the best score by number of candidates."""
    try:
        summary = json.loads((source.directory / SUMMARY_FILE).read_text("utf-8"))
        curve, keep = list(summary["curve"]), dict(summary["keep"])
    except FileNotFoundError:
        raise PageRefusal(404, "this run has no selection.json") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise PageRefusal(422, f"{SUMMARY_FILE} cannot be read: {error}") from None
    charts = {}
    if curve:
        series = [
            Series("best score", [Point(point["k"], point["score"]) for point in curve]),
            Series("share above the threshold", [Point(point["k"], point["kept"]) for point in curve]),
        ]
        axes = Axes("candidates a query (k)", "mean over queries", (0.0, 1.0))
        charts["curve"] = plot_lines("Best of k", series, axes)
    tenths = (summary.get("spread") or {}).get("tenths")
    if tenths:
        bars = [(f"{place / 10:.1f}", float(n)) for place, n in enumerate(tenths)]
        charts["spread"] = plot_bars("Scores of candidates", bars, "score, from", "candidates")
    data = {
        "curve": curve,
        "keep": keep,
        "total": summary.get("total") or {},
        "by_source": summary.get("by_source") or [],
        "unjudged": summary.get("unjudged"),
        "by_model": summary.get("by_model") or {},
    }
    return Page("best", f"Best of k in {source.name}", data, curve, charts)


def _build_gap_point(row: dict[str, Any]) -> Point:
    mean, half = row["gap"], row["gap_half"]
    ends = (None, None) if half is None else (mean - half, mean + half)
    return Point(row["window"], mean, "", *ends)


def _read_version_numbers(source: Source) -> dict[str, int]:
    """Return the numbers of evolved rubrics by digest; empty if none evolved or the file is damaged."""
    from autorubric.training.evolution.versions import VERSIONS_FILE, read_log

    try:
        lineages = read_log(source.directory / VERSIONS_FILE).lineages.values()
    except InputError:
        return {}  # the page of the versions says so
    return {version.digest: version.number for lineage in lineages for version in lineage.versions}


def _flatten(window: dict[str, Any]) -> dict[str, Any]:
    gap = window.pop("gap")
    steps = window.pop("steps")
    return window | {
        "gap": gap and gap.mean,
        "gap_half": gap and gap.half,
        "first_step": steps and steps[0],
        "last_step": steps and steps[1],
    }
