import sqlite3
import threading
from concurrent.futures import Future

import pytest

from autorubric.llm.records import commits
from autorubric.llm.records.commits import GroupCommit


class _Tables:
    """Keeps the batches that are written, each in a transaction."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.turn = threading.Lock()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.commits = GroupCommit(connection, self._write, lambda _: None, self.turn)

    def _write(self, things: list[str]) -> list[str]:
        self.batches.append(things)
        return things


def test_what_is_queued_while_another_process_writes_is_one_batch() -> None:
    tables, waiters = _Tables(), [Future[str]() for _ in "abc"]
    with tables.turn:
        for thing, waiter in zip("abc", waiters, strict=True):
            tables.commits.submit(thing, waiter)
    assert [waiter.result() for waiter in waiters] == ["a", "b", "c"]
    tables.commits.close()
    assert tables.batches == [["a", "b", "c"]]


def test_a_write_that_nobody_awaits_leaves_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "PATIENCE", 3600.0)
    tables = _Tables()
    tables.commits.submit("seen", Future(), awaited=False)
    assert tables.commits.write("paid") == "paid"
    tables.commits.submit("seen last", Future(), awaited=False)
    tables.commits.close()
    assert tables.batches == [["seen", "paid"], ["seen last"]]
