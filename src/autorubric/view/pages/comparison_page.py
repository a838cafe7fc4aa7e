"""Two runs on the same items."""

import sqlite3
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from autorubric.charts.svg import Axes, Point, Series, plot_lines
from autorubric.view import figures
from autorubric.view.index.schema import FILE_NAME
from autorubric.view.page import PAGE_ROWS, Page, PageQuery, PageRefusal
from autorubric.view.sources import Source, read_index_state

DRAWN = 1000
"""Items of the chart."""

_SCORED = " WHERE one.score IS NOT NULL AND two.score IS NOT NULL"


def build_comparison_page(
    source: Source,
    query: PageQuery,
    others: Sequence[Source],
    is_hidden: Callable[[Source], bool] = lambda source: False,
    drawn: int = DRAWN,
) -> Page:
    """Return the scores and verdicts of two runs, side by side; the items that differ most come first."""
    graded = [one for one in others if one.number != source.number and one.has_items and not one.is_gone]
    candidates = [run for run in graded if not is_hidden(run)]
    if not candidates:
        raise PageRefusal(404, "this view has no other graded run", "Start it with two: autorubric view RUN RUN")
    same = [run for run in candidates if run.manifest.get("dataset_hash") == source.manifest.get("dataset_hash")]
    chosen = query.read_whole("with", (same or candidates)[0].number)
    other = next((run for run in candidates if run.number == chosen), None)
    if other is None:
        raise PageRefusal(404, f"run {chosen} is not a graded run of this view")
    with source.reading() as connection, other.reading():
        connection.execute("ATTACH DATABASE ? AS other", (f"{(other.place / FILE_NAME).resolve().as_uri()}?mode=ro",))
        both, loose = figures.pair_items(connection, is_same_dataset=other in same)
        scored = both + _SCORED
        common = connection.execute(f"SELECT count(*) {both}").fetchone()[0]
        means = [figures.estimate_score(connection, scored, f"{run}.score", "one.query") for run in ("one", "two")]
        difference = figures.estimate_mean(connection, "(two.score - one.score)", scored, "one.query")
        rows, after = _compare_items(connection, query, scored)
        criteria = source.name_apart(connection, _compare_criteria(connection)) if common else []
        points = connection.execute(
            f"SELECT one.score, two.score, one.id {scored} ORDER BY one.item LIMIT {drawn}"
        ).fetchall()
        counts = [
            connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("items", "other.items")
        ]
        state = read_index_state(connection)
    with other.reading() as connection:
        state = min(state, read_index_state(connection), key=lambda found: found["share"])
    data = {
        "other": other.number,
        "names": [source.name, other.name],
        "choices": [{"number": run.number, "name": run.name} for run in candidates],
        "common": common,
        "loose": loose,
        "counts": counts,
        "means": [mean["value"] for mean in means],
        "intervals": [mean["interval"] for mean in means],
        "difference": difference,
        "items": rows,
        "next": after,
        "criteria": criteria,
        "index": state,
    }
    charts = {}
    if points:
        scores = [score for point in points for score in point[:2]]
        reach = min(0.0, *scores), max(1.0, *scores)
        axes = Axes(f"score in {source.name}", f"score in {other.name}", reach, reach, diagonal=True)
        pairs = [Point(a, b, f"{name}: {a:.3f}, {b:.3f}") for a, b, name in points]
        charts["scores"] = plot_lines("Scores in both runs", [Series("items", pairs, reach=-inf)], axes)
    return Page("comparison", f"{source.name} and {other.name}", data, rows, charts)


def _compare_items(
    connection: sqlite3.Connection, query: PageQuery, scored: str
) -> tuple[list[dict[str, Any]], str | None]:
    after = query.after
    where = "" if after is None else " AND (-abs(two.score - one.score), one.item) > (?, ?)"
    found = connection.execute(
        "SELECT one.item, one.id, one.description, one.score, two.score, two.item, "
        f"-abs(two.score - one.score) AS place {scored} AND abs(two.score - one.score) > 1e-12{where} "
        f"ORDER BY place, one.item LIMIT {query.rows + 1}",
        after or (),
    ).fetchall()
    names = ("item", "id", "description", "first", "second", "other")
    shown, following = query.cut(found)
    return [{**dict(zip(names, row[:6], strict=True)), "difference": row[4] - row[3]} for row in shown], following


def _compare_criteria(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the criteria in both runs with the mean value in each, the largest change first."""
    query = """SELECT one.criterion, one.name, one.weight, one.total / one.judged, two.total / two.judged
        FROM criteria AS one JOIN other.criteria AS two USING (name, requirement)
        WHERE one.judged > 0 AND two.judged > 0
        ORDER BY abs(two.total / two.judged - one.total / one.judged) DESC, one.criterion LIMIT ?"""
    names = ("criterion", "name", "weight", "first", "second")
    rows = (dict(zip(names, row, strict=True)) for row in connection.execute(query, (PAGE_ROWS,)))
    return [{**row, "difference": round(row["second"] - row["first"], 12) or 0.0} for row in rows]
