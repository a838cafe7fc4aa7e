"""The list of runs, the summary of a run, and its live page."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from autorubric.errors import InputError
from autorubric.view import figures
from autorubric.view.index.schema import read_notes
from autorubric.view.page import Page, PageQuery, PageRefusal
from autorubric.view.sources import JsonLines, Source, read_index_state

MOST_CHARTED = 25
MOST_COUNTED = 1_000
"""Rubrics that a summary counts."""

_COUNTED = ("synthesis", "selection", "evolution")
"""Kinds of runs whose manifest counts their rows."""

_FIGURES = ("items", "mean", "interval", "failed", "differs")


def build_runs_page(sources: Sequence[Source], is_hidden: Callable[[Source], bool] = lambda source: False) -> Page:
    """Return a line for each run, without the score if `is_hidden`."""
    rows = [_describe_run(source, is_hidden(source)) for source in sources]
    share = min((row.pop("share") for row in rows), default=1.0)
    return Page("runs", "Runs", {"runs": rows, "index": {"share": share}}, rows)


def _describe_run(source: Source, hidden: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"run": source.number, "name": source.name, "kind": source.kind, "gone": source.is_gone}
    row |= {"status": source.status, "updated": source.manifest.get("updated_at")}
    row |= dict.fromkeys(_FIGURES) | {"share": 1.0}
    if source.kind in _COUNTED:
        counts = source.manifest.get("counts") or {}
        row |= {"items": counts.get("finished"), "failed": counts.get("failed")}
    if hidden or source.is_gone or not source.has_items:
        return row
    try:
        with source.reading() as connection:
            found, state = source.cache(connection, "scores", figures.read_scores), read_index_state(connection)
    except PageRefusal:
        return row | {"share": 0.0}
    return row | {name: found[name] for name in _FIGURES} | {"share": state["share"]}


def build_summary_page(source: Source, query: PageQuery) -> Page:
    """Score, coverage, failures, cost, and what drives the score."""
    manifest = source.manifest
    spent = figures.read_costs(source)
    data: dict[str, Any] = {
        "kind": source.kind,
        "status": source.status,
        "error": str(manifest.get("error") or ""),
        "dataset": str(manifest.get("dataset_name") or ""),
        "total": manifest.get("total_items"),
        "started": str(manifest.get("started_at") or manifest.get("created_at") or ""),
        "stand_ins": _as_texts(manifest.get("stand_ins") or (manifest.get("eval_config") or {}).get("stand_ins")),
        "judges": list_judges(manifest),
        "costs": spent,
        "graded": source.has_items,
        "graded_run": "" if source.has_items else str(manifest.get("graded_run") or ""),
        **dict.fromkeys(("rows", "rubrics", "scores", "coverage", "against_labels")),
        **dict.fromkeys(("failures", "drivers", "criteria"), ()),
        "judgments": 0,
        "flags": {},
    }
    criteria: list[dict[str, Any]] = []
    charts: dict[str, str] = {}
    data |= _count_changes(source) if source.has_versions else {}
    data |= _count_rewards(source) if source.kind == "service" else {}
    if source.has_items:
        criteria, charts = _add_scores(source, data, query.rows)
    elif source.kind in _COUNTED:
        data["rows"], data["failures"], data["error"] = _read_progress(source)
        if source.rubrics is not None:
            lines = source.open_rubrics()
            data["rubrics"], charts = source.cache_files(
                "counts", [lines.path], lambda: _count_rubrics(lines, source)
            )
    return Page("summary", source.name, data, criteria, charts)


def _add_scores(source: Source, data: dict[str, Any], most: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Add the figures of a graded run to those of its page; return at most `most` of its criteria, and the charts."""
    from autorubric.charts.svg import Ranged, plot_bars, plot_intervals
    from autorubric.errors import pluralize

    with source.reading() as connection:
        notes = read_notes(connection)
        data["scores"] = source.cache(connection, "scores", figures.read_scores)
        made = source.cache(
            connection, "judgments", lambda opened: figures.count_judgments(opened, source), source.status
        )
        data["coverage"], data["judgments"] = made.coverage, sum(made)
        data["drivers"] = source.name_apart(connection, source.cache(connection, "drivers", figures.find_drivers))
        criteria = source.name_apart(connection, figures.read_criteria(connection, most))
        data["criteria"] = criteria[:MOST_CHARTED]
        data["index"] = read_index_state(connection)
        labels = source.cache(connection, "labels", figures.measure_against_labels)
        data["against_labels"] = labels._asdict() if labels.n else None
        bins = [(label, float(n)) for label, n in source.cache(connection, "histogram", figures.read_histogram)]
    data["failures"] = _list_failures(json.loads(notes.get("failures") or "[]"), "judgment")
    if count := made.not_requested:
        sentence = f"{pluralize(count, 'judgment')} {'was' if count == 1 else 'were'} not made"
        data["failures"].append({"kind": "not requested", "count": count, "items": [], "sentence": sentence})
    data["flags"] = json.loads(notes.get("flags") or "{}")
    charts = {}
    if data["scores"]["scored"]:
        charts["scores"] = plot_bars("Scores", bins, "score, in steps of 0.05", "items")
    rows = [
        Ranged(criterion["name"], criterion["mean"], *(criterion["interval"] or (None, None)))
        for criterion in data["criteria"]
        if criterion["mean"] is not None
    ]
    which = "each criterion" if len(criteria) <= MOST_CHARTED else f"the first {MOST_CHARTED} criteria"
    if rows:
        charts["criteria"] = plot_intervals(f"Mean value of {which}", rows, "mean value, 95% interval")
    return criteria, charts


def _count_rubrics(lines: JsonLines, source: Source) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the criteria, the gates and the charts of the first synthesized rubrics, as in the dataset card."""
    from autorubric.synthesis.card import RunFacts, count_facts, draw_plots, read_run_facts

    rows, problem = (row for _, row in lines.read_rows(0, MOST_COUNTED) if row is not None), ""
    try:
        facts = count_facts(rows, read_run_facts(source.manifest, source.name))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"{lines.path.name} has values that cannot be counted: {error!r}"
        facts = count_facts((), RunFacts(source.name))
    total = facts.total
    return {
        "problem": problem,
        "count": len(lines),
        "counted": total.rows,
        "criteria": total.criteria,
        "pitfalls": total.pitfalls,
        "rejected": total.rejected,
        "gates": [{"gate": gate, **decisions} for gate, decisions in total.gates.items()],
    }, draw_plots(facts)


def _count_rewards(source: Source) -> dict[str, Any]:
    """Count the rewards that a service gave and that failed, by reason; empty if the ledger cannot be read."""
    from autorubric.errors import pluralize
    from autorubric.training.observations import count_rewards

    found, problem = figures.read_ledger(source, lambda folder: [*count_rewards(folder).items()], "rewards")
    given = dict(found).get(None, 0)
    failures = [
        {"kind": kind, "count": n, "items": [], "sentence": f"{pluralize(n, 'reward')} failed: {kind}"}
        for kind, n in found
        if kind is not None
    ]
    counts = {"given": given, "failed": sum(n for _, n in found) - given}
    return {} if problem else {"rewards": counts, "failures": failures}


def _count_changes(source: Source) -> dict[str, Any]:
    """Count the evolved rubrics and the changes of their criteria, or return the problem of the versions file."""
    from autorubric.training.evolution.versions import VERSIONS_FILE, count_changes, read_log

    path = source.directory / VERSIONS_FILE
    try:
        found = source.cache_files("changes", [path], lambda: count_changes(read_log(path).lineages.values()))
    except InputError as error:
        return {"damage": str(error)}
    return {"evolution": found}


def _list_failures(groups: object, noun: str) -> list[dict[str, Any]]:
    """Failures by cause, from the groups as JSON values, each with its sentence."""
    from autorubric.llm.failure_groups import FailureGroups, format_failures  # the list of runs needs none of these

    shown = [group for group in FailureGroups.from_list(groups) if group.is_failure]
    lines = zip(shown, format_failures(shown, noun), strict=True)
    return [
        {"kind": group.kind, "count": group.count, "items": group.items, "sentence": line} for group, line in lines
    ]


def _read_progress(source: Source) -> tuple[dict[str, int | None], list[dict[str, Any]], str]:
    """Return the rows of a synthesis, its failures, and why it ended early: all as in `autorubric status`."""
    from autorubric.jobs.status import status

    try:
        found = status(source.directory)
    except InputError:  # the costs say what is wrong with the ledger
        return {}, [], ""
    total, done, failed, _, groups, *_ = found.row_counts
    failures = _list_failures([*map(asdict, groups or found.unanswered)], "row" if groups else "request")
    return {"total": total, "done": done, "failed": failed}, failures, found.stopped


def list_judges(manifest: Any) -> list[dict[str, str]]:
    """Id and model of each judge, as a manifest records them."""
    config = manifest.get("grader_config") or manifest.get("grader") or {}
    judges = config.get("judges") if isinstance(config, dict) else None
    found = []
    for judge in judges if isinstance(judges, list) else ():
        model = judge.get("model") if isinstance(judge, dict) else None
        name = model.get("model") if isinstance(model, dict) else model
        found.append({"judge_id": str(judge.get("judge_id")), "model": str(name)})
    return found


def _as_texts(value: Any) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else []


def build_live_page(source: Source, query: PageQuery) -> Page:
    """Return the progress of a run; a script updates the page."""
    status, total = source.status, source.manifest.get("total_items")
    spent = figures.read_costs(source)
    state: dict[str, Any] = {
        "running": status == "running",
        "status": status,
        "rows": "queries" if source.kind == "synthesis" else "items",
        "total": total if isinstance(total, int) else None,
        "done": 0,
        "failed": 0,
        "mean": None,
        "interval": None,
        "calls": spent["calls"],
        "cost": spent["cost"],
        "indexed": 1.0,
    }
    failures = list[dict[str, Any]]()
    if source.has_items:
        with source.reading() as connection:
            found, notes = source.cache(connection, "scores", figures.read_scores), read_notes(connection)
            state["indexed"] = read_index_state(connection)["share"]
        state |= {name: found[name] for name in ("done", "mean", "interval", "failed")}
        failures = _list_failures(json.loads(notes.get("failures") or "[]"), "judgment")
    elif source.kind == "synthesis":
        rows, failures, _ = _read_progress(source)
        state |= rows
    state["failures"] = [failure["sentence"] for failure in failures[:10]]
    return Page("live", f"{source.name}, live", state, [state])
