"""A report as one HTML file (no script, no request, same bytes for the same run), or as a short Markdown table."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from autorubric.charts.html import figure, spelled
from autorubric.view.page import Query
from autorubric.view.rendering import asset, dollars, environment, html, interval, percent, percents
from autorubric.view.report.contents import Contents, Section

_LINK = re.compile(r"<a\b([^>]*)>(.*?)</a>", re.DOTALL)  # texts are escaped, so these are the templates' own
_ITEM = re.compile(r"/items/(\d+)\"")
_RUBRIC = re.compile(r"/rubrics/(\d+)\"")
_HEADING = re.compile(r"(</?h)([1-4])\b")


def document(contents: Contents, figures: Mapping[str, Any], version: str) -> str:
    """The file.

    Args:
        contents: what it shows.
        figures: what it holds as data.
        version: of this package.
    """
    style = (asset("view.css") + asset("report.css")).decode()
    anchors = {one.anchor for one in contents.sections}
    sections = [
        {"anchor": one.anchor, "note": one.note, "html": Markup(_section(one, anchors, version))}
        for one in contents.sections
    ]
    return environment().get_template("report.html").render(
        name=contents.name,
        version=version,
        style=Markup(style),
        style_hash=Markup(base64.b64encode(sha256(style.encode()).digest()).decode()),
        contents=[one for one in contents.sections if one.words],
        sections=sections,
        figures=Markup(_inert(data_text(figures))),
    )  # fmt: skip


def data_text(figures: Mapping[str, Any], indent: int | None = None) -> str:
    """Figures as JSON, always with the same bytes."""
    separators = (",", ":") if indent is None else None
    return json.dumps(figures, sort_keys=True, allow_nan=False, indent=indent, separators=separators)


def _inert(data: str) -> str:
    """JSON as the text of an element: signs of HTML become escapes of JSON, which are shorter than those of HTML."""
    for sign in "&<>":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    return data


def _section(section: Section, anchors: Collection[str], version: str) -> str:
    """A page as the view shows it, with links to what is in the report alone, and headings one level down."""
    surroundings = {"layout": "section.html", "on_paper": True, "root": "", "query": Query(()), "version": version}
    text = _LINK.sub(lambda found: _link(found, anchors), html(section.page, surroundings))
    return _HEADING.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", text)


def _link(found: re.Match[str], anchors: Collection[str]) -> str:
    item = _ITEM.search(found[1]) or re.search(r"/items/(\d+)\?", found[1])
    if item is not None and f"item-{item[1]}" in anchors:
        return f'<a href="#item-{item[1]}">{found[2]}</a>'
    rubric = _RUBRIC.search(found[1])
    if rubric is not None and f"rubric-{rubric[1]}" in anchors:
        return f'<a href="#rubric-{rubric[1]}">{found[2]}</a>'
    return found[2]


_MOST_MOVED = 5
_MOST_CRITERIA = 20


def markdown(figures: Mapping[str, Any]) -> str:
    """The figures of a report in Markdown; a comment at the end says how it was made, so that it can be checked."""
    made = {name: figures[name] for name in ("autorubric", "layout", "settings")}
    made["comparison"] = figures["comparison"] is not None
    return "\n".join((*_lines(figures), "", f"<!-- {json.dumps(made, sort_keys=True)} -->")) + "\n"


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    summary, comparison = figures["summary"], figures["comparison"]
    yield from (f"### {_name(figures['run'])}", "", "| | |", "|---|---|")
    rows = _rows(summary) if summary["scores"] is not None else _rubric_rows(figures)
    yield from (f"| {name} | {value} |" for name, value in rows)
    if comparison is not None:
        yield from _change(comparison)
    yield from _criteria(figures.get("criteria") or (), figures.get("agreement"))


def _change(comparison: Mapping[str, Any]) -> Iterator[str]:
    step = comparison["difference"]
    change = "–" if step["value"] is None else f"{step['value']:+.3f}{_around(step['interval'])}"
    yield f"| Change against {_name(comparison['names'][0])} | {change}, {step['n']:,} common items |"
    moved = [one for one in comparison["criteria"] if one["difference"]][:_MOST_MOVED]
    if moved:
        yield from ("", "| Criterion | before | now | change |", "|---|---:|---:|---:|")
    for one in moved:
        cells = (figure(one["first"], 3), figure(one["second"], 3), f"{one['difference']:+.3f}")
        yield f"| {_name(one['name'])} | {' | '.join(cells)} |"


def _criteria(criteria: Sequence[Mapping[str, Any]], agreement: Mapping[str, Any] | None) -> Iterator[str]:
    if not criteria:
        return
    labelled = {one["criterion"]: one for one in agreement["criteria"] if one["labelled"]} if agreement else {}
    own, rule = (" agrees with labels |", "---:|") if labelled else ("", "")
    yield from ("", f"| Criterion | weight | mean value | failed |{own}", f"|---|---:|---:|---:|{rule}")
    for one in criteria[:_MOST_CRITERIA]:
        mean = figure(one["mean"], 3) + (f" ({interval(one['interval'], 3)})" if one["interval"] else "")
        cells = [_name(one["name"]), f"{one['weight']:g}", mean, f"{one['failed']:,}"]
        if labelled:
            label = labelled.get(one["criterion"])
            cells.append("–" if label is None else percent(label["agreement"]) + _of(label["interval"]))
        yield f"| {' | '.join(cells)} |"
    if len(criteria) > _MOST_CRITERIA:
        yield from ("", f"The first {_MOST_CRITERIA} of {len(criteria):,} criteria.")


def _of(ends: Sequence[float] | None) -> str:
    return f" ({percents(ends)})" if ends else ""


def _rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    scores, coverage, costs = summary["scores"], summary["coverage"], summary["costs"]
    if summary["status"] != "completed":
        yield "Status", _name(summary["status"])
    total = summary["total"]
    of_all = f" of {total:,}" if isinstance(total, int) and total != scores["items"] else ""
    yield "Score", f"{figure(scores['mean'], 3)}{_around(scores['interval'])}, {scores['scored']:,} scored"
    yield "Items", f"{scores['items']:,}{of_all}"
    yield "Judgments made", "–" if coverage is None else f"{coverage:.1%}"
    failures = ", ".join(f"{one['count']:,} {_name(one['kind'])}" for one in summary["failures"])
    yield "Failures", failures or "none"
    labels = summary["against_labels"]
    if labels:
        yield "Agreement with labels", f"{labels['value']:.1%}{_around(labels['interval'])}"
    yield "Cost", _cost(costs)


def _rubric_rows(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    summary, costs = figures["summary"], figures["summary"]["costs"]
    if summary["status"] != "completed":
        yield "Status", _name(summary["status"])
    yield "Rubrics", f"{figures['rubrics']:,}"
    yield "Cost", _cost(costs)


def _cost(costs: Mapping[str, Any]) -> str:
    return dollars(costs["cost"]) + (f", {costs['calls']:,} calls" if costs["calls"] else "")


def _around(ends: Sequence[float] | None) -> str:
    return f" (95 % interval {interval(ends, 3)})" if ends else ""


def _name(text: str) -> str:
    """A name as code, where nothing is a link, a picture, a tag or a mention."""
    shown = spelled(" ".join(text.split()))[:80].replace("`", "'").replace("|", "¦")
    return f"`{shown}`" if shown else "–"
