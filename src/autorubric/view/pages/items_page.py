"""The items of a run: filtered, sorted, fifty a page by keyset."""

from __future__ import annotations

import json
import re
import sqlite3
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from autorubric.core.wording import compile_folded
from autorubric.files.strict_json import decode_json
from autorubric.view.index.schema import ABSTAINS, DIFFERS, DISPUTED, FAILED, FLAGGED
from autorubric.view.page import Page, PageQuery, PageRefusal
from autorubric.view.sources import Source, read_index_state

SORTS = {"place": "item", "worst": "low", "best": "high", "doubt": "doubt", "longest": "length"}
SWITCHES = {"disputed": DISPUTED, "differs": DIFFERS, "failed": FAILED, "abstained": ABSTAINS, "flagged": FLAGGED}
_COLUMNS = "item, id, description, score, doubt, length, marks, labelled, agreed"


@dataclass(frozen=True)
class ItemSelection:
    """Which items, in SQL.

    Attributes:
        where: conditions.
        values: of the placeholders.
        key: the column to sort by.
    """

    where: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    key: str = "item"

    def narrow(self, condition: str, *values: Any) -> ItemSelection:
        """Return the selection with one more condition."""
        return ItemSelection((*self.where, condition), (*self.values, *values), self.key)

    def to_sql(self, columns: str, more: str = "") -> str:
        """Return a query of these items."""
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"SELECT {columns} FROM items{where}{more}"


def read_selection(source: Source, connection: sqlite3.Connection, query: PageQuery) -> ItemSelection:
    """Return the items that a URL selects."""
    made = ItemSelection(key=SORTS[query.read_choice("sort", tuple(SORTS))])
    for name, mark in SWITCHES.items():
        if query.is_set(name):
            made = made.narrow("marks & ? > 0", mark)
    for name, comparison in (("min", ">="), ("max", "<=")):
        bound = query.read_number(name)
        if bound is not None:
            made = made.narrow(f"score {comparison} ?", bound)
    wanted = {"criterion = ?": query.read_whole("criterion"), "text = ?": query.read_text("verdict") or None}
    given = {condition: value for condition, value in wanted.items() if value is not None}
    if given:
        cells = "SELECT json_each.value FROM cells JOIN words USING (word), json_each(cells.items)"
        made = made.narrow(f"item IN ({cells} WHERE {' AND '.join(given)})", *given.values())
    words = query.read_text("q")
    if words:
        found = source.cache(
            connection, "search", lambda opened: json.dumps(sorted(_search(source, opened, words))), words
        )
        made = made.narrow("item IN (SELECT value FROM json_each(?))", found)
    return made


def build_items_page(source: Source, query: PageQuery) -> Page:
    """Return a page of items."""
    with source.reading() as connection:
        choice = read_selection(source, connection, query)
        count = connection.execute(choice.to_sql("count(*)"), choice.values).fetchone()[0]
        rows, last = _read_rows(connection, choice, query)
        listed = "SELECT criterion, name FROM criteria WHERE criterion < 200 OR criterion = ?"
        criteria = source.name_apart(connection, connection.execute(listed, (query.read_whole("criterion"),)))
        words = [text for (text,) in connection.execute("SELECT text FROM words ORDER BY text LIMIT 200")]
        damaged = [dict(row) for row in connection.execute("SELECT line, item FROM damaged LIMIT 20")]
        state = read_index_state(connection)
    filters = {name: value for name, value in query.to_dict().items() if name not in ("sort", "after", "format")}
    data = {
        "items": rows,
        "count": count,
        "next": last,
        "sort": query.read_choice("sort", tuple(SORTS)),
        "filters": filters,
        "criteria": criteria,
        "verdicts": words,
        "damaged": damaged,
        "index": state,
    }
    return Page("items", f"Items of {source.name}", data, rows)


def _read_rows(
    connection: sqlite3.Connection, choice: ItemSelection, query: PageQuery
) -> tuple[list[Any], str | None]:
    page = choice if query.after is None else choice.narrow(f"({choice.key}, item) > (?, ?)", *query.after)
    order = f" ORDER BY {choice.key}, item LIMIT {query.rows + 1}"
    found = connection.execute(page.to_sql(f"{_COLUMNS}, {choice.key} AS place", order), page.values).fetchall()
    shown, following = query.cut(found)
    return [_to_row(row) for row in shown], following


def _to_row(row: sqlite3.Row) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("item", "id", "description", "score")},
        "doubt": -row["doubt"] or 0.0,
        "characters": -row["length"],
        **{name: bool(row["marks"] & mark) for name, mark in SWITCHES.items()},
        "labelled": row["labelled"],
        "agreed": row["agreed"],
    }


def find_neighbours(
    source: Source, connection: sqlite3.Connection, query: PageQuery, item: int
) -> dict[str, int | None]:
    """Return the items before and after one, in the list that a URL selects."""
    choice = read_selection(source, connection, query)
    key = choice.key
    here = connection.execute(f"SELECT {key} FROM items WHERE item = ?", (item,)).fetchone()
    found: dict[str, int | None] = {"previous": None, "next": None}
    if here is None:
        return found
    for name, sign, order in (("previous", "<", "DESC"), ("next", ">", "ASC")):
        near = choice.narrow(f"({key}, item) {sign} (?, ?)", here[0], item)
        ordered = f" ORDER BY {key} {order}, item {order} LIMIT 1"
        row = connection.execute(near.to_sql("item", ordered), near.values).fetchone()
        found[name] = None if row is None else row[0]
    return found


_CHUNK = 1 << 21
# Fields of records that are not texts of an item; `criterion` is in the rubric of all items.
_NO_TEXTS = frozenset(("report_type", "criterion", "verdict", "final_verdict", "ground_truth"))


def _search(source: Source, connection: sqlite3.Connection, words: str) -> set[int]:
    """Return the items whose texts contain the given words, ignoring case, accents and width."""
    found: set[int] = set()
    rows = connection.execute("SELECT start, item FROM items ORDER BY start").fetchall()
    starts, items = array("Q", (row[0] for row in rows)), array("Q", (row[1] for row in rows))
    found |= {items[place] for place in _find_places(source.items, starts, words)}
    dataset = source.open_dataset()
    if dataset is not None:
        known = set(items)
        found |= {place for place in _find_places(dataset.path, dataset.starts, words) if place in known}
    return found


def _find_places(path: Path, starts: Sequence[int], words: str) -> Iterator[int]:
    """Yield the places of the records in a file that contain the given words."""
    wanted, written = map(compile_folded, (words, json.dumps(words, ensure_ascii=False)[1:-1]))
    try:
        file = path.open("rb")
    except OSError as error:
        raise PageRefusal(410, f"{path.name} cannot be read: {error.strerror}") from None
    with file:
        first = 0
        while first < len(starts):
            last = max(bisect_right(starts, starts[first] + _CHUNK) - 1, first + 1)
            file.seek(starts[first])
            data = file.read(starts[last] - starts[first] if last < len(starts) else -1)
            ends = [*(start - starts[first] for start in starts[first + 1 : last]), len(data)]
            for place, (start, end) in enumerate(pairwise((0, *ends))):
                record = data[start:end]
                is_near = b"\\u" in record or written.search(record.decode("utf-8", "replace"))
                if is_near and _has_text(record, wanted):
                    yield first + place
            first = last


def _has_text(record: bytes, wanted: re.Pattern[str]) -> bool:
    """Return whether a text of a record, not only a key or a fixed field, contains the words."""
    try:
        own = record.split(b"\n  ]", 1)[0].strip().rstrip(b",")  # the list may end after it
        value = decode_json(own, share_texts=False)
    except (ValueError, RecursionError):
        return True
    return any(map(wanted.search, _list_texts(value)))


def _list_texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            stack.extend(held for name, held in one.items() if name not in _NO_TEXTS)
        elif isinstance(one, list):
            stack.extend(one)
