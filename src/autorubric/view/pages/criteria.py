"""The criteria of a graded run, and one of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from autorubric.runs.cells import ABSTENTION, FAILURE
from autorubric.view import figures
from autorubric.view.page import PAGE_ROWS, Page, Query, Refusal
from autorubric.view.sources import Source, index_state

_ORDER = {"MET": 0, "UNMET": 1, ABSTENTION: 8, FAILURE: 9}


def criteria_page(source: Source, query: Query) -> Page:
    """A line for each criterion, fifty a page."""
    after = query.whole("after")
    with source.reading() as connection:
        rows = figures.criteria(connection, -1 if after is None else after, PAGE_ROWS + 1)
        count = connection.execute("SELECT count(*) FROM criteria").fetchone()[0]
        state = index_state(connection)
    shown = rows[:PAGE_ROWS]
    data = {
        "criteria": shown,
        "count": count,
        "next": shown[-1]["criterion"] if len(rows) > PAGE_ROWS else None,
        "index": state,
    }
    return Page("criteria", f"Criteria of {source.name}", data, shown)


def criterion_page(source: Source, query: Query, criterion: int) -> Page:
    """One criterion: how its verdicts came out, and who agrees on it."""
    with source.reading() as connection:
        row = connection.execute("SELECT * FROM criteria WHERE criterion = ?", (criterion,)).fetchone()
        if row is None:
            raise Refusal(404, f"this run has no criterion {criterion}")
        found = figures.criterion_figures(row)
        counts = connection.execute(
            "SELECT text, sum(n) FROM cells JOIN words USING (word) WHERE criterion = ? GROUP BY word",
            (criterion,),
        ).fetchall()
        pairs = raters_of(connection, criterion)
    whole = sum(n for _, n in counts)
    verdicts = [
        {"verdict": word, "items": n, "share": n / whole}
        for word, n in sorted(counts, key=lambda one: (_ORDER.get(one[0], 5), one[0]))
    ]
    data = {**found, "verdicts": verdicts, "raters": pairs}
    return Page("criterion", found["name"], data, verdicts)


def raters_of(connection: sqlite3.Connection, criterion: int) -> list[dict[str, Any]]:
    """The agreement of each pair of raters on a criterion, with the table of their verdicts."""
    found = []
    for (one, other), by_criterion in figures.pairs(connection, criterion).items():
        counts = by_criterion[criterion]
        found.append(
            {
                "one": figures.rater_name(one),
                "other": figures.rater_name(other),
                **figures.agreement(counts)._asdict(),
                "confusion": confusion_of(counts),
            }
        )
    return found


def confusion_of(counts: Sequence[tuple[str, str, int]]) -> dict[str, Any]:
    """Counts of two raters' words as a matrix: rows are the first rater's."""
    words = sorted({word for a, b, _ in counts for word in (a, b)}, key=lambda word: (_ORDER.get(word, 5), word))
    cells = {(a, b): n for a, b, n in counts}
    return {"words": words, "counts": [[cells.get((a, b), 0) for b in words] for a in words]}
