from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from autorubric.errors import InputError, LedgerError
from autorubric.llm.records import key_index
from autorubric.llm.records.accounts import LOST, Spending, read_spending_file
from autorubric.llm.records.call_rows import CallRow, compute_digest, unseal
from autorubric.llm.records.database import ImportRow
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, FailureKind, Reply, Usage
from autorubric.llm.sharing import Amount, Sharing, sharing

REPLY = Reply(
    text='天空 is blue\x00 because \ud83d {"a": 1}',
    finish_reason="length",
    refusal="no",
    reasoning="hm",
    model="tiny-2",
    usage=Usage(10, 20, 3, 4),
    cost=0.25,
    latency=1.5,
    attempts=2,
)


def test_the_digest_of_a_row_covers_its_key_with_the_length_in_front() -> None:
    # blake2b over 8 bytes of length, least significant first, then key and data; by hand for a key of 2 bytes.
    by_hand = blake2b(b"\x02" + b"\x00" * 7 + b"q1" + b"data", digest_size=16).digest()
    assert compute_digest(b"q1", b"data") == by_hand == bytes.fromhex("c21b9f89667c40f1b2e13275bb864d6d")


async def test_the_columns_of_a_call_hold_what_their_names_say(tmp_path: Path) -> None:
    usage = Usage(10, 20, 3, 4, 5)
    reply = Reply("MET", usage=usage, cost=0.25, latency=1.5, attempts=2)
    good = CallRow(a_key(1), "q1", "judge", "local/tiny", 3, 5, reply, cost_bound=0.5, token_bound=90, at=7.0)
    failed = CallRow(a_key(2), "q2", "merge", "local/big", 1, 0, Failure("server", "busy", 503, 4), at=8.0)
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(good)
        await ledger.record(failed)
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        first, second = [dict(row) for row in connection.execute("SELECT * FROM calls ORDER BY id")]
    asked = {"key": a_key(1), "item": "q1", "role": "judge", "model": "local/tiny", "draw": 3, "reask": 5}
    tokens = {"prompt_tokens": 10, "completion_tokens": 20, "cached_tokens": 3, "reasoning_tokens": 4}
    spent = {"cost": 0.25, "cost_bound": 0.5, "token_bound": 90, "latency": 1.5, "at": 7.0}
    assert first == {"id": 1, **asked, "status": "ok", "http_status": None, "attempts": 2, **tokens, **spent}
    failed_with = {"status": "server", "http_status": 503, "attempts": 4, "draw": 1, "reask": 0, "model": "local/big"}
    nothing = dict.fromkeys([*tokens, "cost", "cost_bound", "token_bound", "latency"])
    assert second == {"id": 2, "key": a_key(2), "item": "q2", "role": "merge", **failed_with, **nothing, "at": 8.0}


def a_row(number: int, outcome: Reply | Failure = REPLY, **changes: Any) -> CallRow:
    row = CallRow(a_key(number), f"q{number}", "judge", "local/tiny", 0, 0, outcome)
    return replace(row, **changes)


def a_key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def a_failure(kind: FailureKind = "timeout", reply: Reply | None = None) -> Failure:
    return Failure(kind, "no answer in 60 s", status=504, attempts=3, reply=reply)


async def test_a_recorded_reply_comes_back_whole_in_this_session_and_in_the_next(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run") as ledger:
        assert ledger.find(a_key(1)) is None
        await ledger.record(a_row(1))
        assert ledger.find(a_key(1)) == REPLY
        assert ledger.find(a_key(2)) is None
    with Ledger.open(tmp_path / "run") as ledger:
        assert ledger.find(a_key(1)) == replace(REPLY, fresh=False)
        await ledger.record(a_row(2))
        assert ledger.find(a_key(2)) == REPLY


async def test_a_reply_without_usage_and_price_keeps_them_unknown(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(a_row(1, Reply("")))
        assert ledger.find(a_key(1)) == Reply("")


async def test_a_failed_call_is_counted_but_is_never_a_hit(tmp_path: Path) -> None:
    failure = a_failure("refusal", Reply("I cannot", usage=Usage(7, 8), cost=0.5))
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(a_row(1, failure))
        assert ledger.find(a_key(1)) is None
        assert (ledger.count, ledger.add_up()[0].failed) == (1, 1)
        assert ledger.sum_spent() == (1, 15, 0.5, 0, 0)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.find(a_key(1)) is None
        (failed,) = ledger.read_failures()
        assert (failed.item, failed.role, failed.model) == ("q1", "judge", "local/tiny")
        assert failed.failure is not None
        assert failed.reply is not None
        assert replace(failed.failure, reply=None) == replace(failure, reply=None)
        assert (failed.reply.text, failed.reply.fresh) == ("I cannot", False)


async def test_keys_are_found_on_both_sides_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Indexed ten at a time. Session 1 writes 27 and indexes 20; the other 7 count in session 2, which
    # therefore indexes at 30, 40 and 50 of its 54.
    monkeypatch.setattr(key_index, "_LEAST_INDEXED", 10)
    for _ in range(2):
        with Ledger.open(tmp_path) as ledger:
            start = ledger.count
            for number in range(start, start + 27):
                await ledger.record(a_row(number, Reply(f"answer {number}")))
            assert [found_text(ledger, number) for number in range(start + 28)] == [
                *(f"answer {number}" for number in range(start + 27)),
                None,
            ]
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM replies").fetchone()[0] == 50


async def test_a_failure_between_indexed_replies_stays_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "_LEAST_INDEXED", 2)
    outcomes: list[Reply | Failure] = [Reply("a"), a_failure(), Reply("b")]
    with Ledger.open(tmp_path) as ledger:
        for number, outcome in enumerate(outcomes):
            await ledger.record(a_row(number, outcome))
        assert [found_text(ledger, number) for number in range(3)] == ["a", None, "b"]


def found_text(ledger: Ledger, number: int) -> str | None:
    reply = ledger.find(a_key(number))
    return None if reply is None else reply.text


async def test_many_at_once_share_commits_and_each_is_there_when_it_is_acknowledged(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:

        async def record(number: int) -> bool:
            await ledger.record(a_row(number))
            return ledger.find(a_key(number)) is not None

        assert all(await asyncio.gather(*(record(number) for number in range(700))))
        assert ledger.count == 700


async def test_a_ledger_that_was_deleted_takes_no_more_replies(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run") as ledger:
        await ledger.record(a_row(1))
        (tmp_path / "run").rename(tmp_path / "elsewhere")
        with pytest.raises(LedgerError, match="was removed or moved"):
            await ledger.record(a_row(2))
        with pytest.raises(LedgerError, match="was removed or moved"):
            ledger.check_writable()


async def test_what_a_cancelled_caller_had_queued_is_written(tmp_path: Path) -> None:
    with Ledger.open(tmp_path, linger=30.0) as ledger:
        waiter = asyncio.create_task(ledger.record(a_row(1)))
        await asyncio.sleep(0)
        waiter.cancel()
        ledger.queue(a_row(2))
    with Ledger.open(tmp_path) as ledger:
        assert (found_text(ledger, 1), found_text(ledger, 2)) == (REPLY.text, REPLY.text)


def test_totals_and_spending_cover_all_sessions(tmp_path: Path) -> None:
    # Two sessions write the same four rows:
    #   judge: reply 10+20 tokens $0.25; a reply with no price and no usage; a timeout that may have been
    #          billed 100 tokens, $0.125
    #   merge: reply 10+20 tokens $0.25
    for _ in range(2):
        with Ledger.open(tmp_path) as ledger:
            rows = [
                a_row(1),
                a_row(2, Reply("?")),
                a_row(3, a_failure(), token_bound=100, cost_bound=0.125),
                a_row(4, role="merge"),
            ]
            for row in rows:
                asyncio.run(ledger.record(row))
    with Ledger.open(tmp_path) as ledger:
        judge, merge = ledger.add_up()
        assert (judge.role, judge.model, judge.calls, judge.failed) == ("judge", "local/tiny", 6, 2)
        assert (judge.usage, judge.cost, judge.unpriced) == (Usage(20, 40, 6, 8), 0.5, 2)
        assert (merge.calls, merge.failed, merge.cost, merge.unpriced) == (2, 0, 0.5, 0)
        # 8 calls; tokens 2 * (30 + 100 + 30); dollars 2 * (0.25 + 0.125 + 0.25)
        assert ledger.sum_spent() == (8, 320, 1.25, 2, 0)


def test_values_of_another_pipeline_come_back_and_are_replaced(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.record_imports(
            [
                ImportRow("q1", "reference", b"1", {"text": "天空"}),
                ImportRow("q1", "response_a", b"2", ["a", None, 0.5]),
                ImportRow("q2", "reference", b"3", None),
            ]
        )
        ledger.record_imports([ImportRow("q2", "reference", b"4", "new")])
    with Ledger.open(tmp_path) as ledger:
        assert ledger.find_import("q1", "reference") == (b"1", {"text": "天空"})
        assert ledger.find_import("q1", "response_a") == (b"2", ["a", None, 0.5])
        assert ledger.find_import("q2", "reference") == (b"4", "new")
        assert ledger.find_import("q2", "rubric") is None
        assert ledger.count == 0


def test_a_damaged_value_of_another_pipeline_is_requested_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.record_imports([ImportRow("q1", "reference", b"1", "blue"), ImportRow("q2", "reference", b"2", "red")])
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection, connection:
        connection.execute("UPDATE imports SET inputs = x'33' WHERE record = 'q1'")
    with Ledger.open(tmp_path) as ledger:
        assert ledger.find_import("q1", "reference") is None
        assert "the imported reference of 'q1' is damaged; it is requested again" in caplog.text
        assert ledger.find_import("q2", "reference") == (b"2", "red")


def test_folder_and_files_are_for_the_owner_only(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a" / "run") as ledger:
        asyncio.run(ledger.record(a_row(1)))
        files = list((tmp_path / "a" / "run").iterdir())
        # the file, its write-ahead log and index, two files of arrivals and their lock, and the writers' lock
        assert len(files) == 7
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "a" / "run").stat().st_mode) == 0o700


def test_a_file_where_the_directory_should_be_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x")
    with pytest.raises(InputError, match=r"cannot write .*run/ledger\.sqlite"):
        Ledger.open(tmp_path / "run")


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    Ledger.open(tmp_path).close()
    change(tmp_path, "UPDATE meta SET value = 2 WHERE name = 'version'")
    with pytest.raises(LedgerError, match="has version 2, and this autorubric reads version 1; use the"):
        Ledger.open(tmp_path)


def test_a_file_that_is_no_database_is_a_ledger_error(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database at all, but long enough" * 50)
    with pytest.raises(LedgerError, match=r"no reply in it can be read .*--start-over"):
        Ledger.open(tmp_path)


def change(directory: Path, statement: str, values: tuple[Any, ...] = ()) -> None:
    connection = sqlite3.connect(directory / "ledger.sqlite", isolation_level=None)
    connection.execute(statement, values)
    connection.close()


async def test_every_flipped_bit_of_a_payload_is_a_miss_and_never_a_wrong_reply(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(a_row(1, Reply("MET")))
    connection = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    data, digest = connection.execute("SELECT data, digest FROM payloads").fetchone()
    assert unseal(a_key(1), data, digest)[0] == "MET"
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LedgerError):
            unseal(a_key(1), bytes(flipped), digest)
        if bit % 29:
            continue
        connection.execute("UPDATE payloads SET data = ?", (bytes(flipped),))
        connection.execute("UPDATE calls SET status = 'ok'")
        with Ledger.open(tmp_path) as ledger:
            assert ledger.find(a_key(1)) is None
    connection.close()


async def test_a_reply_filed_under_another_requests_key_is_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "_LEAST_INDEXED", 1)
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(a_row(1, Reply("MET")))
        await ledger.record(a_row(2, Reply("UNMET")))
    change(tmp_path, "UPDATE replies SET call = 2 WHERE key = ?", (a_key(1),))
    with Ledger.open(tmp_path) as ledger:
        assert [found_text(ledger, number) for number in (1, 2)] == [None, "UNMET"]
    with Ledger.open(tmp_path) as ledger:
        assert [found_text(ledger, number) for number in (1, 2)] == [None, "UNMET"]


async def test_a_lost_payload_is_a_miss(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(a_row(1))
        change(tmp_path, "DELETE FROM payloads")
        assert ledger.find(a_key(1)) is None


def test_flipped_bytes_anywhere_in_the_file_never_give_a_wrong_reply(tmp_path: Path) -> None:
    texts = [f"answer {number} " * 20 for number in range(60)]
    with Ledger.open(tmp_path / "good") as ledger:
        asyncio.run(record_all(ledger, texts))
    good = (tmp_path / "good" / "ledger.sqlite").read_bytes()
    (tmp_path / "bad").mkdir()
    for place in range(50, len(good), 1997):
        bad = bytearray(good)
        bad[place] ^= 0x10
        (tmp_path / "bad" / "ledger.sqlite").write_bytes(bytes(bad))
        try:
            with Ledger.open(tmp_path / "bad") as ledger:
                found = [found_text(ledger, number) for number in range(len(texts))]
        except LedgerError:
            continue
        # A damaged key is a miss, which only costs a call; any text that comes back is the right one.
        assert all(text in {None, right} for text, right in zip(found, texts, strict=True))


async def record_all(ledger: Ledger, texts: list[str]) -> None:
    await asyncio.gather(*(ledger.record(a_row(number, Reply(text))) for number, text in enumerate(texts)))


async def test_what_no_column_can_hold_does_not_stop_the_ledger(tmp_path: Path) -> None:
    absurd = Reply("x", usage=Usage(10**30, -(10**30)), cost=float("nan"))
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(a_row(1, absurd, item="q\ud83d"))
        found = ledger.find(a_key(1))
        assert found is not None
        assert found.usage == absurd.usage
        await ledger.record(a_row(2))


async def test_a_write_that_fails_reaches_every_waiter_and_stops_the_ledger(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        await ledger.record(a_row(0))
        # A table that has gone is as good as a disk that has gone: the statement fails inside the thread.
        change(tmp_path, "ALTER TABLE payloads RENAME TO elsewhere")
        outcomes = await asyncio.gather(
            # More than one batch holds, so that some wait in the queue when the first one fails.
            *(ledger.record(a_row(number)) for number in range(1, 400)),
            return_exceptions=True,
        )
        assert all(isinstance(outcome, LedgerError) for outcome in outcomes)
        with pytest.raises(LedgerError, match=r"the ledger cannot be written: .*payloads"):
            ledger.find(a_key(1))
        with pytest.raises(LedgerError, match="cannot be written"):
            ledger.record_imports([])
        with pytest.raises(LedgerError, match="cannot be written"):
            await ledger.record(a_row(9))
        change(tmp_path, "ALTER TABLE elsewhere RENAME TO payloads")
    # What could not be committed had arrived all the same: 0, 1 to 399, and 9 once more.
    with Ledger.open(tmp_path) as ledger:
        assert (found_text(ledger, 0), found_text(ledger, 399), ledger.count) == (REPLY.text, REPLY.text, 401)


def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="the ledger is closed"):
        ledger.find(a_key(1))
    with pytest.raises(LedgerError, match="the ledger is closed"):
        asyncio.run(ledger.record(a_row(1)))


@pytest.mark.parametrize("opened", [Ledger.in_memory, None], ids=["in memory", "in a directory"])
def test_one_ledger_serves_several_event_loops(opened: Callable[[], Ledger] | None, tmp_path: Path) -> None:
    with opened() if opened else Ledger.open(tmp_path) as ledger:
        for number in range(3):
            asyncio.run(ledger.record(a_row(number)))
        assert ledger.count == 3
        assert found_text(ledger, 2) == REPLY.text


def test_closing_ends_the_writing_thread_and_leaves_no_log(tmp_path: Path) -> None:
    before = threading.active_count()
    with Ledger.open(tmp_path) as ledger:
        asyncio.run(ledger.record(a_row(1)))
    assert threading.active_count() == before
    assert {file.name for file in tmp_path.iterdir()} == {"ledger.sqlite", "write.lock"}


async def test_replies_that_another_process_has_indexed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "_LEAST_INDEXED", 4)
    with Ledger.open(tmp_path, shared=True) as one, Ledger.open(tmp_path, shared=True) as other:
        for number in range(10):
            await one.record(a_row(number, Reply(f"answer {number}")))
        await other.record(a_row(10, Reply("answer 10")))
        # Whoever opens it next would take in the logs of one that works.
        assert not any(file.name.startswith(("arrivals", "departures")) for file in tmp_path.iterdir())
        assert not one.in_flight.is_open and one.claims is not None
        for ledger in (one, other):
            assert [found_text(ledger, number) for number in range(12)] == [
                *(f"answer {number}" for number in range(11)),
                None,
            ]


async def test_threads_that_read_at_the_same_time_find_what_another_process_has_recorded(tmp_path: Path) -> None:
    with Ledger.open(tmp_path, shared=True) as one, Ledger.open(tmp_path, shared=True) as other:
        recorded, missed, has_ended = [-1], set[int](), threading.Event()

        def read() -> None:
            while not has_ended.is_set():
                number = recorded[0]
                if number >= 0 and other.find(a_key(number)) is None:
                    missed.add(number)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(200):
            await one.record(a_row(number, Reply("MET")))
            recorded[0] = number
        has_ended.set()
        for thread in threads:
            thread.join()
    assert missed == set()


async def test_one_process_of_several_finds_what_the_ledger_of_the_run_holds(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run") as run:
        await run.record(CallRow(a_key(1), "q1", "judge", "local/tiny", 0, 0, REPLY))
        run.keep_note("pace", [3])
    for base, text, note in ((tmp_path / "run", REPLY.text, [3]), (None, None, None)):
        token = sharing.set(Sharing(2, base, _lend_nothing, lambda seconds: None))
        with Ledger.open(tmp_path / f"part of {base and base.name}") as part:
            found = part.find(a_key(1))
            assert (found and found.text, part.find(a_key(2)), part.find_note("pace")) == (text, None, note)
            part.keep_note("pace", [4])
            assert part.find_note("pace") == [4]
        sharing.reset(token)


async def _lend_nothing(held: Amount, missing: Amount) -> None:
    return None


async def test_lost_calls_count_once_and_for_no_role(tmp_path: Path) -> None:
    lost, path = Spending(calls=2, tokens=30, cost=0.5, lost=1), tmp_path / "spent.json"
    reply = Reply("MET", usage=Usage(8, 2), cost=0.25)
    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.keep_note(LOST, lost)
        ledger.keep_spending(path)
        assert read_spending_file(path) == ledger.sum_spent() == lost
        assert ledger.sum_spent("judge") == Spending()
        for number in range(2):
            await ledger.record(a_row(number, reply))
        assert read_spending_file(path) == ledger.sum_spent() == Spending(calls=4, tokens=50, cost=1.0, lost=1)
        assert ledger.sum_spent("judge") == Spending(calls=2, tokens=20, cost=0.5)


def test_a_note_that_another_process_keeps_is_a_change(tmp_path: Path) -> None:
    with ExitStack() as opened:
        one, other = (
            opened.enter_context(Ledger.open(tmp_path, shared=True, logs=tmp_path / f"logs-{name}")) for name in "ab"
        )
        before = other.version
        one.keep_note("pace", 3)
        other.find(b"k" * 16)
        assert other.version != before and other.version == other.version
        assert other.find_note("pace") == 3


async def test_what_was_indexed_first_is_found_after_more_was_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "_LEAST_INDEXED", 4)
    keys = [blake2b(b"%d" % number).digest()[:16] for number in range(12)]
    with Ledger.open(tmp_path) as ledger:
        for key in keys:
            await ledger.record(a_row(0, key=key))
        assert all(ledger.find(key) is not None for key in keys)


def test_the_filter_of_keys_forgets_none_and_rules_out_nearly_all_others() -> None:
    known, unknown = ([blake2b(b"%d" % number).digest()[:16] for number in part] for part in (range(9), range(9, 99)))
    filtered = key_index.KeyFilter()
    assert not any(filtered.may_hold(key) for key in known)
    for key in known:
        filtered.add(key)
    assert all(filtered.may_hold(key) for key in known)
    # Each of 18 bits among 2^24 would have to be hit twice.
    assert not any(filtered.may_hold(key) for key in unknown)


def test_a_path_that_is_too_long_for_a_database_is_told(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="too long a path for SQLite; pass a shorter --out"):
        Ledger.open(tmp_path.joinpath(*(5 * ["d" * 100])))
