"""A damaged ledger is replaced by a new one: no cost is lost, no reply is wrong, and the damaged file stays."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest

from autorubric.errors import LedgerError
from autorubric.llm.records.accounts import Spending
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.database import MARK, ImportRow, connect, recover_ledger, set_aside
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import LEDGER_FILE
from autorubric.llm.request import Failure, Reply, Usage


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


async def recorded(directory: Path) -> Path:
    """Four replies of 10 tokens and 0.5 dollars each, a failure, and one of everything else that a ledger holds."""
    with Ledger.open(directory) as ledger:
        for number in range(1, 5):
            reply = Reply(f"reply {number}", usage=Usage(8, 2), cost=0.5)
            await ledger.record(CallRow(key(number), f"q{number}", "judge", "local/tiny", 0, 0, reply))
        await ledger.record(CallRow(key(5), "q5", "judge", "local/tiny", 0, 0, Failure("server", "busy", 503)))
        ledger.keep_note("limits", [1, 2])
        ledger.observe("pace", {"rate": 3})
        ledger.record_imports([ImportRow("q1", "rubric", b"inputs", ["Names the dose"])])
    return directory / LEDGER_FILE


def change(path: Path, *statements: str) -> None:
    with closing(connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_a_recovery_keeps_every_cost_and_note_and_each_reply_that_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = await recorded(tmp_path)
    # One payload is another's, one is gone, and so is the row of a third call.
    other = "UPDATE payloads SET (data, digest) = (SELECT data, digest FROM payloads WHERE id = 1) WHERE id = 2"
    change(path, other, "DELETE FROM payloads WHERE id = 3", "DELETE FROM calls WHERE id = 4")
    (tmp_path / f"{LEDGER_FILE}.recovered").write_text("of an earlier attempt", encoding="utf-8")
    (tmp_path / MARK).touch()
    with caplog.at_level(logging.WARNING):
        recover_ledger(path)
    assert "4 calls were recovered, 2 of them without their reply" in caplog.text
    damaged = f"{LEDGER_FILE}.damaged-1"
    assert f"kept as {damaged}" in caplog.text
    assert {found.name for found in tmp_path.iterdir() if found.name != "write.lock"} == {LEDGER_FILE, damaged}
    with Ledger.open(tmp_path) as ledger:
        replies = [ledger.find(key(number)) for number in range(1, 6)]
        assert [reply and reply.text for reply in replies] == ["reply 1", None, None, None, None]
        assert (ledger.sum_spent(), ledger.is_intact) == (Spending(4, 30, 1.5), True)
        assert [(call.item, str(call.failure)) for call in ledger.read_failures()] == [("q5", "server: busy")]
        assert ledger.find_note("limits") == [1, 2]
        assert [value for _, value in ledger.list_observations("pace")] == [{"rate": 3}]
        assert ledger.find_import("q1", "rubric") == (b"inputs", ["Names the dose"])
    recover_ledger(path)  # without a mark, and next to an earlier damaged file
    assert (tmp_path / f"{LEDGER_FILE}.damaged-2").exists()
    with Ledger.open(tmp_path) as ledger:
        assert ledger.sum_spent() == Spending(4, 30, 1.5)


async def test_a_damaged_note_is_told_and_left_out_of_the_recovered_ledger(tmp_path: Path) -> None:
    for number, damage in enumerate(("'[1, 2\"'", "x'5bff5d'", "NULL")):
        folder = tmp_path / str(number)
        path = await recorded(folder)
        change(path, f"UPDATE meta SET value = {damage} WHERE name = 'note:limits'")
        with Ledger.open(folder) as ledger, pytest.raises(LedgerError, match="the note 'limits' is damaged; run the"):
            ledger.find_note("limits")
        with Ledger.open(folder) as ledger:
            assert (ledger.find_note("limits"), ledger.sum_spent()) == (None, Spending(5, 40, 2.0)), damage
            assert ledger.find_import("q1", "rubric") is not None


async def test_a_ledger_without_a_whole_reply_stays_as_it_is_until_it_is_set_aside(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    change(path, "UPDATE payloads SET data = x'00'", "PRAGMA wal_checkpoint(TRUNCATE)")
    (tmp_path / MARK).touch()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"no reply in it can be read \(no row is whole\)"):
            Ledger.open(tmp_path)
    assert path.read_bytes() == before
    assert not (tmp_path / f"{LEDGER_FILE}.recovered").exists()
    set_aside(path)
    assert (tmp_path / f"{LEDGER_FILE}.damaged-1").read_bytes() == before
    with Ledger.open(tmp_path) as ledger:
        assert ledger.count == 0


async def test_a_payload_whose_type_is_damaged_is_a_damaged_reply(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.is_intact is True
        # What one flipped bit in the header of a row does to a payload without compression.
        change(path, "UPDATE payloads SET data = CAST(data AS TEXT) WHERE id = 4")
        assert ledger.is_intact is False
        assert ledger.find(key(4)) is None
    recover_ledger(path)
    with Ledger.open(tmp_path) as ledger:
        found = [ledger.find(key(number)) for number in range(1, 5)]
        assert [reply and reply.text for reply in found] == ["reply 1", "reply 2", "reply 3", None]
