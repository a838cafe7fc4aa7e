import threading
import time
from collections.abc import Iterable
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
        self.fault: Exception | None = None
        self.commits = GroupCommit(self._write, self.turn, **pace)

    def _write(self, things: list[str]) -> None:
        if self.fault is not None:
            raise self.fault
        self.batches.append(things)

    def has_acknowledged(self, *waiters: Future[None]) -> bool:
        """Whether each write is told to be durable, once it is."""
        for waiter in waiters:
            waiter.result()
        return True

    def write_each(self, things: Iterable[str]) -> None:
        for thing in things:
            self.commits.write(thing)
            assert thing in self.batches[-1]


def test_what_is_queued_while_another_process_writes_is_one_batch() -> None:
    tables, waiters = _Tables(), [Future[None]() for _ in "abc"]
    with tables.turn:
        for thing, waiter in zip("abc", waiters, strict=True):
            tables.commits.submit(thing, waiter)
    assert tables.has_acknowledged(*waiters)
    tables.commits.close()
    assert tables.batches == [["a", "b", "c"]]


def test_a_write_that_nobody_awaits_leaves_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "PATIENCE", 3600.0)
    tables = _Tables()
    tables.commits.submit("seen", Future(), awaited=False)
    time.sleep(0.02)  # room for a thread that would not wait
    tables.write_each(["paid"])
    tables.commits.submit("seen last", Future(), awaited=False)
    tables.commits.close()
    assert tables.batches == [["seen", "paid"], ["seen last"]]


def test_a_write_that_comes_alone_waits_for_no_other() -> None:
    tables = _Tables(linger=3600.0)
    tables.write_each("abc")
    tables.commits.close()
    assert tables.batches == [["a"], ["b"], ["c"]]


def test_after_several_at_once_the_next_waits_for_others_until_a_batch_is_full() -> None:
    tables, waiters = _Tables(linger=3600.0, rows=2), {thing: Future[None]() for thing in "abcde"}
    with tables.turn:
        for thing in "ab":
            tables.commits.submit(thing, waiters[thing])
    assert tables.has_acknowledged(*map(waiters.__getitem__, "ab"))
    tables.commits.submit("c", waiters["c"])
    time.sleep(0.02)  # room for a thread that would not wait
    tables.commits.submit("d", waiters["d"])
    assert tables.has_acknowledged(*map(waiters.__getitem__, "cd"))
    tables.commits.submit("e", waiters["e"])
    tables.commits.close()
    assert tables.batches == [["a", "b"], ["c", "d"], ["e"]]
    with pytest.raises(LedgerError, match="the ledger is closed"):
        tables.commits.submit("f", Future())


def test_what_is_more_than_a_batch_goes_into_the_next_and_waits_for_nobody() -> None:
    tables, waiters = _Tables(rows=2), {thing: Future[None]() for thing in "abc"}
    with tables.turn:
        for thing in "abc":
            tables.commits.submit(thing, waiters[thing])
    assert tables.has_acknowledged(*waiters.values())
    tables.commits.close()
    assert tables.batches == [["a", "b"], ["c"]]


def test_a_write_that_nobody_awaits_is_written_though_no_other_follows() -> None:
    tables, waiter = _Tables(), Future[None]()
    time.sleep(0.02)  # room for the thread to become idle
    tables.commits.submit("seen", waiter, awaited=False)
    assert tables.has_acknowledged(waiter)
    tables.commits.close()


def test_a_batch_holds_256_writes_at_most() -> None:
    tables, waiters = _Tables(), [Future[None]() for _ in range(300)]
    with tables.turn:
        for number, waiter in enumerate(waiters):
            tables.commits.submit(str(number), waiter)
    assert tables.has_acknowledged(*waiters)
    tables.commits.close()
    assert [len(batch) for batch in tables.batches] == [256, 44]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            OSError("no room"),
            "the ledger cannot be written: no room; its contents are safe; fix this and run the same command again",
        ),
        (LedgerError("the ledger is malformed"), "the ledger is malformed"),
    ],
)
def test_what_waits_when_a_batch_fails_is_told_why_and_so_is_all_that_comes_later(
    fault: Exception, told: str
) -> None:
    tables, waiters = _Tables(rows=2), {thing: Future[None]() for thing in "abc"}
    tables.fault = fault
    with tables.turn:
        for thing, waiter in waiters.items():
            tables.commits.submit(thing, waiter)
    assert [str(waiter.exception(timeout=60)) for waiter in waiters.values()] == [told] * 3
    tables.fault = None
    with pytest.raises(LedgerError) as caught:
        tables.commits.write("d")
    assert str(caught.value) == tables.commits.broken == told
    tables.commits.close()
    assert tables.batches == []
