"""What a killed process had been answered and had not committed, and what damage has taken out of its log."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import mmap
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autorubric import Rubric, RubricDataset, grade_async
from autorubric.errors import LedgerError
from autorubric.llm.records import crash_logs
from autorubric.llm.records.call_rows import CallRow, SealedRow
from autorubric.llm.records.crash_logs import (
    IN_FLIGHT,
    UNCOMMITTED,
    UNCOMMITTED_FILES,
    InFlightLog,
    LoggedRow,
    UncommittedLog,
    recover_rows,
)
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import WriteLock
from autorubric.llm.request import Failure, Reply
from autorubric.runs.run_status import read_run_status
from autorubric.testing import LoopbackEndpoint
from tests.warm_commands import WarmPython, forked_python


def a_row(number: int) -> CallRow:
    text = random.Random(number).randbytes(200).hex()  # nothing that compresses to little
    return CallRow(number.to_bytes(16, "big"), f"q{number} \ud83d", "judge", "m", 0, 0, Reply(text, cost=0.5))


def missing(directory: Path, rows: Iterable[CallRow]) -> list[str]:
    """Items whose reply is not found as it was, once the ledger is opened."""
    with Ledger.open(directory) as ledger:
        found = [(row, ledger.find(row.key)) for row in rows]
        count = ledger.count
    assert count == len(found), "calls are lost or doubled"
    return [row.item for row, reply in found if reply is None or reply.text != row.outcome.text]  # type: ignore[union-attr]


@contextlib.contextmanager
def turn_of_another(directory: Path) -> Iterator[None]:
    turn = WriteLock(directory)
    with turn:
        yield
    turn.close()


async def left_by_a_kill(rows: list[CallRow], folder: Path, *, committed: int = 0) -> Path:
    """A copy of the files of a ledger that has acknowledged `committed` of the rows and got them all."""
    run, killed = folder / "run", folder / "killed"
    for row in rows[:committed]:
        with Ledger.open(run) as ledger:
            await ledger.record(row)
    with Ledger.open(run) as ledger:
        with turn_of_another(run):  # nothing can be committed
            waiting = [asyncio.ensure_future(ledger.record(row)) for row in rows[committed:]]
            await asyncio.sleep(0)
            assert not any(task.done() for task in waiting)
            shutil.copytree(run, killed)
        await asyncio.gather(*waiting)
    return killed


async def test_what_had_arrived_is_found_though_it_was_never_committed(tmp_path: Path) -> None:
    rows = [a_row(number) for number in range(20)]
    killed = await left_by_a_kill(rows, tmp_path, committed=3)
    assert missing(killed, rows) == []
    assert {path.name for path in killed.iterdir()} == {"ledger.sqlite", "write.lock"}
    assert missing(killed, rows) == []


async def test_only_rows_count_as_rows_that_are_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_logs, "_FULL", 1000)
    rows = [a_row(number) for number in range(50)]
    run, killed = tmp_path / "run", tmp_path / "killed"
    with Ledger.open(run) as ledger:
        with turn_of_another(run):  # so that all of this is one batch
            for number in range(60):
                ledger.observe("pace", number)
            first = ledger.queue(rows[0])
        await first
        with turn_of_another(run):
            waiting = [ledger.queue(row) for row in rows[1:]]
            shutil.copytree(run, killed)
        await asyncio.gather(*waiting)
    assert missing(killed, rows) == []


async def test_a_failure_that_had_arrived_is_counted_and_is_no_hit(tmp_path: Path) -> None:
    row = CallRow(b"k" * 16, "q", "judge", "m", 0, 0, Failure("timeout", "no answer", attempts=3), token_bound=7)
    killed = await left_by_a_kill([row], tmp_path)
    with Ledger.open(killed) as ledger:
        assert ledger.find(row.key) is None
        assert [call.outcome.attempts for call in ledger.read_failures()] == [3]
        assert ledger.sum_spent().tokens == 7


@pytest.mark.parametrize("seed", range(6))
async def test_damage_of_the_write_ahead_log_costs_no_reply(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = [a_row(number) for number in range(60)]
    with Ledger.open(tmp_path / "run", linger=0.0) as ledger:
        for row in rows:
            await ledger.record(row)
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
    log = tmp_path / "killed" / "ledger.sqlite-wal"
    content = bytearray(log.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    log.write_bytes(content)
    assert missing(tmp_path / "killed", rows) == []


async def test_no_damage_of_what_had_arrived_makes_a_wrong_reply(tmp_path: Path) -> None:
    rows = [a_row(number) for number in range(12)]
    killed = await left_by_a_kill(rows, tmp_path)
    good = (killed / UNCOMMITTED_FILES[0]).read_bytes()
    texts = {row.key: row.outcome.text for row in rows}  # type: ignore[union-attr]
    for place in range(0, len(good), 41):
        bad = bytearray(good)
        bad[place] ^= 0x10
        spoilt = tmp_path / f"spoilt {place}"
        spoilt.mkdir()
        for content in (bytes(bad), good[:place]):
            (spoilt / UNCOMMITTED_FILES[0]).write_bytes(content)
            if place < good.index(b"\n") and content == bad:  # in the mark of the version
                with pytest.raises(LedgerError, match="is not a version 1 log of uncommitted replies"):
                    Ledger.open(spoilt)
                continue
            with Ledger.open(spoilt) as ledger:
                found = [(key, ledger.find(key)) for key in texts]
            assert all(reply is None or reply.text == texts[key] for key, reply in found)


def test_a_file_is_emptied_only_when_its_rows_are_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_logs, "_FULL", 1000)
    rows = [a_row(number) for number in range(200)]
    kept = UncommittedLog(tmp_path)
    found: list[LoggedRow] = []
    for number, row in enumerate(rows):
        kept.put(SealedRow.pack(row))
        if number >= 20:
            kept.committed += 1  # twenty rows are always on their way
    kept.close(remove=False)
    recover_rows(UNCOMMITTED, tmp_path, found.extend)
    # Which of the two files is the newer one, the names do not say.
    assert {row.key for row in rows[-20:]} <= {one.key for one in found}
    assert len(found) < 100


def test_the_files_of_a_process_that_lives_are_left_alone(tmp_path: Path) -> None:
    kept = UncommittedLog(tmp_path)
    kept.put(SealedRow.pack(a_row(1)))
    found: list[LoggedRow] = []
    recover_rows(UNCOMMITTED, tmp_path, found.extend)
    assert found == []
    kept.close(remove=False)
    recover_rows(UNCOMMITTED, tmp_path, found.extend)
    assert [row.key for row in found] == [a_row(1).key]
    assert list(tmp_path.iterdir()) == []


async def test_where_nothing_can_be_kept_the_commit_alone_counts(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        for name in UNCOMMITTED_FILES:
            (tmp_path / name).mkdir()
        await ledger.record(a_row(1))
        assert ledger.find(a_row(1).key) is not None


async def test_what_arrived_while_the_disk_was_full_waits_for_a_disk_with_room(tmp_path: Path) -> None:
    rows = [a_row(number) for number in range(150)]  # 400 bytes each
    killed = await left_by_a_kill(rows, tmp_path)
    with Ledger.open(tmp_path / "other") as ledger:
        await ledger.record(a_row(0))
    for name in UNCOMMITTED_FILES:
        shutil.move(killed / name, tmp_path / "other" / name)
    words = [forked_python(), "-c", OPENED_ON_A_FULL_DISK, str(tmp_path / "other")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "the ledger cannot be written" in done.stdout, done.stderr
    with Ledger.open(tmp_path / "other") as ledger:
        assert [ledger.find(row.key) is not None for row in rows] == [True] * 150


OPENED_ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from autorubric import Rubric, RubricDataset, grade_async
from autorubric.errors import LedgerError
from autorubric.llm.records.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))  # the index of the log takes 32 kB
try:
    Ledger.open(Path(sys.argv[1]))
except LedgerError as error:
    print(error)
"""

# Is killed before what has arrived can be committed.
ARRIVES = """
import asyncio, os, signal, sys
from pathlib import Path
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.call_rows import CallRow, SealedRow
from autorubric.llm.request import Reply

async def main(ledger):
    waiting = []
    for number in range(50):
        row = CallRow(number.to_bytes(16, "big"), "q", "judge", "m", 0, 0, Reply(str(number)))
        waiting.append(asyncio.ensure_future(ledger.record(row)))
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Ledger.open(Path(sys.argv[1]))))
"""


def test_a_killed_process_loses_no_reply_that_it_had_got(tmp_path: Path) -> None:
    assert WarmPython(["-c", ARRIVES, str(tmp_path)]).wait() == -signal.SIGKILL
    with Ledger.open(tmp_path) as ledger:
        found = [ledger.find(number.to_bytes(16, "big")) for number in range(50)]
    assert [reply and reply.text for reply in found] == [str(number) for number in range(50)]


# As files were before they had a mark: lengths of key and content, a checksum, the time, the key, the content.
WITHOUT_MARK = bytes.fromhex("10000000 07000000 00000000 0000000000000000") + b"k" * 16 + b"content"


@pytest.mark.parametrize("content", [WITHOUT_MARK, b"autorubric arrivals 2\nwhatever", b"autorubric arrivals 10\n"])
def test_a_file_of_an_unknown_layout_is_refused_by_name_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / UNCOMMITTED_FILES[1]
    path.write_bytes(content)
    with pytest.raises(
        LedgerError, match="remove the file: replies that it alone holds are requested again"
    ) as caught:
        Ledger.open(tmp_path)
    assert str(caught.value).startswith(f"{path} ")
    assert path.read_bytes() == content
    path.unlink()
    Ledger.open(tmp_path).close()


# What a kill leaves in the middle of the first write, and what a power cut makes of a file that was never synced.
@pytest.mark.parametrize("content", [b"", b"autorubric arr", b"autorubric" + bytes(500), bytes(500)])
def test_a_file_that_never_had_its_mark_holds_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / UNCOMMITTED_FILES[0]).write_bytes(content)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.count == 0
    assert {path.name for path in tmp_path.iterdir()} == {"ledger.sqlite", "write.lock"}


def test_an_error_while_rows_are_taken_over_leaves_them_where_they_are(tmp_path: Path) -> None:
    kept = UncommittedLog(tmp_path)
    kept.put(SealedRow.pack(a_row(1)))
    kept.close(remove=False)

    def refuse(left: list[LoggedRow]) -> None:
        raise LedgerError("no room")

    with pytest.raises(LedgerError, match="no room"):
        recover_rows(UNCOMMITTED, tmp_path, refuse)
    found: list[LoggedRow] = []
    recover_rows(UNCOMMITTED, tmp_path, found.extend)
    assert len(found) == 1


async def test_a_call_in_flight_at_a_kill_counts_though_another_process_made_it_again(tmp_path: Path) -> None:
    """Of three calls in flight one had ended, and another process has repeated the second; all four were billed."""
    logs = [tmp_path / "processes" / name for name in "12"]
    for folder in logs:
        folder.mkdir(parents=True)
    rows = [a_row(number) for number in range(3)]
    killed = Failure("network", "the process was killed while the call was in flight")
    departed = [replace(row, outcome=killed, token_bound=50, at=row.at - 1) for row in rows]
    with Ledger.open(tmp_path, shared=True, logs=logs[0]) as one:
        for row in departed:
            one.in_flight.put(row)
        with turn_of_another(tmp_path):  # what had arrived is not committed
            waiting = asyncio.ensure_future(one.record(rows[0]))
            await asyncio.sleep(0)
            shutil.copytree(logs[0], tmp_path / "copy")
        await waiting
        for row in departed:
            one.in_flight.remove(row.key)
    with Ledger.open(tmp_path, shared=True, logs=logs[1]) as other:
        await other.record(rows[1])
        assert other.find(rows[0].key) is not None
    shutil.rmtree(logs[0])
    (tmp_path / "copy").rename(logs[0])
    with Ledger.open(tmp_path) as ledger:
        assert ledger.count == 4
        assert ledger.sum_spent().tokens == 2 * 50
        assert [ledger.find(row.key) is not None for row in rows] == [True, True, False]


@pytest.mark.parametrize("maps", ["maps of files", "no maps", "no larger maps"])
def test_only_what_is_in_flight_at_a_kill_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maps: str) -> None:
    made = mmap.mmap

    def without(descriptor: int, size: int) -> mmap.mmap:
        if maps == "no maps" or (maps == "no larger maps" and size > 64 * 4096):
            raise OSError(errno.ENODEV, "No such device")
        return made(descriptor, size)

    monkeypatch.setattr(mmap, "mmap", without)
    rows = [replace(a_row(number), outcome=Failure("stopped", "in flight")) for number in range(100)]
    log = InFlightLog(tmp_path / "run")
    (tmp_path / "run").mkdir()
    for row in rows:
        log.put(row)
    for row in rows[:50]:
        log.remove(row.key)
    shutil.copytree(tmp_path / "run", tmp_path / "killed", ignore=shutil.ignore_patterns("*.lock"))
    log.close(remove=True)
    found: list[LoggedRow] = []
    recover_rows(IN_FLIGHT, tmp_path / "killed", found.extend)
    assert {one.key for one in found} == {row.key for row in rows[50:]}


def test_a_call_in_flight_when_a_ledger_is_closed_counts_when_it_is_opened_again(tmp_path: Path) -> None:
    cut_off = Failure("network", "the process ended while the call was in flight")
    row = replace(a_row(1), outcome=cut_off, token_bound=50)
    for name, has_ended, tokens in (("open", False, 50), ("ended", True, 0)):
        with Ledger.open(tmp_path / name) as ledger:
            ledger.in_flight.put(row)
            if has_ended:
                ledger.in_flight.remove(row.key)
        assert (tmp_path / name / "departures").exists() is not has_ended
        with Ledger.open(tmp_path / name) as ledger:
            assert ledger.sum_spent().tokens == tokens


async def test_what_another_process_has_recorded_and_indexed_is_found(tmp_path: Path) -> None:
    logs = [tmp_path / "processes" / name for name in "12"]
    for folder in logs:
        folder.mkdir(parents=True)
    rows = [a_row(number) for number in range(5000)]  # more than are indexed at a time
    with (
        Ledger.open(tmp_path, shared=True, logs=logs[0]) as one,
        Ledger.open(tmp_path, shared=True, logs=logs[1]) as other,
    ):
        assert other.find(rows[0].key) is None
        await asyncio.gather(*(one.record(row) for row in rows[:2500]))
        await asyncio.gather(*(other.record(row) for row in rows[2500:]))
        await asyncio.gather(*(one.record(a_row(number)) for number in range(5000, 9200)))
        for ledger in (one, other):
            assert [row.item for row in rows if ledger.find(row.key) is None] == []
        one.keep_note("n", 1, lambda before, now: (before or 0) + now)
        other.keep_note("n", 2, lambda before, now: (before or 0) + now)
        assert one.find_note("n") == 3


async def test_no_call_is_sent_that_a_full_disk_could_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A limit of the size of files is a full disk here; it leaves room for the ledger, not for 64 calls in flight.
    monkeypatch.setattr(crash_logs, "_NO_ROOM", (errno.EFBIG,))
    dataset = RubricDataset("Why?", Rubric.from_dict([{"requirement": "Says why."}]))
    for number in range(3):
        dataset.add_item(f"Because of {number}.", "")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with LoopbackEndpoint().in_thread() as endpoint:
        judge = f"judge@{endpoint.base_url}"
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            with pytest.raises(
                LedgerError, match=r"the ledger cannot be written: .* too large; its contents are safe"
            ):
                await grade_async(dataset, judge=judge, out=tmp_path / "run")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert endpoint.counts.requests == 0
        result = await grade_async(dataset, judge=judge, out=tmp_path / "run")
        assert (len(result.get_scores()), endpoint.counts.requests) == (3, 3)


async def test_a_reply_for_which_no_file_had_room_is_written_when_the_ledger_is_closed(tmp_path: Path) -> None:
    rows = [a_row(number) for number in range(3)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Ledger.open(tmp_path) as ledger:
        ledger.in_flight.put(rows[2])
        await ledger.record(rows[0])
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # a full disk
            with pytest.raises(LedgerError, match="cannot be written"):
                await ledger.record(rows[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        ledger.close()  # twice
    # Room on a full disk comes from the log of calls in flight, which has 64 slots of 4,096 bytes at first.
    assert (tmp_path / "departures").stat().st_size == 4096
    before = read_run_status(tmp_path, {})
    with Ledger.open(tmp_path) as ledger:
        assert (before.spent, list(before.totals)) == (ledger.sum_spent(), ledger.add_up())
        assert before.spent.calls == 3
        assert [ledger.find(row.key) is None for row in rows[:2]] == [False, False]
