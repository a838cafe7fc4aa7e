"""The criteria of a graded run, and the agreement of its judges with the labels and with each other."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import Any

from autorubric.charts.svg import Axes, Point, Ranged, Series, plot_intervals, plot_lines
from autorubric.errors import pluralize
from autorubric.metrics.intervals import DISTRUST, TRUST
from autorubric.runs.cells import ABSTENTION, FAILURE, UNASKED
from autorubric.view import figures
from autorubric.view.index.schema import FINAL, HUMAN, read_notes
from autorubric.view.index.tally import build_scaled_criterion
from autorubric.view.page import ALL_ROWS, Page, PageQuery, PageRefusal
from autorubric.view.sources import Source, read_index_state

_MOST_CHARTED = 25
_OWN_COLUMNS = ("kappa", "accuracy")
"""Titles of statistics that the table shows with their intervals."""


def build_agreement_page(source: Source, query: PageQuery) -> Page:
    """Agreement by criterion with intervals, by pair of judges, and by stated confidence."""
    with source.reading() as connection:
        everywhere = {(row["one"], row["other"]): row for row in source.cache(connection, "pairs", _compare_raters)}
        found, more = _read_criteria(connection, query)
        rows = source.name_apart(connection, (_measure_criterion(connection, row) for row in found), in_full=True)
        majority = source.cache(connection, "majority", lambda opened: figures.compute_baseline(opened, source))
        single, notes = figures.read_single_labels(connection, source), read_notes(connection)
        if single is not None:
            rows = [figures.apply_single_labels(row, single, "criteria", ("labelled", "agreement")) for row in rows]
        rows = source.name_apart(connection, rows)
        problem = single["problem"] if single else ""
        if problem and query.rows == ALL_ROWS:  # a table has no room for it
            raise PageRefusal(503, problem)
        measured = None if problem else source.cache(connection, "labels", figures.measure_against_labels)
        labels = measured or figures.Mean(None, None, 0)
        reliability = [] if problem or (single and single.get("weighted")) else _measure_reliability(connection)
        state = read_index_state(connection)
    human, verdict = figures.name_rater(HUMAN), figures.name_rater(FINAL)
    between = [row for pair, row in everywhere.items() if human not in pair]
    whole = None if problem else everywhere.get((human, verdict))
    judges = [row for (one, other), row in everywhere.items() if not problem and one == human and other != verdict]
    if single is not None:
        judges = [figures.apply_single_labels(row, single, "judges", ("n", "share")) for row in judges]
        whole = whole and figures.apply_single_labels(whole, single, "judge", ("n", "share"))
    charts = _draw_charts(rows, reliability, labels.n > 0)
    data = {
        "labels": {
            "origin": str(notes.get("labels") or ""),
            "not_counted": notes.get("other_labels") or 0,
            "weighted": bool(single and single.get("weighted")),
            "notes": list(single["notes"]) if single and labels.n else [],
            "problem": problem,
        },
        "labelled": labels._asdict() if labels.n else None,
        "majority": None if problem else single["judge"].get("baseline") if single else majority,
        "criteria": rows,
        "statistics": _as_columns({row["criterion"]: row.pop("statistics") for row in rows}),
        "next": more,
        "whole": whole,
        "judges": judges,
        "between": between,
        "reliability": reliability,
        "limits": (DISTRUST, TRUST),
        "index": state,
    }
    return Page("agreement", f"Agreement in {source.name}", data, rows, charts)


def _compare_raters(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Measure each pair of raters: agreement over all criteria, and κ over the binary ones, without intervals."""
    sums: dict[tuple[str, str], dict[tuple[str, str, bool], int]] = {}
    query = """SELECT one, other, x.text, y.text, scale = '', sum(n) FROM pairs JOIN criteria USING (criterion)
        JOIN words AS x ON x.word = a JOIN words AS y ON y.word = b GROUP BY one, other, a, b, scale = ''"""
    for one, other, a, b, is_binary, n in connection.execute(query):
        sums.setdefault((one, other), {})[a, b, bool(is_binary)] = n
    found = []
    for (one, other), cells in sums.items():
        hits, total = figures.count_same((a, b, n) for (a, b, _), n in cells.items())
        row = _compare_pair(one, other, [(a, b, n) for (a, b, is_binary), n in cells.items() if is_binary])
        row |= {"n": total, "share": hits / total if total else None, "abstained": sum(cells.values()) - total}
        row |= {"interval": None, "kappa_interval": None}
        found.append(row)
    return found


def _read_criteria(connection: sqlite3.Connection, query: PageQuery) -> tuple[list[sqlite3.Row], int | None]:
    """Return the criteria of a page, and the one that the next page follows."""
    select = "SELECT * FROM criteria WHERE criterion > ? ORDER BY criterion LIMIT ?"
    found = connection.execute(select, (query.read_whole("after", -1), query.rows + 1)).fetchall()
    return found[: query.rows], found[query.rows - 1]["criterion"] if len(found) > query.rows else None


def _measure_criterion(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    """Measure the agreement on a criterion: of the verdict with the label, and of the judges with each other."""
    from autorubric.metrics.intervals import wilson_interval
    from autorubric.metrics.per_criterion import measure_pairs

    pairs = figures.read_pairs(connection, row["criterion"])
    label = measure_pairs(build_scaled_criterion(row["scale"]), pairs.get((HUMAN, FINAL), []))
    judges = [figures.count_same(counts) for raters, counts in pairs.items() if HUMAN not in raters]
    decided = [(hits, n) for hits, n in judges if n]
    return {
        **{name: row[name] for name in ("criterion", "name", "weight")},
        "labelled": label.n,
        "agreement": label.share,
        "interval": label.interval,
        "kappa": label.kappa,
        "kappa_interval": label.kappa_interval,
        "statistics": {title: value for title, value in label.statistics.items() if title not in _OWN_COLUMNS},
        "between_judges": sum(hits for hits, _ in decided) / sum(n for _, n in decided) if decided else None,
        "between_interval": figures.as_ends(wilson_interval(*decided[0])) if len(decided) == 1 else None,
        "disputed": row["disputed"],
    }


def _as_columns(found: Mapping[int, Mapping[str, float | None]]) -> dict[str, Any]:
    """Statistics by criterion as the columns of a table; a criterion without any has an empty row."""
    columns = list(dict.fromkeys(title for cells in found.values() for title in cells))
    rows = {str(number): [cells.get(title) for title in columns] if cells else [] for number, cells in found.items()}
    return {"columns": columns, "rows": rows}


def _measure_reliability(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return how often verdicts equal the label, by tenths of stated confidence."""
    from autorubric.metrics.intervals import wilson_interval

    query = "SELECT tenth, n, agreed, total FROM confidence ORDER BY tenth"
    return [
        {"from": tenth / 10, "n": n, "confidence": total / n, "agreement": agreed / n}
        | {"interval": figures.as_ends(wilson_interval(agreed, n))}
        for tenth, n, agreed, total in connection.execute(query)
    ]


def _draw_charts(rows: list[dict[str, Any]], reliability: list[dict[str, Any]], has_labels: bool) -> dict[str, str]:
    value, around = ("agreement", "interval") if has_labels else ("between_judges", "between_interval")
    part = f", first {_MOST_CHARTED} of the table" if len(rows) > _MOST_CHARTED else ""
    rows, charts = rows[:_MOST_CHARTED], {}
    shares = [
        Ranged(row["name"], row[value], low, high, row["statistics"].get("baseline"))
        for row in rows
        for low, high in [row[around] or (None, None)]
        if row[value] is not None
    ]
    kappas = [Ranged(row["name"], row["kappa"], *row["kappa_interval"]) for row in rows if row["kappa_interval"]]
    if shares:
        title = ("Agreement with the labels" if has_labels else "Agreement between judges") + part
        mark = "; upright line: majority class" if has_labels else ""
        charts["criteria"] = plot_intervals(title, shares, f"equal verdicts, 95% interval{mark}")
    if kappas:
        low = min(0.0, *(row.low for row in kappas if row.low is not None))
        x_title = f"κ, 95% interval; dashed: {DISTRUST} and {TRUST}"
        ends, limits = (floor(5 * low) / 5, 1.0), (DISTRUST, TRUST)
        charts["kappas"] = plot_intervals(f"Cohen’s κ with the labels{part}", kappas, x_title, ends, limits)
    if len(reliability) > 1:
        points = [
            Point(
                row["confidence"],
                row["agreement"],
                pluralize(row["n"], "verdict"),
                *(row["interval"] or (None, None)),
            )
            for row in reliability
        ]
        axes = Axes("confidence of the verdict", "share equal to the label", (0.0, 1.0), (0.0, 1.0), diagonal=True)
        charts["reliability"] = plot_lines("Reliability of stated confidence", [Series("verdicts", points)], axes)
    return charts


def _sort_verdicts(words: Iterable[str], scale: str) -> list[str]:
    """Verdicts in the order of the options of a criterion, abstentions and failures last."""
    options = [option.label for option in build_scaled_criterion(scale).options or ()] or ["MET", "UNMET"]
    places = {word: place for place, word in enumerate([*options, ABSTENTION, FAILURE, UNASKED])}
    return sorted(words, key=lambda word: (places.get(word, len(options)), word))


def build_criteria_page(source: Source, query: PageQuery) -> Page:
    """Return the criteria, fifty a page."""
    with source.reading() as connection:
        found, more = _read_criteria(connection, query)
        count = connection.execute("SELECT count(*) FROM criteria").fetchone()[0]
        state = read_index_state(connection)
    shown = [figures.summarize_criterion(row) for row in found]
    data = {"criteria": shown, "count": count, "next": more, "index": state}
    return Page("criteria", f"Criteria of {source.name}", data, shown)


def build_criterion_page(source: Source, query: PageQuery, criterion: int) -> Page:
    """Return one criterion: its verdicts, and the agreement on it."""
    with source.reading() as connection:
        row = connection.execute("SELECT * FROM criteria WHERE criterion = ?", (criterion,)).fetchone()
        if row is None:
            raise PageRefusal(404, f"this run has no criterion {criterion}")
        [found] = source.name_apart(connection, [figures.summarize_criterion(row)])
        counts = connection.execute(
            "SELECT text, sum(n) FROM cells JOIN words USING (word) WHERE criterion = ? GROUP BY word",
            (criterion,),
        ).fetchall()
        pairs = [
            _compare_pair(*raters, counts_of_pair, row["scale"])
            for raters, counts_of_pair in figures.read_pairs(connection, criterion).items()
        ]
        single, state = figures.read_single_labels(connection, source), read_index_state(connection)
    if single is not None:
        pairs = [_apply_single_labels(row, found["name"], single) for row in pairs]
    items, whole = dict(counts), sum(n for _, n in counts)
    verdicts = [
        {"verdict": word, "items": items[word], "share": items[word] / whole}
        for word in _sort_verdicts(items, row["scale"])
    ]
    data = {**found, "verdicts": verdicts, "raters": pairs, "index": state}
    return Page("criterion", found["name"], data, verdicts)


def _apply_single_labels(row: Mapping[str, Any], name: str, single: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agreement of two raters on a criterion; for the labels, by the figures of `single`."""
    if row["one"] != figures.name_rater(HUMAN):
        return dict(row)
    part = "criteria" if row["other"] == figures.name_rater(FINAL) else ""
    found = figures.apply_single_labels({**row, "name": name}, single, part, ("n", "share"))
    return {key: value for key, value in found.items() if key != "name"}


def _compare_pair(one: str, other: str, counts: Sequence[tuple[str, str, int]], scale: str = "") -> dict[str, Any]:
    """Compare two raters on a criterion; in the matrix of their verdicts, rows are the first rater's."""
    from autorubric.metrics.per_criterion import measure_pairs

    words = _sort_verdicts({word for a, b, _ in counts for word in (a, b)}, scale)
    cells = {(a, b): n for a, b, n in counts}
    found = measure_pairs(build_scaled_criterion(scale), counts)._asdict()
    del found["statistics"]
    return {
        "one": figures.name_rater(one),
        "other": figures.name_rater(other),
        **found,
        "confusion": words and {"words": words, "counts": [[cells.get((a, b), 0) for b in words] for a in words]},
    }
