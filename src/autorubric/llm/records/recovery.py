"""What killed processes left in their logs, taken into the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from autorubric.llm.records.commits import run_transaction, translate_write_errors
from autorubric.llm.records.crash_logs import LoggedRow, recover_in_flight, recover_uncommitted
from autorubric.llm.records.database import insert_rows
from autorubric.llm.records.lock import folders_of_processes

_SINCE = "SELECT key, at FROM calls WHERE at >= ?"


def take_in_logs(connection: sqlite3.Connection, directory: Path, logs: Path | None) -> None:
    """Record what killed processes did not commit, and the calls that they had in flight.

    Args:
        connection: writes the ledger.
        directory: the directory of the ledger.
        logs: the folder of one of several processes, to take in no other; None for all.
    """
    folders = [directory, *folders_of_processes(directory)] if logs is None else [logs]
    for folder in folders:
        arrived: dict[bytes, float] = {}

        def uncommitted(left: list[LoggedRow], arrived: dict[bytes, float] = arrived) -> None:
            arrived.update((one.key, one.at) for one in left)
            _take_in(connection, left, {})

        recover_uncommitted(folder, uncommitted)
        # Another process may have made the same call after the kill, so the ledger does not tell whether this one
        # has ended. The process's own log does: it still has what was committed last.
        of_one = None if folder == directory else arrived
        recover_in_flight(folder, partial(_take_in_calls, connection, of_one))


def _take_in_calls(
    connection: sqlite3.Connection, arrived: Mapping[bytes, float] | None, left: list[LoggedRow]
) -> None:
    if arrived is None:
        calls = connection.execute(f"{_SINCE} ORDER BY at", (min(one.at for one in left),))
        arrived = dict(calls.fetchall())
    _take_in(connection, left, arrived)


def _take_in(connection: sqlite3.Connection, left: list[LoggedRow], ended: Mapping[bytes, float]) -> None:
    """Record the rows that are not on record, apart from calls that have ended since."""
    known = set(connection.execute(_SINCE, (min(one.at for one in left),)))
    missing = [one.unpack() for one in left if (one.key, one.at) not in known and ended.get(one.key, 0) < one.at]
    if missing:
        with translate_write_errors(connection):
            run_transaction(connection, lambda: insert_rows(connection, missing))
