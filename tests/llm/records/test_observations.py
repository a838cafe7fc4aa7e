"""Observations of a ledger."""

from __future__ import annotations

from pathlib import Path

from autorubric.llm.records.ledger import Ledger


async def test_observations_of_a_kind_come_back_in_order_until_a_run_is_replaced(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        for value in (1, 2):
            ledger.observe("reward", value)
        ledger.observe("audit", 9)
        ledger.flush()
        assert [value for _, value in ledger.observations("reward")] == [1, 2]
        ledger.begin_observations()
        ledger.observe("reward", 3)
        ledger.flush()
        assert [value for _, value in ledger.observations("reward")] == [3]
        assert list(ledger.observations("audit")) == []
        assert ledger.folder is not None and (ledger.folder / "ledger.sqlite").is_file()
