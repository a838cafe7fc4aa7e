"""Figures of a run: scores, criteria and agreement from its index, costs and replies from its ledger.

The run may still be writing its ledger.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from autorubric.errors import AutorubricError
from autorubric.metrics.intervals import Interval, mean_interval, rate_interval
from autorubric.runs.cells import ABSTENTION, NO_VERDICT
from autorubric.view.index.schema import FAILED, FINAL, HUMAN, SKIPPED, read_notes
from autorubric.view.sources import Source

if TYPE_CHECKING:
    from autorubric.view.index.dataset_lines import DatasetLines

T = TypeVar("T")


class Mean(NamedTuple):
    """A mean of n values with the ends of its 95% confidence interval; None where one is undefined."""

    value: float | None
    interval: tuple[float, float] | None
    n: int


def estimate_mean(
    connection: sqlite3.Connection, value: str, rows: str, query: str = "query", *, bounded: bool = False
) -> dict[str, Any]:
    """Estimate the mean of an SQL expression over `rows`, a FROM clause; `clusters` counts multi-answer queries."""
    sums = f"count({value}), total({value})"
    n, total, squares, clusters = connection.execute(  # count(DISTINCT) is slower
        f"SELECT {sums}, total({value} * {value}), (SELECT count(*) FROM (SELECT 1 {rows} GROUP BY {query})) {rows}"
    ).fetchone()
    split = connection.execute(f"SELECT {sums} {rows} GROUP BY {query}").fetchall() if 1 < clusters < n else []
    interval = as_ends(mean_interval(n, total, squares, (0.0, 1.0) if bounded else None, clusters=split))
    return Mean(total / n if n else None, interval, n)._asdict() | ({"clusters": clusters} if split else {})


def estimate_score(
    connection: sqlite3.Connection, rows: str, score: str = "score", query: str = "query"
) -> dict[str, Any]:
    """Estimate the mean of scores; the index does not know the bounds of scores that are not normalized."""
    lowest, highest = connection.execute(f"SELECT min({score}), max({score}) {rows}").fetchone()
    bounded = lowest is not None and lowest >= 0.0 and highest <= 1.0
    return estimate_mean(connection, score, rows, query, bounded=bounded)


def pair_items(connection: sqlite3.Connection, *, is_same_dataset: bool) -> tuple[str, int]:
    """Return a FROM clause of the items `one` of a run, each with the same item `two` of the attached run `other`.

    Items with the same id are the same. Items without ids are the same if they are about the same query; where a
    query has several of them, they are paired in their order, and the second result counts these pairs.
    """
    if is_same_dataset:
        return "FROM items AS one JOIN other.items AS two ON one.item = two.item AND one.id = two.id", 0
    for run in ("main", "other"):
        connection.execute(
            f"CREATE TEMP TABLE {run}_order AS SELECT item, id, key, row_number() OVER (PARTITION BY id, key "
            "ORDER BY item) AS turn, id = '' AND count(*) OVER (PARTITION BY id, key) > 1 AS several "
            f"FROM (SELECT item, id, CASE id WHEN '' THEN query ELSE 0 END AS key FROM {run}.items)"
        )
    connection.execute("CREATE INDEX temp.by_turn ON other_order(id, key, turn)")
    both = (
        "FROM main_order AS a JOIN other_order AS b USING (id, key, turn) "
        "JOIN items AS one ON one.item = a.item JOIN other.items AS two ON two.item = b.item"
    )
    return both, connection.execute(f"SELECT count(*) {both} WHERE a.several OR b.several").fetchone()[0]


def read_scores(connection: sqlite3.Connection) -> dict[str, Any]:
    """Counts of items by state, and their mean, lowest and highest score."""
    row = connection.execute(
        "SELECT count(*), sum(marks & ?), sum(marks & 2 > 0), sum(marks & 4 > 0), sum(marks & 8 > 0), "
        "sum(labelled > 0), sum(marks & ? = 0), min(score), max(score) FROM items",
        (FAILED, FAILED | SKIPPED),
    ).fetchone()
    names = ("failed", "flagged", "disputed", "differs", "labelled", "done")
    mean = estimate_score(connection, "FROM items WHERE score IS NOT NULL")
    return {
        "items": row[0],
        "scored": mean.pop("n"),
        "mean": mean.pop("value"),
        **mean,
        **{name: value or 0 for name, value in zip(names, row[1:7], strict=True)},
        "lowest": row[7],
        "highest": row[8],
    }


def read_histogram(connection: sqlite3.Connection, bins: int = 20) -> list[tuple[str, int]]:
    """Return how many items have a score in each bin of [0, 1]; a score of 1 is in the last bin."""
    # Rounded first, because a sum of binary fractions may be just below the edge of its bin.
    cut = f"min(max(CAST(round(score * {bins}, 6) AS INTEGER), 0), {bins - 1})"
    query = f"SELECT {cut}, count(*) FROM items WHERE score IS NOT NULL GROUP BY 1"
    counts = dict(connection.execute(query).fetchall())
    return [(f"{place / bins:.2f}", counts.get(place, 0)) for place in range(bins)]


def read_criteria(connection: sqlite3.Connection, most: int = 50) -> list[dict[str, Any]]:
    """Return the figures of criteria, in the order of the rubric."""
    query = "SELECT * FROM criteria ORDER BY criterion LIMIT ?"
    return [summarize_criterion(row) for row in connection.execute(query, (most,))]


def find_drivers(connection: sqlite3.Connection, most: int = 8) -> list[dict[str, Any]]:
    """Return the most influential criteria, by size of the weight times variance of the verdicts."""
    query = """SELECT * FROM criteria WHERE judged > 1
        ORDER BY abs(weight) * (squares / judged - (total / judged) * (total / judged)) DESC, criterion LIMIT ?"""
    found = (summarize_criterion(row) for row in connection.execute(query, (most,)))
    return [driver for driver in found if driver["influence"] > 1e-12]


def summarize_criterion(row: sqlite3.Row) -> dict[str, Any]:
    """Return the figures of a row of `criteria`."""
    n, total, squares = row["judged"], row["total"], row["squares"]
    variance = max(0.0, squares / n - (total / n) ** 2) if n else 0.0
    return {
        **{name: row[name] for name in ("criterion", "name", "requirement", "weight", "judged")},
        "mean": total / n if n else None,
        "interval": as_ends(rate_interval(n, total, squares)),
        **{name: row[name] for name in ("abstained", "failed", "unasked", "disputed")},
        "influence": abs(row["weight"]) * variance,
    }


class Judgments(NamedTuple):
    """The numbers of judgments that were made, failed, or were not requested because the run or its budget ended."""

    made: int
    failed: int
    not_requested: int

    @property
    def coverage(self) -> float | None:
        """The share that was made."""
        return self.made / sum(self) if sum(self) else None


def count_judgments(connection: sqlite3.Connection, source: Source | None = None) -> Judgments:
    """Return the judgments of a run; once it has ended, including those of items that never started."""
    made, failed, unasked = connection.execute(
        "SELECT total(judged + abstained), total(failed), total(unasked) FROM criteria"
    ).fetchone()
    dataset = None if source is None or source.status == "running" else source.open_dataset()
    if dataset is not None:
        begun = {item for (item,) in connection.execute("SELECT item FROM items")}
        others = (dataset.read_item(index) for index in range(len(dataset)) if index not in begun)
        unasked += sum(len(dataset.list_criteria(record)) for record in others)
    return Judgments(int(made), int(failed), int(unasked))


def count_same(counts: Iterable[tuple[str, str, int]]) -> tuple[int, int]:
    """Return the number of equal pairs of words, and of all pairs, without abstentions and failures.

    Example:
        >>> count_same([("MET", "MET", 40), ("MET", "UNMET", 10), ("MET", "CANNOT_ASSESS", 5)])
        (40, 50)
    """
    decided = [(a == b, n) for a, b, n in counts if {a, b}.isdisjoint((ABSTENTION, *NO_VERDICT))]
    return sum(n for same, n in decided if same), sum(n for _, n in decided)


def as_ends(interval: Interval | None) -> tuple[float, float] | None:
    """Return the two ends of an interval; None for None."""
    return interval and (interval.low, interval.high)


def read_pairs(connection: sqlite3.Connection, criterion: int) -> dict[tuple[str, str], list[tuple[str, str, int]]]:
    """Counts of words on a criterion, by pair of raters: `(word, word, n)`."""
    query = """SELECT one, other, x.text, y.text, n FROM pairs
        JOIN words AS x ON x.word = a JOIN words AS y ON y.word = b WHERE criterion = ? ORDER BY one, other, a, b"""
    found: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
    for one, other, *counts in connection.execute(query, (criterion,)):
        found.setdefault((one, other), []).append((counts[0], counts[1], counts[2]))
    return found


def read_single_labels(connection: sqlite3.Connection, source: Source | None = None) -> Mapping[str, Any] | None:
    """Return the figures of `autorubric agree` on labels of single pairs; None if labels are of whole items.

    `problem` says why there are no figures; with the run as `source`, also that its newest labels are not read yet.
    """
    notes = read_notes(connection)
    if source is not None and source.has_new_labels(connection):
        return {"problem": "new labels are being read; reload the page"}
    if notes.get("label_problem"):
        return {"problem": notes["label_problem"]}
    if not notes.get("single_labels"):
        return None
    if notes.get("labels_at") != notes.get("offset"):
        return {"problem": "the agreement is computed once the run has ended and has been read; reload the page"}
    found: dict[str, Any] = json.loads(notes["label_figures"])
    return found


def apply_single_labels(
    row: Mapping[str, Any], single: Mapping[str, Any], part: str, names: tuple[str, str]
) -> dict[str, Any]:
    """Return a row with the figures of labels of single pairs, which may be weighted, instead of those of the index.

    Only the number of labels is kept where these figures have none for the row, such as for pooled criteria.

    Args:
        row: a row with a `name`, or with a judge's name as `other`.
        single: the figures.
        part: the key of the figures: criteria, judges or judge.
        names: the row's keys for the number of labels and for the share that agrees.
    """
    name = row.get("name", row.get("other"))
    found = single.get(part, [])
    own = [found] if part == "judge" and found else [each for each in found if each["name"] == name]
    if len(own) != 1 and not single.get("weighted") and not single["problem"]:
        return dict(row)  # counted from the pairs of the index, as nothing is weighted
    one = own[0] if len(own) == 1 else {}
    known = dict(zip(names, (one.get("n", row[names[0]]), one.get("accuracy")), strict=True))
    known |= {name: one.get(name) for name in ("interval", "kappa", "kappa_interval")}
    if "statistics" in row:
        known["statistics"] = {"baseline": one["baseline"]} if "baseline" in one else {}
    return {**row, **known}


def read_item_labels(connection: sqlite3.Connection, item: int) -> Mapping[str, Any]:
    """Return the labels that replace an item's labels in the dataset, as fields of the dataset; empty for none."""
    if "labels" not in read_notes(connection):
        return {}
    found = connection.execute("SELECT words FROM labels WHERE item = ?", (item,)).fetchone()
    return {"ground_truth": None if found is None else json.loads(found[0]), "ground_truth_reasons": None}


def measure_against_labels(connection: sqlite3.Connection) -> Mean:
    """Measure the share of labelled verdicts equal to the label, with items as clusters, as in `autorubric agree`."""
    import numpy as np

    single = read_single_labels(connection)
    if single is not None:
        judge = single.get("judge") or {"accuracy": None, "interval": None, "items": 0}
        return Mean(judge["accuracy"], judge["interval"] and tuple(judge["interval"]), judge["items"])

    from autorubric.metrics.jackknife import share_interval

    query = "SELECT agreed, labelled, count(*) FROM items WHERE labelled > 0 GROUP BY agreed, labelled"
    rows = np.array(connection.execute(query).fetchall(), float).reshape(-1, 3)
    if not len(rows):
        return Mean(None, None, 0)
    agreed, labelled, times = rows.T
    share = float(times @ agreed / (times @ labelled))
    return Mean(share, as_ends(share_interval(agreed, labelled, times=times)), int(times.sum()))


def compute_baseline(connection: sqlite3.Connection, source: Source) -> float | None:
    """Return the share of verdicts that would agree if the most frequent label of each criterion were always given.

    If items have their own rubrics, criteria with the same options count as one, as in `autorubric agree`.
    """
    dataset = source.open_dataset()
    pooled = dataset is not None and dataset.head.get("rubric") is None and _have_own_rubrics(connection, dataset)
    query = """SELECT sum(most), sum(n) FROM (SELECT max(n) AS most, sum(n) AS n FROM (
        SELECT CASE WHEN ? THEN scale ELSE criterion END AS part, a, sum(n) AS n
        FROM pairs JOIN criteria USING (criterion)
        WHERE one = ? AND other = ? AND NOT EXISTS (SELECT 1 FROM words WHERE word IN (a, b) AND text IN (?, ?, ?))
        GROUP BY part, a) GROUP BY part)"""
    most, n = connection.execute(query, (pooled, HUMAN, FINAL, ABSTENTION, *NO_VERDICT)).fetchone()
    return most / n if n else None


def _have_own_rubrics(connection: sqlite3.Connection, dataset: DatasetLines) -> bool:
    """Return whether labelled items have different criteria, also in weight alone; the order does not matter."""
    labelled = connection.execute("SELECT item FROM items WHERE labelled > 0")
    criteria = (dataset.list_criteria(dataset.read_item(item)) for (item,) in labelled)
    rubrics = (sorted(json.dumps(criterion, sort_keys=True) for criterion in each) for each in criteria)
    return any(one != other for one, other in pairwise(rubrics))


def name_rater(rater: str) -> str:
    """Return the name of a rater on pages.

    Example:
        >>> name_rater(FINAL), name_rater(HUMAN), name_rater("judge-a")
        ('the verdict', 'the labels', 'judge-a')
    """
    return {FINAL: "the verdict", HUMAN: "the labels"}.get(rater, rater)


def read_costs(source: Source) -> dict[str, Any]:
    """Calls, tokens and dollars by role and model, as in `autorubric status`; `problem` if they cannot be read."""
    from autorubric.runs.run_status import read_run_status

    def add_up() -> list[dict[str, Any]]:
        return [_flatten_usage(totals.to_dict()) for totals in read_run_status(source.directory, {}).totals]

    rows, problem = read_ledger(source, lambda _: add_up(), "totals")
    unpriced = any(row["unpriced"] for row in rows)
    return {
        "rows": rows,
        "problem": problem,
        "calls": sum(row["calls"] for row in rows),
        "cost": None if unpriced or problem else sum(row["cost"] for row in rows),
    }


def _flatten_usage(total: dict[str, Any]) -> dict[str, Any]:
    usage = total.pop("usage")
    return {**total, "prompt_tokens": usage["prompt_tokens"], "completion_tokens": usage["completion_tokens"]}


def read_replies(source: Source, item: str) -> dict[str, Any]:
    """Return the judges' calls on an item, oldest first; `problem` where the ledger cannot be read."""
    from autorubric.llm.recorded_exchanges import Exchange
    from autorubric.llm.records.ledger_view import ledger_view

    def read(folder: Path) -> list[dict[str, Any]]:
        with ledger_view(folder) as view:
            calls = (Exchange.from_call(call) for call in view.read_calls_about(item) if call.role == "judge")
            return [asdict(call) for call in calls]

    calls, problem = read_ledger(source, read)
    return {"calls": calls, "problem": problem}


def read_ledger(source: Source, read: Callable[[Path], list[T]], name: str = "") -> tuple[list[T], str]:
    """Return what `read` finds in a run's ledger, or nothing and the reason; cached by `name` until it changes."""
    folder = source.ledger
    try:
        if folder is None:
            return [], "this run has no recorded calls"
        if not name:
            return read(folder), ""
        return source.cache_files(
            name, sorted(folder.rglob("*[!m]")), lambda: read(folder)
        ), ""  # readers change -shm
    except (AutorubricError, sqlite3.Error) as error:
        return [], f"the ledger cannot be read: {error}"
