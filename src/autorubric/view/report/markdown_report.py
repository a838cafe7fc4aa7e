"""A report in Markdown, for a pull request."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autorubric.charts.html import escape_hidden, format_float, format_p_value
from autorubric.errors import pluralize
from autorubric.runs.progress import format_cost
from autorubric.view.rendering import format_interval, format_percent, format_percents

_MOST_MOVED = 5
_MOST_CRITERIA = 20
_MOST_PAIRS = 50


def render_markdown(figures: Mapping[str, Any]) -> str:
    """Render the figures of a report in Markdown; a final comment says how it was made, for verification."""
    made = {name: figures[name] for name in ("autorubric", "layout", "settings")}
    made["comparison"] = figures["comparison"] is not None
    return "\n".join((*_render_lines(figures), "", f"<!-- {json.dumps(made, sort_keys=True)} -->")) + "\n"


def _render_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {_format_name(figures['run'])}"
    yield from (f"\n> {_format_name(name)}: {sentence}" for name, sentence in figures.get("warnings", {}).items())
    yield from ("", "| | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in _render_rows(figures))
    if figures["comparison"] is not None:
        yield from _render_change(figures["comparison"])
    if "groups" in figures:
        yield from _render_groups(figures["groups"])
    yield from _render_criteria(figures.get("criteria") or (), figures.get("agreement"))


def _render_groups(found: Mapping[str, Any]) -> Iterator[str]:
    heads = "items | scored | with abstentions | queries | mean score"
    yield from ("", f"| {_format_name(found['by'])} | {heads} |", "|---|---:|---:|---:|---:|---:|")
    for row in found["groups"]:
        counts = " | ".join(f"{row[name]:,}" for name in ("items", "scored", "abstained", "queries"))
        mean = format_float(row["mean"], 3) + _format_interval(row["interval"])
        yield f"| {_format_name(row['name'])} | {counts} | {mean} |"
    if pairs := found["differences"]:
        yield from ("", "| Difference | shared queries | mean | p (Holm) |", "|---|---:|---:|---:|")
    for row in pairs[:_MOST_PAIRS]:
        mean = "–" if row["difference"] is None else f"{row['difference']:+.3f}{_format_interval(row['interval'])}"
        names = f"{_format_name(row['first'])} − {_format_name(row['second'])}"
        yield f"| {names} | {row['queries']:,} | {mean} | {format_p_value(row['p_holm'])} |"
    if len(pairs) > _MOST_PAIRS:
        yield from ("", f"The first {_MOST_PAIRS} of {len(pairs):,} pairs.")
    yield from (f"\n> {escape_hidden(note)}" for note in found["notes"])


def _render_change(comparison: Mapping[str, Any]) -> Iterator[str]:
    step = comparison["difference"]
    ends = _format_interval(step["interval"], step.get("clusters"))
    change = "–" if step["value"] is None else f"{step['value']:+.3f}{ends}"
    yield f"| Change against {_format_name(comparison['names'][0])} | {change}, {step['n']:,} common items |"
    moved = [row for row in comparison["criteria"] if row["difference"]][:_MOST_MOVED]
    if moved:
        yield from ("", "| Criterion | before | now | change |", "|---|---:|---:|---:|")
    for row in moved:
        cells = (
            format_float(row["first"], 3),
            format_float(row["second"], 3),
            f"{row['difference']:+.3f}",
        )
        yield f"| {_format_name(row['name'])} | {' | '.join(cells)} |"
    if loose := comparison["loose"]:
        yield from ("", f"{loose:,} common items have no ids and share their query: they are paired in their order.")
    first, second = comparison["counts"]
    if moved and not first == second == comparison["common"]:
        yield from ("", f"Means over all items of each run: {first:,} before, {second:,} now.")


def _render_criteria(criteria: Sequence[Mapping[str, Any]], agreement: Mapping[str, Any] | None) -> Iterator[str]:
    if not criteria:
        return
    labelled = {row["criterion"]: row for row in agreement["criteria"] if row["labelled"]} if agreement else {}
    own, rule = (" agrees with labels |", "---:|") if labelled else ("", "")
    yield from ("", f"| Criterion | weight | mean value | failed |{own}", f"|---|---:|---:|---:|{rule}")
    for row in criteria[:_MOST_CRITERIA]:
        mean = f"{format_float(row['mean'], 3)} ({format_interval(row['interval'], 3)})".removesuffix(" ()")
        cells = [_format_name(row["name"]), f"{row['weight']:g}", mean, f"{row['failed']:,}"]
        if labelled:
            label = labelled.get(row["criterion"])
            ends = f" ({format_percents(label['interval'])})" if label and label["interval"] else ""
            cells.append("–" if label is None else format_percent(label["agreement"]) + ends)
        yield f"| {' | '.join(cells)} |"
    if len(criteria) > _MOST_CRITERIA:
        yield from ("", f"The first {_MOST_CRITERIA} of {len(criteria):,} criteria.")


def _render_rows(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    summary = figures["summary"]
    scores, coverage, rows, labels = (summary[name] for name in ("scores", "coverage", "rows", "against_labels"))
    if summary["status"] != "completed":
        yield "Status", _format_name(summary["status"])
        yield "Next", "`autorubric status RUN` says why, and how to resume it"
    if scores is not None:
        mean = format_float(scores["mean"], 3) + _format_interval(scores["interval"], scores.get("clusters"))
        yield "Score", f"{mean}, {scores['scored']:,} scored"
        yield "Items done", _format_part(scores["done"], summary["total"])
        yield "Judgments made", "–" if coverage is None else f"{coverage:.1%}"
    else:
        yield "Rubrics", f"{figures['rubrics']:,}"
    if rows and isinstance(rows["total"], int):
        yield "Queries done", f"{_format_part(rows['done'], rows['total'])}, {rows['failed']:,} failed"
    failures = [f"{failure['count']:,} {_format_name(failure['kind'])}" for failure in summary["failures"]]
    yield "Failures", ", ".join(failures) or "none"
    if labels:
        ends = labels["interval"]
        around = f" (95% interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f}%)" if ends else ""
        yield "Agreement with labels", f"{labels['value']:.1%}{around}"
    calls = f", {pluralize(n, 'call')}" if (n := summary["costs"]["calls"]) else ""
    yield "Cost", format_cost(summary["costs"]["cost"], "unknown") + calls


def _format_part(done: int, total: int | None) -> str:
    return f"{done:,}" + (f" of {total:,}" if isinstance(total, int) and total != done else "")


def _format_interval(ends: Sequence[float] | None, queries: int | None = None) -> str:
    clustered = f" clustered by query, {queries:,} queries" if queries else ""
    return f" (95% interval {format_interval(ends, 3)}{clustered})" if ends else ""


def _format_name(text: str) -> str:
    """Return a name as code, in which nothing is a link, a picture, a tag or a mention."""
    shown = escape_hidden(" ".join(text.split()))[:80].replace("`", "'").replace("|", "¦")
    return f"`{shown}`" if shown else "–"
