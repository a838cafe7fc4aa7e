import sqlite3
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

from autorubric.errors import LedgerError
from autorubric.llm.records import commits
from autorubric.llm.records.commits import GroupCommit


class _Tables:
    """Keeps the batches that are written, each in a transaction."""

    def __init__(self, **pace: Any) -> None:
        self.batches: list[list[str]] = []
        self.turn = threading.Lock()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.commits = GroupCommit(connection, self._write, lambda _: None, self.turn, **pace)

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
    time.sleep(0.02)  # room for a thread that would not wait
    assert tables.commits.write("paid") == "paid"
    tables.commits.submit("seen last", Future(), awaited=False)
    tables.commits.close()
    assert tables.batches == [["seen", "paid"], ["seen last"]]


def test_a_write_that_comes_alone_waits_for_no_other() -> None:
    tables = _Tables(linger=3600.0)
    assert [tables.commits.write(thing) for thing in "abc"] == ["a", "b", "c"]
    tables.commits.close()
    assert tables.batches == [["a"], ["b"], ["c"]]


def test_after_several_at_once_the_next_waits_for_others_until_a_batch_is_full() -> None:
    tables, waiters = _Tables(linger=3600.0, rows=2), {thing: Future[str]() for thing in "abcde"}
    with tables.turn:
        for thing in "ab":
            tables.commits.submit(thing, waiters[thing])
    assert [waiters[thing].result() for thing in "ab"] == ["a", "b"]
    tables.commits.submit("c", waiters["c"])
    time.sleep(0.02)  # room for a thread that would not wait
    tables.commits.submit("d", waiters["d"])
    assert [waiters[thing].result() for thing in "cd"] == ["c", "d"]
    tables.commits.submit("e", waiters["e"])
    tables.commits.close()
    assert tables.batches == [["a", "b"], ["c", "d"], ["e"]]
    with pytest.raises(LedgerError, match="the ledger is closed"):
        tables.commits.submit("f", Future())


def test_what_is_more_than_a_batch_goes_into_the_next_and_waits_for_nobody() -> None:
    tables, waiters = _Tables(rows=2), {thing: Future[str]() for thing in "abc"}
    with tables.turn:
        for thing in "abc":
            tables.commits.submit(thing, waiters[thing])
    assert [waiter.result() for waiter in waiters.values()] == ["a", "b", "c"]
    tables.commits.close()
    assert tables.batches == [["a", "b"], ["c"]]


def test_a_write_that_nobody_awaits_is_written_though_no_other_follows() -> None:
    tables, waiter = _Tables(), Future[str]()
    time.sleep(0.02)  # room for the thread to become idle
    tables.commits.submit("seen", waiter, awaited=False)
    assert waiter.result() == "seen"
    tables.commits.close()


def test_a_batch_holds_256_writes_at_most() -> None:
    tables, waiters = _Tables(), [Future[str]() for _ in range(300)]
    with tables.turn:
        for number, waiter in enumerate(waiters):
            tables.commits.submit(str(number), waiter)
    assert [waiter.result() for waiter in waiters] == [str(number) for number in range(300)]
    tables.commits.close()
    assert [len(batch) for batch in tables.batches] == [256, 44]
