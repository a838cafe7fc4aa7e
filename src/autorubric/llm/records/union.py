"""Merges ledgers: copies the calls of one ledger into another, each once."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from autorubric.errors import InputError
from autorubric.llm import budget, limits
from autorubric.llm.records.accounts import LOST, Spending
from autorubric.llm.records.call_rows import CALL_COLUMNS, SealedRow
from autorubric.llm.records.database import connect, insert_note, insert_rows, read_note, transaction
from autorubric.llm.records.key_index import KeyIndex
from autorubric.llm.records.ledger_view import connect_read_only
from autorubric.llm.records.lock import LEDGER_FILE

_MERGED = "merged"
"""The note that says up to which call each other ledger was copied."""

_AT_ONCE = 50_000
"""Calls that are copied in one transaction, and whose keys are in memory at a time."""

_UNITED: Mapping[str, Callable[..., Any]] = {limits.NOTE: limits.merge_limits, budget.NOTE: budget.merge_excess}
"""The notes that are merged with the calls of several ledgers, and the functions that merge them."""

_TAKEN_OVER = "taken_over"
"""The note that says how many values of each stage were imported from other files; empty for none."""

_CALLS = f"""INSERT INTO main.calls(id, {CALL_COLUMNS})
    SELECT id + :offset, {CALL_COLUMNS} FROM other.calls WHERE id > :after AND id <= :last ORDER BY id"""
_PAYLOADS = """INSERT INTO main.payloads
    SELECT id + :offset, data, digest FROM other.payloads WHERE id > :after AND id <= :last ORDER BY id"""
_IMPORTS = "INSERT OR IGNORE INTO main.imports SELECT * FROM other.imports"
_ADDED = "added"
"""The note that says up to which call each ledger of another machine was added."""

_WAITING = "SELECT (SELECT ifnull(max(id), 0) FROM calls) - value FROM meta WHERE name = 'indexed'"
"""How many calls no index has yet."""

_MOST_ROWS = 20_000
"""Calls that are read at a time."""

_ROWS = f"""SELECT id, {CALL_COLUMNS}, data, digest FROM calls JOIN payloads USING (id)
    WHERE id > ? ORDER BY id LIMIT {_MOST_ROWS}"""

_RENAME = """UPDATE calls SET item = (SELECT now FROM temp.names WHERE before = item)
    WHERE id > ? AND id <= ? AND role = ? AND item IN (SELECT before FROM temp.names)"""


def add_ledger(directory: Path, other: Path, name: str) -> None:
    """Copy the calls of another ledger into that of a directory, except those copied earlier.

    No process may have either open. The cost of calls that each of them has lost is added up.

    Args:
        directory: the directory of a ledger.
        other: the directory of the ledger that is copied.
        name: tells the other ledger from further ones that are copied into the same.

    Raises:
        InputError: another ledger was copied under this name.
        LedgerError: a ledger is damaged or cannot be written.
    """
    with closing(connect(directory / LEDGER_FILE)) as connection:
        connection.execute("ATTACH ? AS other", (str(other / LEDGER_FILE),))
        is_last = False
        while not is_last:
            with transaction(connection):
                is_last = _copy_next(connection, other, name)
            KeyIndex(connection).move_to_table(connection)


def _copy_next(connection: sqlite3.Connection, other: Path, name: str) -> bool:
    """Copy the next calls, and the notes; returns whether these were the last."""
    merged: dict[str, Any] = read_note(connection, _MERGED) or {}
    before = merged.get(name, {"last": 0, "spans": [], "lost": list(Spending())})
    after = before["last"]
    if after and _find_identity(connection, after) != before["mark"]:
        raise InputError(f"{other}: another ledger was merged as {name} before; merge into a new directory")
    [[here]] = connection.execute("SELECT ifnull(max(id), 0) FROM main.calls").fetchall()
    [[end]] = connection.execute("SELECT ifnull(max(id), 0) FROM other.calls").fetchall()
    last = min(end, after + _AT_ONCE)
    lost = Spending(*read_note(connection, LOST, "other") or ())
    spans = [*before["spans"], *([[here, here + last - after]] if last > after else [])]
    merged[name] = {"last": last, "mark": last and _find_identity(connection, last), "spans": spans, "lost": lost}
    notes = {_MERGED: merged, **_merge_notes(connection), **_check_generations(connection, other)}
    more = lost.compute_excess(Spending(*before["lost"]))
    if more != Spending():
        notes[LOST] = more.plus(Spending(*read_note(connection, LOST) or ()))
    for statement in (_CALLS, _PAYLOADS):
        connection.execute(statement, {"offset": here - after, "after": after, "last": last})
    connection.execute(_IMPORTS)
    for note, value in notes.items():
        insert_note(note, value, connection)
    return bool(last == end)


def _merge_notes(connection: sqlite3.Connection) -> dict[str, Any]:
    places = ("main", "other")
    taken = [read_note(connection, _TAKEN_OVER, place) or {} for place in places]
    return {
        _TAKEN_OVER: {name: max(one.get(name, 0) for one in taken) for name in {**taken[0], **taken[1]}},
        **{note: unite(*(read_note(connection, note, place) for place in places)) for note, unite in _UNITED.items()},
    }


def read_rows(directory: Path, after: int) -> tuple[list[Any], dict[str, Any]]:
    """Calls of a ledger as `add_rows` takes them, and its notes on limits and budgets.

    Args:
        directory: the directory of the ledger; empty results where no call was made yet.
        after: the id of a call; at most 20,000 calls after it are read.
    """
    try:
        with closing(connect_read_only(directory / LEDGER_FILE)) as connection:
            notes = {name: read_note(connection, name) for name in _UNITED}
            return connection.execute(_ROWS, (after,)).fetchall(), notes
    except sqlite3.OperationalError:  # no table was made yet
        return [], {}


def add_all_rows(directory: Path, other: Path, name: str) -> None:
    """Add all calls of another ledger that `add_rows` has not added under this name.

    Raises:
        LedgerError: the ledger of `directory` cannot be written.
    """
    with closing(connect(directory / LEDGER_FILE)) as connection:
        while (found := read_rows(other, find_last_added(connection, name)))[0]:
            add_rows(connection, name, *found)


def add_rows(
    connection: sqlite3.Connection, name: str, rows: Sequence[Sequence[Any]], notes: Mapping[str, Any]
) -> int:
    """Add calls of another ledger, each once, in one transaction with the note that they were added.

    Args:
        connection: to the ledger that takes them, which no other process uses; on one thread at a time.
        name: tells the other ledger from all others.
        rows: id, values of `CALL_COLUMNS`, data and digest of each call, in the order of their ids.
        notes: on limits and budgets, of the other ledger.

    Returns:
        The number of calls that were not there yet.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    with transaction(connection):
        last = find_last_added(connection, name)
        new = [SealedRow(call[0], tuple(call), data, digest) for at, *call, data, digest in rows if at > last]
        marks = read_note(connection, _ADDED) or {}
        kept = {n: unite(read_note(connection, n), notes[n]) for n, unite in _UNITED.items() if notes.get(n)}
        kept[_ADDED] = {**marks, name: max(last, rows[-1][0] if rows else 0)}
        insert_rows(connection, new)
        for note, value in kept.items():
            insert_note(note, value, connection)
        [[waiting]] = connection.execute(_WAITING).fetchall()
    if waiting > _AT_ONCE:
        KeyIndex(connection).move_to_table(connection)
    return len(new)


def find_last_added(connection: sqlite3.Connection, name: str) -> int:
    """Return the id of the last call that `add_rows` added under a name; 0 for none."""
    marks = read_note(connection, _ADDED) or {}
    return int(marks.get(name, 0))


_STARTED_OVER = ("generation", "sampling_generation", "generations")
"""Notes that say how often replies were requested again, and so under which keys they are found."""


def _check_generations(connection: sqlite3.Connection, other: Path) -> dict[str, Any]:
    """Return the notes on starting over, which must be equal in all ledgers: replies are found under their keys."""
    found = {}
    for name in _STARTED_OVER:
        theirs = read_note(connection, name, "other") or 0
        ours = read_note(connection, name)
        if ours is not None and ours != theirs:
            raise InputError(
                f"{other}: its replies were requested again {theirs} times, and those of the other shards {ours} "
                "times; run every shard with --start-over, or none"
            )
        found[name] = theirs
    return found


def rename_items(directory: Path, name: str, role: str, names: Mapping[str, str]) -> None:
    """Rename the items of the calls that `add_ledger` copied under `name` since the last renaming."""
    with closing(connect(directory / LEDGER_FILE)) as connection, transaction(connection):
        connection.execute("CREATE TEMP TABLE names(before TEXT PRIMARY KEY, now TEXT)")
        connection.executemany("INSERT INTO names VALUES (?, ?)", names.items())
        merged = read_note(connection, _MERGED) or {}
        for first, last in merged[name]["spans"]:
            connection.execute(_RENAME, (first, last, role))
        merged[name]["spans"] = []
        insert_note(_MERGED, merged, connection)


def _find_identity(connection: sqlite3.Connection, call: int) -> list[Any]:
    """Return the identity of a call, because calls of different ledgers may have the same number."""
    found = connection.execute("SELECT hex(key), at FROM other.calls WHERE id = ?", (call,)).fetchall()
    return list(found[0]) if found else []
