"""Observations of a ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.ledger_view import ledger_view


async def test_observations_of_a_kind_come_back_in_order_until_a_run_is_replaced(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        for value in (1, 2):
            ledger.observe("reward", value)
        ledger.observe("audit", 9)
        ledger.flush()
        assert [value for _, value in ledger.list_observations("reward")] == [1, 2]
        ledger.begin_observations()
        ledger.observe("reward", 3)
        ledger.flush()
        assert [value for _, value in ledger.list_observations("reward")] == [3]
        assert list(ledger.list_observations("audit")) == []
        assert ledger.folder is not None and (ledger.folder / "ledger.sqlite").is_file()


@pytest.mark.parametrize(
    ("damaged", "left"), [("kind", ["a", "b", "c"]), ("data", ["a", "c"]), ("digest", ["a", "c"])]
)
async def test_a_flipped_bit_costs_one_observation_at_most_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: str, left: list[str]
) -> None:
    told = "damaged and left out: recorded values of the kind 'reward' (1)"
    with Ledger.open(tmp_path) as ledger:
        for value in ("a", "b", "c"):
            ledger.observe("reward", value)
        ledger.observe("audit", 9)
        ledger.flush()
    query = f"SELECT CAST({damaged} AS BLOB) FROM observations WHERE id = 2"
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as connection:
        [(whole,)] = connection.execute(query).fetchall()
        for bit in range(8 * len(whole)):
            spoiled = bytearray(whole)
            spoiled[bit // 8] ^= 1 << bit % 8
            # A text that is not UTF-8 is what SQLite reads after such a flip.
            kept = "CAST(? AS TEXT)" if damaged == "kind" else "?"
            connection.execute(f"UPDATE observations SET {damaged} = {kept} WHERE id = 2", (bytes(spoiled),))
            caplog.clear()
            with ledger_view(tmp_path) as view:
                assert [value for _, value in view.list_observations("reward")] == left
                assert (told in caplog.text) == (damaged != "kind")
                assert [value for _, value in view.list_observations("audit")] == [9]
