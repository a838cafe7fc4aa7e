"""What damage of a ledger's file costs: the rows that it hit, and never a wrong reply or a silent start from zero."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from autorubric.errors import LedgerError
from autorubric.llm.records import key_index
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.database import ImportRow
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Reply, Usage

ROWS = 400
PAGE = 4096


def a_key(number: int) -> bytes:
    return random.Random(number).randbytes(16)


def a_text(number: int) -> str:
    return random.Random(number).randbytes(400).hex()  # 400 bytes when compressed: 9 rows to a page at most


def a_row(number: int) -> CallRow:
    reply = Reply(a_text(number), usage=Usage(10, 5), cost=0.25)
    return CallRow(a_key(number), f"q{number}", "judge", "local/tiny", 0, 0, reply)


async def record_rows(ledger: Ledger) -> None:
    for first in range(0, ROWS, 50):
        await asyncio.gather(*(ledger.record(a_row(number)) for number in range(first, first + 50)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "_LEAST_INDEXED", 150)
        with Ledger.open(folder) as ledger:
            asyncio.run(record_rows(ledger))
            ledger.keep_note("generation", 3)
            ledger.record_imports([ImportRow("r1", "reference", b"digest", {"text": "42"})])
    return folder


@pytest.fixture
def sound(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(key_index, "_LEAST_INDEXED", 150)
    shutil.copytree(written, tmp_path / "sound")
    return tmp_path / "sound"


@contextlib.contextmanager
def a_copy(sound: Path) -> Iterator[Path]:
    folder = sound.with_name("damaged")
    shutil.copytree(sound, folder)
    yield folder / "ledger.sqlite"
    shutil.rmtree(folder)


def survivors(folder: Path) -> tuple[set[int], list[str]]:
    """Rows that are found as they were, and what stopped a session; sessions go on until one ends well."""
    told: list[str] = []
    for _ in range(3):
        try:
            with Ledger.open(folder) as ledger:
                found = {number: ledger.find(a_key(number)) for number in range(ROWS)}
        except LedgerError as error:
            told.append(str(error))
            continue
        assert all(reply is None or reply.text == a_text(number) for number, reply in found.items())
        return {number for number, reply in found.items() if reply is not None}, told
    return set(), told


async def test_a_damaged_reply_is_named_set_aside_and_recorded_again(
    sound: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.closing(sqlite3.connect(sound / "ledger.sqlite", isolation_level=None)) as connection:
        for number in (7, 399):  # one in the index's table, one that waits for it
            connection.execute("UPDATE payloads SET data = zeroblob(20) WHERE id = ?", (number + 1,))
    with Ledger.open(sound) as ledger, caplog.at_level(logging.WARNING, "autorubric"):
        for number in (7, 399):
            caplog.clear()
            assert ledger.find(a_key(number)) is None
            assert f"call {number + 1} (item 'q{number}', judge, local/tiny) is damaged" in caplog.text
            assert ledger.find(a_key(number)) is None
            assert len(caplog.records) == 1
            await ledger.record(a_row(number))
            reply = ledger.find(a_key(number))
            assert reply is not None
            assert reply.fresh
        # What the two damaged replies cost was paid: 402 calls of 15 tokens and 0.25 dollars.
        assert ledger.sum_spent()[:3] == (402, 402 * 15, 402 * 0.25)
        assert [total.failed for total in ledger.add_up()] == [2]
        assert list(ledger.read_failures()) == []
    caplog.clear()
    assert survivors(sound) == (set(range(ROWS)), [])
    assert caplog.records == []


def test_a_page_of_zeros_costs_the_rows_on_it(sound: Path) -> None:
    pages = (sound / "ledger.sqlite").stat().st_size // PAGE
    most_lost = 0
    # The roots of all tables come first; of the leaves behind them, every sixth.
    for page in (*range(1, 12), *range(12, pages, 6)):
        with a_copy(sound) as path:
            content = bytearray(path.read_bytes())
            content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
            path.write_bytes(content)
            found, told = survivors(path.parent)
            assert all(str(path) in words for words in told)
            if found:
                assert len(told) <= 1
                most_lost = max(most_lost, ROWS - len(found))
            else:  # the root of a table: all that was in it is out of reach
                assert "--start-over" in told[-1]
                assert path.read_bytes() == bytes(content)
    # A page holds at most 9 payloads, or about 60 calls, or about 130 entries of the index by key.
    assert 1 <= most_lost < 250


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.98])
def test_a_file_that_was_cut_off_loses_what_was_behind_the_cut(sound: Path, share: float) -> None:
    with a_copy(sound) as path:
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(max(100, int(share * size)))
        found, told = survivors(path.parent)
        assert told
        assert all(str(path) in words for words in told)
        assert (len(found) >= 0.7 * share * ROWS) if found else "--start-over" in told[-1]


def test_what_is_not_a_reply_survives_a_recovery(sound: Path, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(sqlite3.connect(sound / "ledger.sqlite")) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'replies'").fetchone()[0]
    content = bytearray((sound / "ledger.sqlite").read_bytes())
    content[(root - 1) * PAGE : root * PAGE] = b"\xff" * PAGE
    (sound / "ledger.sqlite").write_bytes(content)
    found, told = survivors(sound)
    assert (found, len(told)) == (set(range(ROWS)), 1)
    assert "run the same command again" in told[0]
    assert "400 calls were recovered, 0 of them without their reply" in caplog.text
    with Ledger.open(sound) as ledger:
        assert ledger.find_note("generation") == 3
        assert ledger.find_import("r1", "reference") == (b"digest", {"text": "42"})
        assert ledger.count == ROWS
    assert {path.name for path in sound.iterdir()} == {"ledger.sqlite", "ledger.sqlite.damaged-1", "write.lock"}
    assert (sound / "ledger.sqlite.damaged-1").read_bytes() == bytes(content)
