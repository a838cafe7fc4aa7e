"""What a transaction leaves behind when its block fails."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from autorubric.errors import InputError, LedgerError
from autorubric.llm.records.database import MARK, connect, transaction, translate_read_errors


def test_what_a_block_wrote_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "file")) as connection:
        connection.execute("CREATE TABLE things(name TEXT UNIQUE)")
        with transaction(connection, tmp_path):
            connection.execute("INSERT INTO things VALUES ('kept')")
        with pytest.raises(InputError, match="another ledger"), transaction(connection, tmp_path):
            connection.execute("INSERT INTO things VALUES ('refused')")
            raise InputError("another ledger")
        told = "the ledger cannot be written: UNIQUE constraint failed: things.name; its contents are safe; fix this"
        with pytest.raises(LedgerError, match=told), transaction(connection, tmp_path):
            connection.execute("INSERT INTO things VALUES ('failed')")
            connection.execute("INSERT INTO things VALUES ('kept')")
        assert connection.execute("SELECT name FROM things").fetchall() == [("kept",)]
        assert not connection.in_transaction
    assert not (tmp_path / MARK).exists()


def test_a_file_that_a_write_finds_malformed_is_marked_for_recovery(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("CREATE TABLE things(name TEXT)")
        connection.commit()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(4096))  # the page of the table
    opened, told = closing(sqlite3.connect(path, isolation_level=None)), pytest.raises(LedgerError, match="malformed")
    with opened as connection, told, transaction(connection, tmp_path):
        connection.execute("INSERT INTO things VALUES ('new')")
    assert (tmp_path / MARK).exists()


def test_a_disk_without_room_for_what_reading_writes_is_not_a_damaged_ledger(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "ledger.sqlite")) as connection:
        connection.execute("PRAGMA max_page_count = 1")  # a full disk
        problem = "cannot be written: the disk is full; its contents are safe"
        with pytest.raises(LedgerError, match=problem), translate_read_errors("ledger.sqlite"):
            connection.execute("CREATE TABLE meta(name TEXT)")
